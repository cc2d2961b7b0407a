#include "ops/elementwise.h"

#include <limits>
#include <optional>
#include <utility>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

bool broadcasts_inputs(const Node& node) {
  static constexpr std::string_view kOperators[] = {
      "Add", "And",     "BitShift",       "BitwiseAnd", "BitwiseOr",   "BitwiseXor", "Div",   "Equal",
      "Max", "Greater", "GreaterOrEqual", "Less",       "LessOrEqual", "Mean",       "Min",   "Mod",
      "Mul", "Or",      "PRelu",          "Pow",        "Sub",         "Sum",        "Where", "Xor"};
  return node.domain.empty() &&
         std::find(std::begin(kOperators), std::end(kOperators), node.op_type) != std::end(kOperators);
}

ClipDesc read_clip(const Node& node) {
  if (node.since_version >= 11)
    return {std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max(), /*bounds_are_inputs=*/true};
  const Attributes attributes(node);
  return {attributes.number("min"), attributes.number("max"), /*bounds_are_inputs=*/false};
}

ModDesc read_mod(const Node& node) { return {Attributes(node).flag("fmod")}; }

Result<BitShiftDesc> read_bit_shift(const Node& node) {
  const std::string_view direction = Attributes(node).find_text("direction").value_or("");
  TENON_INVALID_IF(direction != "LEFT" && direction != "RIGHT", "BitShift has the direction \"{}\".", direction);
  return BitShiftDesc{direction == "LEFT"};
}

IsInfDesc read_is_inf(const Node& node) {
  const Attributes attributes(node);
  return {attributes.flag("detect_negative"), attributes.flag("detect_positive")};
}

Result<DataType> read_cast_type(const Node& node) {
  const int64_t to = Attributes(node).find_integer("to").value_or(0);
  TENON_INVALID_IF(data_type_name(static_cast<DataType>(to)) == "undefined",
                   "Attribute \"to\" ({}) is no element type.", to);
  return static_cast<DataType>(to);
}

Result<CastRounding> read_cast_rounding(const Node& node) {
  using Mode = CastRounding::Mode;
  const Attributes attributes(node);
  const std::string_view mode = attributes.text("round_mode");
  TENON_INVALID_IF(mode != "up" && mode != "down" && mode != "nearest", "{} has the round_mode \"{}\".", node.op_type,
                   mode);
  return CastRounding{attributes.flag("saturate"), mode == "up"     ? Mode::kUp
                                                   : mode == "down" ? Mode::kDown
                                                                    : Mode::kNearest};
}

}  // namespace tenon

// Shapes of elementwise operators, and of those that keep the shape of their first input.
namespace tenon::infer {
namespace {

Status infer_same(Context& c) { return c.copy(0); }

Status infer_same_as_bool(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, DataType::kBool);
  return {};
}

// Output 0 is the broadcast of all inputs; its type is that of input `type_input`.
Status infer_broadcast(Context& c, size_t type_input) {
  c.set_type(0, c.type(type_input));
  Dims dims;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) {
    if (!c.has(i)) continue;
    if (!c.ranked(i)) return {};
    if (i == 0) {
      dims = c.dims(0);
    } else {
      TENON_TRY_ASSIGN(dims, broadcast(dims, c.dims(i)));
    }
  }
  return c.set_dims(0, std::move(dims));
}

Status infer_arithmetic(Context& c) { return infer_broadcast(c, 0); }
Status infer_where(Context& c) { return infer_broadcast(c, 1); }
Status infer_compare(Context& c) {
  TENON_TRY(infer_broadcast(c, 0));
  c.set_type(0, DataType::kBool);
  return {};
}

Status infer_cast(Context& c) {
  TENON_TRY(c.copy(0));
  TENON_TRY_ASSIGN(const DataType to, read_cast_type(c.node()));
  c.set_type(0, to);
  return {};
}

// The bits of a text are an address.
Status infer_bit_cast(Context& c) {
  TENON_TRY(infer_cast(c));
  for (const DataType type : {c.type(0), *read_cast_type(c.node())})
    TENON_INVALID_IF(type == DataType::kString, "{} takes and makes numbers, not texts.", c.node().op_type);
  return {};
}

Status infer_cast_like(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, c.type(1));
  return {};
}

Status infer_dropout(Context& c) {
  TENON_TRY(c.copy(0, 0));
  TENON_TRY(c.copy(0, 1));
  c.set_type(1, c.version() >= 10 ? DataType::kBool : c.type(0));
  return {};
}

Status infer_like_with_dtype(Context& c) {
  TENON_TRY(c.copy(0));
  if (const std::optional<int64_t> type = Attributes(c.node()).find_integer("dtype"))
    c.set_type(0, static_cast<DataType>(*type));
  return {};
}

Status infer_eye_like(Context& c) {
  TENON_TRY(c.require_rank(0, 2, "of EyeLike"));
  return infer_like_with_dtype(c);
}

constexpr Row kRows[] = {
    {"Add", &infer_arithmetic},
    {"And", &infer_compare},
    {"Bernoulli", &infer_like_with_dtype},
    {"BitCast", &infer_bit_cast},
    {"BitShift", &infer_arithmetic},
    {"BitwiseAnd", &infer_arithmetic},
    {"BitwiseNot", &infer_same},
    {"BitwiseOr", &infer_arithmetic},
    {"BitwiseXor", &infer_arithmetic},
    {"Cast", &infer_cast},
    {"CastLike", &infer_cast_like},
    {"CumSum", &infer_same},
    {"CumProd", &infer_same},
    {"Div", &infer_arithmetic},
    {"Dropout", &infer_dropout},
    {"Equal", &infer_compare},
    {"EyeLike", &infer_eye_like},
    {"Greater", &infer_compare},
    {"GreaterOrEqual", &infer_compare},
    {"Identity", &infer_same},
    {"IsInf", &infer_same_as_bool},
    {"IsNaN", &infer_same_as_bool},
    {"Less", &infer_compare},
    {"LessOrEqual", &infer_compare},
    {"Max", &infer_arithmetic},
    {"Mean", &infer_arithmetic},
    {"Min", &infer_arithmetic},
    {"Mod", &infer_arithmetic},
    {"Mul", &infer_arithmetic},
    {"Not", &infer_same_as_bool},
    {"Or", &infer_compare},
    {"PRelu", &infer_arithmetic},
    {"Pow", &infer_arithmetic},
    {"RandomNormalLike", &infer_like_with_dtype},
    {"RandomUniformLike", &infer_like_with_dtype},
    {"ReverseSequence", &infer_same},
    {"Scatter", &infer_same},
    {"ScatterElements", &infer_same},
    {"ScatterND", &infer_same},
    {"Sub", &infer_arithmetic},
    {"Sum", &infer_arithmetic},
    {"Trilu", &infer_same},
    {"Where", &infer_where},
    {"Xor", &infer_compare},
};

}  // namespace

std::span<const Row> elementwise_rows() { return kRows; }

}  // namespace tenon::infer
