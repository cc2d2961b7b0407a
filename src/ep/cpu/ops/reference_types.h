// Element types as the reference kernels compute with them: f16 as bits with conversions, dispatch from DataType.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include <tenon/types.h>

namespace tenon::cpu::ref {

// IEEE half precision; conversions round to nearest, ties to even.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) : bits(encode(value)) {}
  explicit Float16(double value) : bits(encode(round_to_odd(value))) {}
  template <typename T>
    requires std::is_integral_v<T>
  explicit Float16(T value) : Float16(static_cast<double>(value)) {}
  operator float() const { return decode(bits); }  // NOLINT(google-explicit-constructor)

  static uint16_t encode(float value);
  static float decode(uint16_t bits);
  // Keeps a sticky last bit, so that the second rounding (to 16 bits) is the only one that counts.
  static float round_to_odd(double value);
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(encode(value)) {}
  explicit BFloat16(double value) : bits(encode(Float16::round_to_odd(value))) {}
  template <typename T>
    requires std::is_integral_v<T>
  explicit BFloat16(T value) : BFloat16(static_cast<double>(value)) {}
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }  // NOLINT(google-explicit-constructor)

  static uint16_t encode(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((word >> 16) | 0x40);
    return static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
};

// A bool in a tensor: any byte but 0 is true, whoever wrote it; 1 is written.
struct Bool {
  uint8_t bits = 0;
  Bool() = default;
  template <typename T>
  explicit Bool(T value) : bits(value != T(0) ? 1 : 0) {}
  operator bool() const { return bits != 0; }  // NOLINT(google-explicit-constructor)
};

template <typename T>
inline constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <typename T>
inline constexpr bool is_float = std::is_floating_point_v<T> || is_half<T>;

// The type of arithmetic on T: float for f16, bool for Bool, T otherwise.
template <typename T>
using Compute = std::conditional_t<is_half<T>, float, std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;
// The type of sums of T: double for floats, so that the reference is the more exact side of a comparison.
template <typename T>
using Accumulate = std::conditional_t<is_float<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <typename... Ts>
struct TypeList {};
template <typename... As, typename... Bs>
TypeList<As..., Bs...> operator+(TypeList<As...>, TypeList<Bs...>) {
  return {};
}
using FloatTypes = TypeList<float, double, Float16, BFloat16>;
using SignedTypes = TypeList<int8_t, int16_t, int32_t, int64_t>;
using UnsignedTypes = TypeList<uint8_t, uint16_t, uint32_t, uint64_t>;
using IntTypes = decltype(SignedTypes() + UnsignedTypes());
using NumericTypes = decltype(FloatTypes() + IntTypes());
using AllTypes = decltype(NumericTypes() + TypeList<Bool>());
using IndexTypes = TypeList<int32_t, int64_t>;

template <typename T>
struct TypeNumber;
#define TENON_TYPE_NUMBER_(T, name)                   \
  template <>                                         \
  struct TypeNumber<T> {                              \
    static constexpr DataType value = DataType::name; \
  };
TENON_TYPE_NUMBER_(float, kFloat)
TENON_TYPE_NUMBER_(double, kDouble)
TENON_TYPE_NUMBER_(Float16, kFloat16)
TENON_TYPE_NUMBER_(BFloat16, kBfloat16)
TENON_TYPE_NUMBER_(int8_t, kInt8)
TENON_TYPE_NUMBER_(int16_t, kInt16)
TENON_TYPE_NUMBER_(int32_t, kInt32)
TENON_TYPE_NUMBER_(int64_t, kInt64)
TENON_TYPE_NUMBER_(uint8_t, kUint8)
TENON_TYPE_NUMBER_(uint16_t, kUint16)
TENON_TYPE_NUMBER_(uint32_t, kUint32)
TENON_TYPE_NUMBER_(uint64_t, kUint64)
TENON_TYPE_NUMBER_(Bool, kBool)
#undef TENON_TYPE_NUMBER_

// select(list, type, []<typename T>() -> R { ... }): the result for the T that `type` names, R() if the list lacks it.
template <typename... Ts, typename F>
auto select(TypeList<Ts...>, DataType type, F&& f) {
  using R = decltype(f.template operator()<float>());
  R result{};
  (void)((type == TypeNumber<Ts>::value ? (result = f.template operator()<Ts>(), true) : false) || ...);
  return result;
}

// Sets of DataType as bit masks, for match functions and messages.
using TypeSet = uint64_t;
template <typename... Ts>
constexpr TypeSet type_set(TypeList<Ts...>) {
  return ((TypeSet{1} << static_cast<int>(TypeNumber<Ts>::value)) | ...);
}
inline constexpr TypeSet kFloatSet = type_set(FloatTypes());
inline constexpr TypeSet kSignedSet = type_set(SignedTypes()) | kFloatSet;
inline constexpr TypeSet kIntSet = type_set(IntTypes());
inline constexpr TypeSet kNumericSet = type_set(NumericTypes());
inline constexpr TypeSet kAllSet = type_set(AllTypes());
inline constexpr TypeSet kComplexSet =
    TypeSet{1} << static_cast<int>(DataType::kComplex64) | TypeSet{1} << static_cast<int>(DataType::kComplex128);
inline constexpr TypeSet kBoolSet = type_set(TypeList<Bool>());
inline constexpr TypeSet kFloat32Set = type_set(TypeList<float>());

}  // namespace tenon::cpu::ref
