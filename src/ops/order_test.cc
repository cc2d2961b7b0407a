// TopK, CumSum, ReverseSequence, Scan, Shape, Reorder.
#include "ops/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/control_flow.h"
#include "ops/generate.h"
#include "ops/reorder.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node node_of(std::string op_type, int version) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = version;
  return node;
}

TEST(ReadTopK, KIsAnAttributeBeforeVersion10) {
  Node node = node_of("TopK", 1);
  node.set_int("k", 3);
  const TopKDesc desc = read_top_k(node, {2, 5}).value();
  EXPECT_EQ(desc.k, 3);
  EXPECT_EQ(desc.span.axis, 1);
  EXPECT_TRUE(desc.largest);
  EXPECT_THAT(read_top_k(node, {5, 2}).status().message(), HasSubstr("3 of 2"));
  Node newer = node_of("TopK", 11);
  newer.set_int("largest", 0);
  newer.set_int("axis", -2);
  const TopKDesc smallest = read_top_k(newer, {2, 5}).value();
  EXPECT_FALSE(smallest.k);
  EXPECT_FALSE(smallest.largest);
  EXPECT_EQ(smallest.span.axis, 0);
  EXPECT_EQ(smallest.span.inner, 5);
  EXPECT_FALSE(read_top_k(newer, {}).ok());
  EXPECT_FALSE(check_top_k(-1, 2).ok());
}

TEST(ReadCumulative, ForwardsAndInclusiveByDefault) {
  const CumulativeDesc sum = read_cumulative(node_of("CumSum", 14));
  EXPECT_FALSE(sum.product || sum.exclusive || sum.reverse);
  EXPECT_TRUE(read_cumulative(node_of("CumProd", 26)).product);
}

TEST(ReadReverseSequence, AxesAreZeroAndOne) {
  Node node = node_of("ReverseSequence", 10);
  const ReverseSequenceDesc desc = read_reverse_sequence(node, {5, 2, 3}, {2}).value();
  EXPECT_EQ(desc.time, 5);
  EXPECT_EQ(desc.batch, 2);
  EXPECT_EQ(desc.inner, 3);
  EXPECT_FALSE(read_reverse_sequence(node, {5, 2, 3}, {5}).ok());
  node.set_int("batch_axis", 2);
  EXPECT_THAT(read_reverse_sequence(node, {5, 2, 3}, {3}).status().message(), HasSubstr("batch axis 2"));
}

TEST(ReadScan, ListsThatAreLeftOutMeanAxisZeroForwards) {
  Node node = node_of("Scan", 11);
  node.set_int("num_scan_inputs", 2);
  node.set_ints("scan_input_axes", {-1});
  node.set_ints("scan_input_directions", {0, 1});
  node.outputs = {ValueId(1), ValueId(2)};
  const ScanDesc scan = read_scan(node, 3).value();
  EXPECT_FALSE(scan.batched);
  EXPECT_EQ(scan.states, 1u);
  ASSERT_EQ(scan.inputs.size(), 2u);
  EXPECT_EQ(scan.inputs[0].axis, -1);
  EXPECT_EQ(scan.inputs[1].axis, 0);
  EXPECT_TRUE(scan.inputs[1].reverse);
  ASSERT_EQ(scan.outputs.size(), 1u);
  EXPECT_FALSE(scan.outputs[0].reverse);
  EXPECT_THAT(read_scan(node, 1).status().message(), HasSubstr("is 2 for 1 inputs"));
}

TEST(ReadScan, Version8HasLengthsAndABatch) {
  Node node = node_of("Scan", 8);
  node.set_int("num_scan_inputs", 1);
  node.set_ints("directions", {1});
  const ScanDesc scan = read_scan(node, 3).value();
  EXPECT_TRUE(scan.batched);
  EXPECT_EQ(scan.first_state, 1u);
  EXPECT_EQ(scan.states, 1u);
  EXPECT_TRUE(scan.inputs[0].reverse);
  EXPECT_FALSE(read_scan(node, 1).ok());
}

TEST(ReadShapeInterval, IsClampedToTheRank) {
  Node node = node_of("Shape", 15);
  EXPECT_EQ(read_shape_interval(node, 3).end, 3u);
  node.set_int("start", -2);
  node.set_int("end", -9);
  EXPECT_EQ(read_shape_interval(node, 3).begin, 1u);
  EXPECT_EQ(read_shape_interval(node, 3).end, 0u);
}

TEST(ReadReorder, ReadsItsOwnNodes) {
  for (Layout layout : {Layout::kPlain, Layout::kBlocked8})
    EXPECT_EQ(read_reorder(make_reorder_node(ValueId(0), ValueId(1), layout)).value().to, layout);
  Node node = make_reorder_node(ValueId(0), ValueId(1), Layout::kPlain);
  node.set_string("to", "blocked16");
  EXPECT_THAT(read_reorder(node).status().message(), HasSubstr("\"blocked16\""));
}

}  // namespace
}  // namespace tenon
