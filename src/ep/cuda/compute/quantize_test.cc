// Quantised graphs: folded constants, fused kernels, and claims; needs no device.
#include "ep/cuda/compute/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_cache.h"
#include "ep/cuda/compute/region.h"
#include "ops/shape_inference.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename T>
ConstantRef numbers(DataType type, const Shape& shape, const std::vector<T>& values) {
  std::byte* data = nullptr;
  ConstantRef made = *make_constant(type, shape, &data);
  std::memcpy(data, values.data(), values.size() * sizeof(T));
  return made;
}

ConstantRef bytes(const Shape& shape, const std::vector<int8_t>& values) {
  return numbers(DataType::kInt8, shape, values);
}
ConstantRef floats(const Shape& shape, const std::vector<float>& values) {
  return numbers(DataType::kFloat, shape, values);
}

std::vector<float> dequantized(const ConstantRef& x, const ConstantRef& scale, const ConstantRef& zero, int64_t axis,
                               int64_t block = 0) {
  plan_testing::GraphBuilder builder;
  std::vector<ValueId> inputs = {builder.graph.add_constant("x", x), builder.graph.add_constant("scale", scale)};
  if (zero != nullptr) inputs.push_back(builder.graph.add_constant("zero", zero));
  builder.node("DequantizeLinear", inputs, "y");
  builder.last().since_version = 21;
  builder.last().set_int("axis", axis);
  if (block != 0) builder.last().set_int("block_size", block);
  const Result<ConstantRef> made = dequantize_on_host(builder.graph, builder.graph.nodes[NodeId(0)]);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? floats_of(**made) : std::vector<float>{};
}

TEST(Dequantize, ScalesOfATensorAnAxisAndBlocks) {
  const ConstantRef x = bytes(Shape{2, 3}, {-128, -1, 0, 1, 2, 127});
  EXPECT_THAT(dequantized(x, floats(Shape{}, {0.5F}), bytes(Shape{}, {2}), 1),
              ElementsAre(-65, -1.5F, -1, -0.5F, 0, 62.5F));
  EXPECT_THAT(dequantized(x, floats(Shape{2}, {1, 2}), nullptr, 0), ElementsAre(-128, -1, 0, 2, 4, 254));
  EXPECT_THAT(dequantized(x, floats(Shape{3}, {1, 2, 3}), bytes(Shape{3}, {0, 0, 1}), -1),
              ElementsAre(-128, -2, -3, 1, 4, 378));
  EXPECT_THAT(dequantized(x, floats(Shape{2, 2}, {1, 2, 3, 4}), nullptr, 1, 2), ElementsAre(-128, -1, 0, 3, 6, 508));
}

TEST(Dequantize, WhatDoesNotFitIsLeft) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.graph.add_constant("x", bytes(Shape{2}, {1, 2}));
  const ValueId three = builder.graph.add_constant("three", floats(Shape{3}, {1, 2, 3}));
  const ValueId run_time = builder.input("scale", {});
  for (ValueId scale : {three, run_time}) {
    builder.node("DequantizeLinear", {x, scale}, scale == three ? "list" : "run_time");
    builder.last().since_version = 13;
    builder.last().set_int("axis", 0);
    EXPECT_FALSE(can_dequantize_on_host(builder.graph, builder.last()));
    EXPECT_EQ(dequantize_on_host(builder.graph, builder.last()).status().code(), StatusCode::kUnsupported);
  }
}

// Q and DQ around a convolution whose weights and bias are quantised too, and an activation.
Graph quantized_convolution() {
  plan_testing::GraphBuilder builder;
  const auto constant = [&](const char* name, ConstantRef value) {
    return builder.graph.add_constant(name, std::move(value));
  };
  const ValueId x = builder.input("x", {{-1, "n"}, {16, {}}, {8, {}}, {8, {}}});
  const ValueId scale = constant("scale", floats(Shape{}, {0.1F}));
  const ValueId zero = constant("zero", numbers<uint8_t>(DataType::kUint8, Shape{}, {7}));
  const ValueId w = constant("w", bytes(Shape{4, 16, 3, 3}, std::vector<int8_t>(576, 3)));
  const ValueId w_scale = constant("w_scale", floats(Shape{4}, {1, 2, 3, 4}));
  const ValueId b = constant("b", numbers<int32_t>(DataType::kInt32, Shape{4}, {1, 2, 3, 4}));
  const auto version = [&](int since) { builder.last().since_version = since; };
  const ValueId wide = builder.node("DequantizeLinear", {w, w_scale}, "wide");
  version(13), builder.last().set_int("axis", 0);
  const ValueId bias = builder.node("DequantizeLinear", {b, w_scale}, "bias");
  version(13), builder.last().set_int("axis", 0);
  const auto round_trip = [&](ValueId id, const std::string& name) {
    const ValueId q = builder.node("QuantizeLinear", {id, scale, zero}, name + "_q", DataType::kUint8);
    version(13);
    const ValueId back = builder.node("DequantizeLinear", {q, scale, zero}, name + "_dq");
    version(13);
    return back;
  };
  const ValueId conv = builder.node("Conv", {round_trip(x, "x"), wide, bias}, "conv");
  const ValueId relu = builder.node("Relu", {round_trip(conv, "conv")}, "relu");
  builder.output(round_trip(relu, "relu"));
  return builder.graph;
}

TEST(Quantized, WeightsAreFoldedAndWhatIsRoundedIsOneKernel) {
  Result<Region> region = Region::prepare(quantized_convolution());
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  const Result<Program> program = region->lower_at(std::vector<Shape>{Shape{2, 16, 8, 8}}, false);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const std::string text = program->to_text();
  EXPECT_THAT(text, HasSubstr("conv float32 72x4x144"));
  EXPECT_THAT(text, HasSubstr("= DequantizeLinear QuantizeLinear"));
  EXPECT_THAT(text, Not(HasSubstr("= DequantizeLinear <-")));
  EXPECT_THAT(kernel_text(program->kernels), HasSubstr("fminf(fmaxf(rintf((float)"));
}

TEST(Quantized, EveryNodeIsClaimedInOneGroup) {
  Graph graph = quantized_convolution();
  ASSERT_TRUE(infer_shapes(graph).ok());
  const PerNode<bool> claimed = claim_nodes(graph);
  EXPECT_THAT(claimed, Each(true));
  EXPECT_THAT(group_nodes(graph, claimed, PerNode<bool>(claimed.size(), false)), Each(0));
}

}  // namespace
}  // namespace tenon::cuda
