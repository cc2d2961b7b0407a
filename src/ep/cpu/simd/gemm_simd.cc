#include "ep/cpu/simd/gemm.h"

#include <type_traits>

#include "ep/cpu/simd/epilogue.h"
#include "ep/cpu/simd/gemm_tile.h"
#include "ep/cpu/simd/transpose4.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// B blocks of kGemmDepth x kBlockColumns stay in L2 while the rows pass.
constexpr int64_t kBlockColumns = 128;
constexpr int64_t kLargePlain = 128 << 10;
constexpr int kPlainDepth = 8;

TENON_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The tile is still in L1: a second pass over it costs little beside the product, and one product serves all
// activations.
using FinishTile = void (*)(float* c, int64_t ldc, const float* residual, int64_t ldr, int64_t rows, int64_t columns,
                            const Epilogue&);

template <Activation kActivation>
TENON_INLINE FW finished(FW x, const float* residual, int64_t count, FW alpha, FW beta, bool residual_after) {
  if (!residual) return activate8<kActivation>(x, alpha, beta);
  const FW r = count == kWide ? load_wide(residual) : load_part_wide(residual, count, 0);
  if (residual_after) return activate8<kActivation>(x, alpha, beta) + r;
  return activate8<kActivation>(x + r, alpha, beta);
}

template <Activation kActivation>
void finish_tile(float* c, int64_t ldc, const float* residual, int64_t ldr, int64_t rows, int64_t columns,
                 const Epilogue& epilogue) {
  const FW alpha = set_wide(epilogue.alpha), beta = set_wide(epilogue.beta);
  const bool after = epilogue.residual_after;
  for (int64_t i = 0; i < rows; ++i, c += ldc) {
    const float* const r = residual ? residual + i * ldr : nullptr;
    int64_t j = 0;
    for (; j + kWide <= columns; j += kWide)
      store_wide(c + j, finished<kActivation>(load_wide(c + j), r ? r + j : nullptr, kWide, alpha, beta, after));
    if (const int64_t rest = columns - j; rest > 0) {
      const FW x = load_part_wide(c + j, rest, 0);
      store_part_wide(c + j, rest, finished<kActivation>(x, r ? r + j : nullptr, rest, alpha, beta, after));
    }
  }
}

FinishTile choose_finish(const GemmTask& task) {
  FinishTile finish = nullptr;
  if (task.residual == nullptr && task.epilogue.activation == Activation::kNone) return finish;
  with_activation(task.epilogue.activation, [&]<Activation kA>() { finish = &finish_tile<kA>; });
  return finish;
}

// The last panel of a matrix whose columns are no multiple of 16: through a buffer of whole panels, where there are no
// masks.
template <typename B>
void product_part(Tile<B> tile, int64_t rows, int64_t columns) {
  alignas(64) float c[kTileRows * kGemmPanel] = {};
  alignas(64) float bias[kGemmPanel] = {};
  float* const target = tile.c;
  const int64_t ldc = tile.ldc;
  if (tile.accumulate)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) c[i * kGemmPanel + j] = target[i * ldc + j];
  if (tile.bias) {
    for (int64_t j = 0; j < columns; ++j) bias[j] = tile.bias[j];
    tile.bias = bias;
  }
  tile.c = c;
  tile.ldc = kGemmPanel;
  product(tile, rows, 1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) target[i * ldc + j] = c[i * kGemmPanel + j];
}

// Rows of the tile that begins at `m`: full ones, but the last two share what is left, because tiles of one or two rows
// leave the multipliers idle (128 rows: 20 tiles of 6, then 4 and 4).
template <int kMostRows>
TENON_INLINE int64_t tile_rows(int64_t m, int64_t end) {
  const int64_t left = end - m;
  if (left <= kMostRows) return left;
  if (left >= 2 * kMostRows) return kMostRows;
  return (left + 1) / 2;
}

// Panels of the next tile of `rows` rows, where `columns` are left.
template <typename B>
TENON_INLINE int64_t tile_panels(int64_t rows, int64_t columns) {
  const int64_t left = kMaskedColumns ? gemm_panels(columns) : columns / kGemmPanel;
  int64_t panels = first_panels<B>(rows);
  while (panels > 1 && panels > left) panels = fewer_panels<B>(panels);
  return panels;
}

template <typename B>
void run_blocks(const GemmTask& task, const typename B::Element* b, FinishTile finish) {
  // Few rows of A stay in L1 whatever the depth.
  const int64_t depth_blocks = task.m <= kGemmNarrowRows ? 1 : (task.k + kGemmDepth - 1) / kGemmDepth;
  int64_t depth = depth_blocks <= 1 ? task.k : (task.k + depth_blocks - 1) / depth_blocks;
  int64_t block_columns = kBlockColumns;
  // A large B that is read once comes as whole rows, a few at a time: so the prefetchers keep up.
  if (!B::kPacked && task.m <= B::kMostRows && task.k * task.n >= kLargePlain && task.residual != task.c)
    depth = kPlainDepth, block_columns = task.n;
  for (int64_t n1 = 0; n1 < task.n; n1 += block_columns) {
    const int64_t n_end = least(task.n, n1 + block_columns);
    for (int64_t k0 = 0; k0 == 0 || k0 < task.k; k0 += depth) {
      for (int64_t m = 0, rows = 0; m < task.m; m += rows) {
        rows = tile_rows<B::kMostRows>(m, task.m);
        for (int64_t n = n1, columns = 0; n < n_end; n += columns) {
          const int64_t panels = tile_panels<B>(rows, n_end - n);
          columns = least(panels * kGemmPanel, n_end - n);
          const Tile<B> tile{
              .a = task.a + m * task.lda + k0,
              .lda = task.lda,
              .b = B::kPacked ? b + n / kGemmPanel * task.panel_stride + k0 * kGemmPanel : b + n + k0 * task.row_stride,
              .panel_stride = task.panel_stride,
              .row_stride = task.row_stride,
              .k = least(depth, task.k - k0),
              .c = task.c + m * task.ldc + n,
              .ldc = task.ldc,
              .last_columns = columns - (panels - 1) * kGemmPanel,
              .accumulate = k0 > 0,
              .last = k0 + depth >= task.k,
              .alpha = task.alpha,
              .bias = task.bias ? task.bias + n : nullptr};
          if (kMaskedColumns || columns == panels * kGemmPanel) {
            product(tile, rows, panels);
          } else {
            product_part(tile, rows, columns);
          }
          if (finish && tile.last)
            finish(tile.c, tile.ldc, task.residual ? task.residual + m * task.ldr + n : nullptr, task.ldr, rows,
                   columns, task.epilogue);
        }
      }
      if (task.k == 0) break;
    }
  }
}

// c[j] += a[p] * b[p * row_stride + j] for p < kDepth, or c[j] = that sum if `first`.
template <int kDepth>
void add_rows_of_b(const float* a, const float* b, int64_t row_stride, bool first, float* c, int64_t n) {
  FW factors[kDepth];
#pragma GCC unroll 8
  for (int p = 0; p < kDepth; ++p) factors[p] = set_wide(a[p]);
  int64_t j = 0;
  for (; j + kWide <= n; j += kWide) {
    FW x = first ? zero_wide() : load_wide(c + j);
#pragma GCC unroll 8
    for (int p = 0; p < kDepth; ++p) x = fma8(factors[p], load_wide(b + p * row_stride + j), x);
    store_wide(c + j, x);
  }
  if (const int64_t rest = n - j; rest > 0) {
    FW x = first ? zero_wide() : load_part_wide(c + j, rest, 0);
    for (int p = 0; p < kDepth; ++p) x = fma8(factors[p], load_part_wide(b + p * row_stride + j, rest, 0), x);
    store_part_wide(c + j, rest, x);
  }
}

// One row times a B that is read once, as whole rows: as fast as memory gives them.
void run_one_row(const GemmTask& task, FinishTile finish) {
  int64_t p = 0;
  for (; p + kPlainDepth <= task.k; p += kPlainDepth)
    add_rows_of_b<kPlainDepth>(task.a + p, task.plain_b + p * task.row_stride, task.row_stride, p == 0, task.c, task.n);
  for (; p < task.k; ++p)
    add_rows_of_b<1>(task.a + p, task.plain_b + p * task.row_stride, task.row_stride, p == 0, task.c, task.n);
  for (int64_t j = 0; (task.bias || task.alpha != 1) && j < task.n; ++j)
    task.c[j] = task.c[j] * task.alpha + (task.bias ? task.bias[j] : 0);
  if (finish) finish(task.c, task.ldc, task.residual, task.ldr, 1, task.n, task.epilogue);
}

// Dot products of kRows rows of A and kColumns columns of B, whose elements are neighbours.
template <int kRows, int kColumns>
void dots(const GemmTask& task, int64_t m, int64_t n) {
  const float* const a = task.a + m * task.lda;
  const float* const b = task.plain_b + n * task.column_stride;
  FW x[kRows][kColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) x[i][j] = zero_wide();
  const auto step = [&](int64_t p, auto load) {
    FW y[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) y[j] = load(b + j * task.column_stride + p);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const FW value = load(a + i * task.lda + p);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) x[i][j] = fma8(value, y[j], x[i][j]);
    }
  };
  int64_t p = 0;
  for (; p + kWide <= task.k; p += kWide) step(p, [](const float* from) { return load_wide(from); });
  if (const int64_t rest = task.k - p; rest > 0)
    step(p, [&](const float* from) { return load_part_wide(from, rest, 0); });
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j)
      task.c[(m + i) * task.ldc + n + j] = sum8(x[i][j]) * task.alpha + (task.bias ? task.bias[n + j] : 0);
}

template <int kRows>
void run_dot_rows(const GemmTask& task, int64_t m) {
  int64_t n = 0;
  for (; n + 4 <= task.n; n += 4) dots<kRows, 4>(task, m, n);
  if (task.n - n == 3) return dots<kRows, 3>(task, m, n);
  if (task.n - n == 2) return dots<kRows, 2>(task, m, n);
  if (n < task.n) dots<kRows, 1>(task, m, n);
}

void run_dots(const GemmTask& task, FinishTile finish) {
  constexpr int kRows = HWY_MAX_BYTES >= 64 ? 4 : HWY_MAX_BYTES >= 32 ? 2 : 1;
  int64_t m = 0;
  for (; m + kRows <= task.m; m += kRows) run_dot_rows<kRows>(task, m);
  for (; m < task.m; ++m) run_dot_rows<1>(task, m);
  if (finish) finish(task.c, task.ldc, task.residual, task.ldr, task.m, task.n, task.epilogue);
}

// Rows of kColumns numbers, 4 at least, in as few vectors as the set has.
template <int kColumns>
struct Row {
  using D = hn::CappedTag < float, kColumns<16 ? kColumns : 16>;
  static constexpr int kLanes = HWY_MAX_BYTES / 4 < kColumns ? HWY_MAX_BYTES / 4 : kColumns;
  static constexpr int kVectors = kColumns / kLanes;
};

// So few columns that tiles would be mostly empty or, over a short depth, cost more than their products. Rows of C lie
// without gaps, and the lanes behind a row are overwritten by the next one.
template <int kColumns>
void run_few_columns(const GemmTask& task) {
  using R = Row<kColumns>;
  using V = hn::Vec<typename R::D>;
  const typename R::D d;
  constexpr int kVectors = R::kVectors, kRows = HWY_MAX_BYTES >= 32 ? (kVectors == 1 ? 8 : 4) : 2;
  alignas(64) float added[2][kColumns] = {};  // the bias; a row
  if (task.bias)
    for (int64_t j = 0; j < task.n; ++j) added[0][j] = task.bias[j];
  const V alpha = hn::Set(d, task.alpha);
  const auto rows = [&](const float* a, auto count, const auto& place) {
    constexpr int kCount = count();
    V x[kCount][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) x[i][v] = hn::Zero(d);
    for (int64_t p = 0; p < task.k; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const V y = hn::LoadU(d, task.b + p * kGemmPanel + v * R::kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) x[i][v] = hn::MulAdd(hn::Set(d, a[i * task.lda + p]), y, x[i][v]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(hn::MulAdd(x[i][v], alpha, hn::LoadU(d, added[0] + v * R::kLanes)), d, place(i) + v * R::kLanes);
  };
  int64_t m = 0;
  const auto whole = [&](auto count) {
    for (; (m + count() - 1) * task.n + kColumns <= task.m * task.n; m += count())
      rows(task.a + m * task.lda, count, [&](int i) { return task.c + (m + i) * task.n; });
  };
  whole(std::integral_constant<int, kRows>());
  whole(std::integral_constant<int, kRows / 2>());
  for (; m < task.m; ++m) {
    rows(task.a + m * task.lda, std::integral_constant<int, 1>(), [&](int) { return added[1]; });
    for (int64_t j = 0; j < task.n; ++j) task.c[m * task.n + j] = added[1][j];
  }
}

// So short a depth that writing C is most of the work, which goes fastest from end to end.
constexpr int kShallow = 4;

template <int kDepth>
void run_shallow(const GemmTask& task, FinishTile finish) {
  alignas(64) static constexpr float kZeros[kGemmPanel] = {};
  const FW alpha = set_wide(task.alpha);
  const int64_t columns = task.n, bias_step = task.bias ? kGemmPanel : 0;
  for (int64_t m = 0; m < task.m; ++m) {
    FW a[kDepth];
#pragma GCC unroll 4
    for (int p = 0; p < kDepth; ++p) a[p] = set_wide(task.a[m * task.lda + p]);
    const auto products = [&a](const float* b) {
      FW x = a[0] * load_wide(b);
#pragma GCC unroll 4
      for (int p = 1; p < kDepth; ++p) x = fma8(a[p], load_wide(b + p * kGemmPanel), x);
      return x;
    };
    const float *b = task.b, *bias = task.bias ? task.bias : kZeros;
    float *c = task.c + m * task.ldc, *const row = c;
    int64_t left = columns;
    for (; left >= kGemmPanel; left -= kGemmPanel, c += kGemmPanel, b += kDepth * kGemmPanel, bias += bias_step)
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVectors; ++v)
        store_wide(c + v * kWide, fma8(products(b + v * kWide), alpha, load_wide(bias + v * kWide)));
    for (int64_t j = 0; j < left; j += kWide) {
      const int64_t rest = least(kWide, left - j);
      store_part_wide(c + j, rest, fma8(products(b + j), alpha, load_part_wide(bias + j, rest, 0)));
    }
    if (finish)
      finish(row, task.ldc, task.residual ? task.residual + m * task.ldr : nullptr, task.ldr, 1, columns,
             task.epilogue);
  }
}

void run_shallow(const GemmTask& whole, FinishTile finish) {
  constexpr int64_t kFloats = 6 << 10;  // of B, which stay in L1 while the rows pass
  const int64_t step = kFloats / whole.k / kGemmPanel * kGemmPanel;
  GemmTask task = whole;
  for (int64_t n = 0; n < whole.n; n += step) {
    task.b = whole.b + n * whole.k;
    task.c = whole.c + n;
    task.bias = whole.bias ? whole.bias + n : nullptr;
    task.residual = whole.residual ? whole.residual + n : nullptr;
    task.n = least(step, whole.n - n);
    if (task.k == 1) run_shallow<1>(task, finish);
    if (task.k == 2) run_shallow<2>(task, finish);
    if (task.k == 3) run_shallow<3>(task, finish);
    if (task.k == 4) run_shallow<4>(task, finish);
  }
}

void run(const GemmTask& task) {
  const FinishTile finish = choose_finish(task);
  if (task.b != nullptr && task.plain_b == nullptr && task.residual != task.c) {
    // Rows that come singly would wait for each product.
    constexpr int64_t kTogether = 8;
    const bool few =
        task.n <= 8 ? task.m >= kTogether || task.k <= 4 * kShallow : task.n <= kGemmPanel && task.k <= 4 * kShallow;
    if (task.ldc == task.n && few) {
      task.n <= 4 ? run_few_columns<4>(task) : task.n <= 8 ? run_few_columns<8>(task) : run_few_columns<16>(task);
      if (finish) finish(task.c, task.ldc, task.residual, task.ldr, task.m, task.n, task.epilogue);
      return;
    }
    // Beginning a row costs what a few vectors do.
    constexpr int64_t kLongRow = 256;
    if (task.k > 0 && task.k <= kShallow && task.n > kGemmPanel && (task.k <= 2 || task.n >= kLongRow))
      return run_shallow(task, finish);
  }
  if (task.plain_b != nullptr && task.column_stride == 1 && task.m == 1 && task.k * task.n >= kLargePlain &&
      task.residual != task.c)
    return run_one_row(task, finish);
  if (task.plain_b != nullptr)
    return task.column_stride == 1 ? run_blocks<PlainB>(task, task.plain_b, finish) : run_dots(task, finish);
  if (task.narrow_b == nullptr) return run_blocks<PackedB>(task, task.b, finish);
  if (task.brain) return run_blocks<NarrowB<Brain>>(task, task.narrow_b, finish);
  return run_blocks<NarrowB<Half>>(task, task.narrow_b, finish);
}

// One panel of B from columns that are no neighbours, or of fewer than 16 columns.
void pack_panel(const float* in, int64_t row_stride, int64_t column_stride, int64_t k, int64_t columns, float* out) {
  int64_t p = 0;
  if (columns == kGemmPanel && row_stride == 1)
    for (; p + 4 <= k; p += 4)
      for (int64_t j = 0; j < kGemmPanel; j += 4)
        transpose4x4(in + j * column_stride + p, column_stride, out + p * kGemmPanel + j, kGemmPanel);
  if (column_stride == 1) {
    for (; p < k; ++p)
      for (int64_t j = 0; j < kGemmPanel; j += kWide)
        store_wide(out + p * kGemmPanel + j,
                   load_part_wide(in + p * row_stride + j, least(kWide, columns > j ? columns - j : 0), 0));
  }
  for (; p < k; ++p)
    for (int64_t j = 0; j < kGemmPanel; ++j)
      out[p * kGemmPanel + j] = j < columns ? in[p * row_stride + j * column_stride] : 0.0f;
}

void pack(const float* b, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n, int64_t first, int64_t last,
          float* packed) {
  constexpr int64_t kTogether = 8;  // panels: eight cache lines of each row of B
  for (int64_t panel = first, count = 1; panel < last; panel += count) {
    float* const out = packed + panel * k * kGemmPanel;
    const float* const in = b + panel * kGemmPanel * column_stride;
    count = column_stride == 1 ? least(least(kTogether, last - panel), n / kGemmPanel - panel) : 0;
    for (int64_t p = 0; count > 0 && p < k; ++p)
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < kGemmPanel; j += kWide)
          store_wide(out + (i * k + p) * kGemmPanel + j, load_wide(in + p * row_stride + i * kGemmPanel + j));
    if (count > 0) continue;
    count = 1;
    pack_panel(in, row_stride, column_stride, k, least(kGemmPanel, n - panel * kGemmPanel), out);
  }
}

}  // namespace

extern const GemmTable gemm_table;
const GemmTable gemm_table = {&run, &pack};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
