// Claims are checked, and each granted one becomes one node.
#include "plan/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/testing.h"
#include "ops/shape_inference.h"
#include "plan/testing.h"

namespace tenon {
namespace {

using plan_testing::GraphBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// x -> Sin a -> Cos b -> Add y, and a -> Tan c -> Add y.
GraphBuilder diamond() {
  GraphBuilder b;
  const ValueId x = b.input("x", {{.value = -1, .symbol = "n"}});
  const ValueId a = b.node("Sin", {x}, "a");
  const ValueId cosine = b.node("Cos", {a}, "b");
  const ValueId tangent = b.node("Tan", {a}, "c");
  b.output(b.node("Add", {cosine, tangent}, "y"));
  return b;
}

Claim fused(const std::vector<int>& nodes) { return {.nodes = {nodes.begin(), nodes.end()}, .fused = true}; }

TEST(Partition, AClaimBecomesOneNodeWithItsBody) {
  GraphBuilder b = diamond();
  Partition partition(b.graph);
  ASSERT_THAT(partition.add(EpId(1), "fake", {fused({1, 3})}), is_ok());
  EXPECT_THAT(partition.dropped(), IsEmpty());
  const Result<std::vector<Region>> regions = partition.build(b.graph);
  ASSERT_THAT(regions, is_ok());
  ASSERT_EQ(b.graph.nodes.size(), 3u);
  const Node& region = b.graph.nodes[NodeId(2)];  // it waits for Tan
  ASSERT_TRUE(is_region(region));
  EXPECT_EQ(ep_of(region), EpId(1));
  EXPECT_EQ(region.inputs.size(), 2u);
  ASSERT_EQ(region.outputs.size(), 1u);
  EXPECT_EQ(b.graph.value(region.outputs[0]).name, "y");
  ASSERT_EQ(regions->size(), 1u);
  const Graph& body = (*regions)[0].body;
  EXPECT_EQ(body.nodes.size(), 2u);
  EXPECT_EQ(body.value(body.inputs[0]).name, "a");
  EXPECT_EQ(body.value(body.inputs[1]).name, "c");
  ASSERT_THAT(infer_shapes(b.graph), is_ok());
  EXPECT_EQ(b.graph.value(region.outputs[0]).type_text(), "float32[n]");
  // Whoever asks afterwards which nodes were taken means those of the graph before.
  const std::vector<bool> taken(partition.taken().begin(), partition.taken().end());
  EXPECT_THAT(taken, ElementsAre(false, true, false, true));
}

// The kernel of one node writes what the node names; a compiled region only what is read.
TEST(Partition, OutputsThatNobodyReads) {
  for (const bool is_fused : {false, true}) {
    GraphBuilder b;
    const ValueId x = b.input("x", {{.value = 6}});
    const ValueId y = b.node("Split", {x}, "y");
    b.graph.nodes[NodeId(0)].outputs.push_back(b.graph.add_value(b.graph.value(y)));
    b.output(y);
    Partition partition(b.graph);
    ASSERT_THAT(partition.add(EpId(1), "fake", {{.nodes = {NodeId(0)}, .fused = is_fused}}), is_ok());
    ASSERT_THAT(partition.build(b.graph), is_ok());
    EXPECT_EQ(b.graph.nodes[NodeId(0)].outputs.size(), is_fused ? 1u : 2u);
  }
}

TEST(Partition, ARegionThatWouldDependOnItselfIsDropped) {
  GraphBuilder b = diamond();
  Partition partition(b.graph);
  ASSERT_THAT(partition.add(EpId(1), "fake", {fused({0, 1, 3})}), is_ok());
  EXPECT_THAT(partition.dropped(), ElementsAre(HasSubstr("it would depend on itself through Tan \"Tan_c\"")));
  EXPECT_THAT(partition.grants(), IsEmpty());
  EXPECT_FALSE(partition.taken()[NodeId(0)]);
}

// Each of the two is convex for itself; together they would wait for each other.
TEST(Partition, TwoRegionsThatWouldWaitForEachOtherAreNotBothGranted) {
  GraphBuilder b;
  const ValueId x = b.input("x", {{.value = 2}});
  const ValueId a1 = b.node("Sin", {x}, "a1");
  b.output(b.node("Cos", {a1}, "b1"));
  const ValueId b2 = b.node("Cos", {x}, "b2");
  b.output(b.node("Sin", {b2}, "a2"));
  Partition partition(b.graph);
  ASSERT_THAT(partition.add(EpId(1), "first", {fused({0, 3})}), is_ok());
  ASSERT_THAT(partition.add(EpId(2), "second", {fused({1, 2})}), is_ok());
  EXPECT_EQ(partition.grants().size(), 1u);
  EXPECT_THAT(partition.dropped(), ElementsAre(HasSubstr("\"second\"")));
  EXPECT_THAT(partition.build(b.graph), is_ok());
}

TEST(Partition, ClaimsOfWhatIsNotThereOrNotFreeAreDropped) {
  GraphBuilder b = diamond();
  Partition partition(b.graph);
  ASSERT_THAT(
      partition.add(EpId(1), "first", {fused({0}), fused({0, 1}), fused({7}), fused({-1}), fused({2, 2}), fused({})}),
      is_ok());
  ASSERT_THAT(partition.add(EpId(2), "second", {fused({0})}), is_ok());
  EXPECT_EQ(partition.grants().size(), 1u);
  EXPECT_THAT(partition.dropped(),
              ElementsAre(HasSubstr("Sin \"Sin_a\" is already claimed"), HasSubstr("node 7 does not exist"),
                          HasSubstr("node -1 does not exist"), HasSubstr("names Tan \"Tan_c\" twice"),
                          HasSubstr("no nodes"), HasSubstr("EP \"second\"")));
}

TEST(Partition, OneKernelForSeveralNodesIsTheEpsError) {
  GraphBuilder b = diamond();
  Partition partition(b.graph);
  EXPECT_THAT(partition.add(EpId(1), "liar", {{.nodes = {NodeId(0), NodeId(1)}}}),
              has_status(StatusCode::kDeviceError, HasSubstr("\"liar\" claims 2 nodes for one kernel")));
}

TEST(Partition, ConstantsComeAfterTheOtherInputsUnlessTheEpKeepsThem) {
  for (bool drop : {false, true}) {
    GraphBuilder b;
    const ValueId c = b.constant("c", {1, 2});
    const ValueId x = b.input("x", {{.value = 2}}, DataType::kInt64);
    b.output(b.node("Add", {c, x}, "y", DataType::kInt64));
    Partition partition(b.graph);
    ASSERT_THAT(partition.add(EpId(1), "fake", {{.nodes = {NodeId(0)}, .fused = true, .drop_constants = drop}}),
                is_ok());
    const Result<std::vector<Region>> regions = partition.build(b.graph);
    ASSERT_THAT(regions, is_ok());
    EXPECT_EQ(b.graph.nodes[NodeId(0)].inputs, drop ? std::vector<ValueId>({x}) : std::vector<ValueId>({x, c}));
    const Graph& body = (*regions)[0].body;
    EXPECT_EQ(body.inputs.size(), drop ? 1u : 2u);
    EXPECT_TRUE(body.value(body.nodes[NodeId(0)].inputs[0]).constant);
  }
}

}  // namespace
}  // namespace tenon
