#include "ops/shape_inference_context.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "graph/symbols.h"

namespace tenon::infer {

// Symbols are copied to every value that has the dimension: one as long as a file could make it would fill the memory.
constexpr size_t kMaxSymbolBytes = 256;

bool same(const Dim& a, const Dim& b) {
  if (a.known() || b.known()) return a.value == b.value;
  return !a.symbol.empty() && a.symbol == b.symbol;
}

bool same(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

bool may_be_equal(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Dim& one, const Dim& other) { return !certainly_differ(one, other); });
}

bool may_broadcast_to(const Dims& from, const Dims& to) {
  const Result<Dims> both = broadcast(to, from);
  return both.ok() && may_be_equal(*both, to);
}

Status check_residual(const Dims& residual, const Dims& y) {
  TENON_INVALID_IF(!may_be_equal(residual, y), "The residual has shape {}, the result {}.", text(residual), text(y));
  return {};
}

std::string text(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ',';
    const Dim& dim = dims[i];
    const std::string_view declared = declared_symbol(dim.symbol);
    out += dim.known() ? std::to_string(dim.value) : declared.empty() ? "?" : declared;
  }
  return out + "]";
}

Result<Dims> known_dims(std::span<const int64_t> sizes) {
  Dims dims;
  for (int64_t size : sizes) {
    TENON_INVALID_IF(size < 0, "The shape contains the negative dimension {}.", size);
    dims.push_back(number(size));
  }
  return dims;
}

Result<Dim> product(std::span<const Dim> dims) {
  std::vector<int64_t> sizes;
  Dim unknown;
  for (const Dim& dim : dims) {
    if (dim.known()) {
      sizes.push_back(dim.value);
    } else {
      unknown = dim;
    }
  }
  const std::optional<int64_t> total = checked_product(sizes);
  TENON_INVALID_IF(!total, "The product of the dimensions {} overflows.", text(Dims(dims.begin(), dims.end())));
  if (sizes.size() == dims.size() || *total == 0) return number(*total);
  // One unknown factor among ones keeps its symbol.
  if (sizes.size() + 1 == dims.size() && *total == 1) return unknown;
  return Dim{};
}

std::optional<std::vector<int64_t>> Context::values(size_t input) const {
  if (!has(input)) return std::nullopt;
  const ConstantRef& constant = in(input).constant;
  if (!constant) return std::nullopt;
  if (constant->type == DataType::kInt64) {
    std::span<const int64_t> span = constant->as<int64_t>();
    return std::vector<int64_t>(span.begin(), span.end());
  }
  if (constant->type == DataType::kInt32) {
    std::span<const int32_t> span = constant->as<int32_t>();
    return std::vector<int64_t>(span.begin(), span.end());
  }
  return std::nullopt;
}

std::optional<std::vector<float>> Context::floats(size_t input) const {
  if (!has(input)) return std::nullopt;
  const ConstantRef& constant = in(input).constant;
  if (!constant || constant->type != DataType::kFloat) return std::nullopt;
  std::span<const float> span = constant->as<float>();
  return std::vector<float>(span.begin(), span.end());
}

namespace {

template <typename T>
double element(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return static_cast<double>(value);
}

double half_element(const std::byte* data) {
  uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof bits);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  if (exponent == 31) size = mantissa == 0 ? HUGE_VAL : std::nan("");
  return bits >> 15 != 0 ? -size : size;
}

double bfloat_element(const std::byte* data) {
  uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof bits);
  return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16));
}

}  // namespace

std::optional<double> Context::scalar(size_t input) const {
  if (!has(input) || !in(input).constant) return std::nullopt;
  const Constant& constant = *in(input).constant;
  if (constant.shape.element_count() != 1) return std::nullopt;
  switch (constant.type) {
    case DataType::kFloat:
      return element<float>(constant.data);
    case DataType::kDouble:
      return element<double>(constant.data);
    case DataType::kFloat16:
      return half_element(constant.data);
    case DataType::kBfloat16:
      return bfloat_element(constant.data);
    case DataType::kInt8:
      return element<int8_t>(constant.data);
    case DataType::kInt16:
      return element<int16_t>(constant.data);
    case DataType::kInt32:
      return element<int32_t>(constant.data);
    case DataType::kInt64:
      return element<int64_t>(constant.data);
    case DataType::kUint8:
      return element<uint8_t>(constant.data);
    case DataType::kUint16:
      return element<uint16_t>(constant.data);
    case DataType::kUint32:
      return element<uint32_t>(constant.data);
    case DataType::kUint64:
      return element<uint64_t>(constant.data);
    default:
      return std::nullopt;
  }
}

void Context::set_type(size_t output, DataType type) {
  if (!has_output(output) || type == DataType::kUndefined) return;
  Value& value = graph_.value(node_.outputs[output]);
  value.type = type;
  value.is_tensor = true;
  value.object = nullptr;
}

void Context::set_object(size_t output, ObjectTypeRef type) {
  if (has_output(output) && type != nullptr) graph_.value(node_.outputs[output]).set_object(std::move(type));
}

Status Context::set_dims(size_t output, Dims dims) {
  if (!has_output(output)) return {};
  TENON_UNSUPPORTED_IF(dims.size() > Shape::kMaxRank,
                       "Output {} has rank {}; the highest rank that Tenon handles is {}.", output, dims.size(),
                       Shape::kMaxRank);
  std::array<int64_t, Shape::kMaxRank> sizes{};
  size_t known = 0;
  for (Dim& dim : dims) {
    if (dim.symbol.size() > kMaxSymbolBytes) dim.symbol.clear();
    TENON_INVALID_IF(dim.value < -1, "Output {} gets the negative dimension {}.", output, dim.value);
    if (dim.known()) sizes[known++] = dim.value;
  }
  TENON_INVALID_IF(!checked_product(std::span(sizes).first(known)),
                   "Output {} of shape {} has more elements than a tensor can have.", output, text(dims));
  Value& value = graph_.value(node_.outputs[output]);
  value.has_rank = true;
  value.dims = std::move(dims);
  return {};
}

Status Context::copy(size_t input, size_t output) {
  if (!has(input)) return {};
  if (!in(input).is_tensor) {
    set_object(output, in(input).object);
    return {};
  }
  set_type(output, type(input));
  if (!ranked(input)) return {};
  return set_dims(output, dims(input));
}

std::optional<int64_t> Context::length(size_t input) const {
  if (!ranked(input) || rank(input) != 1 || !dims(input)[0].known()) return std::nullopt;
  return dims(input)[0].value;
}

Status Context::set_unknown_dims(int64_t rank) {
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "Output 0 has rank {}; the highest rank that Tenon handles is {}.", rank,
                       Shape::kMaxRank);
  return set_dims(0, Dims(rank));
}

Status Context::require_rank(size_t input, int expected, const char* what) const {
  TENON_INVALID_IF(!has(input), "Input {} ({}) is missing.", input, what);
  TENON_INVALID_IF(in(input).has_rank && rank(input) != expected, "Input {} ({}) has shape {}; its rank has to be {}.",
                   input, what, text(dims(input)), expected);
  return {};
}

Result<Dims> broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& dst = out[shift + i];
    const Dim& src = shorter[i];
    if (src.value == 1 || same(dst, src)) continue;
    if (dst.value == 1 || (!dst.known() && src.known())) {
      dst = src;  // an unknown one is 1 or equal
    } else if (dst.known() && src.known()) {
      return invalid_argument("Shapes {} and {} do not broadcast: {} against {} in dimension {} of the result.",
                              text(a), text(b), dst.value, src.value, shift + i);
    } else if (!dst.known()) {
      dst = Dim{};
    }
  }
  return out;
}

}  // namespace tenon::infer
