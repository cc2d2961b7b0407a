#include "ep/cpu/ops/small_types.h"

#include <algorithm>
#include <cstring>

namespace tenon::cpu::ref {

namespace {

// A float with a sign, `exponent_bits` and `mantissa_bits`, whose exponents begin at `lowest` (that of 1 quantum times
// 2^mantissa_bits).
struct SmallFloat {
  int mantissa_bits;
  int lowest;        // exponent of the smallest normal number
  float largest;     // the largest finite number
  int infinity;      // code without sign; -1: there is none
  int not_a_number;  // code; -1: there is none, and NaN becomes -0
  bool negative_zero;
};

SmallFloat format_of(DataType type) {
  switch (type) {
    case DataType::kFloat8E4M3FN:
      return {3, -6, 448, -1, 0x7f, true};
    case DataType::kFloat8E4M3FNUZ:
      return {3, -7, 240, -1, 0x80, false};
    case DataType::kFloat8E5M2:
      return {2, -14, 57344, 0x7c, 0x7e, true};
    case DataType::kFloat8E5M2FNUZ:
      return {2, -15, 57344, -1, 0x80, false};
    case DataType::kFloat6E2M3:
      return {3, 0, 7.5f, -1, -1, true};
    case DataType::kFloat6E3M2:
      return {2, -2, 28, -1, -1, true};
    default:
      return {1, 0, 6, -1, -1, true};  // float4e2m1
  }
}

constexpr int kE8M0Bias = 127, kE8M0NaN = 0xff, kE8M0Largest = 0xfe;

// Powers of two from 2^-127 to 2^127; negative numbers have the code of their magnitude.
uint8_t e8m0_code(double value, const CastRounding& rounding) {
  using Mode = CastRounding::Mode;
  const double magnitude = std::abs(value);
  if (std::isnan(value)) return kE8M0NaN;
  if (std::isinf(value)) return static_cast<uint8_t>(rounding.saturate ? kE8M0Largest : kE8M0NaN);
  int exponent = 0;  // magnitude is fraction * 2^exponent, fraction in [0.5, 1)
  const double fraction = std::frexp(magnitude, &exponent);
  int code = exponent - 1 + kE8M0Bias;
  if (fraction == 0 || code < 0) return static_cast<uint8_t>(rounding.saturate ? 0 : kE8M0NaN);
  if (rounding.mode == Mode::kUp && fraction > 0.5) ++code;
  if (rounding.mode == Mode::kNearest && fraction >= 0.75) ++code;
  if (code > kE8M0Largest) code = rounding.saturate ? kE8M0Largest : kE8M0NaN;
  return static_cast<uint8_t>(code);
}

float decode(DataType type, int code) {
  const int bits = data_type_bits(type);
  code &= (1 << bits) - 1;
  const int sign_bit = 1 << (bits - 1);
  if (has_type(kSmallIntSet, type)) {
    const bool is_signed = type == DataType::kInt4 || type == DataType::kInt2;
    return static_cast<float>(is_signed && (code & sign_bit) != 0 ? code - 2 * sign_bit : code);
  }
  if (type == DataType::kFloat8E8M0) {
    return code == kE8M0NaN ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, code - kE8M0Bias);
  }
  const SmallFloat format = format_of(type);
  const int magnitude = code & (sign_bit - 1);
  const float sign = (code & sign_bit) != 0 ? -1.0f : 1.0f;
  if (!format.negative_zero && code == format.not_a_number) return std::numeric_limits<float>::quiet_NaN();
  if (format.infinity >= 0 && magnitude >= format.infinity) {
    if (magnitude == format.infinity) return sign * std::numeric_limits<float>::infinity();
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  }
  if (format.negative_zero && magnitude == format.not_a_number) {
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  }
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  const int digits = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  return sign *
         std::ldexp(static_cast<float>(digits), format.lowest - format.mantissa_bits + std::max(exponent - 1, 0));
}

}  // namespace

const std::array<float, 256>& small_values(DataType type) {
  constexpr int kFirst = static_cast<int>(DataType::kFloat8E4M3FN), kLast = static_cast<int>(DataType::kFloat6E3M2);
  using Table = std::array<float, 256>;
  static const auto kTables = [] {
    std::array<Table, kLast - kFirst + 1> tables{};
    for (int number = kFirst; number <= kLast; ++number)
      for (int code = 0; code < 256; ++code)
        tables[number - kFirst][code] = decode(static_cast<DataType>(number), code);
    return tables;
  }();
  TENON_CHECK(has_type(kSmallSet, type));
  return kTables[static_cast<int>(type) - kFirst];
}

uint8_t small_code(DataType type, double value, const CastRounding& rounding) {
  if (type == DataType::kFloat8E8M0) return e8m0_code(value, rounding);
  const SmallFloat format = format_of(type);
  const bool has_nan = format.not_a_number >= 0;
  const int sign = std::signbit(value) ? 1 << (data_type_bits(type) - 1) : 0;
  if (std::isnan(value)) {
    if (!has_nan) return static_cast<uint8_t>(1 << (data_type_bits(type) - 1));
    return static_cast<uint8_t>(format.negative_zero ? sign | format.not_a_number : format.not_a_number);
  }
  const double magnitude = std::abs(value);
  const double limited = std::min(magnitude, 2.0 * format.largest);
  const int exponent = limited == 0 ? format.lowest : std::max(std::ilogb(limited), format.lowest);
  // The number in units of its last digit: the first bit of a normal number adds 1 to the exponent's field.
  const double digits = std::nearbyint(std::ldexp(limited, format.mantissa_bits - exponent));
  if (std::ldexp(digits, exponent - format.mantissa_bits) > format.largest) {
    if (rounding.saturate || !has_nan) return static_cast<uint8_t>(sign | small_code(type, format.largest, rounding));
    if (format.infinity >= 0) return static_cast<uint8_t>(sign | format.infinity);
    return static_cast<uint8_t>(format.negative_zero ? sign | format.not_a_number : format.not_a_number);
  }
  const int code = static_cast<int>(digits) + ((exponent - format.lowest) << format.mantissa_bits);
  if (code == 0 && !format.negative_zero) return 0;
  return static_cast<uint8_t>(sign | code);
}

void unpack_codes(DataType type, const void* packed, int64_t first, int64_t count, uint8_t* codes) {
  const int bits = data_type_bits(type);
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const auto* from = static_cast<const uint8_t*>(packed) + first * bits / 8;
  if (bits == 6) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bit = i * bits;
      unsigned word = from[bit / 8];
      if (bit % 8 > 2) word |= static_cast<unsigned>(from[bit / 8 + 1]) << 8;
      codes[i] = static_cast<uint8_t>(word >> bit % 8) & mask;
    }
    return;
  }
  const int64_t each = 8 / bits;
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(from[i / each] >> (i % each * bits)) & mask;
}

void pack_codes(DataType type, const uint8_t* codes, int64_t first, int64_t count, void* packed) {
  const int bits = data_type_bits(type);
  const unsigned mask = (1U << bits) - 1;
  auto* to = static_cast<uint8_t*>(packed) + first * bits / 8;
  std::memset(to, 0, static_cast<size_t>((count * bits + 7) / 8));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * bits;
    const unsigned shifted = (codes[i] & mask) << bit % 8;
    to[bit / 8] = static_cast<uint8_t>(to[bit / 8] | shifted);
    if (shifted > 0xff) to[bit / 8 + 1] = static_cast<uint8_t>(shifted >> 8);
  }
}

}  // namespace tenon::cpu::ref
