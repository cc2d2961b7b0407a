// Reading tensors: data of every kind, wrong sizes, external files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "graph/model_writer.h"
#include "graph/reader.h"

namespace tenon {
namespace {

using namespace model_writer;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// A model whose only content is one initializer that is also the output.
std::string model_with(const std::string& tensor_message, const std::string& name = "w") {
  return model(graph({.nodes = {}, .inputs = {}, .outputs = {value_info(name, "")}, .initializers = {tensor_message}}),
               {.ir_version = 14});
}

Result<ConstantRef> read_tensor(const std::string& tensor_message, const std::string& directory = "") {
  TENON_TRY_ASSIGN(const Model model, read_model_bytes(bytes(model_with(tensor_message)), directory));
  return model.graph.value(model.graph.outputs.at(0)).constant;
}

void expect_error(const std::string& tensor_message, StatusCode code, const ::testing::Matcher<std::string>& text,
                  const std::string& directory = "") {
  const Result<ConstantRef> constant = read_tensor(tensor_message, directory);
  ASSERT_FALSE(constant.ok());
  EXPECT_EQ(constant.status().code(), code) << constant.status().message();
  EXPECT_THAT(constant.status().message(), text);
}

auto varints(uint32_t field, std::vector<int64_t> values) {
  return [field, values = std::move(values)](auto& to) { to.add_packed_int64(field, values.begin(), values.end()); };
}

template <typename T>
std::vector<T> elements(const Result<ConstantRef>& constant) {
  EXPECT_TRUE(constant.ok()) << constant.status().message();
  if (!constant.ok()) return {};
  const std::span<const T> span = (*constant)->as<T>();
  return {span.begin(), span.end()};
}

// A claim of 1 EB costs nothing: it is compared with the 3 bytes that are there before memory is taken.
TEST(ReadTensor, ASizeThatTheFileCannotHoldIsRefusedBeforeAllocating) {
  expect_error(raw_tensor<uint8_t>("w", 2, {int64_t{1} << 38}, {1, 2, 3}), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"w\""), HasSubstr("274877906944"), HasSubstr("has 3")));
  expect_error(raw_tensor<uint8_t>("w", 2, {int64_t{1} << 50}, {1, 2, 3}), StatusCode::kResourceExhausted,
               HasSubstr("1125899906842624"));
  expect_error(raw_tensor<uint8_t>("w", 2, {int64_t{1} << 60}, {1, 2, 3}), StatusCode::kInvalidArgument,
               HasSubstr("overflows"));
  expect_error(
      tensor("w", 1, {int64_t{1} << 36}, [](auto& to) { to.add_packed_float(4, (float*)nullptr, (float*)nullptr); }),
      StatusCode::kInvalidArgument, HasSubstr("has 0"));
  expect_error(tensor("w", 8, {int64_t{1} << 36}, [](auto& to) { to.add_bytes(6, "a"); }), StatusCode::kInvalidArgument,
               HasSubstr("has 1"));
  expect_error(tensor("w", 7, {int64_t{1} << 36}, varints(7, {1, 2})), StatusCode::kInvalidArgument,
               HasSubstr("has 2"));
}

TEST(ReadTensor, DimensionsThatOverflowAreRefused) {
  expect_error(raw_tensor<uint8_t>("w", 1, {INT64_MAX, INT64_MAX}, {1}), StatusCode::kInvalidArgument,
               HasSubstr("overflows"));
  expect_error(raw_tensor<uint8_t>("w", 11, {INT64_MAX / 8}, {1}), StatusCode::kInvalidArgument,
               HasSubstr("overflows"));
  expect_error(raw_tensor<uint8_t>("w", 1, {2, -1}, {1}), StatusCode::kInvalidArgument, HasSubstr("-1"));
  expect_error(raw_tensor<uint8_t>("w", 1, std::vector<int64_t>(13, 1), {1, 2, 3, 4}), StatusCode::kUnsupported,
               HasSubstr("12 dimensions"));
  EXPECT_TRUE(read_tensor(raw_tensor<uint8_t>("w", 1, std::vector<int64_t>(12, 1), {1, 2, 3, 4})).ok());
}

TEST(ReadTensor, TypesThatAreMissingOrUnknownAreRefused) {
  expect_error(raw_tensor<uint8_t>("w", 0, {1}, {1}), StatusCode::kInvalidArgument, HasSubstr("no element type"));
  expect_error(raw_tensor<uint8_t>("w", 29, {1}, {1}), StatusCode::kUnsupported, HasSubstr("type 29"));
  expect_error(raw_tensor<uint8_t>("w", -1, {1}, {1}), StatusCode::kUnsupported, HasSubstr("type -1"));
  expect_error(raw_tensor<uint8_t>("w", 8, {1}, {1}), StatusCode::kInvalidArgument, HasSubstr("strings has raw data"));
}

TEST(ReadTensor, SizeOfRawDataMustMatchTheShape) {
  expect_error(raw_tensor<uint8_t>("w", 1, {2}, {1, 2, 3, 4}), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("takes 8 bytes"), HasSubstr("has 4")));
  expect_error(raw_tensor<float>("w", 1, {}, {1, 2}), StatusCode::kInvalidArgument, HasSubstr("takes 4 bytes"));
  EXPECT_THAT(elements<float>(read_tensor(raw_tensor<float>("w", 1, {0, 4}, {}))), ElementsAre());
}

// The model's sparse initializer "w" as the reader makes it dense.
Result<ConstantRef> read_sparse(const std::string& values, const std::string& indices,
                                const std::vector<int64_t>& dims) {
  const std::string data = model(graph({.nodes = {node({.op_type = "Identity", .inputs = {"w"}, .outputs = {"y"}})},
                                        .inputs = {},
                                        .outputs = {value_info("y", "")},
                                        .sparse_initializers = {sparse_tensor(values, indices, dims)}}));
  TENON_TRY_ASSIGN(const Model model, read_model_bytes(bytes(data), ""));
  const NodeId first(0);
  return model.graph.value(model.graph.nodes[first].inputs[0]).constant;
}

TEST(ReadTensor, SparseInitializersBecomeDense) {
  const std::string values = raw_tensor<float>("w", 1, {2}, {5, 7});
  const auto places = read_sparse(values, raw_tensor<int64_t>("", 7, {2}, {1, 5}), {2, 3});
  ASSERT_TRUE(places.ok()) << places.status().message();
  EXPECT_EQ((*places)->shape, Shape({2, 3}));
  EXPECT_THAT((*places)->as<float>(), ElementsAre(0, 5, 0, 0, 0, 7));
  const auto by_dimension = read_sparse(values, raw_tensor<int64_t>("", 7, {2, 2}, {0, 1, 1, 2}), {2, 3});
  ASSERT_TRUE(by_dimension.ok()) << by_dimension.status().message();
  EXPECT_THAT((*by_dimension)->as<float>(), ElementsAre(0, 5, 0, 0, 0, 7));
}

TEST(ReadTensor, SparseInitializersThatLieAreRefused) {
  const std::string values = raw_tensor<float>("w", 1, {2}, {5, 7});
  const auto wrong = [&](const std::string& indices, const std::vector<int64_t>& dims, StatusCode code,
                         const char* text) {
    const auto read = read_sparse(values, indices, dims);
    EXPECT_EQ(read.status().code(), code);
    EXPECT_THAT(read.status().message(), HasSubstr(text));
  };
  const auto at = [](std::vector<int64_t> places) { return raw_tensor<int64_t>("", 7, {2}, places); };
  wrong(at({1, 6}), {2, 3}, StatusCode::kInvalidArgument, "element 6 of 6");
  wrong(at({5, 1}), {2, 3}, StatusCode::kInvalidArgument, "the one before is element 5");
  wrong(at({-1, 1}), {2, 3}, StatusCode::kInvalidArgument, "element -1");
  wrong(at({0, 1}), {2, -3}, StatusCode::kInvalidArgument, "a dimension of -3");
  wrong(at({0, 1}), {int64_t{1} << 40}, StatusCode::kResourceExhausted, "all of a model may take");
  wrong(raw_tensor<int64_t>("", 7, {2, 2}, {0, 1, 2, 2}), {2, 3}, StatusCode::kInvalidArgument,
        "Index 2 of dimension 0");
  wrong(raw_tensor<int64_t>("", 7, {1}, {0}), {2, 3}, StatusCode::kInvalidArgument, "indices [1]");
  wrong(raw_tensor<float>("", 1, {2}, {0, 1}), {2, 3}, StatusCode::kInvalidArgument, "indices of float32");
}

// ONNX packs nothing to alignment: whatever the offset, the elements are right and aligned.
TEST(ReadTensor, RawDataIsAlignedWhereverItLies) {
  for (size_t padding = 0; padding < 9; ++padding) {
    const std::string name(padding + 1, 'w');
    const std::string data = model_with(raw_tensor<double>(name, 11, {3}, {1.5, -2.5, 1e300}), name);
    auto model = read_model_bytes(bytes(data), "");
    ASSERT_TRUE(model.ok()) << model.status().message();
    const ConstantRef constant = model->graph.value(model->graph.outputs[0]).constant;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(constant->data.bytes()) % 8, 0u);
    EXPECT_THAT(constant->as<double>(), ElementsAre(1.5, -2.5, 1e300));
  }
}

// A weight that is only packed keeps no copy beside the packing.
TEST(ReadTensor, ALargeUnalignedTensorIsCopiedWhenItIsRead) {
  std::vector<float> numbers(8192);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  for (size_t padding = 0; padding < 4; ++padding) {
    const std::string name(padding + 1, 'w');
    const std::string data = model_with(raw_tensor<float>(name, 1, {8192}, numbers), name);
    const auto model = read_model_bytes(bytes(data), "");
    ASSERT_TRUE(model.ok()) << model.status().message();
    const ConstantRef constant = model->graph.value(model->graph.outputs[0]).constant;
    const auto address = [](const std::byte* data) { return reinterpret_cast<uintptr_t>(data); };
    const bool unaligned = address(constant->data.stored()) % sizeof(float) != 0;
    const auto first = constant->data.read();
    EXPECT_EQ(first.get() != constant->data.stored(), unaligned);
    EXPECT_EQ(address(first.get()) % sizeof(float), 0u);
    EXPECT_EQ(reinterpret_cast<const float*>(first.get())[8191], 8191);
    EXPECT_EQ(constant->data.read() != first, unaligned) << "a copy for each reading";
    EXPECT_THAT(constant->as<float>(), ElementsAreArray(numbers));
    EXPECT_EQ(constant->data.read().get(), constant->data.bytes()) << "the copy that stays";
  }
}

TEST(ReadTensor, TypedFieldsAreDecodedPackedOrNot) {
  EXPECT_THAT(elements<float>(read_tensor(tensor("w", 1, {3},
                                                 [](auto& to) {
                                                   const float part[] = {1, 2};
                                                   to.add_packed_float(4, std::begin(part), std::end(part));
                                                   to.add_float(4, 3);
                                                 }))),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(elements<double>(read_tensor(tensor("w", 11, {1}, [](auto& to) { to.add_double(10, 2.5); }))),
              ElementsAre(2.5));
  EXPECT_THAT(elements<int64_t>(read_tensor(tensor("w", 7, {3},
                                                   [](auto& to) {
                                                     to.add_int64(7, -1);
                                                     varints(7, {INT64_MIN, 5})(to);
                                                   }))),
              ElementsAre(-1, INT64_MIN, 5));
  EXPECT_THAT(elements<uint64_t>(read_tensor(tensor("w", 13, {1}, varints(11, {-1})))), ElementsAre(UINT64_MAX));
  EXPECT_THAT(elements<uint32_t>(read_tensor(tensor("w", 12, {2}, varints(11, {1, 4294967295})))),
              ElementsAre(1u, UINT32_MAX));
  EXPECT_THAT(elements<int32_t>(read_tensor(tensor("w", 6, {2}, varints(5, {-7, 7})))), ElementsAre(-7, 7));
  EXPECT_THAT(elements<int8_t>(read_tensor(tensor("w", 3, {2}, varints(5, {-128, 127})))), ElementsAre(-128, 127));
  EXPECT_THAT(elements<int16_t>(read_tensor(tensor("w", 5, {2}, varints(5, {-300, 300})))), ElementsAre(-300, 300));
  EXPECT_THAT(elements<uint8_t>(read_tensor(tensor("w", 9, {3}, varints(5, {0, 1, 200})))), ElementsAre(0, 1, 1));
  EXPECT_THAT(elements<uint16_t>(read_tensor(tensor("w", 10, {1}, varints(5, {0x3C00})))), ElementsAre(0x3C00));
  EXPECT_THAT(elements<uint16_t>(read_tensor(tensor("w", 16, {1}, varints(5, {0x3F80})))), ElementsAre(0x3F80));
  EXPECT_THAT(elements<uint8_t>(read_tensor(tensor("w", 22, {3}, varints(5, {0x21, 0x03})))), ElementsAre(0x21, 0x03));
  EXPECT_THAT(elements<uint8_t>(read_tensor(tensor("w", 25, {5}, varints(5, {0xE4, 0x01})))), ElementsAre(0xE4, 0x01));
  EXPECT_THAT(elements<float>(read_tensor(tensor("w", 14, {1},
                                                 [](auto& to) {
                                                   const float pair[] = {1, 2};
                                                   to.add_packed_float(4, std::begin(pair), std::end(pair));
                                                 }))),
              ElementsAre(1, 2));
  // Four 6-bit elements lie in three bytes, the first in the low bits.
  EXPECT_THAT(elements<uint8_t>(read_tensor(tensor("w", 27, {4}, varints(5, {0x01, 0x02, 0x03, 0x3F})))),
              ElementsAre(0x81, 0x30, 0xFC));
  const Result<ConstantRef> strings = read_tensor(tensor("w", 8, {2}, [](auto& to) {
    to.add_bytes(6, "one");
    to.add_bytes(6, "");
  }));
  ASSERT_TRUE(strings.ok());
  EXPECT_THAT((*strings)->strings, ElementsAre("one", ""));
}

// A byte that is neither 0 nor 1 must not reach code that reads it as a bool.
TEST(ReadTensor, RawBoolsBecomeZeroOrOne) {
  EXPECT_THAT(elements<uint8_t>(read_tensor(raw_tensor<uint8_t>("w", 9, {3}, {0, 1, 7}))), ElementsAre(0, 1, 1));
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::path(::testing::TempDir()) / format("tenon_external_{}", ::getpid());
    fs::create_directories(directory_ / "model" / "parts");
    write("model/data.bin", std::string(64, '\0') + std::string("\x00\x00\x80\x3f\x00\x00\x00\x40", 8));
    write("model/parts/more.bin", std::string("\x00\x00\x40\x40", 4));
    write("secret.bin", "secret__");
  }
  void TearDown() override { fs::remove_all(directory_); }
  void write(const std::string& name, const std::string& data) {
    std::ofstream(directory_ / name, std::ios::binary) << data;
  }
  std::string base() const { return (directory_ / "model").string(); }
  static std::string at(const std::string& location, const std::string& offset = "", const std::string& length = "",
                        const std::vector<int64_t>& dims = {2}) {
    std::vector<std::pair<std::string, std::string>> entries = {{"location", location}};
    if (!offset.empty()) entries.emplace_back("offset", offset);
    if (!length.empty()) entries.emplace_back("length", length);
    return external_tensor("w", 1, dims, entries);
  }
  fs::path directory_;
};

TEST_F(ExternalData, MayNotLeaveTheModelsDirectory) {
  for (const char* location : {"../secret.bin", "parts/../../secret.bin", "/etc/passwd", "..", "parts/.."})
    expect_error(at(location), StatusCode::kInvalidArgument, HasSubstr("outside the model's directory"), base());
  fs::create_symlink(directory_ / "secret.bin", directory_ / "model" / "link.bin");
  expect_error(at("link.bin"), StatusCode::kInvalidArgument, HasSubstr("link out of"), base());
  fs::create_directory_symlink(directory_, directory_ / "model" / "up");
  expect_error(at("up/secret.bin"), StatusCode::kInvalidArgument, HasSubstr("link out of"), base());
  // A neighbour whose path begins with the same letters is outside too.
  fs::create_directories(directory_ / "model2");
  write("model2/data.bin", "12345678");
  fs::create_symlink(directory_ / "model2" / "data.bin", directory_ / "model" / "neighbour.bin");
  expect_error(at("neighbour.bin"), StatusCode::kInvalidArgument, HasSubstr("link out of"), base());
  expect_error(at(std::string("data.bin\0x", 10)), StatusCode::kInvalidArgument, HasSubstr("no usable name"), base());
  expect_error(at(""), StatusCode::kInvalidArgument, HasSubstr("no usable name"), base());
}

TEST_F(ExternalData, IsRefusedWithoutADirectory) {
  expect_error(at("data.bin"), StatusCode::kInvalidArgument, HasSubstr("no directory"));
}

TEST_F(ExternalData, MustLieInsideTheFile) {
  expect_error(at("data.bin", "68"), StatusCode::kOutOfRange, AllOf(HasSubstr("68"), HasSubstr("(72 bytes)")), base());
  expect_error(at("data.bin", "18446744073709551615"), StatusCode::kOutOfRange, HasSubstr("18446744073709551615"),
               base());
  expect_error(at("data.bin", "18446744073709551616"), StatusCode::kInvalidArgument, HasSubstr("not a number"), base());
  expect_error(at("data.bin", "-4"), StatusCode::kInvalidArgument, HasSubstr("not a number"), base());
  expect_error(at("data.bin", "0", "12"), StatusCode::kInvalidArgument, AllOf(HasSubstr("8 bytes"), HasSubstr("12")),
               base());
  expect_error(at("data.bin", "0", "", {int64_t{1} << 37}), StatusCode::kOutOfRange, HasSubstr("exceeds"), base());
  expect_error(at("absent.bin"), StatusCode::kNotFound, HasSubstr("absent.bin"), base());
  expect_error(at("parts"), StatusCode::kInvalidArgument, HasSubstr("not a regular file"), base());
}

// Opening a pipe for reading would wait for a writer that never comes.
TEST_F(ExternalData, APipeIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((directory_ / "model" / "pipe").c_str(), 0600), 0);
  expect_error(at("pipe"), StatusCode::kInvalidArgument, HasSubstr("not a regular file"), base());
}

TEST_F(ExternalData, IsMappedAndAligned) {
  EXPECT_THAT(elements<float>(read_tensor(at("data.bin", "64", "8"), base())), ElementsAre(1, 2));
  EXPECT_THAT(elements<float>(read_tensor(at("./parts/more.bin", "", "", {1}), base())), ElementsAre(3));
  write("model/odd.bin", std::string("?\x00\x00\x80\x3f", 5));
  const Result<ConstantRef> odd = read_tensor(at("odd.bin", "1", "", {1}), base());
  EXPECT_THAT(elements<float>(odd), ElementsAre(1));
  EXPECT_FALSE((*odd)->in_file);
  EXPECT_TRUE((*read_tensor(at("data.bin", "64"), base()))->in_file);
  // An empty tensor needs no byte, not even of an empty file.
  write("model/empty.bin", "");
  EXPECT_TRUE(read_tensor(at("empty.bin", "0", "0", {0}), base()).ok());
}

TEST_F(ExternalData, IsFoundBesideAModelFileAndOutlivesIt) {
  write("model/m.onnx", model_with(at("data.bin", "64")));
  ConstantRef constant;
  {
    auto model = read_model_file(base() + "/m.onnx");
    ASSERT_TRUE(model.ok()) << model.status().message();
    constant = model->graph.value(model->graph.outputs[0]).constant;
  }
  EXPECT_THAT(constant->as<float>(), ElementsAre(1, 2));
}

TEST_F(ExternalData, AModelFileThatIsNotThereOrNoFileSaysSo) {
  EXPECT_EQ(read_model_file(base() + "/none.onnx").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(read_model_file(base()).status().message(), HasSubstr("not a regular file"));
  write("model/zero.onnx", "");
  EXPECT_THAT(read_model_file(base() + "/zero.onnx").status().message(), HasSubstr("empty"));
}

}  // namespace
}  // namespace tenon
