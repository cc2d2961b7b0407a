#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "graph/mapped_file.h"
#include "graph/paths.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Paths, OnlyPathsBelowTheFolderStayThere) {
  for (const char* path : {"data.bin", "parts/more.bin", "parts\\more.bin", "./data.bin", "..data", "a..b"})
    EXPECT_TRUE(stays_below(path)) << path;
  // The system drops dots and spaces at the end of a name, and a colon names a drive or a stream.
  for (const char* path : {"/data.bin", "\\data.bin", "..", "..\\data.bin", "parts/..", "parts\\..\\..\\x", "C:\\x",
                           "C:x", "data.bin:stream", "\\\\server\\share", ".. ", "... ", "parts\\.. .\\x"})
    EXPECT_FALSE(stays_below(path)) << path;
}

class ExternalFilesOnWindows : public ::testing::Test {
 protected:
  ExternalFilesOnWindows() : folder_(fs::temp_directory_path() / format("tenon_paths_{}", ::getpid())) {
    fs::create_directories(folder_ / "model" / "parts");
    write("model/data.bin", "0123456789");
    write("model/parts/more.bin", "more");
    write("model/empty.bin", "");
    write("secret.bin", "secret");
  }
  ~ExternalFilesOnWindows() override { fs::remove_all(folder_); }
  void write(const char* name, const char* text) { std::ofstream(folder_ / name, std::ios::binary) << text; }
  std::string model() const { return (folder_ / "model").string(); }
  static std::string text(const MappedFile& file) {
    return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  }
  const fs::path folder_;
};

TEST_F(ExternalFilesOnWindows, AreMappedWhateverTheSeparator) {
  ExternalFiles files(model());
  for (const char* location : {"parts/more.bin", "parts\\more.bin", "./parts/more.bin"}) {
    const auto file = files.open(location);
    ASSERT_THAT(file, is_ok());
    EXPECT_EQ(text(**file), "more") << location;
    (*file)->drop_pages();
    EXPECT_EQ(text(**file), "more");
  }
  EXPECT_EQ(text(*files.open("data.bin").value()), "0123456789");
  EXPECT_EQ(text(*files.open("empty.bin").value()), "");
  // A file is mapped once.
  EXPECT_EQ(files.open("data.bin").value(), files.open("data.bin").value());
}

TEST_F(ExternalFilesOnWindows, MayNotLeaveTheFolder) {
  ExternalFiles files(model());
  for (const char* location : {"../secret.bin", "..\\secret.bin", "parts\\..\\..\\secret.bin", "C:\\windows\\win.ini"})
    EXPECT_THAT(files.open(location), has_status(StatusCode::kInvalidArgument, HasSubstr("outside"))) << location;
}

TEST_F(ExternalFilesOnWindows, WhatIsNoFileSaysSo) {
  ExternalFiles files(model());
  EXPECT_THAT(files.open("absent.bin"), has_status(StatusCode::kNotFound, HasSubstr("absent.bin")));
  EXPECT_THAT(files.open("parts"), has_status(StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  EXPECT_THAT(real_path(model() + "\\none"), has_status(StatusCode::kNotFound));
  EXPECT_THAT(real_path(model()).value(), AnyOf(EndsWith("\\model"), EndsWith("\\MODEL")));
}

TEST_F(ExternalFilesOnWindows, BytesAreCopied) {
  const std::string bytes(100'000, 'x');
  const auto copied = MappedFile::copy({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  ASSERT_THAT(copied, is_ok());
  EXPECT_EQ(text(**copied), bytes);
}

}  // namespace
}  // namespace tenon
