#include "plan/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "ops/shape_inference.h"
#include "plan/testing.h"

namespace tenon {
namespace {

using plan_testing::GraphBuilder;

// y = Neg(x[start:end])
GraphBuilder sliced() {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {Dim{.value = 8}});
  const ValueId start = builder.input("start", {Dim{.value = 1}}, DataType::kInt64);
  const ValueId end = builder.input("end", {Dim{.value = 1}}, DataType::kInt64);
  builder.output(builder.node("Neg", {builder.node("Slice", {x, start, end}, "part")}, "y"));
  return builder;
}

TEST(CutGraph, ASizeFromAValueIsPlannedForTheValue) {
  GraphBuilder builder = sliced();
  ASSERT_THAT(infer_shapes(builder.graph), is_ok());
  const OutputSlot slots[] = {OutputSlot(0)};
  const Result<CutGraph> cut = cut_graph(builder.graph, slots);
  ASSERT_THAT(cut, is_ok());
  ASSERT_NE(cut->cut, nullptr);
  int constants = 0;
  for (const CutValue& value : cut->cut->values) constants += value.as_constant ? 1 : 0;
  EXPECT_EQ(constants, 2);
  EXPECT_TRUE(cut->now.nodes.empty());
}

// A loop's body would be planned for every iteration's number.
TEST(CutGraph, WhereValuesVaryOnlyTheSizeCounts) {
  GraphBuilder builder = sliced();
  ASSERT_THAT(infer_shapes(builder.graph), is_ok());
  const OutputSlot slots[] = {OutputSlot(0)};
  const Result<CutGraph> cut = cut_graph(builder.graph, slots, /*values_vary=*/true);
  ASSERT_THAT(cut, is_ok());
  ASSERT_NE(cut->cut, nullptr);
  ASSERT_EQ(cut->cut->values.size(), 1u);
  EXPECT_EQ(cut->cut->values[0].name, "part");
  EXPECT_FALSE(cut->cut->values[0].as_constant);
  EXPECT_EQ(cut->now.nodes.size(), 1u);
}

}  // namespace
}  // namespace tenon
