#include "plan/expand_cache.h"

namespace tenon::expand {

namespace {

// Codes [.., depth] of 4 bits from bytes [.., depth / 2], as float32.
ValueId unpacked(Expansion& to, ValueId bytes) {
  const ValueId wide = to.cast(bytes, DataType::kInt32);
  const ValueId sixteen = to.cast(to.constant({16}), DataType::kInt32), last = to.constant({-1});
  const ValueId high = to.add("Div", {wide, sixteen});
  const ValueId low = to.add("Sub", {wide, to.add("Mul", {high, sixteen})});
  const ValueId pairs =
      to.add("Concat", {to.add("Unsqueeze", {low, last}), to.add("Unsqueeze", {high, last})}, {integer("axis", -1)});
  const ValueId codes = to.cast(to.reshape(pairs, {0, 0, 0, -1}), DataType::kFloat);
  return to.add("Sub", {codes, to.scalar(8, DataType::kFloat)});
}

ValueId packed(Expansion& to, ValueId codes) {
  const ValueId raised = to.add("Add", {codes, to.scalar(8, DataType::kFloat)});
  const ValueId low = to.new_value(), high = to.new_value();
  to.add_node("", "Split", {to.reshape(raised, {0, 0, 0, -1, 2})}, {integer("axis", 4), integer("num_outputs", 2)},
              {low, high});
  const ValueId bytes = to.add("Add", {low, to.add("Mul", {high, to.scalar(16, DataType::kFloat)})});
  return to.cast(to.add("Squeeze", {bytes, to.constant({4})}), DataType::kUint8);
}

}  // namespace

ValueId normed_heads(Expansion& to, ValueId rows, int64_t heads, ValueId weight, float epsilon) {
  const ValueId apart = to.reshape(rows, {0, 0, heads, -1});
  const ValueId normed = to.add("RMSNormalization", {apart, weight}, {integer("axis", -1), number("epsilon", epsilon)});
  return to.reshape(normed, {0, 0, -1});
}

CodedCache coded_cache(Expansion& to, ValueId rows, int64_t heads, ValueId past, ValueId scale, int64_t bits) {
  const DataType type = to.type(rows);
  const auto numbers = [&](ValueId codes) {
    const ValueId wide = to.add("Mul", {codes, scale});
    return type == DataType::kFloat ? wide : to.cast(wide, type);
  };
  const ValueId apart = to.transpose(to.reshape(rows, {0, 0, heads, -1}), {0, 2, 1, 3});
  const ValueId wide = type == DataType::kFloat ? apart : to.cast(apart, DataType::kFloat);
  const double half = bits == 8 ? 128 : 8;
  const ValueId codes = to.add("Clip", {to.add("Round", {to.add("Div", {wide, scale})}),
                                        to.scalar(-half, DataType::kFloat), to.scalar(half - 1, DataType::kFloat)});
  CodedCache cache{.rows = numbers(codes)};
  cache.codes = bits == 8 ? to.cast(codes, DataType::kInt8) : packed(to, codes);
  if (past != kNoValue) cache.past = numbers(bits == 8 ? to.cast(past, DataType::kFloat) : unpacked(to, past));
  return cache;
}

}  // namespace tenon::expand
