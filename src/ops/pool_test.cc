#include "ops/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node pool_node(std::string op_type, std::vector<int64_t> kernel, int version = 11) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = version;
  if (!kernel.empty()) node.set_ints("kernel_shape", std::move(kernel));
  return node;
}

TEST(ReadPool, CeilModeDropsWindowsThatStartInThePadding) {
  Node node = pool_node("MaxPool", {3});
  node.set_ints("strides", {2});
  EXPECT_EQ(read_pool(node, {1, 1, 6}).value().axis(0).out, 2);
  node.set_int("ceil_mode", 1);
  EXPECT_EQ(read_pool(node, {1, 1, 6}).value().axis(0).out, 3);
  node.set_ints("kernel_shape", {2});
  node.set_ints("pads", {0, 1});
  EXPECT_EQ(read_pool(node, {1, 1, 6}).value().axis(0).out, 3);
}

// As ONNX Runtime; a convolution refuses all of these.
TEST(ReadPool, AKernelBeyondTheInputIsCutOrThereIsNoWindow) {
  Node node = pool_node("AveragePool", {4});
  node.set_ints("strides", {2});
  for (int ceil_mode : {0, 1}) {
    node.set_int("ceil_mode", ceil_mode);
    EXPECT_EQ(read_pool(node, {1, 1, 3}).value().axis(0).out, 1);
    EXPECT_EQ(read_pool(node, {1, 1, 2}).value().axis(0).out, 0);
    EXPECT_EQ(read_pool(node, {1, 1, 1}).value().axis(0).out, 0);
    EXPECT_THAT(read_pool(node, {1, 1, 0}).status().message(), HasSubstr("larger than the padded input (0 + 0 + 0)"));
  }
}

TEST(ReadPool, EachOperatorHasItsOwnAttributes) {
  Node average = pool_node("AveragePool", {2});
  average.set_int("count_include_pad", 1);
  EXPECT_TRUE(read_pool(average, {1, 1, 6}).value().count_include_pad);
  Node most = pool_node("MaxPool", {2});
  most.set_int("storage_order", 1);
  EXPECT_TRUE(read_pool(most, {1, 1, 6}).value().column_major);
  Node norm = pool_node("LpPool", {2});
  EXPECT_EQ(read_pool(norm, {1, 1, 6}).value().p, 2);
  norm.set_int("p", 0);
  EXPECT_THAT(read_pool(norm, {1, 1, 6}).status().message(), HasSubstr("\"p\" (0)"));
}

// Version 1 has a float as the order of the norm.
TEST(ReadPool, TheNormOfVersion1MayBeAFraction) {
  Node norm = pool_node("LpPool", {2}, 1);
  EXPECT_EQ(read_pool(norm, {1, 1, 6}).value().p, 2);
  norm.set_float("p", 1.5f);
  EXPECT_EQ(read_pool(norm, {1, 1, 6}).value().p, 1.5);
}

TEST(ReadPool, TheWindowOfAGlobalPoolIsTheImage) {
  const PoolDesc pool = read_pool(pool_node("GlobalAveragePool", {}, 1), {2, 3, 4, 5}).value();
  EXPECT_EQ(pool.output(), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(pool.window.kernel_count(), 20);
  EXPECT_EQ(pool.kind, PoolDesc::Kind::kAverage);
  EXPECT_THAT(read_pool(pool_node("GlobalMaxPool", {}, 1), {2, 3}).status().message(), HasSubstr("rank 3 or more"));
}

TEST(ReadPool, PadsAreSmallerThanTheirWindow) {
  Node node = pool_node("MaxPool", {2});
  node.set_ints("pads", {0, 2});
  EXPECT_THAT(read_pool(node, {1, 1, 6}).status().message(), HasSubstr("the pad 2 is not smaller"));
}

TEST(ReadPool, TheKernelHasASizeForEachAxis) {
  EXPECT_THAT(read_pool(pool_node("MaxPool", {}), {1, 1, 6}).status().message(), HasSubstr("has 0 values"));
  EXPECT_THAT(read_pool(pool_node("MaxPool", {2, 2}), {1, 1, 6}).status().message(), HasSubstr("has 2 values"));
  EXPECT_THAT(read_pool(pool_node("MaxPool", {0}), {1, 1, 6}).status().message(), HasSubstr("contains 0"));
}

}  // namespace
}  // namespace tenon
