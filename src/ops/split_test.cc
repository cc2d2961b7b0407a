// Split, Concat and Transpose.
#include "ops/split.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/concat.h"
#include "ops/transpose.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node node_of(std::string op_type, int version, size_t outputs = 1) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = version;
  node.inputs = {ValueId(0)};
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(ValueId(i + 1));
  return node;
}

TEST(ReadSplit, PartsAreEqualOrStated) {
  Node node = node_of("Split", 11, 3);
  const SplitDesc equal = read_split(node, {6, 2}).value();
  EXPECT_THAT(equal.sizes, ElementsAre(2, 2, 2));
  EXPECT_EQ(equal.span.length, 6);
  EXPECT_EQ(equal.span.inner, 2);
  EXPECT_THAT(read_split(node, {7, 2}).status().message(), HasSubstr("does not split into 3"));
  node.set_ints("split", {1, 0, 5});
  EXPECT_THAT(read_split(node, {6, 2}).value().sizes, ElementsAre(1, 0, 5));
  EXPECT_THAT(read_split(node, {7, 2}).status().message(), HasSubstr("sum to 6 for an axis of 7"));
  node.set_ints("split", {1, -1, 6});
  EXPECT_THAT(read_split(node, {6, 2}).status().message(), HasSubstr("-1"));
}

TEST(ReadSplit, NumOutputsAllowsASmallerLastPart) {
  Node node = node_of("Split", 18, 3);
  node.set_int("num_outputs", 3);
  node.set_int("axis", -1);
  EXPECT_THAT(read_split(node, {2, 7}).value().sizes, ElementsAre(3, 3, 1));
  EXPECT_THAT(read_split(node, {2, 4}).value().sizes, ElementsAre(2, 2, 0));
  node.set_int("num_outputs", 2);
  EXPECT_THAT(read_split(node, {2, 4}).status().message(), HasSubstr("is 2 for 3 outputs"));
}

TEST(ReadSplit, SizesOfAnInputAreLeftToTheRun) {
  Node node = node_of("Split", 13, 2);
  node.inputs = {ValueId(0), ValueId(1)};
  EXPECT_TRUE(read_split(node, {5}).value().sizes.empty());
  EXPECT_TRUE(check_split_sizes(std::array<int64_t, 2>{2, 3}, 2, 5).ok());
  EXPECT_FALSE(check_split_sizes(std::array<int64_t, 2>{2, 4}, 2, 5).ok());
  EXPECT_FALSE(check_split_sizes(std::array<int64_t, 1>{5}, 2, 5).ok());
  EXPECT_FALSE(check_split_sizes(std::array<int64_t, 2>{INT64_MAX, INT64_MAX}, 2, 5).ok());
}

TEST(ReadConcat, SizesBesideTheAxisAreEqual) {
  Node node = node_of("Concat", 13);
  node.set_int("axis", -2);
  const ConcatDesc desc = read_concat(node, std::array{Shape{2, 3, 4}, Shape{2, 0, 4}, Shape{2, 5, 4}}).value();
  EXPECT_EQ(desc.output, (Shape{2, 8, 4}));
  EXPECT_EQ(desc.span.axis, 1);
  EXPECT_EQ(desc.span.inner, 4);
  EXPECT_THAT(desc.lengths, ElementsAre(3, 0, 5));
  EXPECT_THAT(read_concat(node, std::array{Shape{2, 3}, Shape{2, 4}}).status().message(),
              HasSubstr("differ in dimension 1, and the axis is 0"));
  EXPECT_THAT(read_concat(node, std::array{Shape{2, 3}, Shape{2}}).status().message(), HasSubstr("different rank"));
  EXPECT_THAT(read_concat(node, std::array{Shape{}}).status().message(), HasSubstr("Scalars"));
}

TEST(ReadPerm, IsReversedWhereItIsLeftOut) {
  Node node = node_of("Transpose", 13);
  EXPECT_THAT(read_perm(node, 3).value(), ElementsAre(2, 1, 0));
  EXPECT_THAT(read_perm(node, 0).value(), ElementsAre());
  node.set_ints("perm", {1, 0, 2});
  const std::vector<int64_t> perm = read_perm(node, 3).value();
  EXPECT_EQ(transposed_shape({2, 3, 4}, perm), (Shape{3, 2, 4}));
  EXPECT_FALSE(moves_only_ones(perm, {2, 3, 4}));
  EXPECT_TRUE(moves_only_ones(perm, {1, 3, 4}));
  EXPECT_THAT(read_perm(node, 2).status().message(), HasSubstr("3 values for rank 2"));
  for (int64_t bad : {0, 3, -1}) {
    node.set_ints("perm", {1, 0, bad});
    EXPECT_THAT(read_perm(node, 3).status().message(), HasSubstr("no permutation")) << bad;
  }
}

}  // namespace
}  // namespace tenon
