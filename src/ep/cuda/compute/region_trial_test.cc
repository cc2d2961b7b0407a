// Claims that do not hold are given back before a host hears of them; needs no device.
#include "ep/cuda/compute/region_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SettledClaims settle(const Graph& graph) {
  return settle_claims(graph, claim_nodes(graph), PerNode<bool>(graph.nodes.size(), false), false);
}

ValueId whole_number(plan_testing::GraphBuilder& builder, const char* name, int64_t value) {
  std::byte* bytes = nullptr;
  ConstantRef made = *make_constant(DataType::kInt64, Shape{}, &bytes);
  *reinterpret_cast<int64_t*>(bytes) = value;
  return builder.graph.add_constant(name, std::move(made));
}

// A Range of that many numbers is neither computed on the host nor by a kernel: the CPU EP makes it, and the sum stays.
TEST(SettleClaims, ANodeThatCannotBeLoweredLosesItsClaimAlone) {
  constexpr int64_t kMany = 2'000'000;
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{kMany, {}}}, DataType::kInt64);
  const ValueId from = whole_number(builder, "from", 0), to = whole_number(builder, "to", kMany);
  const ValueId by = whole_number(builder, "by", 1);
  const ValueId numbers = builder.node("Range", {from, to, by}, "numbers", DataType::kInt64);
  builder.last().since_version = 11;
  builder.shape(numbers, Shape{kMany});
  builder.output(builder.node("Add", {x, numbers}, "sum", DataType::kInt64));
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true, true));
  const SettledClaims settled = settle(builder.graph);
  EXPECT_THAT(settled.groups, ElementsAre(-1, 0));
  EXPECT_THAT(settled.refusals, ElementsAre(HasSubstr("no operator Range")));
}

// torch's shifted windows fill their mask so, in 16 bits beside float32.
TEST(SettleClaims, ATensorOfOneNumberIsFilledOnTheDevice) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{6, {}}, {4, {}}}, DataType::kFloat16);
  const ValueId filled =
      builder.node("ConstantOfShape", {builder.constant("shape", {6, 4})}, "filled", DataType::kFloat16);
  builder.last().since_version = 9;
  std::byte* bits = nullptr;
  const ConstantRef fill = *make_constant(DataType::kFloat16, Shape{1}, &bits);
  *reinterpret_cast<uint16_t*>(bits) = 0x4500;  // 5
  Attribute& value = builder.last().attributes.edit().emplace_back();
  value.name = "value";
  value.kind = AttributeKind::kTensor;
  value.tensor = fill;
  const ValueId sum = builder.node("Add", {x, filled}, "sum", DataType::kFloat16);
  builder.output(builder.node("Cast", {sum}, "wide"));
  builder.last().set_int("to", static_cast<int64_t>(DataType::kFloat));
  const SettledClaims settled = settle(builder.graph);
  EXPECT_THAT(settled.groups, ElementsAre(0, 0, 0));
  EXPECT_THAT(settled.refusals, IsEmpty());
}

// Sizes that contradict each other in the trial say nothing: with those of a run the region may be right.
TEST(SettleClaims, TrialSizesThatContradictEachOtherRefuseNothing) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {-1, "m"}});
  const ValueId y = builder.node("Reshape", {x, builder.constant("shape", {-1, 7, 11})}, "folded");
  builder.output(builder.node("Relu", {y}, "out"));
  EXPECT_THAT(settle(builder.graph).groups, ElementsAre(0, 0));
}

// Of a region without ranks only the node that fails whatever they are is given back.
TEST(SettleClaims, ARegionWithoutRanksIsTried) {
  constexpr int64_t kMany = 2'000'000;
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.value("x");
  builder.graph.inputs.push_back(x);
  builder.output(builder.node("Relu", {x}, "relu"));
  const ValueId from = whole_number(builder, "from", 0), to = whole_number(builder, "to", kMany);
  const ValueId numbers =
      builder.node("Range", {from, to, whole_number(builder, "by", 1)}, "numbers", DataType::kInt64);
  builder.last().since_version = 11;
  builder.shape(numbers, Shape{kMany});
  builder.output(builder.node("Neg", {numbers}, "negative", DataType::kInt64));
  builder.shape(builder.last().outputs[0], Shape{kMany});
  EXPECT_THAT(settle(builder.graph).groups, ElementsAre(0, -1, testing::Ge(0)));
}

// "" between the inputs of a Sum, which no checker takes and some files have.
TEST(SettleClaims, AnInputThatIsLeftOutIsRefused) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{4, {}}}), y = builder.input("y", {{4, {}}});
  builder.output(builder.node("Sum", {x, kNoValue, y}, "out"));
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));
}

// A bound of more dimensions than the result: an error, where it was a write outside of the strides.
TEST(SettleClaims, AnOperandThatDoesNotBroadcastIsRefused) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{4, {}}});
  const ValueId most = builder.input("most", {{2, {}}, {3, {}}, {4, {}}});
  builder.output(builder.node("Clip", {x, kNoValue, most}, "out"));
  std::string culprit;
  const PerNode<int> all(1, 0);
  EXPECT_THAT(try_region(region_graph(builder.graph, all, 0), false, culprit),
              has_status(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon::cuda
