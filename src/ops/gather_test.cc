#include "ops/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node node_of(std::string op_type, int version = 13) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = version;
  return node;
}

TEST(ReadGather, IndicesTakeThePlaceOfTheAxis) {
  Node node = node_of("Gather");
  EXPECT_EQ(read_gather(node, {5, 4}, {2, 3}).value().output, (Shape{2, 3, 4}));
  node.set_int("axis", -1);
  const GatherDesc desc = read_gather(node, {5, 4}, {}).value();
  EXPECT_EQ(desc.output, (Shape{5}));
  EXPECT_EQ(desc.span.outer, 5);
  EXPECT_EQ(desc.count, 1);
  EXPECT_THAT(read_gather(node, {}, {1}).status().message(), HasSubstr("scalar"));
  node.set_int("axis", 2);
  EXPECT_THAT(read_gather(node, {5, 4}, {1}).status().message(), HasSubstr("out of range"));
  EXPECT_THAT(read_gather(node_of("Gather"), {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}).status().message(),
              HasSubstr("rank 13"));
}

TEST(ReadElementsAxis, IndicesAreNoLongerThanTheDataBesideTheAxis) {
  Node node = node_of("ScatterElements", 18);
  node.set_int("axis", -2);
  EXPECT_EQ(read_elements_axis(node, {2, 3}, {9, 3}).value(), 0);
  EXPECT_FALSE(read_elements_axis(node, {2, 3}, {2, 4}).ok());
  EXPECT_FALSE(read_elements_axis(node, {2, 3}, {2}).ok());
}

TEST(ReadGatherNd, TuplesNameSlices) {
  Node node = node_of("GatherND");
  node.set_int("batch_dims", 1);
  const GatherNdDesc desc = read_gather_nd(node, {2, 3, 4}, {2, 5, 1}).value();
  EXPECT_EQ(desc.output, (Shape{2, 5, 4}));
  EXPECT_EQ(desc.batch, 2);
  EXPECT_EQ(desc.tuples, 5);
  EXPECT_EQ(desc.slice, 4);
  EXPECT_THAT(read_gather_nd(node, {2, 3, 4}, {3, 5, 1}).status().message(), HasSubstr("differ in batch dimension 0"));
  EXPECT_THAT(read_gather_nd(node, {2, 3, 4}, {2, 5, 3}).status().message(), HasSubstr("address 3 dimensions"));
  EXPECT_THAT(read_gather_nd(node, {2, 3, 4}, {2}).status().message(), HasSubstr("batch_dims 1"));
  EXPECT_FALSE(read_gather_nd(node, {2, 3, 4}, {}).ok());
}

TEST(ReadGatherNd, ATupleOfNoElementsIsForScatterNd) {
  EXPECT_FALSE(read_gather_nd(node_of("GatherND"), {2, 4}, {3, 0}).ok());
  const GatherNdDesc desc = read_gather_nd(node_of("ScatterND"), {2, 4}, {3, 0}).value();
  EXPECT_EQ(desc.output, (Shape{3, 2, 4}));
  EXPECT_EQ(desc.slice, 8);
}

TEST(ReadScatterReduction, IsNoneWhereItIsLeftOut) {
  EXPECT_EQ(read_scatter_reduction(node_of("Scatter", 9)).value(), ScatterReduction::kNone);
  Node node = node_of("ScatterND", 18);
  EXPECT_EQ(read_scatter_reduction(node).value(), ScatterReduction::kNone);
  node.set_string("reduction", "max");
  EXPECT_EQ(read_scatter_reduction(node).value(), ScatterReduction::kMax);
  EXPECT_EQ(scatter_reduction_name(ScatterReduction::kMax), "max");
  node.set_string("reduction", "mean");
  EXPECT_THAT(read_scatter_reduction(node).status().message(), HasSubstr("\"mean\""));
}

TEST(OneHotShape, InsertsTheDepth) {
  Node node = node_of("OneHot", 11);
  EXPECT_EQ(read_one_hot_axis(node, 2).value(), 2);
  node.set_int("axis", -3);
  EXPECT_EQ(one_hot_shape({4, 5}, read_one_hot_axis(node, 2).value(), 7).value(), (Shape{7, 4, 5}));
  EXPECT_FALSE(one_hot_shape({4, 5}, 0, 0).ok());
  EXPECT_FALSE(one_hot_shape({4, 5}, 0, INT64_MAX).ok());
}

TEST(ReadCompressAxis, IsFlatWhereItIsLeftOut) {
  Node node = node_of("Compress", 11);
  EXPECT_EQ(read_compress_axis(node, 2).value(), std::nullopt);
  node.set_int("axis", -1);
  EXPECT_EQ(read_compress_axis(node, 2).value(), 1);
  EXPECT_FALSE(read_compress_axis(node, 0).ok());
}

}  // namespace
}  // namespace tenon
