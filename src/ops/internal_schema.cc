#include "ops/internal_schema.h"

#include <algorithm>
#include <span>

namespace tenon {

namespace {

// AttributeProto.AttributeType
constexpr int8_t kFloat = 1, kInt = 2, kString = 3, kGraph = 5, kInts = 7;

constexpr SchemaAttribute kEpilogue[] = {
    {"activation", kString, false, "none"},
    {"activation_alpha", kFloat, false},
    {"activation_beta", kFloat, false},
    {"residual_after", kInt, false, "0"},
};
constexpr SchemaAttribute kMatMul[] = {{"trans_b", kInt, false, "0"}, {"alpha", kFloat, false, "1"}};
constexpr SchemaAttribute kQuantizedMatMul[] = {{"trans_b", kInt, false, "0"}, {"factor", kFloat, false, "1"}};
constexpr SchemaAttribute kAttention[] = {
    {"num_heads", kInt, true}, {"scale", kFloat, true}, {"guarded", kInt, false, "0"}, {"softcap", kFloat, false, "0"}};
constexpr SchemaAttribute kPackedAttention[] = {
    {"num_heads", kInt, true}, {"scale", kFloat, true}, {"guarded", kInt, false, "0"}, {"depth", kInt, false}};
constexpr SchemaAttribute kCacheUpdate[] = {{"kv_num_heads", kInt, false}};
constexpr SchemaAttribute kLayerNorm[] = {{"subtract_mean", kInt, false, "1"}};
constexpr SchemaAttribute kReorder[] = {{"to", kString, true}, {"channels_last", kInt, false, "0"}};
constexpr SchemaAttribute kRotateHalf[] = {{"interleaved", kInt, false, "0"}, {"perm", kInts, false}};
constexpr SchemaAttribute kRegion[] = {
    {"body", kGraph, true}, {"provider", kInt, true}, {"region", kInt, true}, {"host_operator", kInt, false, "0"}};
constexpr SchemaAttribute kSearchStart[] = {{"pad_token_id", kInt, false, "-1"}, {"left", kInt, false, "0"}};
constexpr SchemaAttribute kSearchStep[] = {{"mode", kString, true}};
constexpr SchemaAttribute kCopy[] = {{"reason", kInt, true}, {"mover", kInt, true}};

struct InternalOperator {
  std::string_view name;
  std::string_view onnx;  // the operator whose attributes it has too, at the newest version; empty: none
  bool epilogue;
  std::span<const SchemaAttribute> attributes;
};

constexpr InternalOperator kOperators[] = {
    {"Activation", {}, true, {}},
    {"Attention", {}, false, kAttention},
    {"CacheUpdate", {}, false, kCacheUpdate},
    {"CachedAttention", "Attention", false, {}},
    {"Conv", "Conv", true, {}},
    {"ConvTranspose", "ConvTranspose", true, {}},
    {"Copy", {}, false, kCopy},
    {"GuardedSoftmax", "Softmax", false, {}},
    {"LayerNorm", "LayerNormalization", false, kLayerNorm},
    {"LookupBytes", {}, false, {}},
    {"LookupOrDefault", {}, false, {}},
    {"MatMul", {}, true, kMatMul},
    {"PackedAttention", {}, false, kPackedAttention},
    {"QuantizedConv", "Conv", true, {}},
    {"QuantizedMatMul", {}, true, kQuantizedMatMul},
    {"QuantizedSoftmax", {}, false, {}},
    {"Region", {}, false, kRegion},
    {"Reorder", {}, false, kReorder},
    {"RotateHalf", {}, false, kRotateHalf},
    {"SearchEnd", {}, false, kSearchStart},
    {"SearchStart", {}, false, kSearchStart},
    {"SearchStep", {}, false, kSearchStep},
};

std::optional<SchemaAttribute> find_in(std::span<const SchemaAttribute> rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const SchemaAttribute& r) { return r.name == name; });
  return row == rows.end() ? std::nullopt : std::optional(*row);
}

}  // namespace

std::optional<SchemaAttribute> find_internal_attribute(std::string_view op_type, std::string_view attribute) {
  const auto* const row = std::find_if(std::begin(kOperators), std::end(kOperators),
                                       [&](const InternalOperator& one) { return one.name == op_type; });
  if (row == std::end(kOperators)) return std::nullopt;
  if (auto own = find_in(row->attributes, attribute)) return own;
  if (row->epilogue) {
    if (auto epilogue = find_in(kEpilogue, attribute)) return epilogue;
  }
  const auto onnx = row->onnx.empty() ? std::nullopt : find_schema("", row->onnx, newest_opset(""));
  return onnx ? onnx->find_attribute(attribute) : std::nullopt;
}

}  // namespace tenon
