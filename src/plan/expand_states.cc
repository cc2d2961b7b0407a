// LinearAttention and CausalConvWithState of com.microsoft, which have more forms than those of ai.onnx.
#include "plan/expand.h"

namespace tenon::expand {

namespace {

void refuse_window(Expansion& to) {
  if (to.attributes().integer("state_window") == 0) return;
  to.fail(unsupported("{} is not computed with a window of states.", to.node().op_type));
}

void linear_attention(Expansion& to) {
  const Attributes attributes = to.attributes();
  refuse_window(to);
  const int64_t heads = attributes.find_integer("q_num_heads").value_or(0),
                kv_heads = attributes.find_integer("kv_num_heads").value_or(0);
  if (heads < 1 || kv_heads < 1 || (heads % kv_heads != 0 && kv_heads % heads != 0)) {
    to.fail(invalid_argument("LinearAttention has {} heads of queries and {} of keys.", heads, kv_heads));
    return;
  }
  // Fewer heads of queries, or of keys, than of values: each stands for a group of them.
  const auto repeated = [&](ValueId rows, int64_t count) {
    if (count == kv_heads) return rows;
    const ValueId apart = to.add("Unsqueeze", {to.reshape(rows, {0, 0, count, -1}), to.constant({3})});
    const ValueId shape =
        to.add("Concat", {to.sizes(apart, 0, 3), to.constant({kv_heads / count}), to.sizes(apart, 4, 5)},
               {integer("axis", 0)});
    return to.reshape(to.add("Expand", {apart, shape}), {0, 0, -1});
  };
  const ValueId query = heads < kv_heads ? repeated(to.in(0), heads) : to.in(0);
  ValueId key = to.in(1);
  const int64_t query_width = to.known_size(to.in(0), 2), key_width = to.known_size(key, 2);
  if (query_width > 0 && key_width > 0 && query_width % heads == 0) {
    const int64_t depth = query_width / heads, key_heads = key_width % depth == 0 ? key_width / depth : 0;
    if (key_heads > 0 && key_heads < kv_heads && kv_heads % key_heads == 0) key = repeated(key, key_heads);
  }
  to.add_node(
      "", "LinearAttention", {query, key, to.in(2), to.in(3), to.in(4), to.in(5)},
      {integer("q_num_heads", std::max(heads, kv_heads)), integer("kv_num_heads", kv_heads),
       text("update_rule", std::string(attributes.text("update_rule"))), number("scale", attributes.number("scale"))},
      {to.out(0) == kNoValue ? to.new_value() : to.out(0), to.out(1) == kNoValue ? to.new_value() : to.out(1)});
}

// [batch, positions, ..] as [batch, channels, positions].
ValueId channels_first(Expansion& to, ValueId x) {
  if (x == kNoValue) return x;
  return to.transpose(to.rank(x) == 3 ? x : to.reshape(x, {0, 0, -1}), {0, 2, 1});
}

// Back, with the axes of channels of `like`.
void channels_last(Expansion& to, ValueId x, ValueId like, ValueId result) {
  const int rank = to.rank(like);
  const ValueId rows = to.transpose(x, {0, 2, 1}, rank == 3 ? result : kNoValue);
  if (rank == 3) return;
  const ValueId shape = to.add("Concat", {to.constant({0, 0}), to.sizes(like, 2, rank)}, {integer("axis", 0)});
  to.add("Reshape", {rows, shape}, {}, result);
}

// The positions before, and X behind them; then a convolution without padding.
void dilated(Expansion& to, ValueId x, ValueId past, int64_t dilation, ValueId y, ValueId present) {
  const ValueId taps = to.sizes(to.in(1), 2, 3);
  const ValueId room = to.add("Mul", {to.add("Sub", {taps, to.constant({1})}), to.constant({dilation})});
  if (past == kNoValue) {
    const ValueId shape = to.add("Concat", {to.sizes(x, 0, 2), room}, {integer("axis", 0)});
    past = to.add("Expand", {to.scalar(0, to.type(x)), shape});
  }
  const ValueId whole = to.add("Concat", {past, x}, {integer("axis", 2)});
  const int64_t channels = to.known_size(to.in(1), 0);
  if (channels < 1) {
    to.fail(unsupported("CausalConvWithState needs a known number of channels."));
    return;
  }
  const std::string_view activation = to.attributes().text("activation");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") {
    to.fail(invalid_argument("CausalConvWithState has the activation \"{}\".", activation));
  }
  if (y != kNoValue) {
    const ValueId sum = to.add("Conv", {whole, to.in(1), to.in(2)},
                               {integer("group", channels), integers("dilations", {dilation})}, silu ? kNoValue : y);
    if (silu) to.add("Swish", {sum}, {}, y);
  }
  // The last `room` positions: what is behind the length of X.
  if (present != kNoValue) {
    to.add("Slice", {whole, to.sizes(x, 2, 3), to.sizes(whole, 2, 3), to.constant({2})}, {}, present);
  }
}

void causal_conv(Expansion& to) {
  const Attributes attributes = to.attributes();
  refuse_window(to);
  if (attributes.integer("ndim") != 1) {
    to.fail(unsupported("CausalConvWithState is computed along one dimension, not {}.", attributes.integer("ndim")));
  }
  const int64_t dilation = attributes.integer("dilation");
  if (dilation < 1) to.fail(invalid_argument("Attribute \"dilation\" ({}) has to be positive.", dilation));
  const bool last = attributes.flag("channels_last");
  if (last && to.rank(to.in(0)) < 3) {
    to.fail(unsupported("CausalConvWithState needs an input of a known rank with channels at the end."));
  }
  if (!to.status().ok()) return;
  const ValueId x = last ? channels_first(to, to.in(0)) : to.in(0),
                past = last ? channels_first(to, to.in(3)) : to.in(3);
  const auto result = [&](size_t output) {
    return last ? to.new_value() : to.out(output) == kNoValue ? to.new_value() : to.out(output);
  };
  const ValueId y = result(0), present = result(1);
  if (dilation == 1) {
    to.add_node("", "CausalConvWithState", {x, to.in(1), to.in(2), past},
                {text("activation", std::string(attributes.text("activation")))}, {y, present});
  } else {
    dilated(to, x, past, dilation, y, present);
  }
  if (!last) return;
  if (to.out(0) != kNoValue) channels_last(to, y, to.in(0), to.out(0));
  if (to.out(1) != kNoValue) channels_last(to, present, to.in(0), to.out(1));
}

constexpr Row kRows[] = {
    {"com.microsoft", "CausalConvWithState", &causal_conv},
    {"com.microsoft", "LinearAttention", &linear_attention},
};

}  // namespace

std::span<const Row> state_rows() { return kRows; }

}  // namespace tenon::expand
