#include "demo/detect.h"

#include <algorithm>

namespace tenon::demo {
namespace {

float mean_inside(const float* map, int width, int x0, int y0, int x1, int y1) {
  double sum = 0;
  for (int y = y0; y < y1; ++y) {
    const float* row = map + static_cast<ptrdiff_t>(y) * width;
    for (int x = x0; x < x1; ++x) sum += row[x];
  }
  return static_cast<float>(sum / (static_cast<double>(x1 - x0) * (y1 - y0)));
}

}  // namespace

int32_t Detector::root(int32_t run) {
  while (parents_[static_cast<size_t>(run)] != run) {
    int32_t& parent = parents_[static_cast<size_t>(run)];
    parent = parents_[static_cast<size_t>(parent)];
    run = parent;
  }
  return run;
}

std::span<const Box> Detector::find(const float* map, int width, int height) {
  runs_.clear();
  parents_.clear();
  boxes_.clear();
  size_t above_begin = 0;  // the runs of the row above are [above_begin, row_begin)
  for (int y = 0; y < height; ++y) {
    const float* row = map + static_cast<ptrdiff_t>(y) * width;
    const size_t row_begin = runs_.size();
    size_t above = above_begin;
    for (int x = 0; x < width;) {
      if (!(row[x] > options_.threshold)) {
        ++x;
        continue;
      }
      const int begin = x;
      while (x < width && row[x] > options_.threshold) ++x;
      const auto index = static_cast<int32_t>(runs_.size());
      runs_.push_back({y, begin, x});
      parents_.push_back(index);
      // Touching, corners included: the runs above that begin at or before our end and end at or after our begin.
      while (above < row_begin && runs_[above].end < begin) ++above;
      for (size_t other = above; other < row_begin && runs_[other].begin <= x; ++other)
        parents_[static_cast<size_t>(root(static_cast<int32_t>(other)))] = root(index);
    }
    above_begin = row_begin;
  }

  bounds_.assign(runs_.size(), {width, height, 0, 0});
  for (size_t i = 0; i < runs_.size(); ++i) {
    Bounds& bounds = bounds_[static_cast<size_t>(root(static_cast<int32_t>(i)))];
    bounds.x0 = std::min(bounds.x0, runs_[i].begin);
    bounds.y0 = std::min(bounds.y0, runs_[i].y);
    bounds.x1 = std::max(bounds.x1, runs_[i].end);
    bounds.y1 = std::max(bounds.y1, runs_[i].y + 1);
  }
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (parents_[i] != static_cast<int32_t>(i)) continue;
    const Bounds& bounds = bounds_[i];
    const int w = bounds.x1 - bounds.x0;
    const int h = bounds.y1 - bounds.y0;
    if (std::min(w, h) < options_.min_size) continue;
    const float score = mean_inside(map, width, bounds.x0, bounds.y0, bounds.x1, bounds.y1);
    if (score < options_.min_score) continue;
    const float grow =
        static_cast<float>(w) * static_cast<float>(h) * options_.unclip_ratio / static_cast<float>(2 * (w + h));
    boxes_.push_back({std::max(0.0F, static_cast<float>(bounds.x0) - grow),
                      std::max(0.0F, static_cast<float>(bounds.y0) - grow),
                      std::min(static_cast<float>(width), static_cast<float>(bounds.x1) + grow),
                      std::min(static_cast<float>(height), static_cast<float>(bounds.y1) + grow), score});
  }
  std::sort(boxes_.begin(), boxes_.end(),
            [](const Box& a, const Box& b) { return a.y0 != b.y0 ? a.y0 < b.y0 : a.x0 < b.x0; });
  return boxes_;
}

}  // namespace tenon::demo
