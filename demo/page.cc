#include "demo/page.h"

#include <algorithm>
#include <iterator>

#include "demo/font.h"

namespace tenon::demo {
namespace {

struct LineText {
  const char* text;
  int height;
  int x;
  int swing;  // how far it moves to the right and back
  float ink[kFrameChannels];
};

constexpr LineText kLines[] = {
    {"Tenon runs a model where the frame lies", 36, 40, 60, {60, 40, 30}},
    {"Shaders write what the network reads,", 30, 90, 50, {40, 40, 40}},
    {"so no byte is carried from one side", 30, 60, 70, {90, 45, 20}},
    {"to the other and back again.", 28, 120, 40, {40, 30, 90}},
    {"Invoice No. 20731  Total 1846.50", 34, 70, 55, {30, 30, 30}},
    {"Wait on a timeline, infer, then signal", 26, 150, 35, {70, 60, 20}},
    {"Chapter 7: Joints in old oak frames", 32, 50, 45, {30, 60, 40}},
    {"A tenon fits its mortise without glue", 24, 200, 65, {50, 35, 35}},
    {"Meet at platform 9, 18:45, coach 12", 28, 100, 80, {100, 30, 30}},
    {"Boxes of pixels, quickly judged", 22, 60, 90, {45, 45, 45}},
    {"zero copies, sixty hertz, one page", 26, 240, 30, {30, 30, 80}},
    {"The End? Not yet: keep scrolling!", 34, 80, 60, {55, 40, 25}},
};
constexpr int kPitch = 64;  // from one line's middle to the next one's
constexpr int kFall = 26;   // pixels a frame: more than half a line, so that a stale frame's boxes do not match
constexpr int kDrift = 5;   // pixels a frame, sideways
constexpr int kTurn = kPitch * static_cast<int>(std::size(kLines));
// A turn is higher than the frame, so that no line is visible at both ends.
static_assert(kTurn >= kFrameHeight + 32);

// 0, 1, ..., swing, swing - 1, ..., 0, 1, ...
int triangle(uint64_t step, int swing) {
  const int phase = static_cast<int>(step % static_cast<uint64_t>(2 * swing));
  return phase <= swing ? phase : 2 * swing - phase;
}

Box ink_bounds(const Bitmap& bitmap) {
  int x0 = bitmap.width, y0 = bitmap.height, x1 = 0, y1 = 0;
  for (int y = 0; y < bitmap.height; ++y) {
    for (int x = 0; x < bitmap.width; ++x) {
      if (bitmap.coverage[static_cast<size_t>(y) * static_cast<size_t>(bitmap.width) + static_cast<size_t>(x)] < 128)
        continue;
      x0 = std::min(x0, x), x1 = std::max(x1, x + 1);
      y0 = std::min(y0, y), y1 = std::max(y1, y + 1);
    }
  }
  return {static_cast<float>(x0), static_cast<float>(y0), static_cast<float>(x1), static_cast<float>(y1)};
}

Box at(const Box& ink, const LineRecord& record) {
  const auto x = static_cast<float>(record.x);
  const auto y = static_cast<float>(record.y);
  return {ink.x0 + x, ink.y0 + y, ink.x1 + x, ink.y1 + y};
}

bool inside_frame(const Box& box) {
  return box.x0 >= 0 && box.y0 >= 0 && box.x1 <= kFrameWidth && box.y1 <= kFrameHeight;
}

}  // namespace

Page::Page() {
  for (const LineText& source : kLines) {
    const Bitmap bitmap = draw_text(source.text, source.height);
    Line line;
    line.text = source.text;
    line.record = {
        .width = bitmap.width, .height = bitmap.height, .atlas_offset = static_cast<uint32_t>(atlas_.size())};
    std::copy(std::begin(source.ink), std::end(source.ink), std::begin(line.record.ink));
    line.ink = ink_bounds(bitmap);
    atlas_.insert(atlas_.end(), bitmap.coverage.begin(), bitmap.coverage.end());
    lines_.push_back(std::move(line));
  }
  while (atlas_.size() % 4 != 0) atlas_.push_back(0);
}

std::vector<LineRecord> Page::lines(uint64_t frame) const {
  std::vector<LineRecord> records;
  for (size_t i = 0; i < lines_.size(); ++i) {
    LineRecord record = lines_[i].record;
    const uint64_t middle = (i * kPitch + frame * kFall) % kTurn;
    record.x = kLines[i].x + triangle(frame * kDrift, kLines[i].swing);
    record.y = static_cast<int32_t>(middle) - record.height / 2;
    records.push_back(record);
  }
  return records;
}

std::vector<Box> Page::visible_boxes(uint64_t frame) const {
  std::vector<Box> boxes;
  const std::vector<LineRecord> records = lines(frame);
  for (size_t i = 0; i < lines_.size(); ++i)
    if (const Box box = at(lines_[i].ink, records[i]); inside_frame(box)) boxes.push_back(box);
  return boxes;
}

std::vector<Box> Page::cut_boxes(uint64_t frame) const {
  std::vector<Box> boxes;
  const std::vector<LineRecord> records = lines(frame);
  for (size_t i = 0; i < lines_.size(); ++i) {
    Box box = at(lines_[i].ink, records[i]);
    if (inside_frame(box)) continue;
    box.y0 = std::max(box.y0, 0.0F);
    box.y1 = std::min(box.y1, static_cast<float>(kFrameHeight));
    if (box.area() > 0) boxes.push_back(box);
  }
  return boxes;
}

std::vector<float> Page::draw(uint64_t frame) const {
  std::vector<float> tensor(kFramePixels * kFrameChannels);
  const std::vector<LineRecord> records = lines(frame);
  for (int y = 0; y < kFrameHeight; ++y) {
    for (int x = 0; x < kFrameWidth; ++x) {
      float color[kFrameChannels] = {kPaper[0], kPaper[1], kPaper[2]};
      for (const LineRecord& line : records) {
        const int u = x - line.x;
        const int v = y - line.y;
        if (u < 0 || v < 0 || u >= line.width || v >= line.height) continue;
        const size_t texel =
            line.atlas_offset + static_cast<size_t>(v) * static_cast<size_t>(line.width) + static_cast<size_t>(u);
        const float cover = static_cast<float>(atlas_[texel]) / 255.0F;
        for (int c = 0; c < kFrameChannels; ++c) color[c] += (line.ink[c] - color[c]) * cover;
      }
      const size_t pixel = static_cast<size_t>(y) * kFrameWidth + static_cast<size_t>(x);
      for (int c = 0; c < kFrameChannels; ++c)
        tensor[static_cast<size_t>(c) * kFramePixels + pixel] = (color[c] / 255.0F - kMean[c]) / kDeviation[c];
    }
  }
  return tensor;
}

}  // namespace tenon::demo
