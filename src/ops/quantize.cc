#include "ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "ops/attributes.h"

namespace tenon {

int64_t QuantizationDesc::parameter_of(int64_t element) const {
  const int64_t at = element / inner % length;
  switch (granularity) {
    case Granularity::kTensor:
      return 0;
    case Granularity::kAxis:
      return at;
    case Granularity::kBlock:
      break;
  }
  const int64_t blocks = (length + block_size - 1) / block_size;
  return (element / inner / length * blocks + at / block_size) * inner + element % inner;
}

Result<LookupDesc> read_lookup(const Shape& x, const Shape& table) {
  LookupDesc desc;
  const bool channels = table.rank() == 2 && x.rank() > 1;
  if (channels) desc.tables = x[1];
  TENON_INVALID_IF(
      table != (channels ? Shape{desc.tables, 256} : Shape{256}),
      "The table of LookupBytes has shape {} for X of shape {}; it needs [256], or [C,256] for X [N,C,...].",
      table.to_string(), x.to_string());
  for (int i = channels ? 2 : 0; i < x.rank(); ++i) desc.inner *= x[i];
  return desc;
}

Result<QuantizationDesc> read_quantization(const Node& node, const Shape& x, const Shape& parameter) {
  using Granularity = QuantizationDesc::Granularity;
  const Attributes attributes(node);
  const bool contrib = node.domain == kContribDomain;
  const int64_t block = contrib ? 0 : attributes.integer("block_size");
  QuantizationDesc desc;
  const bool single = parameter.element_count() == 1;
  if (block == 0) {
    TENON_INVALID_IF(parameter.rank() > 1, "{} has a scale or zero point of shape {} without blocks.", node.op_type,
                     parameter.to_string());
    if (parameter.rank() == 0 || (single && (x.rank() < 2 || node.since_version < 13))) return desc;
  }
  const int64_t stated_axis = contrib ? attributes.find_integer("axis").value_or(1) : attributes.integer("axis");
  int64_t axis = stated_axis;
  if (axis < 0) axis += x.rank();
  const bool in_range = axis >= 0 && axis < x.rank();
  if (block == 0 && single && axis >= 0 && (!in_range || x[static_cast<int>(axis)] != 1)) return desc;
  TENON_INVALID_IF(!in_range || block < 0, "{} has axis {} and blocks of {} for a tensor of shape {}.", node.op_type,
                   stated_axis, block, x.to_string());
  desc.granularity = block == 0 ? Granularity::kAxis : Granularity::kBlock;
  desc.axis = static_cast<int>(axis);
  desc.block_size = block;
  desc.length = x[desc.axis];
  for (int i = desc.axis + 1; i < x.rank(); ++i) desc.inner *= x[i];
  Shape wanted{desc.length};
  if (block != 0) {
    wanted = x;
    wanted[desc.axis] = desc.length / block + (desc.length % block != 0 ? 1 : 0);
  }
  TENON_INVALID_IF(parameter != wanted, "{} has a scale or zero point of shape {} for axis {} of {}; it needs {}.",
                   node.op_type, parameter.to_string(), axis, x.to_string(), wanted.to_string());
  return desc;
}

DynamicQuantization dynamic_quantization(float low, float high) {
  const float scale = low == high ? 1.0f : (high - low) / 255.0f;
  const float zero = std::nearbyint(-low / scale);
  // A NaN is no zero point.
  return {.scale = scale, .zero_point = static_cast<uint8_t>(zero > 0 ? std::min(zero, 255.0f) : 0.0f)};
}

Result<LineParameters> read_line_parameters(const Shape& parameter, const Shape& operand, bool rows) {
  const int64_t count = parameter.element_count();
  if (count == 1) return LineParameters{};
  const int rank = operand.rank();
  // A vector operand is one row of A, or one column of B.
  const int64_t lines = rank >= 2 ? operand[rows ? rank - 2 : rank - 1] : 1;
  if (parameter.rank() == 1 && count == lines) return LineParameters{.lines = lines};
  Shape wanted = operand;
  if (rank >= 2) wanted[rows ? rank - 1 : rank - 2] = 1;
  TENON_INVALID_IF(parameter != wanted, "A scale or zero point has shape {}; {} has {} {}.", parameter.to_string(),
                   operand.to_string(), lines, rows ? "rows" : "columns");
  return LineParameters{.lines = lines, .shared = false};
}

namespace infer {
namespace {

Status infer_quantize(Context& c) {
  TENON_TRY(c.copy(0));
  const bool contrib = c.node().domain == kContribDomain;
  const int64_t stated = contrib ? 0 : Attributes(c.node()).integer("output_dtype");
  // The type where the node states none.
  const bool quantizes = c.node().op_type == "QuantizeLinear";
  const DataType otherwise = quantizes ? DataType::kUint8 : c.type(1);
  const DataType type = stated != 0 ? static_cast<DataType>(stated) : otherwise;
  c.set_type(0, quantizes && c.has(2) ? c.type(2) : type);
  return {};
}

Status infer_dynamic_quantize(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, DataType::kUint8);
  c.set_type(1, DataType::kFloat);
  c.set_type(2, DataType::kUint8);
  TENON_TRY(c.set_dims(1, {}));
  return c.set_dims(2, {});
}

constexpr Row kRows[] = {
    {"DequantizeLinear", &infer_quantize},
    {"DynamicQuantizeLinear", &infer_dynamic_quantize},
    {"QuantizeLinear", &infer_quantize},
};

}  // namespace

std::span<const Row> quantize_rows() { return kRows; }

namespace {
constexpr Row kContribRows[] = {{"DequantizeLinear", &infer_quantize}, {"QuantizeLinear", &infer_quantize}};
}  // namespace

std::span<const Row> contrib_quantize_rows() { return kContribRows; }

}  // namespace infer
}  // namespace tenon
