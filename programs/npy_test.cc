#include "programs/npy.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/testing.h"

namespace tenon::programs {
namespace {

using ::testing::HasSubstr;

class NpyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon_npy_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/x.npy";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A version 1 file with this header text and `data_bytes` zeros behind it.
  void write(const std::string& header, size_t data_bytes) {
    std::ofstream file(path_, std::ios::binary);
    const auto size = static_cast<uint16_t>(header.size());
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(size & 0xFF) << static_cast<char>(size >> 8) << header
         << std::string(data_bytes, '\0');
  }
  std::string read_all() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string folder_;
  std::string path_;
};

TEST_F(NpyTest, WhatIsWrittenIsRead) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({5}), Shape({2, 3}), Shape({1, 2, 3, 4})}) {
    Result<Tensor> tensor = Tensor::allocate(DataType::kFloat, shape);
    ASSERT_THAT(tensor, is_ok());
    for (size_t i = 0; i < tensor->size_bytes() / 4; ++i) tensor->data_as<float>()[i] = static_cast<float>(i) + 0.5F;
    ASSERT_THAT(write_npy(path_, *tensor), is_ok());
    const Result<Tensor> back = read_npy(path_);
    ASSERT_THAT(back, is_ok());
    EXPECT_EQ(back->type(), DataType::kFloat);
    EXPECT_EQ(back->shape(), shape);
    EXPECT_EQ(std::memcmp(back->data(), tensor->data(), tensor->size_bytes()), 0);
  }
}

TEST_F(NpyTest, TheDataBeginsAtAMultipleOf64) {
  const Result<Tensor> tensor = Tensor::allocate(DataType::kInt64, {3, 4});
  ASSERT_THAT(tensor, is_ok());
  ASSERT_THAT(write_npy(path_, *tensor), is_ok());
  EXPECT_EQ((std::filesystem::file_size(path_) - tensor->size_bytes()) % 64, 0U);
}

TEST_F(NpyTest, AMissingFileIsNamed) {
  EXPECT_THAT(read_npy(folder_ + "/none.npy"), has_status(StatusCode::kNotFound, HasSubstr("none.npy")));
}

TEST_F(NpyTest, RefusesWhatIsNoArray) {
  EXPECT_THAT(read_npy(folder_), has_status(StatusCode::kInvalidArgument, HasSubstr("regular file")));
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(read_npy(folder_ + "/pipe"), has_status(StatusCode::kInvalidArgument, HasSubstr("regular file")));
  std::ofstream(path_) << "GIF89a this is a picture, say";
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("begins otherwise")));
  std::ofstream(path_) << "PK\x03\x04 an archive";
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("numpy.save")));
  std::ofstream(path_) << "short";
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("5 bytes")));
}

TEST_F(NpyTest, RefusesWhatATensorCannotHold) {
  write("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kUnsupported, HasSubstr("Fortran")));
  write("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kUnsupported, HasSubstr("byte order")));
  write("{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", 40);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kUnsupported, HasSubstr("<U5")));
  write("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 16);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kUnsupported, HasSubstr("|O")));
  write("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kUnsupported, HasSubstr("records")));
  write("{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1), }", 1);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kUnsupported, HasSubstr("dimensions")));
}

TEST_F(NpyTest, RefusesHeadersThatDoNotFitTheirData) {
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 20);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("24 bytes, and 20 follow")));
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 28);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("28 follow")));
  // No allocation of that size may be tried: the product overflows.
  write("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", 8);
  EXPECT_FALSE(read_npy(path_).ok());
  write("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8);
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("no dimension")));
  write("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", 0);
  std::ofstream(path_, std::ios::binary | std::ios::app) << '\1' << '\2';
  EXPECT_THAT(read_npy(path_), has_status(StatusCode::kInvalidArgument, HasSubstr("no bool")));
}

TEST_F(NpyTest, RefusesGarbledHeaders) {
  for (const char* header :
       {"", "{", "{}", "[]", "{'descr'", "{'descr': ", "{'descr': '<f4'",
        "{'descr': '', 'fortran_order': False, 'shape': ()}", "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), } x", "{'descr': '<f4', 'fortran_order': False, }",
        "{'other': '<f4'}"}) {
    write(header, 4);
    EXPECT_FALSE(read_npy(path_).ok()) << header;
  }
}

// Every truncation of a good file is refused, and none is read past its end (the address sanitizer looks).
TEST_F(NpyTest, RefusesEveryTruncation) {
  const Result<Tensor> tensor = Tensor::allocate(DataType::kInt16, {2, 3});
  ASSERT_THAT(tensor, is_ok());
  ASSERT_THAT(write_npy(path_, *tensor), is_ok());
  const std::string whole = read_all();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    EXPECT_FALSE(read_npy(path_).ok()) << size;
  }
}

TEST_F(NpyTest, ATypeThatNumPyLacksIsNotWritten) {
  const Result<Tensor> tensor = Tensor::allocate(DataType::kBfloat16, {2});
  ASSERT_THAT(tensor, is_ok());
  EXPECT_THAT(write_npy(path_, *tensor), has_status(StatusCode::kUnsupported, HasSubstr("bfloat16")));
}

TEST_F(NpyTest, AFullDiskIsExhausted) {
  const Result<Tensor> tensor = Tensor::allocate(DataType::kFloat, {2});
  ASSERT_THAT(tensor, is_ok());
  EXPECT_THAT(write_npy("/dev/full", *tensor),
              has_status(StatusCode::kResourceExhausted, HasSubstr("\"/dev/full\" cannot be written: No space left")));
}

}  // namespace
}  // namespace tenon::programs
