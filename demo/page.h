// The page that the demo draws: lines of moving text. Gives the rectangle of each line in each frame.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "demo/box.h"

namespace tenon::demo {

inline constexpr int kFrameWidth = 960;
inline constexpr int kFrameHeight = 736;
inline constexpr int kFrameChannels = 3;
inline constexpr size_t kFramePixels = size_t{kFrameWidth} * kFrameHeight;
inline constexpr size_t kInputBytes = kFramePixels * kFrameChannels * sizeof(float);
inline constexpr size_t kMapBytes = kFramePixels * sizeof(float);

// PP-OCR's normalisation, (value / 255 - mean) / deviation, in its channel order: blue, green, red.
inline constexpr float kMean[kFrameChannels] = {0.485F, 0.456F, 0.406F};
inline constexpr float kDeviation[kFrameChannels] = {0.229F, 0.224F, 0.225F};
inline constexpr float kPaper[kFrameChannels] = {226.0F, 238.0F, 244.0F};

// One line as the shader reads it (std430): where its coverage lies in the atlas, where it is drawn, in which ink.
struct LineRecord {
  int32_t x = 0;
  int32_t y = 0;
  int32_t width = 0;
  int32_t height = 0;
  uint32_t atlas_offset = 0;  // in bytes
  float ink[kFrameChannels] = {0, 0, 0};
};
static_assert(sizeof(LineRecord) == 32);

class Page {
 public:
  Page();

  // Coverage bytes of all lines, one after the other; padded to whole words for the shader.
  const std::vector<uint8_t>& atlas() const { return atlas_; }
  size_t line_count() const { return lines_.size(); }
  // The lines' places in frame `frame` (0, 1, ...). A line that leaves at the bottom comes back at the top.
  std::vector<LineRecord> lines(uint64_t frame) const;
  // Where text is to be found in that frame: the lines that are wholly visible, and those that are cut by an edge.
  std::vector<Box> visible_boxes(uint64_t frame) const;
  std::vector<Box> cut_boxes(uint64_t frame) const;
  // The normalised tensor that the shader must write, drawn on the CPU: what tests compare with.
  std::vector<float> draw(uint64_t frame) const;

 private:
  struct Line {
    std::string text;
    LineRecord record;
    Box ink;  // relative to the record's corner: the pixels that carry ink
  };
  std::vector<Line> lines_;
  std::vector<uint8_t> atlas_;
};

}  // namespace tenon::demo
