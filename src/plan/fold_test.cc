#include "plan/fold.h"

#include <gmock/gmock.h>

#include "base/testing.h"
#include "plan/testing.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSize = 4;

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) all.push_back(node.op_type);
  return all;
}

// Numbers that nobody reads, of the output's type and shape; not for an operator without a kernel.
Result<std::vector<ConstantRef>> evaluate(const Graph& graph, const Node& node) {
  if (node.op_type == "Sin") return unsupported("There is no kernel.");
  std::vector<ConstantRef> made;
  for (ValueId id : node.outputs) {
    std::byte* data = nullptr;
    const Value& value = graph.value(id);
    TENON_TRY_ASSIGN(made.emplace_back(), make_constant(value.type, value.shape(), &data));
  }
  return made;
}

class FoldBeforeClaims : public ::testing::Test {
 protected:
  ValueId weights(const std::string& name, DataType type = DataType::kFloat) {
    std::byte* data = nullptr;
    return builder.graph.add_constant(name, *make_constant(type, Shape{kSize}, &data));
  }
  ValueId node(const char* op_type, std::vector<ValueId> inputs, const char* output, DataType type = DataType::kFloat) {
    const ValueId id = builder.node(op_type, std::move(inputs), output, type);
    builder.graph.value(id).set_shape(Shape{kSize});
    return id;
  }
  plan_testing::GraphBuilder builder;
};

TEST_F(FoldBeforeClaims, WhatIsMadeOfConstantsIsOneAndAllElseIsAsItWas) {
  const ValueId x = builder.input("x", {{kSize, {}}}, DataType::kFloat);
  const ValueId scaled = node("Neg", {node("Abs", {weights("w")}, "magnitude")}, "scaled");
  const ValueId same = node("Identity", {x}, "same");
  builder.output(node("Add", {same, scaled}, "y"));
  ASSERT_THAT(fold_before_claims(builder.graph, &evaluate), is_ok());
  EXPECT_THAT(names(builder.graph), ElementsAre("Identity", "Add"));
  EXPECT_NE(builder.graph.value(scaled).constant, nullptr);
  EXPECT_EQ(builder.graph.nodes.back().inputs[1], scaled);
}

TEST_F(FoldBeforeClaims, QuantisationsAndOutputsStay) {
  const ValueId x = builder.input("x", {{kSize, {}}}, DataType::kFloat);
  const ValueId wide = node("DequantizeLinear", {weights("codes", DataType::kInt8), weights("scale")}, "wide");
  builder.output(node("Add", {x, wide}, "y"));
  builder.output(node("Neg", {weights("w")}, "constant"));
  ASSERT_THAT(fold_before_claims(builder.graph, &evaluate), is_ok());
  EXPECT_THAT(names(builder.graph), ElementsAre("DequantizeLinear", "Add", "Neg"));
}

TEST_F(FoldBeforeClaims, WhatCannotBeComputedIsLeftToTheEps) {
  const ValueId x = builder.input("x", {{kSize, {}}}, DataType::kFloat);
  const ValueId wave = node("Sin", {weights("w")}, "wave"), random = node("Dropout", {weights("v")}, "random");
  builder.output(node("Sum", {x, wave, random}, "y"));
  ASSERT_THAT(fold_before_claims(builder.graph, &evaluate), is_ok());
  EXPECT_THAT(names(builder.graph), ElementsAre("Sin", "Dropout", "Sum"));
}

// A plan is cut there, and the rest is folded when its sizes are numbers.
TEST(FoldConstants, OfKnownSizesAloneLeavesWhatWaitsForSizes) {
  const auto fold = [](bool only_known_sizes) {
    plan_testing::GraphBuilder made;
    const ValueId x = made.input("x", {{kSize, {}}}, DataType::kFloat);
    const ValueId known = made.node("Identity", {x}, "known", DataType::kFloat);
    const ValueId places = made.node("NonZero", {known}, "places", DataType::kInt64);
    made.output(made.node("Neg", {made.node("Identity", {places}, "same", DataType::kInt64)}, "y", DataType::kInt64));
    EXPECT_THAT(fold_constants(made.graph, &evaluate, {.only_known_sizes = only_known_sizes}), is_ok());
    return names(made.graph);
  };
  EXPECT_THAT(fold(true), ElementsAre("NonZero", "Identity", "Neg"));
  EXPECT_THAT(fold(false), ElementsAre("NonZero", "Neg"));
}

}  // namespace
}  // namespace tenon
