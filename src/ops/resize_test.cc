#include "ops/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/window.h"

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

TEST(ResizeAxes, SizesAndScalesSpeakOfTheAxesInTheirOrder) {
  Node node = resize({});
  node.set_ints("axes", {-1, 1});
  const ResizeDesc desc = read_resize(node, 3).value();
  const std::vector<int64_t> x = {2, 4, 5};
  const auto axes = resize_axes(desc, x, {.sizes = {10, 2}}).value();
  EXPECT_EQ(axes[0].out, 2);
  EXPECT_EQ(axes[1].out, 2);
  EXPECT_EQ(axes[1].scale, 0.5);
  EXPECT_EQ(axes[2].out, 10);
  EXPECT_EQ(resize_axes(desc, x, {.scales = {static_cast<double>(0.6f), 1}}).value()[2].out, 3);
}

// The common scale counts an empty axis as 1, and sizes are rounded to the nearest, as in ONNX Runtime.
TEST(ResizeAxes, OneScaleForAllKeepsTheAspectRatio) {
  const ResizeDesc smallest = read_resize(resize({{"keep_aspect_ratio_policy", "not_larger"}}), 2).value();
  const ResizeDesc largest = read_resize(resize({{"keep_aspect_ratio_policy", "not_smaller"}}), 2).value();
  const std::vector<int64_t> x = {4, 5}, empty = {0, 5}, unknown = {kUnknownSize, 5};
  EXPECT_EQ(resize_axes(smallest, x, {.sizes = {6, 10}}).value()[1].out, 8);
  EXPECT_EQ(resize_axes(largest, x, {.sizes = {6, 10}}).value()[0].out, 8);
  EXPECT_EQ(resize_axes(smallest, empty, {.sizes = {0, 10}}).value()[1].out, 5);
  // 25 / 6 times 15 is 62.5, and a little less in float32.
  EXPECT_EQ(resize_axes(smallest, std::vector<int64_t>{6, 15}, {.sizes = {25, 10000}}).value()[1].out, 62);
  EXPECT_EQ(resize_axes(smallest, unknown, {.sizes = {6, 10}}).value()[1].out, kUnknownSize);
}

TEST(ResizeAxes, OddNumbersAreErrors) {
  const ResizeDesc desc = read_resize(resize({}), 2).value();
  const std::vector<int64_t> x = {4, 5}, empty = {0, 5};
  const auto error = [&](std::span<const int64_t> dims, const ResizeValues& values) {
    return std::string(resize_axes(desc, dims, values).status().message());
  };
  EXPECT_THAT(error(x, {}), HasSubstr("0 scales for 2 axes"));
  EXPECT_THAT(error(x, {.sizes = {1}}), HasSubstr("1 sizes for 2 axes"));
  EXPECT_THAT(error(x, {.sizes = {1, -1}}), HasSubstr("-1 is negative"));
  EXPECT_THAT(error(empty, {.sizes = {1, 1}}), HasSubstr("Axis 0 is empty"));
  EXPECT_THAT(error(x, {.scales = {1, 0}}), HasSubstr("scale 0"));
  Node repeated = resize({});
  repeated.set_ints("axes", {1, -1});
  EXPECT_THAT(read_resize(repeated, 2).status().message(), HasSubstr("Axis 1 is repeated"));
}

TEST(ResizeTaps, UnknownModesAreNamed) {
  EXPECT_THAT(read_resize_settings(resize({{"mode", "lanczos"}})).status().message(), HasSubstr("\"lanczos\""));
}

}  // namespace
}  // namespace tenon
