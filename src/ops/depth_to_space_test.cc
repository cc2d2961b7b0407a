#include "ops/depth_to_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node node_of(std::string op_type, int64_t block, int version = 13) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = version;
  node.set_int("blocksize", block);
  return node;
}

TEST(ReadDepthToSpace, SizesOfBothDirections) {
  const Shape deep{1, 12, 2, 3}, wide{1, 3, 4, 6};
  EXPECT_EQ(read_depth_to_space(node_of("DepthToSpace", 2), deep.dims()).value().output(), wide);
  EXPECT_EQ(read_depth_to_space(node_of("SpaceToDepth", 2), wide.dims()).value().output(), deep);
}

// SpaceToDepth got its mode with version 28.
TEST(ReadDepthToSpace, TheModeOrdersTheChannels) {
  const Shape wide{1, 3, 4, 6};
  Node node = node_of("SpaceToDepth", 2, 28);
  EXPECT_TRUE(read_depth_to_space(node, wide.dims()).value().depth_first);
  node.set_string("mode", "CRD");
  EXPECT_FALSE(read_depth_to_space(node, wide.dims()).value().depth_first);
  node.set_string("mode", "crd");
  EXPECT_THAT(read_depth_to_space(node, wide.dims()).status().message(), HasSubstr("\"crd\""));
}

TEST(ReadDepthToSpace, BlocksHaveToDivide) {
  const Shape x{1, 6, 4, 6};
  EXPECT_THAT(read_depth_to_space(node_of("DepthToSpace", 2), x.dims()).status().message(), HasSubstr("channels (6)"));
  EXPECT_THAT(read_depth_to_space(node_of("SpaceToDepth", 3), x.dims()).status().message(), HasSubstr("height (4)"));
  EXPECT_THAT(read_depth_to_space(node_of("SpaceToDepth", 0), x.dims()).status().message(), HasSubstr("(0)"));
}

}  // namespace
}  // namespace tenon
