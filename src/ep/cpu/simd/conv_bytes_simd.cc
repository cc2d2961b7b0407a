#include "ep/cpu/simd/conv_bytes.h"

#include "ep/cpu/simd/int8_tile.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Pixels of a tile: with four panels, or one of two vectors, as many as the registers hold.
constexpr int kPixels = 6;
constexpr int kPanels = kInt8TilePanels;
constexpr int64_t kWidth = kInt8Panel * kPanels;  // columns of a tile
constexpr int kGroup = 4;                         // pixels that become bytes together,
constexpr int kTogether = 2;                      // and tiles that are whole groups
constexpr int64_t kWordElements = 4 / sizeof(TileElement);

// Walks over the places of pixels, from one to the next.
class Places {
 public:
  explicit Places(const ConvBytesRun& run)
      : run_(run), column_(run.first % run.columns), row_(run.first / run.columns % run.rows) {
    const int64_t slice = run.first / run.columns / run.rows;
    at_ = static_cast<const TileElement*>(run.x) + slice * run.x_slice + row_ * run.x_row + column_ * run.x_column;
    next_row_ = run.x_row - run.columns * run.x_column;
    next_slice_ = run.x_slice - run.rows * run.x_row;
  }
  // The next `count` places; the last one again where a tile has more.
  template <int kCount>
  void take(int64_t count, const TileElement* (&places)[kCount]) {
    for (int i = 0; i < kCount; ++i) {
      places[i] = i < count ? at_ : places[i - 1];
      if (i < count) step();
    }
  }

 private:
  void step() {
    at_ += run_.x_column;
    if (++column_ < run_.columns) return;
    column_ = 0;
    at_ += next_row_;
    if (++row_ < run_.rows) return;
    row_ = 0;
    at_ += next_slice_;
  }

  const ConvBytesRun& run_;
  const TileElement* at_;
  int64_t column_, row_, next_row_, next_slice_;
};

TENON_INLINE VI32 multiply_word(VI32 sum, uint32_t word, VI32 weights) {
  const VI32 value = hn::Set(DI32(), static_cast<int32_t>(word));
#if TENON_VNNI
  return dot4(sum, value, weights);
#else
  const hn::Repartition<int16_t, DI32> d16;
  return add_pairs(sum, hn::BitCast(d16, value), hn::BitCast(d16, weights));
#endif
}

// A vector of weights: of a word of A.
TENON_INLINE VI32 load_weights(const uint8_t* w, int v) {
#if TENON_VNNI
  return hn::LoadU(DI32(), reinterpret_cast<const int32_t*>(w) + v * kLanes);
#else
  const hn::Repartition<int16_t, DI32> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const uint8_t* const from = w + v * 2 * kLanes;
  return hn::BitCast(DI32(), hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(from))));
#endif
}

// sums[i * 16 * kOwn + j] of six places and kOwn panels.
template <int kOwn>
void multiply(const ConvBytesRun& run, const TileElement* const (&places)[kPixels], const uint8_t* w,
              const int32_t* terms, int32_t* sums) {
  constexpr int kVectorsOwn = kOwn * kVectors;
  // Six sums alone would wait for each other: every second word then has sums of its own.
  constexpr int kChains = kVectorsOwn == 1 ? 2 : 1;
  VI32 x[kChains][kPixels][kVectorsOwn];
#pragma GCC unroll 8
  for (int j = 0; j < kVectorsOwn; ++j) {
    const VI32 term = hn::LoadU(DI32(), terms + j * kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kPixels; ++i) {
      x[0][i][j] = term;
      if constexpr (kChains == 2) x[1][i][j] = hn::Zero(DI32());
    }
  }
  const TileElement* from[kPixels];
#pragma GCC unroll 6
  for (int i = 0; i < kPixels; ++i) from[i] = places[i];
  const int64_t panel = run.panel_stride;
  const auto multiply_word_of = [&](int64_t offset, const uint8_t* weights, VI32(&to)[kPixels][kVectorsOwn]) {
    VI32 y[kVectorsOwn];
#pragma GCC unroll 4
    for (int p = 0; p < kOwn; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) y[p * kVectors + v] = load_weights(weights + p * panel, v);
#pragma GCC unroll 6
    for (int i = 0; i < kPixels; ++i) {
      const uint32_t word = load_word(from[i] + offset);
#pragma GCC unroll 8
      for (int j = 0; j < kVectorsOwn; ++j) to[i][j] = multiply_word(to[i][j], word, y[j]);
    }
  };
  const int64_t *offset = run.offsets, *const end = offset + run.words;
  // The word that is left over comes first, and the loop last: so g++ keeps the sums in registers.
  if (run.words % kChains != 0) {
    multiply_word_of(*offset++, w, x[0]);
    w += kWordElements * kInt8Panel;
  }
#pragma GCC unroll 1
  for (; offset < end; offset += kChains, w += kChains * kWordElements * kInt8Panel) {
    multiply_word_of(offset[0], w, x[0]);
    if constexpr (kChains == 2) multiply_word_of(offset[1], w + kWordElements * kInt8Panel, x[1]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kVectorsOwn; ++j) {
      if constexpr (kChains == 2) x[0][i][j] = hn::Add(x[0][i][j], x[1][i][j]);
      hn::StoreU(x[0][i][j], DI32(), sums + i * kOwn * kInt8Panel + j * kLanes);
    }
}

void multiply_panels(int64_t panels, const ConvBytesRun& run, const TileElement* const (&places)[kPixels],
                     const uint8_t* w, const int32_t* terms, int32_t* sums) {
  if constexpr (kPanels == 4) {
    if (panels == 4) return multiply<4>(run, places, w, terms, sums);
    if (panels == 2) return multiply<2>(run, places, w, terms, sums);
  }
  multiply<1>(run, places, w, terms, sums);
}

using D16 = hn::Repartition<int16_t, DI32>;
using D8 = hn::Repartition<uint8_t, DI32>;

// The numbers of both as bytes, limited to what those hold: within each 128 bits those of a, then those of b.
TENON_INLINE hn::Vec<D8> join_bytes(hn::Vec<D16> a, hn::Vec<D16> b) {
#if HWY_ARCH_X86 && HWY_MAX_BYTES >= 64
  return hn::Vec<D8>{_mm512_packus_epi16(a.raw, b.raw)};
#elif HWY_ARCH_X86 && HWY_MAX_BYTES >= 32
  return hn::Vec<D8>{_mm256_packus_epi16(a.raw, b.raw)};
#elif HWY_ARCH_X86
  return hn::Vec<D8>{_mm_packus_epi16(a.raw, b.raw)};
#else
  const hn::Half<D8> half;
  return hn::Combine(D8(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

// Sums become bytes: those of four vectors at a time, within each 128 bits one after the other.
class ByteFinish {
 public:
  ByteFinish(int32_t zero, float low, float high, bool is_signed)
      : zero_(hn::Set(D16(), static_cast<int16_t>(zero))),
        low_(hn::Set(D8(), static_cast<uint8_t>(low))),
        high_(hn::Set(D8(), static_cast<uint8_t>(high))),
        sign_(hn::Set(D8(), static_cast<uint8_t>(is_signed ? 0x80 : 0))) {}

  TENON_INLINE hn::Vec<D8> bytes(VI32 a, VI32 b, VI32 c, VI32 d, VF32 scale, VF32 bias) const {
    return bytes(a, b, c, d, scale, bias, scale, bias);
  }
  // Of a and c with the first scale and bias, of b and d with the second.
  TENON_INLINE hn::Vec<D8> bytes(VI32 a, VI32 b, VI32 c, VI32 d, VF32 scale, VF32 bias, VF32 other_scale,
                                 VF32 other_bias) const {
    const auto halves = [&](VI32 first, VI32 second) {
      const auto both =
          hn::ReorderDemote2To(D16(), integers(first, scale, bias), integers(second, other_scale, other_bias));
      return hn::SaturatedAdd(both, zero_);
    };
    return hn::Xor(hn::Min(hn::Max(join_bytes(halves(a, b), halves(c, d)), low_), high_), sign_);
  }

 private:
  TENON_INLINE static VI32 integers(VI32 sum, VF32 scale, VF32 bias) {
    const VF32 x = hn::MulAdd(hn::ConvertTo(DF32(), sum), scale, bias);
    // Beyond the limit the conversion would give the least integer, as it does for NaN, the second operand.
    return nearest_small(hn::Min(hn::Set(DF32(), 32767.0f), x));
  }

  hn::Vec<D16> zero_;
  hn::Vec<D8> low_, high_, sign_;
};

// Words in the order of a table of indices.
TENON_INLINE VI32 in_order(hn::Vec<D8> bytes, const int32_t (&order)[kLanes]) {
  const DI32 d;
  return hn::TableLookupLanes(hn::BitCast(d, bytes), hn::SetTableIndices(d, order));
}

// Bytes of four pixels of a vector's channels: to the first block, of which pixel 0 is at `to`, and with 16 channels to
// the second. Only `count` of the pixels are stored.
TENON_INLINE void store_pixels(hn::Vec<D8> bytes, [[maybe_unused]] int v, int64_t count, uint8_t* to,
                               [[maybe_unused]] int64_t y_block, [[maybe_unused]] bool second) {
#if HWY_MAX_BYTES >= 32
#if HWY_MAX_BYTES >= 64
  alignas(64) static constexpr int32_t kOrder[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
#else
  alignas(32) static constexpr int32_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
#endif
  const VI32 ordered = in_order(bytes, kOrder);
  if (count >= kGroup) {
#if HWY_MAX_BYTES >= 64
    const hn::Half<DI32> half;
    hn::StoreU(hn::LowerHalf(half, ordered), half, reinterpret_cast<int32_t*>(to));
    if (second) hn::StoreU(hn::UpperHalf(half, ordered), half, reinterpret_cast<int32_t*>(to + y_block));
#else
    hn::StoreU(ordered, DI32(), reinterpret_cast<int32_t*>(to));
#endif
    return;
  }
  alignas(64) int32_t words[kLanes];
  hn::Store(ordered, DI32(), words);
  for (int64_t i = 0; i < count; ++i) {
    __builtin_memcpy(to + i * 8, words + i * 2, 8);
    if (kLanes == 16 && second) __builtin_memcpy(to + y_block + i * 8, words + kLanes / 2 + i * 2, 8);
  }
#else
  alignas(16) uint8_t own[16];
  hn::Store(bytes, D8(), own);
  for (int64_t i = 0; i < (count < kGroup ? count : kGroup); ++i)
    __builtin_memcpy(to + i * 8 + v % 2 * 4, own + i * 4, 4);
#endif
}

// A tile of `count` pixels from `first` on and `columns` columns from `column` on; rows of sums have `width`.
void finish_bytes(const ConvBytesRun& run, const int32_t* sums, int64_t width, int64_t first, int64_t count,
                  int64_t column, int64_t columns) {
  const DF32 df;
  const ByteFinish finish(run.zero, run.low, run.high, run.output == Int8Output::kInt8);
  for (int64_t j = 0; j < columns; j += kLanes) {
    const VF32 scale = hn::LoadU(df, run.scales + column + j), bias = hn::LoadU(df, run.bias + column + j);
    uint8_t* to = static_cast<uint8_t*>(run.y) + (column + j) / 8 * run.y_block + first * 8;
    const int32_t* from = sums + j;
    for (int64_t i = 0; i < count; i += kGroup, from += kGroup * width, to += kGroup * 8) {
      const auto sum = [&](int64_t row) { return hn::LoadU(DI32(), from + row * width); };
      store_pixels(finish.bytes(sum(0), sum(1), sum(2), sum(3), scale, bias), static_cast<int>(j / kLanes), count - i,
                   to, run.y_block, j + 8 < columns);
    }
  }
}

void finish_floats(const ConvBytesRun& run, const int32_t* sums, int64_t width, int64_t first, int64_t count,
                   int64_t column, int64_t columns) {
  const hn::CappedTag<int32_t, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto low = hn::Set(df, run.low), high = hn::Set(df, run.high);
  for (int64_t j = 0; j < columns; j += static_cast<int64_t>(hn::Lanes(d))) {
    const auto scale = hn::LoadU(df, run.scales + column + j), bias = hn::LoadU(df, run.bias + column + j);
    float* to = static_cast<float*>(run.y) + (column + j) / 8 * run.y_block + first * 8 + j % 8;
    for (int64_t i = 0; i < count; ++i, to += 8) {
      const auto value = hn::MulAdd(hn::ConvertTo(df, hn::LoadU(d, sums + i * width + j)), scale, bias);
      hn::StoreU(hn::Min(hn::Max(value, low), high), df, to);
    }
  }
}

#if HWY_MAX_BYTES >= 64
// Panels of at most so many words stay in the first level cache for every four pixels.
constexpr int64_t kShortWords = 96;

// Sixteen sums that become bytes in their registers: for few words the way through memory takes as long as the
// products.
template <int kOwn>
void run_short(const ConvBytesRun& run, int64_t column, const uint8_t* w) {
  static_assert(kVectors == 1);
  constexpr int kRows = 16 / kOwn;
  const DF32 df;
  const ByteFinish finish(run.zero, run.low, run.high, run.output == Int8Output::kInt8);
  const int64_t columns = run.outputs - column, panel = run.panel_stride;
  const int64_t *const offsets = run.offsets, words = run.words;
  Places walk(run);
  for (int64_t pixel = 0; pixel < run.count; pixel += kRows) {
    const int64_t count = run.count - pixel;
    const TileElement* from[kRows];
    walk.take(count, from);
    VI32 x[kRows][kOwn];
#pragma GCC unroll 4
    for (int j = 0; j < kOwn; ++j) {
      const VI32 term = hn::LoadU(DI32(), run.terms + column + j * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) x[i][j] = term;
    }
    const uint8_t* weights = w;
#pragma GCC unroll 1
    for (int64_t k = 0; k < words; ++k, weights += kWordElements * kInt8Panel) {
      VI32 y[kOwn];
#pragma GCC unroll 4
      for (int p = 0; p < kOwn; ++p) y[p] = load_weights(weights + p * panel, 0);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const uint32_t word = load_word(from[i] + offsets[k]);
#pragma GCC unroll 4
        for (int j = 0; j < kOwn; ++j) x[i][j] = multiply_word(x[i][j], word, y[j]);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kOwn; ++j) {
      const int64_t at = column + j * kLanes;
      if (j * kLanes >= columns) break;
      const VF32 scale = hn::LoadU(df, run.scales + at), bias = hn::LoadU(df, run.bias + at);
      uint8_t* const to = static_cast<uint8_t*>(run.y) + at / 8 * run.y_block + (run.first + pixel) * 8;
#pragma GCC unroll 2
      for (int i = 0; i < kRows; i += kGroup)
        if (i < count)
          store_pixels(finish.bytes(x[i][j], x[i + 1][j], x[i + 2][j], x[i + 3][j], scale, bias), 0, count - i,
                       to + i * 8, run.y_block, j * kLanes + 8 < columns);
    }
  }
}
#endif

void run(const ConvBytesRun& run) {
  constexpr int64_t kMost = kPixels * kTogether;
  alignas(64) int32_t sums[kMost * kWidth] = {};  // whole groups of pixels are read
  const int64_t panels = (run.outputs + kInt8Panel - 1) / kInt8Panel, end = run.first + run.count;
  for (int64_t panel = 0, own = 0; panel < panels; panel += own) {
    own = kPanels == 4 && panels - panel >= 4 ? 4 : kPanels == 4 && panels - panel >= 2 ? 2 : 1;
    const int64_t column = panel * kInt8Panel, width = own * kInt8Panel;
    const int64_t columns = run.outputs - column < width ? run.outputs - column : width;
    const uint8_t* const w = run.w + panel * run.panel_stride;
#if HWY_MAX_BYTES >= 64
    if (own > 1 && run.words <= kShortWords && run.output != Int8Output::kFloat) {
      own == 4 ? run_short<4>(run, column, w) : run_short<2>(run, column, w);
      continue;
    }
#endif
    Places walk(run);
    for (int64_t pixel = run.first; pixel < end; pixel += kMost) {
      const int64_t count = end - pixel < kMost ? end - pixel : kMost;
      for (int64_t i = 0; i < count; i += kPixels) {
        const TileElement* places[kPixels];
        walk.take(count - i, places);
        multiply_panels(own, run, places, w, run.terms + column, sums + i * width);
      }
      if (run.output == Int8Output::kFloat)
        finish_floats(run, sums, width, pixel, count, column, columns);
      else
        finish_bytes(run, sums, width, pixel, count, column, columns);
    }
  }
}

// Pixels that a vector's loads hold, and those that it computes; with 128 bits half of one, four of its channels.
constexpr int64_t kLoaded = kLanes / 2, kComputed = kLanes == 16 ? 2 : 1;
constexpr int kHalves = kLanes == 4 ? 2 : 1;
constexpr int kVectorsTogether = 4;
constexpr int64_t kPixelsTogether = kVectorsTogether * kLanes / 8;

int group_taps(int64_t stride, int64_t dilation) {
  const int64_t left = kLoaded - 1 - (kComputed - 1) * stride;
  if (left < 0) return 0;
  const int64_t taps = left / dilation + 1;
  return taps < 4 ? static_cast<int>(taps) : 4;
}

// Where the taps of a vector's lanes are.
struct TapPlaces {
  alignas(64) int32_t words[kLanes];
  alignas(16) uint8_t bytes[2][16];
};
static_assert(sizeof(TapPlaces) <= sizeof(DepthwiseTaps::places));

void set_taps(int64_t stride, int64_t dilation, DepthwiseTaps& taps) {
  taps.count = group_taps(stride, dilation);
  TapPlaces places;
  for (int64_t i = 0; i < kLanes; ++i) {
    const int64_t tap = i % 4 < taps.count ? i % 4 : 0, pixel = i / 8 * stride + tap * dilation;
    places.words[i] = static_cast<int32_t>(2 * pixel + i / 4 % 2);
  }
  for (int half = 0; half < 2; ++half)
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t tap = i % 4, word = kLanes > 4 ? tap : (tap < taps.count ? 2 * tap * dilation : 0) + half;
      places.bytes[half][i] = static_cast<uint8_t>(4 * word + i / 4);
    }
  __builtin_memcpy(taps.places, &places, sizeof places);
}

// Brings four taps of each channel together.
class TapOrder {
 public:
  explicit TapOrder(const DepthwiseTaps& taps) {
    TapPlaces places;
    __builtin_memcpy(&places, taps.places, sizeof places);
#if HWY_MAX_BYTES >= 32
    words_ = hn::Load(DI32(), places.words);
#endif
    for (int half = 0; half < kHalves; ++half) bytes_[half] = hn::LoadDup128(D8(), places.bytes[half]);
  }
  // Of the bytes at `x`; `half`: which four channels, with vectors of 128 bits.
  TENON_INLINE VI32 load(const uint8_t* x, int half) const {
    const DI32 d;
    VI32 words = hn::BitCast(d, hn::LoadU(D8(), x));
#if HWY_MAX_BYTES >= 32
    words = hn::TableLookupLanes(words, hn::IndicesFromVec(d, words_));
#endif
    return hn::BitCast(d, hn::TableLookupBytes(hn::BitCast(D8(), words), bytes_[half]));
  }

 private:
#if HWY_MAX_BYTES >= 32
  VI32 words_;
#endif
  hn::Vec<D8> bytes_[kHalves];
};

// Eight words for every pixel of a vector; with vectors of 128 bits one half of them.
template <typename D>
TENON_INLINE hn::Vec<D> of_channels(D d, const hn::TFromD<D>* from, [[maybe_unused]] int half) {
#if HWY_MAX_BYTES >= 64
  const hn::Half<D> eight;
  return hn::Combine(d, hn::LoadU(eight, from), hn::LoadU(eight, from));
#else
  return hn::LoadU(d, from + half * 4);
#endif
}

// The weights of a group for every pixel of a vector, as they are multiplied.
struct TapWeights {
#if TENON_VNNI
  VI32 all;
#else
  hn::Vec<D16> even, odd;  // of the words' bytes
#endif
  TapWeights() = default;
  TENON_INLINE TapWeights(const int8_t* from, int half) {
    const VI32 words = of_channels(DI32(), reinterpret_cast<const int32_t*>(from), half);
#if TENON_VNNI
    all = words;
#else
    even = hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(D16(), words)));
    odd = hn::ShiftRight<8>(hn::BitCast(D16(), words));
#endif
  }
  TENON_INLINE VI32 add_products(VI32 sum, VI32 taps) const {
#if TENON_VNNI
    return dot4(sum, taps, all);
#else
    const hn::RebindToUnsigned<D16> u16;
    const auto pairs = hn::BitCast(u16, taps);
    const auto low = hn::BitCast(D16(), hn::And(pairs, hn::Set(u16, 0xff)));
    return add_pairs(add_pairs(sum, low, even), hn::BitCast(D16(), hn::ShiftRight<8>(pairs)), odd);
#endif
  }
};

void run_depthwise(const DepthwiseBlockRun& run) {
  const TapOrder order(*run.taps);
  const ByteFinish finish(run.zero, run.low, run.high, run.is_signed);
  TapWeights weights[kHalves][kMostTapGroups];
  VI32 terms[kHalves];
  VF32 scales[kHalves], bias[kHalves];
  for (int half = 0; half < kHalves; ++half) {
    for (int64_t g = 0; g < run.groups; ++g) weights[half][g] = TapWeights(run.weights + g * 32, half);
    terms[half] = of_channels(DI32(), run.terms, half);
    scales[half] = of_channels(DF32(), run.scales, half);
    bias[half] = of_channels(DF32(), run.bias, half);
  }
  const int64_t step = kComputed * run.stride * 8;  // from the taps of a vector to those of the next
  uint8_t* y = run.y;
  for (int64_t row = 0; row < run.rows; ++row, y += run.columns * 8) {
    const uint8_t* x = run.x + row * run.x_row;
    for (int64_t column = 0; column < run.columns; column += kPixelsTogether, x += kPixelsTogether * run.stride * 8) {
      VI32 sums[kVectorsTogether];
#pragma GCC unroll 4
      for (int i = 0; i < kVectorsTogether; ++i) sums[i] = terms[i % kHalves];
      for (int64_t g = 0; g < run.groups; ++g) {
        const uint8_t* const from = x + run.offsets[g];
#pragma GCC unroll 4
        for (int i = 0; i < kVectorsTogether; ++i)
          sums[i] = weights[i % kHalves][g].add_products(sums[i], order.load(from + i / kHalves * step, i % kHalves));
      }
#if HWY_MAX_BYTES >= 64
      alignas(64) static constexpr int32_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
#elif HWY_MAX_BYTES >= 32
      alignas(32) static constexpr int32_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
#endif
#if HWY_MAX_BYTES >= 32
      const VI32 ordered = in_order(finish.bytes(sums[0], sums[1], sums[2], sums[3], scales[0], bias[0]), kOrder);
      const auto bytes = hn::BitCast(D8(), ordered);
#else
      const auto bytes = finish.bytes(sums[0], sums[1], sums[2], sums[3], scales[0], bias[0], scales[1], bias[1]);
#endif
      const int64_t count = run.columns - column;
      if (count >= kPixelsTogether) {
        hn::StoreU(bytes, D8(), y + column * 8);
        continue;
      }
      alignas(64) uint8_t own[kPixelsTogether * 8];
      hn::Store(bytes, D8(), own);
      for (int64_t i = 0; i < count; ++i) __builtin_memcpy(y + (column + i) * 8, own + i * 8, 8);
    }
  }
}

void flip_bytes(const uint8_t* from, uint8_t flip, int64_t count, uint8_t* to) {
  const hn::CappedTag<uint8_t, 64> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + step <= count; i += step) hn::StoreU(hn::Xor(hn::LoadU(d, from + i), hn::Set(d, flip)), d, to + i);
  for (; i < count; ++i) to[i] = from[i] ^ flip;
}

void stage(const uint8_t* from, uint8_t flip, int64_t count, void* to) {
  stage_row(from, flip * 0x01010101u, count, static_cast<TileElement*>(to));
}

void stage_planes(const uint8_t* from, int64_t plane, int channels, uint8_t flip, int64_t count, void* to) {
  auto* const out = static_cast<TileElement*>(to);
  const hn::CappedTag<TileElement, 16 / sizeof(TileElement)> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](int c, int64_t i) {
    if (c >= channels) return hn::Zero(d);
    const auto bytes = hn::Xor(hn::LoadU(d8, from + c * plane + i), hn::Set(d8, flip));
#if TENON_VNNI
    return bytes;
#else
    return hn::PromoteTo(d, bytes);
#endif
  };
  int64_t i = 0;
  for (; i + step <= count; i += step)
    hn::StoreInterleaved4(load(0, i), load(1, i), load(2, i), load(3, i), d, out + i * 4);
  for (; i < count; ++i)
    for (int c = 0; c < 4; ++c)
      out[i * 4 + c] = static_cast<TileElement>(c < channels ? from[c * plane + i] ^ flip : 0);
}

void fill(uint8_t value, int64_t count, void* to) {
  auto* const out = static_cast<TileElement*>(to);
  const hn::CappedTag<TileElement, 64 / sizeof(TileElement)> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + step <= count; i += step) hn::StoreU(hn::Set(d, static_cast<TileElement>(value)), d, out + i);
  for (; i < count; ++i) out[i] = static_cast<TileElement>(value);
}

#define TENON_TEXT_INNER_(text) #text
#define TENON_TEXT_(text) TENON_TEXT_INNER_(text)

}  // namespace

extern const ConvBytesTable conv_bytes_table;
const ConvBytesTable conv_bytes_table = {TENON_TEXT_(TENON_ISA),
                                         sizeof(TileElement),
                                         kWordElements,
                                         &run,
                                         &run_depthwise,
                                         &set_taps,
                                         &flip_bytes,
                                         &stage,
                                         &stage_planes,
                                         &fill};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
