// Turns a frame's tensor into a picture with the found boxes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "demo/box.h"
#include "demo/status.h"

namespace tenon::demo {

class Picture {
 public:
  // From the normalised tensor of one frame (see page.h).
  explicit Picture(const float* tensor);
  // An outline two pixels thick, in red.
  void draw_boxes(std::span<const Box> boxes);
  // Errors: kNotFound and the system's reason when the file cannot be made; kUnsupported in a build without libpng.
  Status write_png(const std::string& path) const;
  // Red, green, blue of a pixel.
  const uint8_t* pixel(int x, int y) const;

 private:
  void paint(int x, int y);
  std::vector<uint8_t> rgb_;
};

}  // namespace tenon::demo
