#include "demo/font.h"

#include <algorithm>
#include <cmath>

namespace tenon::demo {
namespace {

struct Point {
  float x = 0;
  float y = 0;
};

// Strokes of one character, separated by spaces. A point is two letters, x then y, with a = 0, b = 1, ...: capitals
// stand between y = a and the baseline y = j, small letters begin at y = d, descenders end at y = m. A stroke that
// begins with
// '~' is rounded with its ends kept, one that begins with '@' is rounded and closed.
struct Glyph {
  char character;
  const char* strokes;
};

constexpr Glyph kGlyphs[] = {
    {'A', "ajdagj bgfg"},
    {'B', "aaaj ~aaeafbfdeeae ~aeeegfgiejaj"},
    {'C', "~gcfabaacahbjfjgh"},
    {'D', "aaaj ~aadagcghdjaj"},
    {'E', "gaaaajgj aefe"},
    {'F', "gaaaaj aefe"},
    {'G', "~gcfabaacahbjfjghgf gfdf"},
    {'H', "aaaj gagj aege"},
    {'I', "aaaj"},
    {'J', "~eaehdjbjah"},
    {'K', "aaaj gaag cegj"},
    {'L', "aaajfj"},
    {'M', "ajaaegiaij"},
    {'N', "ajaagjga"},
    {'O', "@caeagcghejcjahac"},
    {'P', "ajaa ~aaeagbgdeeae"},
    {'Q', "@caeagcghejcjahac ehgk"},
    {'R', "ajaa ~aaeagbgdeeae degj"},
    {'S', "~gcfabaabadbeffggghfjbjah"},
    {'T', "aaga dadj"},
    {'U', "~aaahbjfjghga"},
    {'V', "aadjga"},
    {'W', "aacjecgjia"},
    {'X', "aagj gaaj"},
    {'Y', "aadega dedj"},
    {'Z', "aagaajgj"},
    {'a', "@bdedfffhejbjahaf fdfj"},
    {'b', "aaaj @bdedfffhejbjahaf"},
    {'c', "~fededdbdafahbjejfi"},
    {'d', "fafj @bdedfffhejbjahaf"},
    {'e', "agfg ~fgfeddbdafahbjdjfi"},
    {'f', "~eacabcbe bebj addd"},
    {'g', "@bdedfffhejbjahaf ~fdfkemcmal"},
    {'h', "aaaj ~afbdddfefj"},
    {'i', "adaj aaaa"},
    {'j', "~bdblam baba"},
    {'k', "aaaj fdah cgfj"},
    {'l', "aaaj"},
    {'m', "adaj ~afbdddeeej ~effdhdieij"},
    {'n', "adaj ~afbdddfefj"},
    {'o', "@bdedfffhejbjahaf"},
    {'p', "adam @bdedfffhejbjahaf"},
    {'q', "fdfm @bdedfffhejbjahaf"},
    {'r', "adaj ~afbdddee"},
    {'s', "~feedbdaebfegfhejbjai"},
    {'t', "~babhcjej addd"},
    {'u', "~adahbjdjfh fdfj"},
    {'v', "addjgd"},
    {'w', "adcjeegjid"},
    {'x', "adfj fdaj"},
    {'y', "addj gdbm"},
    {'z', "adfdajfj"},
    {'0', "@baeafcfhejbjahac"},
    {'1', "accacj"},
    {'2', "~acbaeafcfdaj ajfj"},
    {'3', "~abbaeafbfdce ~ceeefffhejbjai"},
    {'4', "ejeaaggg"},
    {'5', "faaaae ~aebdedfffhejbjai"},
    {'6', "~fbeabaadah @beeefgfhejbjahag"},
    {'7', "aafacj"},
    {'8', "@baeafbfdeebeadab @beeefffhejbjahaf"},
    {'9', "@baeafcfdefbfadac ~fcfgejbjai"},
    {'.', "ajaj"},
    {',', "bjal"},
    {':', "aeae ajaj"},
    {'-', "agdg"},
    {'/', "faaj"},
    {'!', "aaag ajaj"},
    {'?', "~abbaeafbfddfdg djdj"},
    {'\'', "aaac"},
};

constexpr float kUnits = 12.0F;      // from the top of a capital to the bottom of a descender
constexpr float kStroke = 1.25F;     // width of a stroke
constexpr float kLetterGap = 2.1F;   // between two characters, on top of their own widths
constexpr float kSpaceWidth = 2.4F;  // of a space; the gaps on both sides come on top

const Glyph* find_glyph(char character) {
  const auto* found = std::find_if(std::begin(kGlyphs), std::end(kGlyphs),
                                   [character](const Glyph& glyph) { return glyph.character == character; });
  return found == std::end(kGlyphs) ? nullptr : found;
}

// One round of Chaikin's corner cutting: every corner becomes two points, a quarter of the way along its sides.
std::vector<Point> cut_corners(const std::vector<Point>& points, bool closed) {
  std::vector<Point> smooth;
  const size_t sides = closed ? points.size() : points.size() - 1;
  if (!closed) smooth.push_back(points.front());
  for (size_t i = 0; i < sides; ++i) {
    const Point a = points[i];
    const Point b = points[(i + 1) % points.size()];
    smooth.push_back({0.75F * a.x + 0.25F * b.x, 0.75F * a.y + 0.25F * b.y});
    smooth.push_back({0.25F * a.x + 0.75F * b.x, 0.25F * a.y + 0.75F * b.y});
  }
  if (!closed) smooth.push_back(points.back());
  return smooth;
}

std::vector<Point> read_stroke(std::string_view text) {
  const bool closed = text.front() == '@';
  const bool rounded = closed || text.front() == '~';
  if (rounded) text.remove_prefix(1);
  std::vector<Point> points;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    points.push_back({static_cast<float>(text[i] - 'a'), static_cast<float>(text[i + 1] - 'a')});
  for (int round = 0; rounded && round < 3; ++round) points = cut_corners(points, closed);
  if (closed) points.push_back(points.front());
  return points;
}

std::vector<std::vector<Point>> read_strokes(const Glyph& glyph) {
  std::vector<std::vector<Point>> strokes;
  std::string_view rest = glyph.strokes;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    strokes.push_back(read_stroke(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return strokes;
}

float distance_to_segment(Point p, Point a, Point b) {
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  const float length2 = dx * dx + dy * dy;
  const float t = length2 > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0F, 1.0F) : 0.0F;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

// `a`, `b` and `radius` in pixels. Overlapping strokes of one character must not add up, so the larger coverage stays.
void draw_segment(Bitmap& bitmap, Point a, Point b, float radius) {
  const int x0 = std::max(0, static_cast<int>(std::floor(std::min(a.x, b.x) - radius - 1)));
  const int x1 = std::min(bitmap.width - 1, static_cast<int>(std::ceil(std::max(a.x, b.x) + radius + 1)));
  const int y0 = std::max(0, static_cast<int>(std::floor(std::min(a.y, b.y) - radius - 1)));
  const int y1 = std::min(bitmap.height - 1, static_cast<int>(std::ceil(std::max(a.y, b.y) + radius + 1)));
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const Point center{static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F};
      const float cover = std::clamp(radius + 0.5F - distance_to_segment(center, a, b), 0.0F, 1.0F);
      uint8_t& pixel =
          bitmap.coverage[static_cast<size_t>(y) * static_cast<size_t>(bitmap.width) + static_cast<size_t>(x)];
      pixel = std::max(pixel, static_cast<uint8_t>(std::lround(cover * 255.0F)));
    }
  }
}

}  // namespace

Bitmap draw_text(std::string_view text, int height) {
  std::vector<std::vector<Point>> strokes;
  float pen = 0;
  for (const char character : text) {
    const Glyph* glyph = find_glyph(character);
    if (glyph == nullptr) {
      pen += kSpaceWidth + kLetterGap;
      continue;
    }
    float right = 0;
    for (std::vector<Point>& stroke : read_strokes(*glyph)) {
      for (Point& point : stroke) {
        right = std::max(right, point.x);
        point.x += pen;
      }
      strokes.push_back(std::move(stroke));
    }
    pen += right + kLetterGap;
  }
  // Half a stroke of room on each side: the points are the strokes' middle lines.
  const float scale = static_cast<float>(height) / (kUnits + kStroke);
  Bitmap bitmap;
  bitmap.height = height;
  bitmap.width = std::max(1, static_cast<int>(std::ceil((pen - kLetterGap + kStroke) * scale)));
  bitmap.coverage.assign(static_cast<size_t>(bitmap.width) * static_cast<size_t>(bitmap.height), 0);
  for (const std::vector<Point>& stroke : strokes) {
    for (size_t i = 0; i + 1 < stroke.size(); ++i) {
      const auto to_pixels = [scale](Point p) {
        return Point{(p.x + kStroke / 2) * scale, (p.y + kStroke / 2) * scale};
      };
      draw_segment(bitmap, to_pixels(stroke[i]), to_pixels(stroke[i + 1]), kStroke * scale / 2);
    }
  }
  return bitmap;
}

}  // namespace tenon::demo
