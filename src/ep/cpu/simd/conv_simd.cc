#include "ep/cpu/simd/conv.h"

#include <utility>

#include "ep/cpu/simd/conv_few.h"
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

#if HWY_MAX_BYTES >= 64
template <int J>
void run_blocked(const ConvRun& run) {
  run.x_pixel == 8 ? run_tiles<J, Source::kDense>(run) : run_tiles<J, Source::kStrided>(run);
}

// Plain inputs are blocks of one channel: tiles of their own would be a third of this code.
template <int J>
void run_plain(const ConvRun& run) {
  ConvRun plain = run;
  plain.block_channels = 1;
  // The taps of a row lie side by side, as the channels of a block do.
  if (run.x_col == 1) std::swap(plain.block_channels, plain.cols);
  run_tiles<J, Source::kStrided>(plain);
}
#else
template <int J>
void run_blocked(const ConvRun& run) {
  if (run.rows == 1 && run.cols == 1 && run.x_pixel == 8 && run.w_block == J * 64)
    run_tiles<J, Source::kPoint>(run);
  else
    run_tiles<J, Source::kWindow>(run);
}

template <int J>
void run_plain(const ConvRun& run) {
  run_tiles<J, Source::kPlain>(run);
}
#endif

template <int... kIndex, int... kFew>
constexpr ConvTable table_of(std::integer_sequence<int, kIndex...>, std::integer_sequence<int, kFew...>) {
  return {
      kConvWidths,
      kConvPanelBytes,
      kConvFarProducts,
      {&run_blocked<kIndex + 1>...},
      {&run_plain<kIndex + 1>...},
      kFewOutputs,
      {&run_few<kFew + 1>...},
      {&run_few_plain<1>, &run_few_plain<2>, &run_few_plain<3>},
  };
}

}  // namespace

extern const ConvTable conv_table;
const ConvTable conv_table =
    table_of(std::make_integer_sequence<int, kConvWidths>(), std::make_integer_sequence<int, kFewOutputs>());

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
