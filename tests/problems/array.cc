#include "problems/array.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cstring>
#include <limits>

namespace tenon::problems {

namespace {

// Bits of the significand with the hidden one, and the exponents of the smallest normal and the largest number.
struct FloatFormat {
  int digits, smallest_exponent, largest_exponent;
};
FloatFormat format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {11, -14, 15};
    case DataType::kBfloat16:
      return {8, -126, 127};
    case DataType::kFloat:
      return {24, -126, 127};
    default:
      return {53, -1022, 1023};
  }
}

uint16_t encode_short(double value, DataType type) {
  const bool half = type == DataType::kFloat16;
  const int mantissa_bits = half ? 10 : 7, bias = half ? 15 : 127;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto infinity = static_cast<uint16_t>(half ? 0x7c00 : 0x7f80);
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (mantissa_bits - 1));
  const double size = std::fabs(round_to(value, type));
  if (std::isinf(size)) return sign | infinity;
  if (size == 0) return sign;
  int exponent = std::max(std::ilogb(size), 1 - bias);
  const auto units = static_cast<uint32_t>(std::ldexp(size, mantissa_bits - exponent));
  const bool normal = (units >> mantissa_bits) != 0;
  const uint32_t bits =
      normal ? (static_cast<uint32_t>(exponent + bias) << mantissa_bits) + (units & ((1U << mantissa_bits) - 1))
             : units;
  return static_cast<uint16_t>(sign | bits);
}

double decode_short(uint16_t bits, DataType type) {
  const bool half = type == DataType::kFloat16;
  const int mantissa_bits = half ? 10 : 7, bias = half ? 15 : 127;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const double mantissa = bits & ((1 << mantissa_bits) - 1);
  double size = 0;
  if (exponent == 2 * bias + 1) {
    size = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    size = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    size = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

template <typename F>
auto with_integer(DataType type, F&& f) {
  switch (type) {
    case DataType::kInt8:
      return f(int8_t{});
    case DataType::kUint8:
      return f(uint8_t{});
    case DataType::kInt16:
      return f(int16_t{});
    case DataType::kUint16:
      return f(uint16_t{});
    case DataType::kInt32:
      return f(int32_t{});
    case DataType::kUint32:
      return f(uint32_t{});
    case DataType::kUint64:
      return f(uint64_t{});
    case DataType::kBool:
      return f(uint8_t{});
    default:
      return f(int64_t{});
  }
}

}  // namespace

Array::Array(DataType of, const Dims& shape, double value)
    : type(of), dims(shape), v(static_cast<size_t>(product(shape)), value), e(v.size(), 0) {}

void Array::push(double value, double bound) {
  v.push_back(value);
  e.push_back(bound);
}

int64_t product(const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims y(std::max(a.size(), b.size()));
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t p = i < a.size() ? a[a.size() - 1 - i] : 1, q = i < b.size() ? b[b.size() - 1 - i] : 1;
    y[y.size() - 1 - i] = p == 1 ? q : q == 1 ? p : std::max(p, q);
  }
  return y;
}

int64_t broadcast_index(int64_t i, const Dims& from, const Dims& of) {
  int64_t index = 0, stride = 1;
  for (size_t k = 0; k < from.size(); ++k) {
    const int64_t size = from[from.size() - 1 - k], place = i % size;
    i /= size;
    if (k >= of.size()) continue;
    const int64_t own = of[of.size() - 1 - k];
    if (own != 1) index += place * stride;
    stride *= own;
  }
  return index;
}

std::vector<int64_t> index_of(int64_t i, const Dims& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t k = dims.size(); k-- > 0;) {
    index[k] = i % dims[k];
    i /= dims[k];
  }
  return index;
}

int64_t offset_of(const std::vector<int64_t>& index, const Dims& dims) {
  int64_t offset = 0;
  for (size_t k = 0; k < dims.size(); ++k) offset = offset * dims[k] + index[k];
  return offset;
}

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}
double unit_roundoff(DataType type) { return is_float(type) ? std::ldexp(1.0, -format_of(type).digits) : 0; }
double sum_roundoff(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 ? unit_roundoff(DataType::kFloat)
                                                                   : unit_roundoff(type);
}
double smallest_normal(DataType type) {
  return std::ldexp(1.0, format_of(type == DataType::kDouble ? type : DataType::kFloat).smallest_exponent);
}

double highest(DataType type) {
  if (is_float(type)) {
    const FloatFormat f = format_of(type);
    return std::ldexp(2 - std::ldexp(1.0, 1 - f.digits), f.largest_exponent);
  }
  if (type == DataType::kBool) return 1;
  return with_integer(type, [](auto n) { return static_cast<double>(std::numeric_limits<decltype(n)>::max()); });
}
double lowest(DataType type) {
  if (is_float(type)) return -highest(type);
  return with_integer(type, [](auto n) { return static_cast<double>(std::numeric_limits<decltype(n)>::min()); });
}

double round_to(double value, DataType type) {
  if (std::isnan(value)) return value;
  if (!is_float(type)) return std::clamp(std::nearbyint(value), lowest(type), highest(type));
  if (type == DataType::kDouble || std::isinf(value) || value == 0) return value;
  const FloatFormat f = format_of(type);
  const int exponent = std::max(std::ilogb(value), f.smallest_exponent);
  // Scaled so that the last digit is one; nearbyint takes ties to even.
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, f.digits - 1 - exponent)), exponent + 1 - f.digits);
  return std::fabs(rounded) > highest(type) ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

void encode(double value, DataType type, void* to) {
  if (type == DataType::kFloat) {
    const auto one = static_cast<float>(value);
    std::memcpy(to, &one, sizeof(one));
  } else if (type == DataType::kDouble) {
    std::memcpy(to, &value, sizeof(value));
  } else if (is_float(type)) {
    const uint16_t bits = encode_short(value, type);
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    with_integer(type, [&](auto n) {
      // The largest 64-bit numbers round up to what their type does not hold.
      using Limits = std::numeric_limits<decltype(n)>;
      n = value >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<decltype(n)>(value);
      std::memcpy(to, &n, sizeof(n));
    });
  }
}

double decode(const void* from, DataType type) {
  if (type == DataType::kFloat) {
    float one = 0;
    std::memcpy(&one, from, sizeof(one));
    return one;
  }
  if (type == DataType::kDouble) {
    double one = 0;
    std::memcpy(&one, from, sizeof(one));
    return one;
  }
  if (is_float(type)) {
    uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    return decode_short(bits, type);
  }
  return with_integer(type, [&](auto n) {
    std::memcpy(&n, from, sizeof(n));
    return static_cast<double>(n);
  });
}

double sum_bound(DataType type, int64_t terms, double magnitude) {
  return (4 + std::sqrt(static_cast<double>(std::max<int64_t>(terms, 0)))) * sum_roundoff(type) * magnitude;
}

namespace {
// The bits of a factor that a product may round off.
double factor_roundoff = 0;
}  // namespace
void allow_tf32() { factor_roundoff = std::ldexp(1.0, -11); }
void allow_split_factors() { factor_roundoff = std::max(factor_roundoff, std::ldexp(1.0, -23)); }

double product_bound(DataType type, int64_t terms, double magnitude) {
  const double factors = type == DataType::kFloat ? 2 * factor_roundoff : 0;
  return sum_bound(type, terms, magnitude) + factors * magnitude;
}

Number through(const Number& x, DataType type, double ulps, const std::function<double(double)>& f) {
  Number y{f(x.v), 0};
  if (x.e > 0) {
    for (double one : {f(x.v - x.e), f(x.v + x.e)})
      if (!std::isnan(one)) y.e = std::max(y.e, std::fabs(one - y.v));
  }
  if (!std::isfinite(y.v)) {
    y.e = 0;
    return y;
  }
  if (ulps > 0) {
    const double size = std::fabs(x.v);
    y.e += sum_roundoff(type) * (ulps * (std::fabs(y.v) + std::min(1.0, size)) + 2 * std::max(1.0, size));
  }
  return y;
}

Number stored(const Number& x, DataType type) {
  return std::isfinite(x.v)
             ? Number{x.v, x.e + unit_roundoff(type) * std::fabs(x.v) + (is_float(type) ? smallest_normal(type) : 0)}
             : x;
}

Number at(const Array& array, int64_t i) { return {array[i], array.error(i)}; }

Array map(const Array& x, double ulps, const std::function<double(double)>& f) {
  Array y(x.type, x.dims);
  for (int64_t i = 0; i < x.count(); ++i) put(y, i, stored(through(at(x, i), x.type, ulps, f), x.type));
  return y;
}

Array map(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  Array y(a.type, broadcast(a.dims, b.dims));
  for (int64_t i = 0; i < y.count(); ++i) {
    const Number p = at(a, broadcast_index(i, y.dims, a.dims)), q = at(b, broadcast_index(i, y.dims, b.dims));
    Number r{f(p.v, q.v), 0};
    if (p.e > 0 || q.e > 0)
      for (double s : {-1.0, 1.0})
        for (double t : {-1.0, 1.0}) {
          const double one = std::fabs(f(p.v + s * p.e, q.v + t * q.e) - r.v);
          if (!std::isnan(one)) r.e = std::max(r.e, one);
        }
    put(y, i, stored(r, a.type));
  }
  return y;
}

Array moved(const Array& x, const Dims& dims, const std::function<int64_t(int64_t)>& source, double fill) {
  Array y(x.type, dims, fill);
  for (int64_t i = 0; i < y.count(); ++i)
    if (const int64_t from = source(i); from >= 0) put(y, i, at(x, from));
  return y;
}

}  // namespace tenon::problems
