#include "demo/detect.h"

#include <gtest/gtest.h>

namespace tenon::demo {
namespace {

struct Map {
  int width;
  int height;
  std::vector<float> values;

  Map(int w, int h) : width(w), height(h), values(static_cast<size_t>(w) * static_cast<size_t>(h), 0.0F) {}
  void fill(int x0, int y0, int x1, int y1, float value) {
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) values[static_cast<size_t>(y * width + x)] = value;
  }
};

TEST(Detector, AnEmptyMapHasNoBoxes) {
  const Map map(64, 32);
  Detector detector;
  EXPECT_TRUE(detector.find(map.values.data(), map.width, map.height).empty());
}

TEST(Detector, GrowsARectangleByItsAreaOverItsPerimeter) {
  Map map(200, 100);
  map.fill(50, 40, 110, 60, 0.9F);
  Detector detector;
  const auto boxes = detector.find(map.values.data(), map.width, map.height);
  ASSERT_EQ(boxes.size(), 1U);
  const float grow = 60.0F * 20.0F * 1.6F / (2 * (60.0F + 20.0F));
  EXPECT_FLOAT_EQ(boxes[0].x0, 50 - grow);
  EXPECT_FLOAT_EQ(boxes[0].y0, 40 - grow);
  EXPECT_FLOAT_EQ(boxes[0].x1, 110 + grow);
  EXPECT_FLOAT_EQ(boxes[0].y1, 60 + grow);
  EXPECT_NEAR(boxes[0].score, 0.9F, 1e-6);
}

TEST(Detector, BoxesEndAtTheFrame) {
  Map map(80, 40);
  map.fill(0, 30, 80, 40, 1.0F);
  Detector detector;
  const auto boxes = detector.find(map.values.data(), map.width, map.height);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(boxes[0].x0, 0);
  EXPECT_EQ(boxes[0].x1, 80);
  EXPECT_EQ(boxes[0].y1, 40);
}

// Two arms that meet only below are one component: the union of two runs that had different roots.
TEST(Detector, JoinsArmsThatMeetLater) {
  Map map(100, 60);
  map.fill(10, 10, 20, 40, 0.9F);
  map.fill(80, 10, 90, 40, 0.9F);
  map.fill(10, 40, 90, 50, 0.9F);
  Detector detector({.min_score = 0.1F});
  EXPECT_EQ(detector.find(map.values.data(), map.width, map.height).size(), 1U);
}

TEST(Detector, CornersTouch) {
  Map map(40, 40);
  map.fill(5, 5, 15, 15, 1.0F);
  map.fill(15, 15, 25, 25, 1.0F);
  Detector detector({.min_score = 0.1F});
  EXPECT_EQ(detector.find(map.values.data(), map.width, map.height).size(), 1U);
}

TEST(Detector, LeavesOutWeakAndTinySpots) {
  Map map(100, 40);
  map.fill(5, 5, 40, 20, 0.4F);   // above the threshold, below the score
  map.fill(50, 5, 90, 7, 0.99F);  // two pixels high
  map.fill(50, 20, 90, 30, 0.99F);
  Detector detector;
  const auto boxes = detector.find(map.values.data(), map.width, map.height);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_GT(boxes[0].y0, 10);
}

TEST(Detector, OrdersFromTopToBottomAndKeepsNothingOfTheLastMap) {
  Map map(100, 60);
  map.fill(10, 40, 60, 50, 1.0F);
  map.fill(30, 5, 80, 15, 1.0F);
  Detector detector;
  for (int round = 0; round < 2; ++round) {
    const auto boxes = detector.find(map.values.data(), map.width, map.height);
    ASSERT_EQ(boxes.size(), 2U);
    EXPECT_LT(boxes[0].y0, boxes[1].y0);
  }
}

// NaN is no text, and must not end the search.
TEST(Detector, NotANumberIsNoText) {
  Map map(100, 60);
  map.fill(0, 0, 100, 60, std::numeric_limits<float>::quiet_NaN());
  map.fill(30, 5, 80, 15, 1.0F);
  Detector detector;
  EXPECT_EQ(detector.find(map.values.data(), map.width, map.height).size(), 1U);
}

TEST(Box, OverlapIsTheIntersectionOverTheUnion) {
  EXPECT_FLOAT_EQ(intersection_over_union({0, 0, 10, 10}, {5, 0, 15, 10}), 1.0F / 3);
  EXPECT_EQ(intersection_over_union({0, 0, 10, 10}, {10, 0, 20, 10}), 0);
  EXPECT_EQ(intersection_over_union({}, {}), 0);
}

}  // namespace
}  // namespace tenon::demo
