// Sums of products of bytes become C: corrected, scaled, activated and requantised. Only for int8_simd.cc.
#pragma once

#include "ep/cpu/simd/epilogue.h"
#include "ep/cpu/simd/int8_tile.h"
#include "ep/cpu/simd/nearest.h"
#include "ep/cpu/simd/quantize.h"

// Every CPU with AMX has AVX-512 with VNNI: the tiles are a second table of that set.
#if defined(__AVX512VNNI__)
#define TENON_AMX 1
#include "ep/cpu/simd/tiles.h"
#else
#define TENON_AMX 0
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

TENON_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

constexpr int64_t kWidth = kInt8Panel * kInt8TilePanels;  // columns of a tile
#if TENON_AMX
constexpr int64_t kMostRows = 2 * kTileHeight;  // of a tile
#else
constexpr int64_t kMostRows = kInt8TileRows;
#endif

// Elements of the arrays of columns that are left out.
struct Blanks {
  alignas(64) int32_t zeros[kWidth] = {};
  alignas(64) float float_zeros[kWidth] = {};
  alignas(64) float ones[kWidth];
  Blanks() {
    for (float& one : ones) one = 1;
  }
};

// The integers of a step, less its zero point. Of a NaN and a number, Max gives its second operand, or the number.
TENON_INLINE VF32 steps_of(VF32 x, const Int8Step& step) {
  const DF32 d;
  const VF32 low = hn::Set(d, step.low - step.zero), high = hn::Set(d, step.high - step.zero);
  return hn::Min(hn::Max(hn::Mul(x, hn::Set(d, step.inverse)), low), high);
}

// Numbers as bytes, before a table maps them.
struct ToBytes {
  using D8 = hn::Rebind<uint8_t, DI32>;
  Int8Step step;
  VI32 zero;
  explicit ToBytes(const Int8Task& task)
      : step(task.step),
        // The low byte of a sum with 128 is that byte with another sign bit.
        zero(hn::Set(DI32(), static_cast<int32_t>(task.step.zero) + (task.output == Int8Output::kInt8 ? 128 : 0))) {}
  // The first `count` of kLanes.
  TENON_INLINE void store(VF32 x, uint8_t* to, int64_t count) const {
    const VI32 q = hn::Add(nearest_small(steps_of(x, step)), zero);
#if HWY_ARCH_X86 && HWY_MAX_BYTES >= 64
    const hn::Vec<D8> bytes{_mm512_cvtepi32_epi8(q.raw)};
#else
    const auto bytes = hn::TruncateTo(D8(), hn::BitCast(hn::RebindToUnsigned<DI32>(), q));
#endif
    if (count >= kLanes) return hn::StoreU(bytes, D8(), to);
    alignas(64) uint8_t lanes[kLanes];
    hn::Store(bytes, D8(), lanes);
    __builtin_memcpy(to, lanes, static_cast<size_t>(count));
  }
};

// A tile of sums, and the part of C that it becomes.
struct Finish {
  int64_t row, rows, column, columns;
  int32_t* sums;
  int64_t width;  // from one row of sums to the next; at least the columns, and a multiple of 16
  const int32_t* row_sums;
  int64_t index;  // of the first element of C
};

// How the sums are stored: as elements of C, or as floats in their own place, for an activation.
enum class Stage : uint8_t { kSums, kFloats, kBytes, kInPlace };

// The first `count` of kLanes.
template <typename D, typename T>
TENON_INLINE void store_first(hn::Vec<D> x, D d, T* to, int64_t count) {
  if (count >= kLanes) return hn::StoreU(x, d, to);
  alignas(64) T lanes[kLanes];
  hn::Store(x, d, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// The sums, corrected, and scaled unless kSums. Values of columns stay in registers while the rows pass. kRows:
// there are arrays of rows besides the factors.
template <Stage kStage, bool kFactors, bool kRows>
void finish_columns(const Int8Task& task, const Blanks& blanks, const Finish& f) {
  const DI32 d;
  const DF32 df;
  const ToBytes to_bytes(task);
  const bool middle = task.middle;
  const Int8Step middle_step = task.middle_step;
  const VF32 middle_scale = hn::Set(df, task.middle_scale);
  const int32_t* const row_terms = kRows && task.row_terms ? task.row_terms + f.row : nullptr;
  const int32_t* const row_factors = task.row_factors ? task.row_factors + f.row : f.row_sums;
  const float* const row_scales = kRows && task.row_scales ? task.row_scales + f.row : nullptr;
  const float* const row_bias = kRows && task.row_bias ? task.row_bias + f.row : nullptr;
  const auto of_columns = [&](const auto* array, const auto* blank, int64_t j) {
    return array ? array + f.column + j : blank;
  };
  const int64_t rows = f.rows, columns = f.columns, width = f.width, stride = task.ldc;
  for (int64_t j = 0; j < columns; j += kLanes) {
    const VI32 terms = hn::LoadU(d, of_columns(task.column_terms, blanks.zeros, j));
    const VI32 factors = hn::LoadU(d, of_columns(task.column_factors, blanks.zeros, j));
    const VF32 scales = hn::LoadU(df, of_columns(task.column_scales, blanks.ones, j));
    const VF32 bias = hn::LoadU(df, of_columns(task.column_bias, blanks.float_zeros, j));
    const VF32 middle_bias = hn::LoadU(df, of_columns(task.middle_bias, blanks.float_zeros, j));
    int32_t* at = f.sums + j;
    int64_t to = f.index + j;
    for (int64_t i = 0; i < rows; ++i, at += width, to += stride) {
      VI32 sum = hn::Add(hn::LoadU(d, at), terms);
      if (kRows && row_terms) sum = hn::Add(sum, hn::Set(d, row_terms[i]));
      if constexpr (kFactors) sum = hn::Sub(sum, hn::Mul(hn::Set(d, row_factors[i]), factors));
      if constexpr (kStage == Stage::kSums) {
        store_first(sum, d, static_cast<int32_t*>(task.c) + to, columns - j);
        continue;
      }
      const VF32 scale = kRows && row_scales ? hn::Mul(scales, hn::Set(df, row_scales[i])) : scales;
      const VF32 added = kRows && row_bias ? hn::Add(bias, hn::Set(df, row_bias[i])) : bias;
      VF32 x = hn::MulAdd(hn::ConvertTo(df, sum), scale, added);
      if (middle) x = hn::MulAdd(hn::Round(steps_of(x, middle_step)), middle_scale, middle_bias);
      if constexpr (kStage == Stage::kBytes) to_bytes.store(x, static_cast<uint8_t*>(task.c) + to, columns - j);
      if constexpr (kStage == Stage::kFloats) store_first(x, df, static_cast<float*>(task.c) + to, columns - j);
      if constexpr (kStage == Stage::kInPlace) hn::StoreU(x, df, reinterpret_cast<float*>(at));
    }
  }
}

using FinishColumns = void (*)(const Int8Task& task, const Blanks& blanks, const Finish& f);

template <Stage kStage>
FinishColumns choose_finish_of(const Int8Task& task) {
#if TENON_AMX
  const bool rows = task.row_terms || task.row_scales || task.row_bias;
  if (task.column_factors) return rows ? &finish_columns<kStage, true, true> : &finish_columns<kStage, true, false>;
  return rows ? &finish_columns<kStage, false, true> : &finish_columns<kStage, false, false>;
#else
  // One for all cases: here the product takes longer than this.
  return task.column_factors ? &finish_columns<kStage, true, true> : &finish_columns<kStage, false, true>;
#endif
}

// The activation of one row, in place; a residual counts before it or after it.
using ActivateRow = void (*)(float* x, const float* residual, int64_t columns, const Epilogue& epilogue);

template <Activation kActivation>
void activate_row(float* x, const float* residual, int64_t columns, const Epilogue& epilogue) {
  const FW alpha = set_wide(epilogue.alpha), beta = set_wide(epilogue.beta);
  for (int64_t j = 0; j < columns; j += kWide) {
    FW value = load_wide(x + j);
    if (residual && !epilogue.residual_after) value = value + load_wide(residual + j);
    value = activate8<kActivation>(value, alpha, beta);
    if (residual && epilogue.residual_after) value = value + load_wide(residual + j);
    store_wide(x + j, value);
  }
}

ActivateRow choose_activation(const Int8Task& task) {
  ActivateRow activate = nullptr;
  if (task.output == Int8Output::kInt32) return activate;
  if (task.residual == nullptr && task.epilogue.activation == Activation::kNone) return activate;
  with_activation(task.epilogue.activation, [&]<Activation kA>() { activate = &activate_row<kA>; });
  return activate;
}

// How the sums of a task become C.
class Finisher {
 public:
  explicit Finisher(const Int8Task& task) : task_(task), activate_(choose_activation(task)) {
    if (task.output == Int8Output::kInt32) {
      stage_ = Stage::kSums, columns_ = choose_finish_of<Stage::kSums>(task);
    } else if (activate_ != nullptr) {
      stage_ = Stage::kInPlace, columns_ = choose_finish_of<Stage::kInPlace>(task);
    } else if (task.output == Int8Output::kFloat) {
      stage_ = Stage::kFloats, columns_ = choose_finish_of<Stage::kFloats>(task);
    } else {
      stage_ = Stage::kBytes, columns_ = choose_finish_of<Stage::kBytes>(task);
    }
  }

  // A tile of sums with rows of `width` elements becomes `columns` columns of C.
  void finish(int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t width, const int32_t* row_sums,
              int32_t* sums) const {
    const int64_t index = row * task_.ldc + column;
    columns_(task_, blanks_, {row, rows, column, columns, sums, width, row_sums, index});
    for (int64_t i = 0; i < rows; ++i, sums += width) {
      if (stage_ == Stage::kInPlace) finish_row(row + i, column, columns, reinterpret_cast<float*>(sums));
      if (stage_ == Stage::kBytes && task_.table)
        map_bytes(static_cast<uint8_t*>(task_.c) + index + i * task_.ldc, columns);
    }
  }

 private:
  // An activation, and what it gives as elements of C.
  void finish_row(int64_t row, int64_t column, int64_t columns, float* x) const {
    const int64_t whole = int8_columns(columns), index = row * task_.ldc + column;
    alignas(64) float residual[kWidth] = {};
    const float* added = task_.residual ? task_.residual + row * task_.ldr + column : nullptr;
    if (added != nullptr && columns != whole) {
      for (int64_t j = 0; j < columns; ++j) residual[j] = added[j];
      added = residual;
    }
    activate_(x, added, whole, task_.epilogue);
    if (task_.output == Int8Output::kFloat) {
      float* const c = static_cast<float*>(task_.c) + index;
      for (int64_t j = 0; j < columns; ++j) c[j] = x[j];
      return;
    }
    const ToBytes to_bytes(task_);
    uint8_t* const bytes = static_cast<uint8_t*>(task_.c) + index;
    for (int64_t j = 0; j < columns; j += kLanes) to_bytes.store(hn::LoadU(DF32(), x + j), bytes + j, columns - j);
    if (task_.table) map_bytes(bytes, columns);
  }

  void map_bytes(uint8_t* bytes, int64_t columns) const { quantize_table().lookup(bytes, task_.table, columns, bytes); }

  const Int8Task& task_;
  const Blanks blanks_;
  const ActivateRow activate_;
  Stage stage_;
  FinishColumns columns_;
};

}  // namespace

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
