// Compiled programs from outside: damaged bytes are an error, never more than that.
#include "ep/sim/sim_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/sim/sim_bytes.h"

namespace tenon::sim {
namespace {

// y = Relu(MatMul(x, w)); values are x, w, m, y.
struct Recipe {
  std::string op = "MatMul";
  std::vector<int32_t> matmul_inputs = {0, 1};
  std::vector<int32_t> outputs = {3};
  uint64_t weight_rank = 2;

  std::string bytes() const {
    ByteWriter writer;
    writer.text("TENONSIM2");
    writer.number(4);
    for (const char* name : {"x", "w", "m", "y"}) {
      writer.text(name);
      const bool constant = std::string(name) == "w";
      writer.number(constant ? 1 : 0);
      if (!constant) continue;
      writer.number(static_cast<uint64_t>(DataType::kFloat));
      writer.list(std::vector<int64_t>(weight_rank, 2));
      writer.text(std::string(16, '\1'));
    }
    writer.list(std::vector<int32_t>{0});
    writer.list(outputs);
    writer.number(2);
    write_step(writer, op, 1, matmul_inputs, 2);
    write_step(writer, "Relu", 14, {2}, 3);
    return writer.take();
  }
  static void write_step(ByteWriter& writer, const std::string& op, uint64_t since, const std::vector<int32_t>& inputs,
                         int32_t output) {
    writer.text("step");
    writer.text(op);
    writer.number(since);
    writer.list(inputs);
    writer.list(std::vector<int32_t>{output});
    // One attribute: its name, kind, integer, bits of the float, list, and text.
    writer.number(1);
    writer.text("pads");
    writer.number(static_cast<uint64_t>(AttributeKind::kInts));
    writer.number(0);
    writer.number(0);
    writer.list(std::vector<int64_t>{1, 2});
    writer.text("SAME_UPPER");
  }
};

Result<std::shared_ptr<SimProgram>> parse(const std::string& bytes) {
  return SimProgram::parse(std::make_shared<SimRuntime>(), bytes);
}

TEST(SimProgram, ParsesWhatItSerializes) {
  const std::string bytes = Recipe().bytes();
  const auto program = parse(bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->input_count(), 1u);
  EXPECT_EQ((*program)->output_count(), 1u);
  EXPECT_EQ((*program)->serialize(), bytes);
}

TEST(SimProgram, EveryPrefixIsRefused) {
  const std::string bytes = Recipe().bytes();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(parse(bytes.substr(0, length)).status().code(), StatusCode::kInvalidArgument) << length;
  EXPECT_FALSE(parse(bytes + "x").ok());
}

TEST(SimProgram, EveryChangedByteIsReadWithoutHarm) {
  const std::string bytes = Recipe().bytes();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      const auto read = parse(changed);
      EXPECT_TRUE(read.ok() || !read.status().message().empty()) << i;
    }
}

TEST(SimProgram, WhatItCannotRunIsRefused) {
  EXPECT_THAT(parse(Recipe{.op = "Lunch"}.bytes()).status().message(), testing::HasSubstr("\"Lunch\""));
  EXPECT_FALSE(parse(Recipe{.matmul_inputs = {0, 2}}.bytes()).ok()) << "reads what is made later";
  EXPECT_FALSE(parse(Recipe{.matmul_inputs = {0, 99}}.bytes()).ok());
  EXPECT_FALSE(parse(Recipe{.matmul_inputs = {}}.bytes()).ok());
  EXPECT_FALSE(parse(Recipe{.outputs = {-7}}.bytes()).ok());
  EXPECT_FALSE(parse(Recipe{.weight_rank = 40}.bytes()).ok());
  EXPECT_FALSE(parse(Recipe{.weight_rank = 3}.bytes()).ok()) << "16 bytes are not 2x2x2 floats";
}

TEST(SimOps, OperandsAreCheckedBeforeShapes) {
  const SimOp* matmul = find_op("", "MatMul", 13);
  ASSERT_NE(matmul, nullptr);
  const SimTensor f{DataType::kFloat, {2, 2}}, i{DataType::kInt64, {2, 2}};
  EXPECT_TRUE(check_operands(*matmul, std::vector<SimTensor>{f, f}).ok());
  EXPECT_FALSE(check_operands(*matmul, std::vector<SimTensor>{f}).ok());
  EXPECT_FALSE(check_operands(*matmul, std::vector<SimTensor>{f, i}).ok());
  EXPECT_FALSE(check_operands(*matmul, std::vector<SimTensor>{f, {}}).ok());
  EXPECT_EQ(find_op("com.microsoft", "MatMul", 13), nullptr);
  EXPECT_EQ(find_op("", "Relu", 1), nullptr);
}

TEST(SimOps, AConvolutionPadsByAutoPad) {
  const SimOp* conv = find_op("", "Conv", 11);
  ASSERT_NE(conv, nullptr);
  SimNode node(*conv);
  node.set_string("auto_pad", "SAME_LOWER");
  const std::vector<SimTensor> in = {{DataType::kFloat, {1, 1, 1, 3}}, {DataType::kFloat, {1, 1, 1, 2}}};
  const std::vector<const std::byte*> host(2);
  const auto out = conv->infer({.tensors = in, .host = host}, node);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].shape, (Shape{1, 1, 1, 3}));
  const float x[] = {1, 2, 4}, w[] = {10, 1};
  float y[3] = {};
  const std::byte* const read[] = {reinterpret_cast<const std::byte*>(x), reinterpret_cast<const std::byte*>(w)};
  std::byte* const written[] = {reinterpret_cast<std::byte*>(y)};
  EXPECT_TRUE(conv->run({.in = in, .in_data = read, .out = *out, .out_data = written}, node).ok());
  EXPECT_THAT(y, testing::ElementsAre(1, 12, 24));
}

TEST(SimOps, HugeShapesAreRefusedBeforeAnythingIsAllocated) {
  const SimOp* add = find_op("", "Add", 14);
  const SimTensor tall{DataType::kFloat, {int64_t{1} << 40, 1}}, wide{DataType::kFloat, {1, int64_t{1} << 40}};
  const std::vector<SimTensor> inputs = {tall, wide};
  const std::vector<const std::byte*> host(2);
  EXPECT_FALSE(add->infer({.tensors = inputs, .host = host}, {}).ok());
}

}  // namespace
}  // namespace tenon::sim
