// Operators that GPU kernels take in; needs no device.
#include "ep/cuda/compute/rewrites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// silu(x w) * (x v), or sigmoid(x w) * v where the gate is a row of its own.
std::string gate_of(int64_t rows, bool whole) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{rows, {}}, {64, {}}});
  std::byte* data = nullptr;
  const auto weights = [&](const char* name) {
    return builder.graph.add_constant(name, *make_constant(DataType::kFloat, Shape{64, 96}, &data));
  };
  const ValueId a = builder.node("MatMul", {x, weights("w")}, "a");
  const ValueId sigmoid = builder.node("Sigmoid", {a}, "sigmoid"), silu = builder.node("Mul", {a, sigmoid}, "silu");
  const ValueId other =
      whole ? builder.node("MatMul", {x, weights("v")}, "b") : builder.input("row", {{1, {}}, {96, {}}});
  builder.output(builder.node("Mul", {silu, other}, "y"));
  const Result<Region> region = Region::prepare(builder.graph);
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  std::vector<Shape> shapes;
  for (ValueId id : region->graph().inputs) shapes.push_back(region->graph().value(id).shape());
  const Result<Program> program = region->lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  return program->to_text();
}

TEST(LeaveGates, OfManyRowsTheActivationIsTheGatesKernels) {
  const std::string text = gate_of(40, true);
  EXPECT_THAT(text, HasSubstr("Mul silu"));
  EXPECT_THAT(text, Not(HasSubstr("act 7")));
}

TEST(LeaveGates, OfFewRowsOneKernelComputesAll) { EXPECT_THAT(gate_of(3, true), HasSubstr("3x96*96x64")); }

// A row that is broadcast is no gate: the product keeps its activation.
TEST(LeaveGates, AFactorOfAnotherShapeChangesNothing) { EXPECT_THAT(gate_of(40, false), HasSubstr("act 7")); }

ConstantRef numbers(const Shape& shape, float value, DataType type) {
  std::byte* data = nullptr;
  ConstantRef constant = *make_constant(type, shape, &data);
  store_floats(std::vector<float>(shape.element_count(), value), type, data);
  return constant;
}

// The first word of each operator, and "residual" where it adds one.
std::vector<std::string> words_of(plan_testing::GraphBuilder& builder, const std::vector<Shape>& shapes) {
  Result<Region> region = Region::prepare(std::move(builder.graph));
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  const Result<Program> program = region->lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  std::vector<std::string> words;
  if (program.ok())
    for (const auto& op : program->ops) {
      const std::string text = op->description(*program);
      words.push_back(text.substr(0, text.find(' ')) +
                      (text.find(" residual") != std::string::npos ? " residual" : ""));
    }
  return words;
}

// A factor for each column behind a product of 64 rows.
std::vector<std::string> scaled_product(DataType type, float factor) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{1, {}}, {64, {}}, {32, {}}}, type);
  const ValueId y =
      builder.node("MatMul", {x, builder.graph.add_constant("w", numbers({32, 48}, 0.5F, type))}, "y", type);
  builder.output(builder.node("Mul", {y, builder.graph.add_constant("s", numbers({48}, factor, type))}, "z", type));
  return words_of(builder, {{1, 64, 32}});
}

TEST(Rewrites, FactorsOfColumnsArePartOfTheWeights) {
  EXPECT_THAT(scaled_product(DataType::kFloat, 1e-6F), ElementsAre("product"));
  EXPECT_THAT(scaled_product(DataType::kFloat16, 0.5F), ElementsAre("product"));
}

// f16 has no numbers for weights that are so small.
TEST(Rewrites, SmallFactorsDoNotScaleHalves) {
  EXPECT_THAT(scaled_product(DataType::kFloat16, 1e-6F), ElementsAre("product", "Mul"));
}

// The operators of a Concat of a slice from `begin` to the end and one up to `end`.
std::vector<std::string> joined_slices(int64_t begin, int64_t end) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{2, {}}, {10, {}}, {3, {}}});
  const auto slice = [&](int64_t from, int64_t to, const std::string& name) {
    const auto bound = [&](const char* what, int64_t value) {
      return builder.graph.add_constant(name + what, make_int64_constant(std::vector<int64_t>{value}));
    };
    return builder.node("Slice", {x, bound("from", from), bound("to", to), bound("axis", 1)}, name);
  };
  const ValueId behind = slice(begin, 1000, "behind"), before = slice(0, end, "before");
  builder.output(builder.node("Concat", {behind, before}, "y"));
  builder.last().set_int("axis", 1);
  return words_of(builder, {{2, 10, 3}});
}

TEST(Rewrites, ARollIsOneGather) {
  EXPECT_THAT(joined_slices(4, 4), ElementsAre("Gather"));
  EXPECT_THAT(joined_slices(-2, -2), ElementsAre("Gather"));
  EXPECT_THAT(joined_slices(4, 5), ElementsAre("Slice", "Slice", "concat"));
}

// A block of ConvNeXt: rows of pixels through a product and back, beside the image itself.
TEST(Rewrites, AProductOfPixelsAddsTheImage) {
  plan_testing::GraphBuilder builder;
  constexpr DataType kType = DataType::kFloat16;
  const auto constant = [&](const std::string& name, const Shape& shape) {
    return builder.graph.add_constant(name, numbers(shape, 0.5F, kType));
  };
  const auto conv = [&](ValueId x, const std::string& name) {
    const ValueId y = builder.node("Conv", {x, constant("w" + name, {32, 32, 3, 3})}, name, kType);
    builder.last().set_ints("pads", {1, 1, 1, 1});
    return y;
  };
  ValueId x = conv(builder.input("x", {{1, {}}, {32, {}}, {16, {}}, {16, {}}}, kType), "first");
  for (const std::string name : {"a", "b"}) {
    const ValueId rows = builder.node("Transpose", {conv(x, "conv" + name)}, "rows" + name, kType);
    builder.last().set_ints("perm", {0, 2, 3, 1});
    const ValueId product = builder.node("MatMul", {rows, constant("m" + name, {32, 32})}, "product" + name, kType);
    const ValueId image = builder.node("Transpose", {product}, "image" + name, kType);
    builder.last().set_ints("perm", {0, 3, 1, 2});
    x = builder.node("Add", {x, image}, "sum" + name, kType);
  }
  builder.output(conv(x, "last"));
  EXPECT_THAT(words_of(builder, {{1, 32, 16, 16}}), ElementsAre("reorder", "conv", "conv", "product residual", "conv",
                                                                "product residual", "conv", "reorder"));
}

}  // namespace
}  // namespace tenon::cuda
