// An axis-aligned rectangle in pixels of the frame: [x0, x1) by [y0, y1).
#pragma once

#include <algorithm>
#include <span>

namespace tenon::demo {

struct Box {
  float x0 = 0;
  float y0 = 0;
  float x1 = 0;
  float y1 = 0;
  float score = 0;  // of a found box: mean probability inside it

  float width() const { return std::max(0.0F, x1 - x0); }
  float height() const { return std::max(0.0F, y1 - y0); }
  float area() const { return width() * height(); }
};

// Area of the intersection over the area of the union; 0 for empty boxes.
inline float intersection_over_union(const Box& a, const Box& b) {
  const Box both{std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)};
  const float all = a.area() + b.area() - both.area();
  return all > 0 ? both.area() / all : 0.0F;
}

// How many of `expected` have a box in `found` with at least `threshold` of overlap.
inline int count_matches(std::span<const Box> expected, std::span<const Box> found, float threshold) {
  int matches = 0;
  for (const Box& wanted : expected)
    matches += std::any_of(found.begin(), found.end(),
                           [&](const Box& box) { return intersection_over_union(wanted, box) >= threshold; });
  return matches;
}

}  // namespace tenon::demo
