#include "ep/cpu/ops/elementwise/casts.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/reference_types.h"
#include "ep/cpu/simd/convert.h"
#include "ep/cpu/simd/doubles.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/integers.h"

namespace tenon::cpu {

namespace {

using Loop = void (*)(const void* x, void* y, int64_t n);

constexpr bool is_half_type(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }
constexpr bool is_integer(DataType type) { return (ref::kIntSet >> static_cast<int>(type) & 1) != 0; }
constexpr bool is_small_integer(DataType type) { return is_integer(type) && data_type_size(type) < 4; }

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Signed = std::make_signed_t<To>;
    constexpr From kHalf = -static_cast<From>(std::numeric_limits<Signed>::min());
    constexpr To kTop = To{1} << (sizeof(To) * 8 - 1);
    const bool large = value >= kHalf;
    const From rest = large ? value - kHalf : value;
    const bool fits = rest >= -kHalf && rest < kHalf;
    return static_cast<To>(fits ? static_cast<To>(static_cast<Signed>(rest)) : kTop) ^ (large ? kTop : 0);
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void convert_loop(const void* x, void* y, int64_t n) {
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) static_cast<To*>(y)[i] = convert<To>(static_cast<const From*>(x)[i]);
}

template <typename T>
void copy_loop(const void* x, void* y, int64_t n) {
  if (x != y) std::copy_n(static_cast<const T*>(x), n, static_cast<T*>(y));
}

// A loop of a table as one of untyped elements.
#define TENON_TABLE_LOOP_(table, loop, X, Y) \
  +[](const void* x, void* y, int64_t n) { table().loop(static_cast<const X*>(x), static_cast<Y*>(y), n); }

// 1 where one of the bits of `mask` is set.
template <auto kLoop, typename U, U mask>
void truth_loop(const void* x, void* y, int64_t n) {
  (integer_table().*kLoop)(static_cast<const U*>(x), mask, 1, std::numeric_limits<U>::max() - 1,
                           static_cast<uint8_t*>(y), n);
}

// The sign of a 0 is no truth.
Loop to_bool(DataType from) {
  const bool whole = is_integer(from);
  switch (data_type_size(from)) {
    case 1:
      return [](const void* x, void* y, int64_t n) {
        integer_table().truth8(static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), n);
      };
    case 2:
      return whole ? &truth_loop<&IntegerTable::in_range16, uint16_t, 0xffff>
                   : &truth_loop<&IntegerTable::in_range16, uint16_t, 0x7fff>;
    case 4:
      return whole ? &truth_loop<&IntegerTable::in_range32, uint32_t, 0xffffffff>
                   : TENON_TABLE_LOOP_(integer_table, bool_from_float, float, uint8_t);
    default:
      return whole ? &truth_loop<&IntegerTable::in_range64, uint64_t, 0xffffffffffffffff>
                   : &truth_loop<&IntegerTable::in_range64, uint64_t, 0x7fffffffffffffff>;
  }
}

// Low bits are the same whatever the signs of the types are.
template <typename From>
Loop to_integer(DataType to) {
  return ref::select(ref::UnsignedTypes(), to, []<typename To>() -> Loop {
    if constexpr (sizeof(To) > sizeof(From)) return &convert_loop<From, To>;
    if constexpr (sizeof(To) == sizeof(From)) return &copy_loop<To>;
    if constexpr (sizeof(From) == 2) return TENON_TABLE_LOOP_(integer_table, int8_from_int16, uint16_t, uint8_t);
    constexpr bool kToByte = sizeof(To) == 1, kToShort = sizeof(To) == 2;
    if constexpr (sizeof(From) == 4)
      return kToByte ? TENON_TABLE_LOOP_(integer_table, int8_from_int32, uint32_t, uint8_t)
                     : TENON_TABLE_LOOP_(integer_table, int16_from_int32, uint32_t, uint16_t);
    if constexpr (kToByte) return TENON_TABLE_LOOP_(integer_table, int8_from_int64, uint64_t, uint8_t);
    if constexpr (kToShort) return TENON_TABLE_LOOP_(integer_table, int16_from_int64, uint64_t, uint16_t);
    return TENON_TABLE_LOOP_(integer_table, int32_from_int64, uint64_t, uint32_t);
  });
}

DataType unsigned_type(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return DataType::kUint8;
    case DataType::kInt16:
      return DataType::kUint16;
    case DataType::kInt32:
      return DataType::kUint32;
    case DataType::kInt64:
      return DataType::kUint64;
    default:
      return type;
  }
}

// Where the first step on the way to a type leads.
DataType next_type(DataType from, DataType to) {
  if (from == to || to == DataType::kBool) return to;
  if (from == DataType::kBool) return is_integer(to) && data_type_size(to) == 1 ? to : DataType::kUint8;
  if (is_half_type(from)) return DataType::kFloat;
  if (is_half_type(to)) {
    // Integers that float32 rounds are beyond the largest float16, but not beyond the largest bfloat16.
    const bool rounds =
        is_integer(from) && !is_small_integer(from) && from != DataType::kInt32 && to == DataType::kBfloat16;
    return from == DataType::kFloat ? to : rounds ? DataType::kDouble : DataType::kFloat;
  }
  if (is_small_integer(from) && to == DataType::kDouble) return DataType::kFloat;
  if (from == DataType::kFloat && (to == DataType::kUint32 || to == DataType::kUint64)) return DataType::kDouble;
  if (from == DataType::kDouble && is_small_integer(to)) return DataType::kInt32;
  return to;
}

}  // namespace

// One step. `to_odd`: float64 or int32 to float32 for another rounding behind it.
CastSteps::Loop CastSteps::loop_of(DataType from, DataType to, bool to_odd) {
  using enum DataType;
  if (to == kBool) return to_bool(from);
  if (from == kBool) return to_bool(from);
  if (from == to) return ref::select(ref::AllTypes(), from, []<typename T>() -> Loop { return &copy_loop<T>; });
  if (from == kFloat16) return TENON_TABLE_LOOP_(convert_table, float_from_float16, uint16_t, float);
  if (from == kBfloat16) return TENON_TABLE_LOOP_(convert_table, float_from_bfloat16, uint16_t, float);
  if (from == kDouble) {
    if (to == kFloat && to_odd) return TENON_TABLE_LOOP_(double_table, round_to_odd, double, float);
    if (to == kFloat) return TENON_TABLE_LOOP_(double_table, float_from_double, double, float);
    if (to == kInt32) return TENON_TABLE_LOOP_(double_table, int32_from_double, double, int32_t);
    if (to == kInt64) return TENON_TABLE_LOOP_(double_table, int64_from_double, double, int64_t);
    if (to == kUint32) return &convert_loop<double, uint32_t>;
    return to == kUint64 ? &convert_loop<double, uint64_t> : nullptr;
  }
  if (from == kFloat) {
    if (to == kFloat16) return TENON_TABLE_LOOP_(convert_table, float16_from_float, float, uint16_t);
    if (to == kBfloat16) return TENON_TABLE_LOOP_(convert_table, bfloat16_from_float, float, uint16_t);
    if (to == kDouble) return TENON_TABLE_LOOP_(double_table, double_from_float, float, double);
    if (to == kInt32) return TENON_TABLE_LOOP_(eltwise_table, int32_from_float, float, int32_t);
    if (to == kInt64) return TENON_TABLE_LOOP_(eltwise_table, int64_from_float, float, int64_t);
    if (!is_small_integer(to)) return nullptr;
    if (data_type_size(to) == 1) return TENON_TABLE_LOOP_(integer_table, int8_from_float, float, uint8_t);
    return TENON_TABLE_LOOP_(integer_table, int16_from_float, float, uint16_t);
  }
  if (to == kFloat) {
    if (from == kInt32 && to_odd) return TENON_TABLE_LOOP_(integer_table, float_from_int32, int32_t, float);
    if (from == kInt64) return TENON_TABLE_LOOP_(eltwise_table, float_from_int64, int64_t, float);
    if (from == kInt32) return TENON_TABLE_LOOP_(eltwise_table, float_from_int32, int32_t, float);
    if (from == kUint8) return TENON_TABLE_LOOP_(eltwise_table, float_from_uint8, uint8_t, float);
  }
  return ref::select(ref::IntTypes(), from, [to]<typename From>() -> Loop {
    if (to == kFloat) return &convert_loop<From, float>;
    if constexpr (std::is_same_v<From, int64_t>)
      if (to == kDouble) return TENON_TABLE_LOOP_(double_table, double_from_int64, int64_t, double);
    if constexpr (sizeof(From) >= 4 && !std::is_same_v<From, int64_t>)
      if (to == kDouble) return &convert_loop<From, double>;
    return to_integer<From>(unsigned_type(to));
  });
}

#undef TENON_TABLE_LOOP_

CastSteps::CastSteps(DataType from, DataType to) : x_bytes_(static_cast<int64_t>(data_type_size(from))) {
  constexpr auto known = [](DataType type) { return (ref::kAllSet >> static_cast<int>(type) & 1) != 0; };
  if (!known(from) || !known(to)) return;
  do {
    const DataType next = next_type(from, to);
    // Integers that float32 rounds are infinite in float16.
    const bool to_odd = is_half_type(to) && (from == DataType::kDouble || to == DataType::kBfloat16);
    steps_[count_++] = {loop_of(from, next, to_odd), static_cast<int64_t>(data_type_size(next))};
    from = next;
  } while (from != to);
}

void CastSteps::run(const void* x, void* y, int64_t n) const {
  if (count_ == 1) return steps_[0].loop(x, y, n);
  constexpr int64_t kBlock = 1024;  // elements whose values in between stay in L1
  alignas(64) std::byte between[2][kBlock * sizeof(double)];
  const auto* from = static_cast<const std::byte*>(x);
  auto* to = static_cast<std::byte*>(y);
  const int64_t y_bytes = steps_[count_ - 1].y_bytes;
  for (int64_t at = 0; at < n; at += kBlock, from += kBlock * x_bytes_, to += kBlock * y_bytes) {
    const std::byte* now = from;
    for (int step = 0; step < count_; ++step) {
      std::byte* const next = step + 1 == count_ ? to : between[step];
      steps_[step].loop(now, next, std::min(kBlock, n - at));
      now = next;
    }
  }
}

}  // namespace tenon::cpu
