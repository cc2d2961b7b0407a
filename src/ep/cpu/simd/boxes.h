// Overlaps of rectangles. One task of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// Corners and areas, one array each.
struct BoxLists {
  const float* left = nullptr;
  const float* top = nullptr;
  const float* right = nullptr;
  const float* bottom = nullptr;
  const float* area = nullptr;
};
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0, area = 0;
};

struct BoxesTable {
  // Whether the part that `box` and one of the first `count` boxes share is more than `threshold` of what they cover
  // together. A box turned inside out, whose area is not above 0, shares nothing.
  bool (*overlaps)(const BoxLists& boxes, int64_t count, const Box& box, float threshold);
};

const BoxesTable& boxes_table();

}  // namespace tenon::cpu
