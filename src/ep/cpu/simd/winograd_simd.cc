// The interpolation points are 0, 1, -1, for tiles of 4 also 2, -2, on lines also 1/2 and -1/2, and infinity.
#include "ep/cpu/simd/winograd.h"

#include "ep/cpu/simd/halves.h"
#include "ep/cpu/simd/transpose8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// B^T d, in place.
template <typename V>
TENON_INLINE void input_transform(V (&d)[6]) {
  const V four = splat<V>(4), five = splat<V>(5), two = splat<V>(2);
  const V even = fnma8(four, d[2], d[4]), odd = fnma8(four, d[1], d[3]);
  const V even2 = d[4] - d[2], odd2 = two * (d[3] - d[1]);
  const V first = fma8(four, d[0], fnma8(five, d[2], d[4]));
  const V last = fma8(four, d[1], fnma8(five, d[3], d[5]));
  d[0] = first, d[1] = even + odd, d[2] = even - odd, d[3] = even2 + odd2, d[4] = even2 - odd2, d[5] = last;
}

template <typename V>
TENON_INLINE void input_transform(V (&d)[4]) {
  const V even = d[2] + d[1], odd = d[2] - d[1];
  d[0] = d[0] - d[2], d[3] = d[1] - d[3], d[1] = even, d[2] = odd;
}

// A^T m.
template <typename V>
TENON_INLINE void output_transform(const V (&m)[6], V (&o)[4]) {
  const V a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  o[0] = m[0] + a + c;
  o[1] = fma8(splat<V>(2), d, b);
  o[2] = fma8(splat<V>(4), c, a);
  o[3] = fma8(splat<V>(8), d, b) + m[5];
}

template <typename V>
TENON_INLINE void output_transform(const V (&m)[4], V (&o)[2]) {
  o[0] = m[0] + m[1] + m[2];
  o[1] = m[1] - m[2] - m[3];
}

// Where the inputs of a tile lie, 6x6 at most. At the borders the offsets stay inside, and `keep` is 0 for what must
// read as zero.
struct TilePlace {
  int64_t row[6], col[6];  // offsets in floats
  alignas(32) float keep_row[6], keep_col[6];
};

void place(const WinogradInput& in, int64_t row, int64_t col, TilePlace& at) {
  for (int64_t i = 0; i < 6; ++i) {
    const int64_t r = row + i, c = col + i;
    at.keep_row[i] = r >= 0 && r < in.height ? 1.0f : 0.0f;
    at.keep_col[i] = c >= 0 && c < in.width ? 1.0f : 0.0f;
    at.row[i] = (r < 0 ? 0 : r < in.height ? r : in.height - 1) * in.width * 8;
    at.col[i] = (c < 0 ? 0 : c < in.width ? c : in.width - 1) * 8;
  }
}

// The NxN inputs of a tile (F8) or of two neighbours (FW); `load(i, j)` gives those in row i, column j.
template <int N, typename V, typename Load>
TENON_INLINE void transform_tiles(const Load& load, float* v, int64_t v_step) {
  constexpr int kStep = static_cast<int>(sizeof(V) / sizeof(float));
  alignas(64) float t[N * N * kStep];
#pragma GCC unroll 1
  for (int j = 0; j < N; ++j) {
    V d[N];
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) d[i] = load(i, j);
    input_transform(d);
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) store8(t + (i * N + j) * kStep, d[i]);
  }
#pragma GCC unroll 1
  for (int i = 0; i < N; ++i) {
    V d[N];
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) d[j] = load_as<V>(t + (i * N + j) * kStep);
    input_transform(d);
    float* to = v + i * N * v_step;
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) store8(to + j * v_step, d[j]);
  }
}

template <int N>
void input_of(const WinogradInput& in) {
  constexpr int kOutputs = N - 2;
  int64_t tile_row = in.first / in.tiles_x, tile_col = in.first % in.tiles_x;
  for (int64_t t = 0; t < in.count; ++t) {
    const int64_t row = tile_row * kOutputs - in.pad_top, col = tile_col * kOutputs - in.pad_left;
    if (++tile_col == in.tiles_x) tile_col = 0, ++tile_row;
    float* v = in.v + t * 8;
    if (row < 0 || col < 0 || row + N > in.height || col + N > in.width) {
      TilePlace at;
      place(in, row, col, at);
      const auto load = [&](int i, int j) __attribute__((always_inline)) {
        // Selected, not multiplied: what lies there may be infinite.
        const F8 keep = set8(at.keep_col[j]) * set8(at.keep_row[i]);
        return select_lt8(zero8(), keep, load8(in.x + at.row[i] + at.col[j]), zero8());
      };
      transform_tiles<N, F8>(load, v, in.v_step);
      continue;
    }
    const float* x = in.x + (row * in.width + col) * 8;
    const int64_t x_row = in.width * 8;
#if HWY_MAX_BYTES >= 64
    // The tile after one of the interior is in the same row, if it is there and does not reach the border.
    if (t + 1 < in.count && tile_col != 0 && col + kOutputs + N <= in.width) {
      const auto load = [&](int i, int j) __attribute__((always_inline)) {
        const float* from = x + i * x_row + j * 8;
        return load_halves(from, from + kOutputs * 8);
      };
      transform_tiles<N, FW>(load, v, in.v_step);
      ++t;
      if (++tile_col == in.tiles_x) tile_col = 0, ++tile_row;
      continue;
    }
#endif
    transform_tiles<N, F8>([&](int i, int j) __attribute__((always_inline)) { return load8(x + i * x_row + j * 8); }, v,
                           in.v_step);
  }
}

void input(const WinogradInput& in) { in.tile_outputs == 4 ? input_of<6>(in) : input_of<4>(in); }

// A pixel of one tile (F8), or of two that are `step` floats apart (FW).
TENON_INLINE F8 load_tiles(const float* p, int64_t, F8) { return load8(p); }
TENON_INLINE void store_tiles(float* p, int64_t, F8 a) { store8(p, a); }
#if HWY_MAX_BYTES >= 64
TENON_INLINE FW load_tiles(const float* p, int64_t step, FW) { return load_halves(p, p + step); }
TENON_INLINE void store_tiles(float* p, int64_t step, FW a) { store_halves(p, p + step, a); }
#endif

// One tile (F8), or two neighbours of full width (FW); `rows` x `cols` of their outputs exist.
template <int N, typename V>
TENON_INLINE void output_tiles(const WinogradOutput& out, const float* m, int64_t at, int64_t rows, int64_t cols) {
  constexpr int kStep = static_cast<int>(sizeof(V) / sizeof(float)), kOutputs = N - 2;
  const V bias = repeat8<V>(out.bias), low = splat<V>(out.low), high = splat<V>(out.high), zero = splat<V>(0.0f);
  const bool before = out.residual != nullptr && !out.residual_after;
  const bool after = out.residual != nullptr && out.residual_after;
  alignas(64) float t[kOutputs * N * kStep];
#pragma GCC unroll 1
  for (int j = 0; j < N; ++j) {
    V column[N], o[kOutputs];
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) column[i] = load_as<V>(m + (i * N + j) * out.m_step);
    output_transform(column, o);
#pragma GCC unroll 4
    for (int i = 0; i < kOutputs; ++i) store8(t + (i * N + j) * kStep, o[i]);
  }
#pragma GCC unroll 1
  for (int64_t i = 0; i < rows; ++i, at += out.width * 8) {
    V line[N], o[kOutputs];
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) line[j] = load_as<V>(t + (i * N + j) * kStep);
    output_transform(line, o);
#pragma GCC unroll 4
    for (int j = 0; j < kOutputs; ++j) {
      if (j >= cols) break;
      V z = o[j] + bias;
      if (before) z = z + load_tiles(out.residual + at + j * 8, kOutputs * 8, zero);
      z = min8(high, max8(low, z));
      if (after) z = z + load_tiles(out.residual + at + j * 8, kOutputs * 8, zero);
      store_tiles(out.y + at + j * 8, kOutputs * 8, z);
    }
  }
}

template <int N>
void output_of(const WinogradOutput& out) {
  constexpr int kOutputs = N - 2;
  int64_t tile_row = out.first / out.tiles_x, tile_col = out.first % out.tiles_x;
  for (int64_t tile = 0; tile < out.count; ++tile) {
    const float* m = out.m + tile * 8;
    const int64_t row = tile_row * kOutputs, col = tile_col * kOutputs;
    if (++tile_col == out.tiles_x) tile_col = 0, ++tile_row;
    const int64_t rows = out.height - row < kOutputs ? out.height - row : kOutputs;
    const int64_t cols = out.width - col < kOutputs ? out.width - col : kOutputs;
    const int64_t at = (row * out.width + col) * 8;
#if HWY_MAX_BYTES >= 64
    if (tile + 1 < out.count && col + 2 * kOutputs <= out.width) {
      output_tiles<N, FW>(out, m, at, rows, kOutputs);
      ++tile;
      if (++tile_col == out.tiles_x) tile_col = 0, ++tile_row;
      continue;
    }
#endif
    output_tiles<N, F8>(out, m, at, rows, cols);
  }
}

void output(const WinogradOutput& out) { out.tile_outputs == 4 ? output_of<6>(out) : output_of<4>(out); }

// G g: 3 values to 6, or to 4.
TENON_INLINE void weight_transform(F8 g0, F8 g1, F8 g2, F8 (&u)[6]) {
  const F8 sixth = set8(1.0f / 6), twelfth = set8(1.0f / 12), small = set8(1.0f / 24);
  const F8 even = (g0 + g2) * sixth, odd = g1 * sixth;
  const F8 even2 = fma8(g2, sixth, g0 * small), odd2 = g1 * twelfth;
  u[0] = g0 * set8(0.25f);
  u[1] = neg8(even + odd);
  u[2] = odd - even;
  u[3] = even2 + odd2;
  u[4] = even2 - odd2;
  u[5] = g2;
}

TENON_INLINE void weight_transform(F8 g0, F8 g1, F8 g2, F8 (&u)[4]) {
  const F8 half = set8(0.5f), even = (g0 + g2) * half, odd = g1 * half;
  u[0] = g0, u[1] = even + odd, u[2] = even - odd, u[3] = g2;
}

// G g G^T of 3x3 weights of 8 output channels each.
template <int N>
void transform_weights(const float* g, float* u, int64_t u_step) {
  F8 t[N][3];
  for (int j = 0; j < 3; ++j) {
    F8 column[N];
    weight_transform(load8(g + j * 8), load8(g + 24 + j * 8), load8(g + 48 + j * 8), column);
    for (int i = 0; i < N; ++i) t[i][j] = column[i];
  }
  for (int i = 0; i < N; ++i) {
    F8 line[N];
    weight_transform(t[i][0], t[i][1], t[i][2], line);
    for (int j = 0; j < N; ++j) store8(u + (i * N + j) * u_step, line[j]);
  }
}

void weights(const float* w, int64_t w_out, int64_t tile_outputs, int channels, float* u, int64_t u_step) {
  alignas(32) float g[9 * 8];
#ifdef __AVX__
  if (channels == 8) {
    __m256 rows[8];
    for (int o = 0; o < 8; ++o) rows[o] = _mm256_loadu_ps(w + o * w_out);
    transpose8(rows);
    for (int k = 0; k < 8; ++k) _mm256_store_ps(g + k * 8, rows[k]);
    for (int o = 0; o < 8; ++o) g[64 + o] = w[o * w_out + 8];
  } else
#endif
    for (int k = 0; k < 9; ++k)
      for (int o = 0; o < 8; ++o) g[k * 8 + o] = o < channels ? w[o * w_out + k] : 0.0f;
  tile_outputs == 4 ? transform_weights<6>(g, u, u_step) : transform_weights<4>(g, u, u_step);
}

// B^T d of a line, in place.
TENON_INLINE void line_input_transform(F8 (&d)[8]) {
  const F8 c21 = set8(5.25f), c17 = set8(4.25f), c5 = set8(1.25f), c10 = set8(2.5f);
  const F8 quarter = set8(0.25f), half = set8(0.5f), two = set8(2.0f), four = set8(4.0f);
  const F8 first = fma8(d[4] - d[2], c21, d[0] - d[6]);
  const F8 last = fma8(d[3] - d[5], c21, d[7] - d[1]);
  const F8 even1 = fnma8(c17, d[4], d[2] + d[6]), odd1 = fnma8(c17, d[3], d[1] + d[5]);
  const F8 even2 = fma8(quarter, d[2], fnma8(c5, d[4], d[6])), odd2 = fma8(half, d[1], fnma8(c10, d[3], two * d[5]));
  const F8 even3 = fma8(four, fnma8(c5, d[4], d[2]), d[6]), odd3 = fma8(two, d[1], fnma8(c10, d[3], half * d[5]));
  d[0] = first, d[1] = even1 + odd1, d[2] = even1 - odd1, d[3] = even2 + odd2, d[4] = even2 - odd2;
  d[5] = even3 + odd3, d[6] = even3 - odd3, d[7] = last;
}

void line_input(const WinogradInput& in) {
  for (int64_t t = 0; t < in.count; ++t) {
    const int64_t col = (in.first + t) * in.tile_outputs - in.pad_left;
    F8 d[8];
    if (col >= 0 && col + 8 <= in.width) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) d[i] = load8(in.x + (col + i) * 8);
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) d[i] = col + i >= 0 && col + i < in.width ? load8(in.x + (col + i) * 8) : zero8();
    }
    line_input_transform(d);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) store8(in.v + i * in.v_step + t * 8, d[i]);
  }
}

void line_output(const WinogradOutput& out) {
  const F8 bias = load8(out.bias), low = set8(out.low), high = set8(out.high);
  for (int64_t tile = 0; tile < out.count; ++tile) {
    F8 m[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) m[i] = load8(out.m + i * out.m_step + tile * 8);
    const F8 sum1 = m[1] + m[2], sum2 = m[3] + m[4], sum3 = m[5] + m[6];
    const F8 difference1 = m[1] - m[2], difference2 = m[3] - m[4], difference3 = m[5] - m[6];
    F8 o[6];
    o[0] = m[0] + sum1 + sum2 + sum3;
    o[1] = fma8(set8(2), difference2, fma8(set8(0.5f), difference3, difference1));
    o[2] = fma8(set8(4), sum2, fma8(set8(0.25f), sum3, sum1));
    o[3] = fma8(set8(8), difference2, fma8(set8(0.125f), difference3, difference1));
    o[4] = fma8(set8(16), sum2, fma8(set8(0.0625f), sum3, sum1));
    o[5] = fma8(set8(32), difference2, fma8(set8(0.03125f), difference3, difference1));
    const int64_t col = (out.first + tile) * out.tile_outputs;
    const int64_t count = out.width - col < out.tile_outputs ? out.width - col : out.tile_outputs;
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      if (i >= count) break;
      F8 z = o[i] + bias;
      if (i + 1 == out.tile_outputs) z = z + m[7];
      const int64_t at = (col + i) * 8;
      if (out.residual != nullptr && !out.residual_after) z = z + load8(out.residual + at);
      z = min8(high, max8(low, z));
      if (out.residual != nullptr && out.residual_after) z = z + load8(out.residual + at);
      store8(out.y + at, z);
    }
  }
}

void line_weights(const float* w, int64_t w_out, int taps, int channels, float* u, int64_t u_step) {
  constexpr float kPoints[6] = {1, -1, 2, -2, 0.5f, -0.5f};
  constexpr float kFactors[6] = {-2.0f / 9, -2.0f / 9, 1.0f / 90, 1.0f / 90, 32.0f / 45, 32.0f / 45};
  F8 g[5] = {zero8(), zero8(), zero8(), zero8(), zero8()};
  for (int k = 0; k < taps; ++k) {
    alignas(32) float lanes[8] = {};
    for (int o = 0; o < channels; ++o) lanes[o] = w[o * w_out + k];
    g[k] = load8(lanes);
  }
  store8(u, g[0]);
  for (int p = 0; p < 6; ++p) {
    F8 value = g[taps - 1];
    for (int k = taps - 2; k >= 0; --k) value = fma8(value, set8(kPoints[p]), g[k]);
    store8(u + (p + 1) * u_step, value * set8(kFactors[p]));
  }
  store8(u + 7 * u_step, g[taps - 1]);
}

}  // namespace

extern const WinogradTable winograd_table;
const WinogradTable winograd_table = {&input, &output, &weights, &line_input, &line_output, &line_weights};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
