#include "ep/cpu/simd/conv.h"

#include <utility>

#include "ep/cpu/simd/conv_tile16.h"
#if HWY_MAX_BYTES < 64
#include "ep/cpu/simd/conv_tile8.h"
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

using Tile = void (*)(const ConvRun&, int64_t);

template <int J, Source kSource, int R = 1>
constexpr Tile tile_of(int pixels) {
  if constexpr (R > most_pixels(J, kSource))
    return nullptr;
  else
    return pixels == R ? &tile<R, J, kSource> : tile_of<J, kSource, R + 1>(pixels);
}

template <int J, Source kSource>
struct Tiles {
  Tile at[most_pixels(J, kSource) + 1];
  constexpr Tiles() : at() {
    for (int r = 1; r <= most_pixels(J, kSource); ++r) at[r] = tile_of<J, kSource>(r);
  }
};

// Cuts the pixels into as few tiles as possible, all nearly equal: 25 pixels are five tiles of 5, not four of 6 and a
// slow one of 1.
template <int J, Source kSource>
void run_tiles(const ConvRun& run) {
  static constexpr Tiles<J, kSource> kTiles;
  const int64_t tiles = (run.pixels + most_pixels(J, kSource) - 1) / most_pixels(J, kSource);
  if (tiles == 0) return;
  const int64_t small = run.pixels / tiles, larger = run.pixels % tiles;
  int64_t first = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t size = small + (t < larger ? 1 : 0);
    kTiles.at[size](run, first);
    first += size;
  }
}

template <int J>
void run_blocked(const ConvRun& run) {
  constexpr Source kFirst = Source(0), kSecond = Source(1);
  source_of<J>(run) == kFirst ? run_tiles<J, kFirst>(run) : run_tiles<J, kSecond>(run);
}

template <int... kIndex>
constexpr ConvTable table_of(std::integer_sequence<int, kIndex...>) {
  return {kConvWidths, kConvPanelBytes, {&run_blocked<kIndex + 1>...}, {&run_tiles<kIndex + 1, Source::kPlain>...}};
}

}  // namespace

extern const ConvTable conv_table;
const ConvTable conv_table = table_of(std::make_integer_sequence<int, kConvWidths>());

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
