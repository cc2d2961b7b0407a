#include "ep/cpu/simd/interleave.h"

#include "ep/cpu/simd/f8.h"
#include "ep/cpu/simd/transpose_blocks.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Arrays of vectors stay in registers only where the loops over them are unrolled.
#define TENON_UNROLL _Pragma("GCC unroll 8")

// Vectors of 32 bytes: what wider ones gain, their shuffles across lanes lose.
template <typename T>
using Tag = hn::CappedTag<T, 32 / sizeof(T)>;

template <typename T, int kCount>
void apart(const T* src, T* dst, int64_t dst_stride, int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<Tag<T>> v[4];
    const T* const from = src + kCount * i;
    if constexpr (kCount == 2) hn::LoadInterleaved2(d, from, v[0], v[1]);
    if constexpr (kCount == 3) hn::LoadInterleaved3(d, from, v[0], v[1], v[2]);
    if constexpr (kCount == 4) hn::LoadInterleaved4(d, from, v[0], v[1], v[2], v[3]);
    TENON_UNROLL
    for (int c = 0; c < kCount; ++c) hn::StoreU(v[c], d, dst + c * dst_stride + i);
  }
  for (; i < n; ++i)
    for (int64_t c = 0; c < kCount; ++c) dst[c * dst_stride + i] = src[kCount * i + c];
}

template <typename T, int kCount>
void together(const T* src, int64_t src_stride, T* dst, int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<Tag<T>> v[4];
    TENON_UNROLL
    for (int c = 0; c < kCount; ++c) v[c] = hn::LoadU(d, src + c * src_stride + i);
    T* const to = dst + kCount * i;
    if constexpr (kCount == 2) hn::StoreInterleaved2(v[0], v[1], d, to);
    if constexpr (kCount == 3) hn::StoreInterleaved3(v[0], v[1], v[2], d, to);
    if constexpr (kCount == 4) hn::StoreInterleaved4(v[0], v[1], v[2], v[3], d, to);
  }
  for (; i < n; ++i)
    for (int64_t c = 0; c < kCount; ++c) dst[kCount * i + c] = src[c * src_stride + i];
}

// kRows (8 or 16) rows of eight bytes become eight rows of so many. Interleaving the first half of all bytes with the
// second one rotates the bits of each byte's place by one, and rows and columns change places after as many such rounds
// as a row's number has bits.
template <int kRows>
TENON_INLINE void transpose_bytes(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride) {
  constexpr int kPairs = kRows / 2;
  const hn::FixedTag<uint8_t, 8> half;
  const hn::FixedTag<uint8_t, 16> d;
  hn::Vec<decltype(d)> a[kPairs], b[kPairs];
  TENON_UNROLL
  for (int i = 0; i < kPairs; ++i)
    a[i] = hn::Combine(d, hn::LoadU(half, src + (2 * i + 1) * src_stride), hn::LoadU(half, src + 2 * i * src_stride));
  const auto round = [&](const auto& from, auto& to) {
    TENON_UNROLL
    for (int i = 0; i < kPairs / 2; ++i) {
      to[2 * i] = hn::InterleaveLower(d, from[i], from[i + kPairs / 2]);
      to[2 * i + 1] = hn::InterleaveUpper(d, from[i], from[i + kPairs / 2]);
    }
  };
  round(a, b);
  round(b, a);
  round(a, b);
  if constexpr (kRows == 16) {
    round(b, a);
    TENON_UNROLL
    for (int i = 0; i < 8; ++i) hn::StoreU(a[i], d, dst + i * dst_stride);
  } else {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      hn::StoreU(hn::LowerHalf(half, b[i]), half, dst + 2 * i * dst_stride);
      hn::StoreU(hn::UpperHalf(half, b[i]), half, dst + (2 * i + 1) * dst_stride);
    }
  }
}

void transpose8(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride, int64_t rows,
                int64_t columns) {
  if (rows < 16) {
    transpose_blocks(src, src_stride, dst, dst_stride, rows, columns, 8, 8,
                     [&](const uint8_t* from, uint8_t* to) { transpose_bytes<8>(from, src_stride, to, dst_stride); });
    return;
  }
  transpose_blocks(src, src_stride, dst, dst_stride, rows, columns, 16, 8,
                   [&](const uint8_t* from, uint8_t* to) { transpose_bytes<16>(from, src_stride, to, dst_stride); });
}

// One round of transpose_bytes() for eight vectors.
template <typename D>
TENON_INLINE void rotate_bytes(D d, hn::Vec<D> (&v)[8]) {
  hn::Vec<D> to[8];
  TENON_UNROLL
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = hn::InterleaveLower(d, v[i], v[i + 4]);
    to[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + 4]);
  }
  TENON_UNROLL
  for (int i = 0; i < 8; ++i) v[i] = to[i];
}

// Vectors of 16 pixels: those of 32 would be stored in parts, and are no faster.
using PixelTag = hn::FixedTag<uint8_t, 16>;

// Calls tile(first pixel) for 16 pixels each, the last of which overlap others. False for fewer pixels.
template <typename Tile>
TENON_INLINE bool each_tile(int64_t pixels, const Tile& tile) {
  if (pixels < 16) return false;
  for (int64_t i = 0; i < pixels; i += 16) tile(i + 16 <= pixels ? i : pixels - 16);
  return true;
}

void to_blocks8(const uint8_t* x, int64_t plane, int channels, uint8_t* y, int64_t pixels) {
  const bool done = each_tile(pixels, [&](int64_t first) {
    const PixelTag d;
    hn::Vec<PixelTag> v[8];
    TENON_UNROLL
    for (int c = 0; c < 8; ++c) v[c] = c < channels ? hn::LoadU(d, x + c * plane + first) : hn::Zero(d);
    rotate_bytes(d, v);
    rotate_bytes(d, v);
    rotate_bytes(d, v);
    TENON_UNROLL
    for (int i = 0; i < 8; ++i) hn::StoreU(v[i], d, y + first * 8 + i * 16);
  });
  if (done) return;
  for (int64_t i = 0; channels < 8 && i < pixels * 8; ++i) y[i] = 0;
  transpose8(x, plane, y, 8, channels, pixels);
}

void from_blocks8(const uint8_t* x, uint8_t* y, int64_t plane, int channels, int64_t pixels) {
  const bool done = each_tile(pixels, [&](int64_t first) {
    const PixelTag d;
    hn::Vec<PixelTag> v[8];
    TENON_UNROLL
    for (int i = 0; i < 8; ++i) v[i] = hn::LoadU(d, x + first * 8 + i * 16);
    TENON_UNROLL
    for (int round = 0; round < 4; ++round) rotate_bytes(d, v);
    TENON_UNROLL
    for (int c = 0; c < 8; ++c)
      if (c < channels) hn::StoreU(v[c], d, y + c * plane + first);
  });
  if (!done) transpose8(x, 8, y, plane, pixels, channels);
}

// Small matrices one behind the other, as units of 65 to 128 bytes: two vectors, the second of which ends with the unit
// and may overlap the first one, are read, and what lies in both is written from the two.
#ifdef __AVX512BW__
constexpr int64_t kUnit = 128, kVectorBytes = 64;

// Vector `which` of the results from those of a unit, a and b.
struct Shuffle {
  alignas(64) uint8_t places[kVectorBytes];  // for each byte of the result its place in a or, from 64 on, in b

  // Indices of elements of T, each `kStep` bytes of the result, from byte `first` on.
  template <typename T, int kStep = sizeof(T)>
  __m512i indices(int first = 0) const {
    alignas(64) T numbers[kVectorBytes / kStep];
    for (int i = 0; i < kVectorBytes / kStep; ++i)
      numbers[i] = static_cast<T>(places[first + i * kStep] / static_cast<int>(sizeof(T)));
    return _mm512_load_si512(numbers);
  }
};

// Calls shuffle(a, b, vector of the result) for the vectors of each unit.
template <typename Function>
TENON_INLINE void each_unit(const uint8_t* src, uint8_t* dst, int64_t unit, int64_t count, const Function& shuffle) {
  const int64_t second = unit - kVectorBytes;
  for (int64_t i = 0; i < count; ++i, src += unit, dst += unit) {
    const __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + second);
    _mm512_storeu_si512(dst, shuffle(a, b, 0));
    _mm512_storeu_si512(dst + second, shuffle(a, b, 1));
  }
}

// Lanes of a vector of the result that come from one vector of the matrix.
struct Step {
  __m512i indices;
  int64_t source;  // its first byte
  uint32_t lanes;
};

// Matrices that lie in several vectors, of which the last one overlaps the one before.
constexpr int64_t kMostVectors = 8;

template <typename T>
void transpose_vectors(const uint8_t* src, uint8_t* dst, int64_t rows, int64_t columns, int64_t count) {
  constexpr int64_t kLanes = kVectorBytes / sizeof(T);
  const int64_t elements = rows * columns, last = elements - kLanes, vectors = (elements + kLanes - 1) / kLanes;
  Step steps[kMostVectors * kMostVectors];
  int64_t ends[kMostVectors], n = 0;
  for (int64_t v = 0; v < vectors; ++v) {
    for (int64_t s = 0; s < vectors; ++s) {
      const int64_t source = s * kLanes < last ? s * kLanes : last;
      alignas(64) T numbers[kLanes] = {};
      uint32_t lanes = 0;
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t element = (v * kLanes < last ? v * kLanes : last) + i;
        const int64_t place = element % rows * columns + element / rows;
        if (place / kLanes != s) continue;
        numbers[i] = static_cast<T>(place - source);
        lanes |= uint32_t{1} << i;
      }
      if (lanes == 0) continue;
      steps[n++] = {_mm512_load_si512(numbers), source * static_cast<int64_t>(sizeof(T)), lanes};
    }
    ends[v] = n;
  }
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(T));
  for (int64_t k = 0; k < count; ++k, src += bytes, dst += bytes) {
    const Step* step = steps;
    for (int64_t v = 0; v < vectors; ++v) {
      __m512i y = _mm512_setzero_si512();
      for (; step != steps + ends[v]; ++step) {
        const __m512i x = _mm512_loadu_si512(src + step->source);
        if constexpr (sizeof(T) == 8)
          y = _mm512_mask_permutexvar_epi64(y, static_cast<__mmask8>(step->lanes), step->indices, x);
        else if constexpr (sizeof(T) == 4)
          y = _mm512_mask_permutexvar_epi32(y, static_cast<__mmask16>(step->lanes), step->indices, x);
        else
          y = _mm512_mask_permutexvar_epi16(y, step->lanes, step->indices, x);
      }
      _mm512_storeu_si512(dst + (v + 1 < vectors ? v * kVectorBytes : bytes - kVectorBytes), y);
    }
  }
}

bool transpose_large(int64_t element_bytes, const uint8_t* src, uint8_t* dst, int64_t rows, int64_t columns,
                     int64_t count) {
  constexpr int64_t kFewest = 64;  // matrices that are worth the tables
  // Larger ones of these elements go faster by blocks.
  const int64_t most = element_bytes == 2 ? kMostVectors : element_bytes == 4 ? kMostVectors / 2 : 0;
  if (rows * columns * element_bytes > most * kVectorBytes || count < kFewest) return false;
  if (element_bytes == 4) transpose_vectors<uint32_t>(src, dst, rows, columns, count);
  if (element_bytes == 2) transpose_vectors<uint16_t>(src, dst, rows, columns, count);
  return true;
}

bool transpose_many(int64_t element_bytes, const uint8_t* src, uint8_t* dst, int64_t rows, int64_t columns,
                    int64_t count) {
  constexpr int64_t kFewest = 1024;  // bytes that are worth the tables
  const int64_t bytes = rows * columns * element_bytes;
  if (bytes > kUnit) return transpose_large(element_bytes, src, dst, rows, columns, count);
  if (bytes * count < kFewest || element_bytes > 8) return false;
  const int64_t together = kUnit / bytes, unit = together * bytes, units = count / together;
  uint8_t from[kUnit];
  for (int64_t i = 0; i < unit; ++i) {
    const int64_t matrix = i / bytes, element = i % bytes / element_bytes;
    const int64_t place = element % rows * columns + element / rows;
    from[i] = static_cast<uint8_t>(matrix * bytes + place * element_bytes + i % element_bytes);
  }
  Shuffle vectors[2];
  for (int64_t v = 0; v < 2; ++v)
    for (int64_t i = 0; i < kVectorBytes; ++i) {
      const int64_t place = from[v * (unit - kVectorBytes) + i];
      vectors[v].places[i] = static_cast<uint8_t>(place < kVectorBytes ? place : place + kUnit - unit);
    }
  if (element_bytes == 8) {
    const __m512i n[2] = {vectors[0].indices<uint64_t>(), vectors[1].indices<uint64_t>()};
    each_unit(src, dst, unit, units,
              [&](__m512i a, __m512i b, int v) { return _mm512_permutex2var_epi64(a, n[v], b); });
  } else if (element_bytes == 4) {
    const __m512i n[2] = {vectors[0].indices<uint32_t>(), vectors[1].indices<uint32_t>()};
    each_unit(src, dst, unit, units,
              [&](__m512i a, __m512i b, int v) { return _mm512_permutex2var_epi32(a, n[v], b); });
  } else if (element_bytes == 2) {
    const __m512i n[2] = {vectors[0].indices<uint16_t>(), vectors[1].indices<uint16_t>()};
    each_unit(src, dst, unit, units,
              [&](__m512i a, __m512i b, int v) { return _mm512_permutex2var_epi16(a, n[v], b); });
  } else {
    // Pairs of bytes with the one for the low half of a pair of the result, and those with the one for the high half.
    __m512i low[2], high[2], down[2], up[2];
    for (int v = 0; v < 2; ++v) {
      low[v] = vectors[v].indices<uint16_t, 2>();
      high[v] = vectors[v].indices<uint16_t, 2>(1);
      alignas(64) uint16_t shifts[2][kVectorBytes / 2];
      for (int i = 0; i < kVectorBytes / 2; ++i) {
        shifts[0][i] = (vectors[v].places[2 * i] & 1) != 0 ? 8 : 0;
        shifts[1][i] = (vectors[v].places[2 * i + 1] & 1) != 0 ? 0 : 8;
      }
      down[v] = _mm512_load_si512(shifts[0]);
      up[v] = _mm512_load_si512(shifts[1]);
    }
    constexpr __mmask64 kHigh = 0xaaaaaaaaaaaaaaaa;
    each_unit(src, dst, unit, units, [&](__m512i a, __m512i b, int v) {
      const __m512i l = _mm512_srlv_epi16(_mm512_permutex2var_epi16(a, low[v], b), down[v]);
      const __m512i h = _mm512_sllv_epi16(_mm512_permutex2var_epi16(a, high[v], b), up[v]);
      return _mm512_mask_blend_epi8(kHigh, l, h);
    });
  }
  src += units * unit;
  dst += units * unit;
  for (int64_t i = 0; i < count % together * bytes; ++i) dst[i] = src[from[i]];
  return true;
}
#else
bool transpose_many(int64_t, const uint8_t*, uint8_t*, int64_t, int64_t, int64_t) { return false; }
#endif

// Whole vectors of kBytes, of which the last one of x overlaps others.
template <int kBytes>
void repeat_vectors(const uint8_t* x, int64_t bytes, uint8_t* y, int64_t count) {
  const hn::CappedTag<uint8_t, kBytes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kBlock = 4096;  // of y, where the next vector finds the cache lines that this one began
  const int64_t together = bytes < kBlock ? kBlock / bytes : 1;
  for (int64_t n; count > 0; count -= n, y += n * bytes) {
    n = count < together ? count : together;
    for (int64_t i = 0; i < bytes; i += lanes) {
      const int64_t at = i + lanes <= bytes ? i : bytes - lanes;
      const auto v = hn::LoadU(d, x + at);
      uint8_t* to = y + at;
      for (int64_t j = 0; j < n; ++j, to += bytes) hn::StoreU(v, d, to);
    }
  }
}

void repeat(const uint8_t* x, int64_t bytes, uint8_t* y, int64_t count) {
  if (bytes >= 64) return repeat_vectors<64>(x, bytes, y, count);
  if (bytes >= 32) return repeat_vectors<32>(x, bytes, y, count);
  repeat_vectors<16>(x, bytes, y, count);
}

void fill(const uint8_t* pattern, uint8_t* y, int64_t n) {
  const hn::CappedTag<uint8_t, 64> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < lanes) {
    for (int64_t i = 0; i < n; ++i) y[i] = pattern[i & 15];
    return;
  }
  constexpr int64_t kShort = 1024;  // bytes whose alignment is not worth finding
  if (n <= kShort && n % 16 == 0) {
    const auto v = hn::LoadDup128(d, pattern);
    for (int64_t i = 0; i + lanes <= n; i += lanes) hn::StoreU(v, d, y + i);
    hn::StoreU(v, d, y + n - lanes);
    return;
  }
  uint8_t twice[32];
  for (int i = 0; i < 32; ++i) twice[i] = pattern[i & 15];
  const auto from = [&](int64_t phase) {
    alignas(16) uint8_t turned[16];
    for (int i = 0; i < 16; ++i) turned[i] = twice[(phase & 15) + i];
    return hn::LoadDup128(d, turned);
  };
  // Both ends overlap what lies between them, which is aligned.
  hn::StoreU(from(0), d, y);
  int64_t i = lanes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(y) & static_cast<uintptr_t>(lanes - 1));
  const auto v = from(i);
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (int j = 0; j < 4; ++j) hn::StoreU(v, d, y + i + j * lanes);
  for (; i + lanes <= n; i += lanes) hn::StoreU(v, d, y + i);
  hn::StoreU(from(n - lanes), d, y + n - lanes);
}

#define TENON_PIXELS(T)                                                                                 \
  {                                                                                                     \
    {&apart<T, 2>, &together<T, 2>}, {&apart<T, 3>, &together<T, 3>}, { &apart<T, 4>, &together<T, 4> } \
  }

}  // namespace

extern const InterleaveTable interleave_table;
const InterleaveTable interleave_table = {TENON_PIXELS(uint8_t),
                                          TENON_PIXELS(uint16_t),
                                          TENON_PIXELS(uint32_t),
                                          &transpose8,
                                          &transpose_many,
                                          &to_blocks8,
                                          &from_blocks8,
                                          &repeat,
                                          &fill};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
