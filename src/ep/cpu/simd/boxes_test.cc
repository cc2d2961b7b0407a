#include "ep/cpu/simd/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(BoxesTable, boxes_table)

namespace tenon::cpu {
namespace {

class Boxes : public testing::TestWithParam<Isa> {};

Box box_of(float left, float top, float right, float bottom) {
  return {left, top, right, bottom, (right - left) * (bottom - top)};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0 && height > 0 && a.area > 0 && b.area > 0)) return false;
  const float shared = width * height;
  const float all = a.area + b.area - shared;
  return all > 0 && shared / all > threshold;
}

// Among `count` boxes of which only the last may overlap, and among boxes anywhere.
TEST_P(Boxes, OverlapWhereTheyShareMoreThanTheThreshold) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> place(0, 10);
  int64_t found = 0, tried = 0;
  for (int64_t count : {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 63, 64, 65, 130, 300})
    for (int round = 0; round < 40; ++round) {
      std::vector<float> lists[5];
      std::vector<Box> boxes;
      const bool far = round % 2 == 0;
      for (int64_t i = 0; i < count; ++i) {
        const float x = place(random), y = place(random), shift = far && i + 1 < count ? 100.0f : 0.0f;
        // Some are turned inside out, and some have no area.
        const float right = round % 5 == 4 && i % 3 == 0 ? x : x + place(random) - 1;
        boxes.push_back(box_of(x + shift, y, right + shift, y + place(random)));
        const float values[5] = {boxes[i].left, boxes[i].top, boxes[i].right, boxes[i].bottom, boxes[i].area};
        for (int k = 0; k < 5; ++k) lists[k].push_back(values[k]);
      }
      const Box box = box_of(place(random) / 2, place(random) / 2, 7, 8);
      const float threshold = 0.1f * static_cast<float>(round % 6);
      const bool want =
          std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) { return overlap(b, box, threshold); });
      const BoxLists given{lists[0].data(), lists[1].data(), lists[2].data(), lists[3].data(), lists[4].data()};
      ASSERT_EQ(boxes_table_of(GetParam()).overlaps(given, count, box, threshold), want) << count << " " << round;
      found += want ? 1 : 0;
      ++tried;
    }
  EXPECT_GT(found, tried / 8);
  EXPECT_LT(found, tried * 7 / 8);
}

INSTANTIATE_TEST_SUITE_P(Isas, Boxes, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
