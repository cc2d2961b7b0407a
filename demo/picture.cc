#include "demo/picture.h"

#include <algorithm>
#include <cmath>

#include "demo/page.h"

namespace tenon::demo {
namespace {

constexpr uint8_t kBoxColor[3] = {220, 40, 30};
constexpr int kThickness = 2;

}  // namespace

Picture::Picture(const float* tensor) : rgb_(kFramePixels * 3) {
  for (size_t channel = 0; channel < kFrameChannels; ++channel) {
    const float* plane = tensor + channel * kFramePixels;
    // The tensor has blue first, a PNG has red first.
    uint8_t* out = rgb_.data() + (kFrameChannels - 1 - channel);
    for (size_t i = 0; i < kFramePixels; ++i) {
      const float value = (plane[i] * kDeviation[channel] + kMean[channel]) * 255.0F;
      out[i * 3] = static_cast<uint8_t>(std::lround(std::clamp(value, 0.0F, 255.0F)));
    }
  }
}

const uint8_t* Picture::pixel(int x, int y) const {
  return rgb_.data() + (static_cast<size_t>(y) * kFrameWidth + static_cast<size_t>(x)) * 3;
}

void Picture::paint(int x, int y) {
  if (x < 0 || y < 0 || x >= kFrameWidth || y >= kFrameHeight) return;
  std::copy(std::begin(kBoxColor), std::end(kBoxColor),
            rgb_.begin() + (static_cast<ptrdiff_t>(y) * kFrameWidth + x) * 3);
}

void Picture::draw_boxes(std::span<const Box> boxes) {
  for (const Box& box : boxes) {
    const int x0 = static_cast<int>(std::lround(box.x0));
    const int y0 = static_cast<int>(std::lround(box.y0));
    const int x1 = static_cast<int>(std::lround(box.x1)) - 1;
    const int y1 = static_cast<int>(std::lround(box.y1)) - 1;
    for (int inset = 0; inset < kThickness; ++inset) {
      for (int x = x0; x <= x1; ++x) paint(x, y0 + inset), paint(x, y1 - inset);
      for (int y = y0; y <= y1; ++y) paint(x0 + inset, y), paint(x1 - inset, y);
    }
  }
}

}  // namespace tenon::demo
