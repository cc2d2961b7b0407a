#include "ops/resize_taps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node resize(std::initializer_list<std::pair<const char*, const char*>> attributes) {
  Node node;
  node.op_type = "Resize";
  node.since_version = 18;
  for (const auto& [name, value] : attributes) node.set_string(name, value);
  return node;
}

ResizeTaps taps_of(const Node& node, const ResizeAxis& axis) {
  return make_resize_taps(*read_resize_settings(node), axis);
}

TEST(ResizeTaps, EachRoundingOfAHalf) {
  const ResizeAxis axis{.in = 4, .out = 2, .scale = 0.5};  // reads at 0.5 and 2.5
  EXPECT_THAT(taps_of(resize({}), axis).index, ElementsAre(0, 2));
  EXPECT_THAT(taps_of(resize({{"nearest_mode", "round_prefer_ceil"}}), axis).index, ElementsAre(1, 3));
  EXPECT_THAT(taps_of(resize({{"nearest_mode", "floor"}}), axis).index, ElementsAre(0, 2));
  EXPECT_THAT(taps_of(resize({{"nearest_mode", "ceil"}}), axis).index, ElementsAre(1, 3));
}

// As version 10 of ONNX's own case (test_resize_downsample_nearest) has it.
TEST(ResizeTaps, Resize10RoundsUpToShrink) {
  Node node = resize({});
  node.since_version = 10;
  EXPECT_THAT(taps_of(node, {.in = 4, .out = 2, .scale = 0.6}).index, ElementsAre(0, 2));
  EXPECT_THAT(taps_of(node, {.in = 2, .out = 3, .scale = 1.5}).index, ElementsAre(0, 0, 1));
}

TEST(ResizeTaps, AHalfIsOneThoughItsScaleWasRounded) {
  const ResizeAxis axis{.in = 6, .out = 4, .scale = static_cast<double>(0.7F)};  // reads at 4.5 and a little, last
  EXPECT_THAT(taps_of(resize({}), axis).index, ElementsAre(0, 2, 3, 4));
}

TEST(ResizeTaps, NeighboursAreWeightedByTheirDistance) {
  const ResizeTaps taps = taps_of(resize({{"mode", "linear"}}), {.in = 2, .out = 4, .scale = 2});
  EXPECT_EQ(taps.width, 2);
  // Beyond the edge it is the edge, whole.
  EXPECT_THAT(taps.index, ElementsAre(0, 1, 0, 1, 0, 1, 1, 1));
  EXPECT_THAT(taps.weight, ElementsAre(1, 0, 0.75, 0.25, 0.25, 0.75, 1, 0));
}

TEST(ResizeTaps, AFilterCoversAllThatOneElementStandsFor) {
  Node node = resize({{"mode", "linear"}});
  node.set_int("antialias", 1);
  const ResizeTaps taps = taps_of(node, {.in = 8, .out = 2, .scale = 0.25});
  ASSERT_EQ(taps.width, 9);
  double sum = 0;
  for (size_t k = 0; k < 9; ++k) sum += taps.weight[k];
  EXPECT_THAT(sum, DoubleNear(1, 1e-12));
}

TEST(ResizeTaps, ACropReadsOutsideOfItsInput) {
  const Node node = resize({{"mode", "linear"}, {"coordinate_transformation_mode", "tf_crop_and_resize"}});
  const ResizeTaps taps = taps_of(node, {.in = 4, .out = 3, .scale = 0.75, .roi_start = 0.5, .roi_end = 1.5});
  EXPECT_THAT(taps.outside, ElementsAre(false, false, true));
}

TEST(ResizeTaps, AnAxisThatKeepsItsSizeIsCopied) {
  const ResizeTaps taps = taps_of(resize({{"mode", "cubic"}}), {.in = 3, .out = 3});
  EXPECT_EQ(taps.width, 1);
  EXPECT_THAT(taps.index, ElementsAre(0, 1, 2));
  EXPECT_THAT(taps.weight, Each(DoubleEq(1)));
}

TEST(ResizeTaps, UnknownModesAreNamed) {
  EXPECT_THAT(read_resize_settings(resize({{"mode", "lanczos"}})).status().message(), HasSubstr("\"lanczos\""));
}

}  // namespace
}  // namespace tenon
