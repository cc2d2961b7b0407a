// Finds boxes in the model's probability map, as PP-OCR's detector does (differentiable binarisation): threshold,
// connected components, mean score, unclip; boxes are axis-aligned, because the page's lines are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "demo/box.h"

namespace tenon::demo {

struct DetectOptions {
  float threshold = 0.3F;     // a pixel belongs to text above it
  float min_score = 0.6F;     // mean probability inside a component's bounds
  int min_size = 3;           // pixels, of the shorter side
  float unclip_ratio = 1.6F;  // the map holds shrunken text: grow by area * ratio / perimeter
};

// Reads the map where it lies. Reuse one object: its memory is kept.
// Threads: one call at a time.
class Detector {
 public:
  explicit Detector(const DetectOptions& options = {}) : options_(options) {}
  // `map` is height x width, row by row. The boxes, from top to bottom, are valid until the next call.
  std::span<const Box> find(const float* map, int width, int height);

 private:
  struct Run {
    int y = 0;
    int begin = 0;
    int end = 0;
  };
  struct Bounds {
    int x0, y0, x1, y1;
  };
  int32_t root(int32_t run);

  DetectOptions options_;
  std::vector<Run> runs_;
  std::vector<int32_t> parents_;  // union-find over runs
  std::vector<Bounds> bounds_;
  std::vector<Box> boxes_;
};

}  // namespace tenon::demo
