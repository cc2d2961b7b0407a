// In which layout convolutions work, and what their programs consist of; needs no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Dim> dims(const Shape& shape) {
  std::vector<Dim> result;
  for (int64_t size : shape) result.push_back({size, {}});
  return result;
}

ConstantRef weights(const Shape& shape) {
  std::byte* data = nullptr;
  ConstantRef constant = *make_constant(DataType::kFloat, shape, &data);
  store_floats(std::vector<float>(shape.element_count(), 0.5F), DataType::kFloat, data);
  return constant;
}

struct Layer {
  std::string op;
  Shape weights;
  std::vector<int64_t> pads, strides = {1, 1};
  int64_t group = 1;
};

// One layer after the other, and the operators that they became.
std::vector<std::string> programs_of(const Shape& x, const std::vector<Layer>& layers) {
  plan_testing::GraphBuilder builder;
  ValueId value = builder.input("x", dims(x), DataType::kFloat);
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = "y" + std::to_string(i);
    if (layers[i].op == "Relu" || layers[i].op == "Sigmoid") {
      value = builder.node(layers[i].op, {value}, name, DataType::kFloat);
      continue;
    }
    const ValueId w = builder.graph.add_constant("w" + std::to_string(i), weights(layers[i].weights));
    value = builder.node(layers[i].op, {value, w}, name, DataType::kFloat);
    builder.last().set_ints("pads", layers[i].pads);
    builder.last().set_ints("strides", layers[i].strides);
    builder.last().set_int("group", layers[i].group);
  }
  builder.output(value);
  Result<Region> region = Region::prepare(std::move(builder.graph));
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  std::vector<Shape> shapes = {x};
  const Result<Program> program = region->lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  std::vector<std::string> descriptions;
  if (program.ok())
    for (const auto& op : program->ops) descriptions.push_back(op->description(*program));
  return descriptions;
}

const Layer kDepthwise{.op = "Conv", .weights = {16, 1, 3, 3}, .pads = {1, 1, 1, 1}, .group = 16};
const Layer kPixels{.op = "Conv", .weights = {16, 16, 1, 1}, .pads = {0, 0, 0, 0}};
const Layer kWindows{.op = "Conv", .weights = {16, 16, 3, 3}, .pads = {1, 1, 1, 1}};

// Two reorders around it would take longer than a depthwise convolution or one of single pixels.
TEST(LowerConv, ImagesStayAsTheyAreBetweenPlainTensors) {
  for (const Layer& layer : {kDepthwise, kPixels}) {
    const auto ops = programs_of({2, 16, 8, 8}, {layer});
    ASSERT_EQ(ops.size(), 1U) << ::testing::PrintToString(ops);
    EXPECT_THAT(ops[0], Not(HasSubstr("reorder")));
  }
}

// Of three reorders, which the second convolution wants anyway, none may be added.
TEST(LowerConv, ConvolutionsAmongOthersHaveChannelsLast) {
  for (const Layer& layer : {kDepthwise, kPixels}) {
    const auto ops = programs_of({2, 16, 8, 8}, {layer, {.op = "Sigmoid"}, kWindows});
    size_t reorders = 0;
    for (const std::string& op : ops) reorders += op.find("reorder") != std::string::npos ? 1 : 0;
    EXPECT_EQ(reorders, 2U) << ::testing::PrintToString(ops);  // at the region's input and output
  }
}

// Between others with channels last; a kernel of its own holds 3x3 windows in registers.
TEST(LowerConv, LargeDepthwiseWindowsAreMadeInTiles) {
  const auto ops = programs_of(
      {2, 16, 8, 8},
      {kWindows, {.op = "Conv", .weights = {16, 1, 7, 7}, .pads = {3, 3, 3, 3}, .group = 16}, kDepthwise, kWindows});
  ASSERT_EQ(ops.size(), 6U) << ::testing::PrintToString(ops);
  EXPECT_THAT(ops[2], HasSubstr("depthwise_tiles float32 128x16 in 8x8 kernel 7x7 stride 1x1"));
  EXPECT_THAT(ops[3], HasSubstr("depthwise float32 128x16x9"));
}

// A window of two strides: one convolution makes all four output pixels of a cell, and a kernel stores them.
TEST(LowerConv, ATransposedConvolutionOfWholeStridesIsOneOfPhases) {
  const auto ops = programs_of(
      {2, 16, 8, 8}, {{.op = "ConvTranspose", .weights = {16, 8, 4, 4}, .pads = {1, 1, 1, 1}, .strides = {2, 2}}});
  ASSERT_EQ(ops.size(), 3U) << ::testing::PrintToString(ops);
  EXPECT_THAT(ops[1], HasSubstr("conv float32 162x32x64 in 8x8x16 kernel 2x2 stride 1x1 pad 1x1"));
  EXPECT_THAT(ops[2], HasSubstr("phases"));
}

TEST(LowerConv, ATransposedConvolutionWithoutStridesIsAConvolution) {
  const auto ops =
      programs_of({2, 16, 8, 8}, {{.op = "ConvTranspose", .weights = {16, 8, 3, 3}, .pads = {1, 1, 1, 1}}});
  ASSERT_EQ(ops.size(), 3U) << ::testing::PrintToString(ops);
  EXPECT_THAT(ops[1], HasSubstr("conv float32 128x8x144 in 8x8x16 kernel 3x3 stride 1x1 pad 1x1"));
  EXPECT_THAT(ops[2], HasSubstr("reorder"));
}

// Zeros among the weights would cost more than the sums that they save.
TEST(LowerConv, OtherWindowsAreProductsThatAreAddedUp) {
  const auto ops = programs_of(
      {2, 16, 8, 8}, {{.op = "ConvTranspose", .weights = {16, 8, 3, 3}, .pads = {1, 1, 1, 1}, .strides = {2, 2}}});
  ASSERT_GE(ops.size(), 3U) << ::testing::PrintToString(ops);
  EXPECT_THAT(ops[1], HasSubstr("product float32 128x72x16"));
  EXPECT_THAT(ops[2], HasSubstr("windows"));
}

}  // namespace
}  // namespace tenon::cuda
