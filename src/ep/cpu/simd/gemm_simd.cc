#include "ep/cpu/simd/gemm.h"

#include "ep/cpu/simd/epilogue.h"
#include "ep/cpu/simd/half8.h"
#include "ep/cpu/simd/transpose4.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// 6 x 16 takes 12 accumulators of 256 bits, two of B and one of A: all 16 registers of AVX2. With 128 bits, 2 x 16
// does.
constexpr int kTileRows = HWY_MAX_BYTES >= 32 ? 6 : 2;
// B blocks of kGemmDepth x kBlockColumns stay in L2 while the rows pass.
constexpr int64_t kBlockColumns = 128;

TENON_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// One panel's products for kRows rows: c = [c +] a * b, or alpha times that plus bias when `bias` is given (last).
struct Tile {
  const float* a;
  int64_t lda;
  const float* b;
  int64_t k;
  float* c;
  int64_t ldc;
  bool accumulate;
  bool last;
  float alpha;
  const float* bias;  // 16 values or null
};

template <int kRows>
void product_tile(const Tile& t) {
  F8 x[kRows][2];
  if (t.accumulate) {
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      x[i][0] = load8(t.c + i * t.ldc);
      x[i][1] = load8(t.c + i * t.ldc + 8);
    }
  } else {
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) x[i][0] = x[i][1] = zero8();
  }
  // Two base pointers: six rows are then reached with one index register each way.
  const int64_t lda = t.lda;
  const float* low = t.a;
  const float* high = t.a + 3 * lda;
  const float* b = t.b;
  for (int64_t p = 0; p < t.k; ++p) {
    const F8 b0 = load8(b), b1 = load8(b + 8);
    b += kGemmPanel;
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const F8 v = set8(i < 3 ? low[i * lda] : high[(i - 3) * lda]);
      x[i][0] = fma8(v, b0, x[i][0]);
      x[i][1] = fma8(v, b1, x[i][1]);
    }
    ++low, ++high;
  }
  if (t.last) {
    const F8 alpha = set8(t.alpha);
    const F8 bias0 = t.bias ? load8(t.bias) : zero8();
    const F8 bias1 = t.bias ? load8(t.bias + 8) : zero8();
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      x[i][0] = fma8(x[i][0], alpha, bias0);
      x[i][1] = fma8(x[i][1], alpha, bias1);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    store8(t.c + i * t.ldc, x[i][0]);
    store8(t.c + i * t.ldc + 8, x[i][1]);
  }
}

void product(const Tile& tile, int64_t rows) {
  switch (rows) {
    case 1:
      return product_tile<1>(tile);
    case 2:
      return product_tile<2>(tile);
#if HWY_MAX_BYTES >= 32
    case 3:
      return product_tile<3>(tile);
    case 4:
      return product_tile<4>(tile);
    case 5:
      return product_tile<5>(tile);
    case 6:
      return product_tile<6>(tile);
#endif
  }
}

// The tile is still in L1: a second pass over it costs little beside the product, and one product serves all
// activations.
using FinishTile = void (*)(float* c, int64_t ldc, const float* residual, int64_t ldr, int64_t rows, const Epilogue&);

template <Activation kActivation>
void finish_tile(float* c, int64_t ldc, const float* residual, int64_t ldr, int64_t rows, const Epilogue& epilogue) {
  const F8 alpha = set8(epilogue.alpha), beta = set8(epilogue.beta);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kGemmPanel; j += 8) {
      F8 x = load8(c + i * ldc + j);
      if (!residual) {
        x = activate8<kActivation>(x, alpha, beta);
      } else if (epilogue.residual_after) {
        x = activate8<kActivation>(x, alpha, beta) + load8(residual + i * ldr + j);
      } else {
        x = activate8<kActivation>(x + load8(residual + i * ldr + j), alpha, beta);
      }
      store8(c + i * ldc + j, x);
    }
  }
}

FinishTile choose_finish(const GemmTask& task) {
  FinishTile finish = nullptr;
  if (task.residual == nullptr && task.epilogue.activation == Activation::kNone) return finish;
  with_activation(task.epilogue.activation, [&]<Activation kA>() { finish = &finish_tile<kA>; });
  return finish;
}

// The last panel of a matrix whose columns are no multiple of 16: through a buffer of whole panels.
void run_narrow(const GemmTask& task, Tile tile, int64_t rows, int64_t columns, const float* residual,
                FinishTile finish) {
  alignas(64) float c[kTileRows * kGemmPanel] = {};
  alignas(64) float r[kTileRows * kGemmPanel] = {};
  alignas(64) float bias[kGemmPanel] = {};
  float* const target = tile.c;
  if (tile.accumulate)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) c[i * kGemmPanel + j] = target[i * task.ldc + j];
  if (tile.bias) {
    for (int64_t j = 0; j < columns; ++j) bias[j] = tile.bias[j];
    tile.bias = bias;
  }
  tile.c = c;
  tile.ldc = kGemmPanel;
  product(tile, rows);
  if (finish && tile.last) {
    if (residual)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) r[i * kGemmPanel + j] = residual[i * task.ldr + j];
    finish(c, kGemmPanel, residual ? r : nullptr, kGemmPanel, rows, task.epilogue);
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) target[i * task.ldc + j] = c[i * kGemmPanel + j];
}

// One row: bound by the memory of B, so four panels at once keep enough loads in flight.
void run_row(const GemmTask& task, FinishTile finish) {
  constexpr int kPanels = HWY_MAX_BYTES >= 32 ? 4 : 2;
  const F8 alpha = set8(task.alpha);
  const int64_t whole = task.n / (kPanels * kGemmPanel) * (kPanels * kGemmPanel);
  for (int64_t n = 0; n < whole; n += kPanels * kGemmPanel) {
    const float* b = task.b + n / kGemmPanel * task.panel_stride;
    F8 x[kPanels][2];
#pragma GCC unroll 4
    for (int i = 0; i < kPanels; ++i) x[i][0] = x[i][1] = zero8();
    for (int64_t p = 0; p < task.k; ++p, b += kGemmPanel) {
      const F8 v = set8(task.a[p]);
#pragma GCC unroll 4
      for (int i = 0; i < kPanels; ++i) {
        x[i][0] = fma8(v, load8(b + i * task.panel_stride), x[i][0]);
        x[i][1] = fma8(v, load8(b + i * task.panel_stride + 8), x[i][1]);
      }
    }
    for (int i = 0; i < kPanels; ++i) {
      const int64_t column = n + i * kGemmPanel;
      const F8 bias0 = task.bias ? load8(task.bias + column) : zero8();
      const F8 bias1 = task.bias ? load8(task.bias + column + 8) : zero8();
      store8(task.c + column, fma8(x[i][0], alpha, bias0));
      store8(task.c + column + 8, fma8(x[i][1], alpha, bias1));
      if (finish) finish(task.c + column, 0, task.residual ? task.residual + column : nullptr, 0, 1, task.epilogue);
    }
  }
  for (int64_t n = whole; n < task.n; n += kGemmPanel) {
    const float* const residual = task.residual ? task.residual + n : nullptr;
    const Tile tile{.a = task.a,
                    .lda = 0,
                    .b = task.b + n / kGemmPanel * task.panel_stride,
                    .k = task.k,
                    .c = task.c + n,
                    .ldc = 0,
                    .accumulate = false,
                    .last = true,
                    .alpha = task.alpha,
                    .bias = task.bias ? task.bias + n : nullptr};
    if (n + kGemmPanel > task.n) {
      run_narrow(task, tile, 1, task.n - n, residual, finish);
    } else {
      product_tile<1>(tile);
      if (finish) finish(tile.c, 0, residual, 0, 1, task.epilogue);
    }
  }
}

// kPanels panels of B in 16 bits for kRows rows, into a buffer of whole panels.
template <typename T, int kRows, int kPanels>
TENON_INLINE void narrow_tile(const GemmTask& task, int64_t n, float* out) {
  F8 x[kRows][kPanels][2];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) x[i][j][0] = x[i][j][1] = zero8();
  const uint16_t* b = task.narrow_b + n / kGemmPanel * task.panel_stride;
  for (int64_t p = 0; p < task.k; ++p, b += kGemmPanel) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) {
      const F8 b0 = T::load8(b + j * task.panel_stride), b1 = T::load8(b + j * task.panel_stride + 8);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const F8 v = set8(task.a[i * task.lda + p]);
        x[i][j][0] = fma8(v, b0, x[i][j][0]);
        x[i][j][1] = fma8(v, b1, x[i][j][1]);
      }
    }
  }
  const F8 alpha = set8(task.alpha);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) {
      float* const to = out + (i * kPanels + j) * kGemmPanel;
      store8(to, x[i][j][0] * alpha);
      store8(to + 8, x[i][j][1] * alpha);
    }
  }
}

template <typename T, int kRows>
void run_narrow_rows(const GemmTask& task, FinishTile finish) {
  constexpr int kPanels = kRows == 1 ? (HWY_MAX_BYTES >= 32 ? 4 : 2) : 1;
  alignas(64) float out[kRows * kPanels * kGemmPanel];
  const auto finish_panel = [&](const float* from, int64_t row, int64_t n) {
    const int64_t columns = least(kGemmPanel, task.n - n);
    alignas(64) float c[kGemmPanel], r[kGemmPanel] = {};
    for (int64_t j = 0; j < kGemmPanel; ++j) c[j] = from[j];
    if (task.bias)
      for (int64_t j = 0; j < columns; ++j) c[j] += task.bias[n + j];
    if (finish) {
      if (task.residual)
        for (int64_t j = 0; j < columns; ++j) r[j] = task.residual[row * task.ldr + n + j];
      finish(c, 0, task.residual ? r : nullptr, 0, 1, task.epilogue);
    }
    for (int64_t j = 0; j < columns; ++j) task.c[row * task.ldc + n + j] = c[j];
  };
  int64_t n = 0;
  for (; n + kPanels * kGemmPanel <= task.n; n += kPanels * kGemmPanel) {
    narrow_tile<T, kRows, kPanels>(task, n, out);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kPanels; ++j) finish_panel(out + (i * kPanels + j) * kGemmPanel, i, n + j * kGemmPanel);
  }
  for (; n < task.n; n += kGemmPanel) {
    narrow_tile<T, kRows, 1>(task, n, out);
    for (int i = 0; i < kRows; ++i) finish_panel(out + i * kGemmPanel, i, n);
  }
}

template <typename T>
void run_narrow_b(const GemmTask& task, FinishTile finish) {
  switch (task.m) {
    case 1:
      return run_narrow_rows<T, 1>(task, finish);
    case 2:
      return run_narrow_rows<T, 2>(task, finish);
    case 3:
      return run_narrow_rows<T, 3>(task, finish);
    case 4:
      return run_narrow_rows<T, 4>(task, finish);
  }
}

// Rows of the tile that begins at `m`: full ones, but the last two share what is left, because tiles of one or two rows
// leave the multipliers idle (128 rows: 20 tiles of 6, then 4 and 4).
TENON_INLINE int64_t tile_rows(int64_t m, int64_t end) {
  const int64_t left = end - m;
  if (left <= kTileRows) return left;
  if (left >= 2 * kTileRows) return kTileRows;
  return (left + 1) / 2;
}

void run(const GemmTask& task) {
  const FinishTile finish = choose_finish(task);
  if (task.narrow_b != nullptr)
    return task.brain ? run_narrow_b<Brain>(task, finish) : run_narrow_b<Half>(task, finish);
  if (task.m == 1) return run_row(task, finish);
  const int64_t depth_blocks = task.k == 0 ? 1 : (task.k + kGemmDepth - 1) / kGemmDepth;
  const int64_t depth = (task.k + depth_blocks - 1) / depth_blocks;
  for (int64_t n1 = 0; n1 < task.n; n1 += kBlockColumns) {
    const int64_t n_end = least(task.n, n1 + kBlockColumns);
    for (int64_t block = 0; block < depth_blocks; ++block) {
      const int64_t k0 = block * depth;
      for (int64_t m = 0, rows = 0; m < task.m; m += rows) {
        rows = tile_rows(m, task.m);
        for (int64_t n = n1; n < n_end; n += kGemmPanel) {
          const Tile tile{.a = task.a + m * task.lda + k0,
                          .lda = task.lda,
                          .b = task.b + n / kGemmPanel * task.panel_stride + k0 * kGemmPanel,
                          .k = least(depth, task.k - k0),
                          .c = task.c + m * task.ldc + n,
                          .ldc = task.ldc,
                          .accumulate = block > 0,
                          .last = block + 1 == depth_blocks,
                          .alpha = task.alpha,
                          .bias = task.bias ? task.bias + n : nullptr};
          const float* const residual = task.residual ? task.residual + m * task.ldr + n : nullptr;
          if (n + kGemmPanel > task.n) {
            run_narrow(task, tile, rows, task.n - n, residual, finish);
          } else {
            product(tile, rows);
            if (finish && tile.last) finish(tile.c, tile.ldc, residual, task.ldr, rows, task.epilogue);
          }
        }
      }
    }
  }
}

void pack(const float* b, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n, int64_t first, int64_t last,
          float* packed) {
  for (int64_t panel = first; panel < last; ++panel) {
    float* const out = packed + panel * k * kGemmPanel;
    const float* const in = b + panel * kGemmPanel * column_stride;
    const int64_t columns = least(kGemmPanel, n - panel * kGemmPanel);
    if (columns == kGemmPanel && column_stride == 1) {
      for (int64_t p = 0; p < k; ++p) {
        store8(out + p * kGemmPanel, load8(in + p * row_stride));
        store8(out + p * kGemmPanel + 8, load8(in + p * row_stride + 8));
      }
      continue;
    }
    int64_t p = 0;
    if (columns == kGemmPanel && row_stride == 1)
      for (; p + 4 <= k; p += 4)
        for (int64_t j = 0; j < kGemmPanel; j += 4)
          transpose4x4(in + j * column_stride + p, column_stride, out + p * kGemmPanel + j, kGemmPanel);
    for (; p < k; ++p)
      for (int64_t j = 0; j < kGemmPanel; ++j)
        out[p * kGemmPanel + j] = j < columns ? in[p * row_stride + j * column_stride] : 0.0f;
  }
}

}  // namespace

extern const GemmTable gemm_table;
const GemmTable gemm_table = {&run, &pack};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
