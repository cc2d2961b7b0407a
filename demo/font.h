// A small font drawn by strokes: letters, digits and the punctuation that the demo's page needs, proportional widths.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::demo {

// Coverage, one byte a pixel, row by row: 0 is paper, 255 is ink.
struct Bitmap {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> coverage;
};

// `text` in one line, `height` pixels from the top of its capitals to the bottom of its descenders. Characters that the
// font lacks take the width of a space.
Bitmap draw_text(std::string_view text, int height);

}  // namespace tenon::demo
