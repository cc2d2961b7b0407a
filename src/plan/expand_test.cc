// Operators become those that they are put together of, also beside what an EP runs.
#include "plan/expand.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing.h"
#include "ops/shape_inference.h"
#include "plan/regions.h"
#include "plan/testing.h"

namespace tenon {
namespace {

using plan_testing::GraphBuilder;

std::vector<Dim> dims(std::initializer_list<int64_t> sizes) {
  std::vector<Dim> made;
  for (int64_t size : sizes) made.push_back({size, {}});
  return made;
}

ValueId contrib(GraphBuilder& builder, const char* op_type, std::vector<ValueId> inputs, const char* output) {
  const ValueId made = builder.node(op_type, std::move(inputs), output);
  builder.last().domain = "com.microsoft";
  builder.last().since_version = 1;
  return made;
}

const Node* find_node(const Graph& graph, const char* op_type) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op_type == op_type; });
  return found != graph.nodes.end() ? &*found : nullptr;
}

// Nothing is known of what QuickGelu makes before it is expanded, nor of what a region makes of that.
TEST(ExpandOperators, ARegionBehindAnExpandedNodeHasItsShape) {
  GraphBuilder builder;
  builder.graph.opsets.push_back({"com.microsoft", 1});
  const ValueId x = builder.input("x", dims({2, 3, 4}));
  const ValueId gelu = contrib(builder, "QuickGelu", {x}, "gelu");
  const ValueId sine = builder.node("Sin", {gelu}, "sine");
  const ValueId w = builder.input("w", dims({3, 4, 5}));
  builder.output(contrib(builder, "FusedMatMul", {sine, w}, "y"));
  builder.last().set_int("transBatchA", 1);
  ASSERT_THAT(infer_shapes(builder.graph), is_ok());
  Partition partition(builder.graph);
  ASSERT_THAT(partition.add(EpId(1), "fake", {{.nodes = {NodeId(1)}, .fused = true}}), is_ok());
  ASSERT_THAT(partition.build(builder.graph), is_ok());
  ASSERT_THAT(expand_operators(builder.graph), is_ok());
  EXPECT_EQ(builder.graph.value(sine).type_text(), "float32[2,3,4]");
  EXPECT_EQ(builder.graph.value(builder.graph.outputs[0]).type_text(), "float32[3,2,5]");
  EXPECT_NE(find_node(builder.graph, "Transpose"), nullptr);
}

TEST(ExpandOperators, ABatchOfAnyRankIsTransposedByAnEinsum) {
  for (const int64_t matrix : {0, 1}) {
    GraphBuilder builder;
    builder.graph.opsets.push_back({"com.microsoft", 1});
    const ValueId x = builder.value("x"), w = builder.value("w");
    builder.graph.inputs = {x, w};
    builder.output(contrib(builder, "FusedMatMul", {x, w}, "y"));
    builder.last().set_int("transBatchA", 1);
    builder.last().set_int("transA", matrix);
    ASSERT_THAT(expand_operators(builder.graph), is_ok());
    const Node* const turn = find_node(builder.graph, "Einsum");
    ASSERT_NE(turn, nullptr);
    EXPECT_EQ(Attributes(*turn).text("equation"), matrix != 0 ? "i...j->...ji" : "i...j->...ij");
  }
}

}  // namespace
}  // namespace tenon
