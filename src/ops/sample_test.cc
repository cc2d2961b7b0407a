#include "ops/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Result<GridSampleDesc> read(const Shape& grid, int version, const char* mode = nullptr, const char* padding = nullptr) {
  Node node;
  node.op_type = "GridSample";
  node.since_version = version;
  if (mode != nullptr) node.set_string("mode", mode);
  if (padding != nullptr) node.set_string("padding_mode", padding);
  return read_grid_sample(node, Shape{1, 3, 4, 4}.dims(), grid.dims());
}

TEST(ReadGridSample, BothSpellingsOfAModeAreTheSame) {
  for (const int version : {16, 20}) EXPECT_EQ(read({1, 2, 2, 2}, version).value().mode, GridSampleDesc::Mode::kLinear);
  EXPECT_EQ(read({1, 2, 2, 2}, 16, "bicubic").value().mode, GridSampleDesc::Mode::kCubic);
  EXPECT_EQ(read({1, 2, 2, 2}, 20, "cubic").value().mode, GridSampleDesc::Mode::kCubic);
}

TEST(ReadGridSample, GridsThatDoNotFitAreErrors) {
  EXPECT_THAT(read({1, 2, 2}, 16).status().message(), HasSubstr("same rank"));
  EXPECT_THAT(read({1, 2, 2, 3}, 16).status().message(), HasSubstr("3 coordinates a position for 2"));
  EXPECT_THAT(read({2, 2, 2, 2}, 16).status().message(), HasSubstr("1 images and the grid 2"));
}

TEST(ReadGridSample, UnknownModesAreNamed) {
  EXPECT_THAT(read({1, 2, 2, 2}, 16, "area").status().message(), HasSubstr("\"area\""));
  EXPECT_THAT(read({1, 2, 2, 2}, 16, "nearest", "wrap").status().message(), HasSubstr("\"wrap\""));
}

}  // namespace
}  // namespace tenon
