#include "demo/page.h"

#include <gtest/gtest.h>

#include "demo/font.h"
#include "demo/picture.h"

namespace tenon::demo {
namespace {

TEST(Font, DrawsInsideItsHeightWithProportionalWidths) {
  const Bitmap wide = draw_text("WWWW", 30);
  const Bitmap narrow = draw_text("IIII", 30);
  EXPECT_EQ(wide.height, 30);
  EXPECT_EQ(wide.coverage.size(), static_cast<size_t>(wide.width) * 30);
  EXPECT_GT(wide.width, narrow.width * 2);
}

// Every printable character of the page has strokes: none falls back to a space.
TEST(Font, NoCharacterOfThePageIsBlank) {
  for (const char character : std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,:-/!?'")) {
    const Bitmap bitmap = draw_text(std::string(1, character), 32);
    const auto ink = std::count_if(bitmap.coverage.begin(), bitmap.coverage.end(), [](uint8_t c) { return c > 128; });
    EXPECT_GT(ink, 4) << character;
  }
}

TEST(Page, MovesSoFarThatAnOldFramesBoxesDoNotMatch) {
  const Page page;
  for (uint64_t frame = 0; frame < 40; ++frame) {
    const std::vector<Box> now = page.visible_boxes(frame);
    EXPECT_GE(now.size(), 9U) << frame;
    for (const uint64_t later : {1, 2, 3}) {
      const std::vector<Box> old = page.visible_boxes(frame + later);
      EXPECT_LE(count_matches(now, old, 0.5F), 1) << frame << " and " << later << " later";
    }
  }
}

TEST(Page, EveryLineIsVisibleOrCut) {
  const Page page;
  for (uint64_t frame = 0; frame < 40; ++frame)
    EXPECT_LE(page.visible_boxes(frame).size() + page.cut_boxes(frame).size(), page.line_count()) << frame;
  EXPECT_FALSE(page.cut_boxes(3).empty());
}

// The boxes hold the ink: outside of them, and of the lines that an edge cuts, there is only paper.
TEST(Page, BoxesHoldTheInk) {
  const Page page;
  const std::vector<float> tensor = page.draw(5);
  std::vector<Box> boxes = page.visible_boxes(5);
  for (const Box& box : page.cut_boxes(5)) boxes.push_back(box);
  const float paper = (kPaper[1] / 255.0F - kMean[1]) / kDeviation[1];
  size_t ink = 0;
  for (int y = 0; y < kFrameHeight; ++y) {
    for (int x = 0; x < kFrameWidth; ++x) {
      const float value = tensor[kFramePixels + static_cast<size_t>(y) * kFrameWidth + static_cast<size_t>(x)];
      if (value > paper - 1.5F) continue;
      ++ink;
      const auto fx = static_cast<float>(x);
      const auto fy = static_cast<float>(y);
      EXPECT_TRUE(std::any_of(
          boxes.begin(), boxes.end(),
          [&](const Box& box) { return fx >= box.x0 - 1 && fx <= box.x1 && fy >= box.y0 - 1 && fy <= box.y1; }))
          << x << ", " << y;
    }
  }
  EXPECT_GT(ink, 10'000U);
}

TEST(Picture, TurnsTheTensorBackIntoColours) {
  const Page page;
  const std::vector<float> tensor = page.draw(0);
  const Picture picture(tensor.data());
  const uint8_t* corner = picture.pixel(kFrameWidth - 1, 0);
  EXPECT_EQ(corner[0], static_cast<uint8_t>(kPaper[2]));
  EXPECT_EQ(corner[1], static_cast<uint8_t>(kPaper[1]));
  EXPECT_EQ(corner[2], static_cast<uint8_t>(kPaper[0]));
}

TEST(Picture, BoxesPartlyOutsideAreDrawnInside) {
  const Page page;
  const std::vector<float> tensor = page.draw(0);
  Picture picture(tensor.data());
  const Box boxes[] = {{-10, -10, 40, 20}, {950, 730, 980, 800}};
  picture.draw_boxes(boxes);
  EXPECT_EQ(picture.pixel(39, 5)[0], 220);
  EXPECT_EQ(picture.pixel(950, 733)[0], 220);
}

}  // namespace
}  // namespace tenon::demo
