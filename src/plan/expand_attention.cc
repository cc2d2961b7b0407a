// Attention of com.microsoft, with what stands around it there: the projection, biases, masks of integers, rotary
// embeddings and lengths. All become tenon.CachedAttention.
#include <cmath>
#include <limits>
#include <utility>

#include "ops/attention.h"
#include "plan/expand_cache.h"

namespace tenon::expand {

namespace {

// What is added to the score of a masked key where the node does not say it.
constexpr float kMasked = -10000;

// Inputs of the tenon.CachedAttention that is made.
struct Parts {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue, mask = kNoValue;
  ValueId past_k = kNoValue, past_v = kNoValue, lengths = kNoValue, total = kNoValue, sink = kNoValue;
  int64_t heads = 0, kv_heads = 0;
  SetAttributes more;
  // The new rows as a cache of codes holds them; k, v and the past are then numbers.
  ValueId k_codes = kNoValue, v_codes = kNoValue;
};

void attend(Expansion& to, const Parts& parts, std::vector<ValueId> outputs) {
  // The kernels write the result, also where the present alone is asked for.
  if (outputs[0] == kNoValue) outputs[0] = to.new_value();
  SetAttributes set = parts.more;
  set.push_back(integer("q_num_heads", parts.heads));
  if (parts.k == kNoValue || to.rank(parts.k) != 4) set.push_back(integer("kv_num_heads", parts.kv_heads));
  // 0 stands for the scale that the number of elements gives.
  if (const float scale = to.attributes().find_number("scale").value_or(0); scale != 0) {
    set.push_back(number("scale", scale));
  }
  to.add_node(
      "tenon", "CachedAttention",
      {parts.q, parts.k, parts.v, parts.mask, parts.past_k, parts.past_v, parts.lengths, parts.total, parts.sink}, set,
      std::move(outputs));
}

int64_t heads_of(Expansion& to, const char* name) {
  const int64_t heads = to.attributes().find_integer(name).value_or(0);
  if (heads < 1) to.fail(invalid_argument("Attribute \"{}\" ({}) has to be positive.", name, heads));
  return heads;
}

ValueId joined(Expansion& to, ValueId a, ValueId b) {
  return a == kNoValue ? b : b == kNoValue ? a : to.add("Add", {a, b});
}

// A mask of integers, 0 where a key is masked, as numbers to add to scores of `type`: of keys in each batch, or of keys
// for each query. With one dimension it has the ends of the batches' keys. Where it has two numbers for each batch, the
// second ones are where the keys begin. ONNX Runtime's third form, 3 * batch + 2 numbers, begins with the ends too, and
// its CPU EP reads no more of it.
ValueId mask_of(Expansion& to, ValueId mask, ValueId keys, DataType type) {
  if (mask == kNoValue) return kNoValue;
  const float filter = to.attributes().find_number("mask_filter_value").value_or(kMasked);
  const int rank = to.rank(mask);
  ValueId allowed = kNoValue;
  if (rank == 1) {
    const ValueId count = to.add("Squeeze", {keys, to.constant({0})});
    const ValueId positions = to.add(
        "Range", {to.constant(std::array<int64_t, 1>{0}, true), count, to.constant(std::array<int64_t, 1>{1}, true)});
    const ValueId lengths = to.cast(mask, DataType::kInt64);
    const ValueId batch = to.sizes(to.in(0), 0, 1);
    const ValueId zero = to.constant({0});
    const ValueId ends = to.add("Slice", {lengths, zero, batch});
    allowed = to.add("Less", {positions, to.add("Unsqueeze", {ends, to.constant({1})})});
    const int64_t known = to.known_size(mask, 0), known_batch = to.known_size(to.in(0), 0);
    if (known < 0 || known_batch < 0 || (known == 2 * known_batch && known > 0)) {
      // Zeros behind the ends are the starts where the mask has none.
      const ValueId all = to.add("Concat", {lengths, to.add("Expand", {zero, batch})}, {integer("axis", 0)});
      const ValueId both = to.add("Add", {batch, batch});
      ValueId starts = to.add("Slice", {all, batch, both});
      if (known < 0 || known_batch < 0)
        starts = to.add("Where", {to.add("Equal", {to.add("Shape", {mask}), both}), starts, zero});
      allowed = to.add(
          "And", {allowed, to.add("GreaterOrEqual", {positions, to.add("Unsqueeze", {starts, to.constant({1})})})});
    } else if (known != known_batch && known != 3 * known_batch + 2) {
      to.fail(unsupported("{} has a mask of {} numbers for {} batches.", to.node().op_type, known, known_batch));
    }
  } else if (rank == 2 || rank == 3) {
    // Numbers below 0 mask as 0 does.
    allowed =
        to.type(mask) == DataType::kBool ? mask : to.add("Greater", {mask, to.cast(to.constant({0}), to.type(mask))});
  } else {
    to.fail(unsupported("{} has a mask {}; those of 1, 2 and 3 dimensions are computed.", to.node().op_type,
                        to.value(mask).type_text()));
    return kNoValue;
  }
  const ValueId added = to.add("Where", {allowed, to.scalar(0, type), to.scalar(filter, type)});
  return to.add("Unsqueeze", {added, rank == 3 ? to.constant({1}) : to.constant({1, 2})});
}

// Elements [begin, end) of a bias, added to x.
ValueId biased(Expansion& to, ValueId x, ValueId bias, ValueId begin, ValueId end) {
  return to.add("Add", {x, to.add("Slice", {bias, begin, end})});
}

// The number of keys that there are with those of the past, as one int64.
ValueId all_keys(Expansion& to, const Parts& parts) {
  const ValueId rows = parts.k == kNoValue ? parts.q : parts.k;
  const int64_t axis = to.rank(rows) == 4 ? 2 : 1;
  const ValueId keys = to.sizes(rows, axis, axis + 1);
  return parts.past_k == kNoValue ? keys : to.add("Add", {keys, to.sizes(parts.past_k, 2, 3)});
}

void add_mask(Expansion& to, size_t mask, size_t bias, DataType type, Parts& parts) {
  const ValueId keys = to.has(mask) && to.rank(to.in(mask)) == 1 ? all_keys(to, parts) : kNoValue;
  parts.mask = joined(to, mask_of(to, to.in(mask), keys, type), to.in(bias));
}

// The caches of keys and values with the new rows; each becomes larger where `grows` and the total length needs it.
void update_caches(Expansion& to, const Parts& parts, bool grows, ValueId k, ValueId v) {
  const ValueId new_k = parts.k_codes == kNoValue ? parts.k : parts.k_codes,
                new_v = parts.v_codes == kNoValue ? parts.v : parts.v_codes;
  const ValueId past_k = parts.k_codes == kNoValue ? parts.past_k : to.in(3),
                past_v = parts.v_codes == kNoValue ? parts.past_v : to.in(4);
  for (const auto& [rows, past, present] : {std::array{new_k, past_k, k}, std::array{new_v, past_v, v}}) {
    if (present == kNoValue) continue;
    SetAttributes set;
    if (to.rank(rows) != 4) set.push_back(integer("kv_num_heads", parts.kv_heads));
    to.add_node("tenon", "CacheUpdate", {rows, past, parts.lengths, grows ? parts.total : kNoValue}, set, {present});
  }
}

// Packed rows as those of queries, keys and values.
void split_rows(Expansion& to, Parts& parts) {
  const ValueId packed = parts.q;
  const ValueId units = to.constant({parts.heads + 2 * parts.kv_heads});
  const ValueId depth = to.add("Div", {to.sizes(packed, 2, 3), units});
  const ValueId widths = to.add("Mul", {depth, to.constant({parts.heads, parts.kv_heads, parts.kv_heads})});
  parts.q = to.new_value(), parts.k = to.new_value(), parts.v = to.new_value();
  to.add_node("", "Split", {packed, widths}, {integer("axis", 2)}, {parts.q, parts.k, parts.v});
}

// A cache with room for more: the new keys come behind `past_length` old ones in every batch.
void share_cache(Expansion& to, ValueId past_length, Parts& parts) {
  const ValueId queries = to.sizes(parts.q, 1, 2);
  parts.total = to.add("Add", {to.reshape(to.cast(past_length, DataType::kInt64), {1}), queries});
  parts.lengths = to.add("Expand", {parts.total, to.sizes(parts.q, 0, 1)});
}

// Splits the bias of queries, keys and values between them. Keys and values with heads of their own have none.
void add_biases(Expansion& to, ValueId bias, Parts& parts) {
  if (bias == kNoValue) return;
  const ValueId hidden = to.sizes(parts.q, 2, 3);
  parts.q = biased(to, parts.q, bias, to.constant({0}), hidden);
  if (to.rank(parts.k) == 4) return;
  const ValueId keys_end = to.add("Add", {hidden, hidden});
  parts.k = biased(to, parts.k, bias, hidden, keys_end);
  parts.v = biased(to, parts.v, bias, keys_end, to.sizes(bias, 0, 1));
}

// The rows of K and V, or of Q, K and V, that lie beside each other for each head: [batch, positions, heads, n, depth].
void unpack_heads(Expansion& to, ValueId packed, const std::vector<ValueId*>& parts) {
  std::vector<ValueId> pieces(parts.size());
  for (ValueId& piece : pieces) piece = to.new_value();
  to.add_node("", "Split", {packed}, {integer("axis", 3), integer("num_outputs", static_cast<int64_t>(parts.size()))},
              pieces);
  const ValueId squeezed = to.constant({3});
  for (size_t i = 0; i < parts.size(); ++i) {
    // Heads before positions, as a tensor of four dimensions has them.
    *parts[i] = to.transpose(to.add("Squeeze", {pieces[i], squeezed}), {0, 2, 1, 3});
  }
}

// The attention of a node with outputs (y, present_key, present_value, scores); `past_length` is how much of the cache
// is filled, kNoValue where all of it is.
void attend_or_share(Expansion& to, ValueId past_length, ValueId y, Parts& parts) {
  if (past_length == kNoValue) {
    attend(to, parts, {y, to.out(1), to.out(2), to.out(3)});
    return;
  }
  if (to.out(3) != kNoValue) {
    to.fail(unsupported("{} has no output of scores with a cache that has room for more.", to.node().op_type));
    return;
  }
  share_cache(to, past_length, parts);
  attend(to, parts, {y});
  update_caches(to, parts, false, to.out(1), to.out(2));
}

void multi_head(Expansion& to) {
  Parts parts{.q = to.in(0), .k = to.in(1), .v = to.in(2)};
  parts.heads = parts.kv_heads = heads_of(to, "num_heads");
  if (to.has(9)) to.fail(unsupported("MultiHeadAttention is not computed with beams (cache_indirection)."));
  // Rows whose rank is not known count as those of three dimensions, which exporters write.
  parts.past_k = to.in(6), parts.past_v = to.in(7);
  const bool packed = to.rank(parts.q) == 5;
  if (packed || to.rank(parts.k) == 5) {
    if (to.has(3)) to.fail(unsupported("MultiHeadAttention is not computed with a bias of packed rows."));
    if (packed) unpack_heads(to, parts.q, {&parts.q, &parts.k, &parts.v});
    if (!packed) unpack_heads(to, to.in(1), {&parts.k, &parts.v});
  } else if (parts.k == kNoValue || parts.v == kNoValue) {
    to.fail(invalid_argument("MultiHeadAttention has queries of {}, and lacks keys or values.",
                             to.value(parts.q).type_text()));
    return;
  }
  add_biases(to, to.in(3), parts);
  add_mask(to, 4, 5, to.type(to.in(0)), parts);
  if (to.attributes().flag("unidirectional")) parts.more.push_back(integer("is_causal", kCausalUnlessSingle));
  parts.more.push_back(integer("qk_matmul_output_mode", 3));
  const ValueId y = packed ? to.new_value() : to.out(0);
  attend_or_share(to, to.in(8), y, parts);
  if (packed) {
    const ValueId rows = to.add("Transpose", {y}, {integers("perm", {0, 2, 1, 3})});
    to.reshape(rows, {0, 0, -1}, to.out(0));
  }
}

void decoder_masked(Expansion& to) {
  Parts parts{.q = to.in(0), .k = to.in(1), .v = to.in(2)};
  parts.heads = parts.kv_heads = heads_of(to, "num_heads");
  if (to.has(9)) to.fail(unsupported("DecoderMaskedMultiHeadAttention is not computed with beams."));
  const bool is_packed = parts.k == kNoValue;
  if (is_packed && to.has(10)) {
    parts.q = to.add("Add", {parts.q, to.in(10)});
  } else {
    add_biases(to, to.in(10), parts);
  }
  parts.past_k = to.in(5), parts.past_v = to.in(6);
  add_mask(to, 3, 4, to.type(to.in(0)), parts);
  const bool shared =
      to.attributes().find_integer("past_present_share_buffer").value_or(0) != 0 && parts.past_k != kNoValue;
  if (is_packed && shared) split_rows(to, parts);
  parts.more.push_back(integer("qk_matmul_output_mode", 3));
  attend_or_share(to, shared ? to.in(7) : kNoValue, to.out(0), parts);
}

// Keys and values of both dimensions of [2, batch, heads, positions, depth].
void split_past(Expansion& to, ValueId past, Parts& parts) {
  if (past == kNoValue) return;
  const ValueId k = to.new_value(), v = to.new_value();
  to.add_node("", "Split", {past}, {integer("axis", 0), integer("num_outputs", 2)}, {k, v});
  const ValueId first = to.constant({0});
  parts.past_k = to.add("Squeeze", {k, first});
  parts.past_v = to.add("Squeeze", {v, first});
}

// The attention of a node with outputs (y, present), which holds keys and values.
void attend_with_pair(Expansion& to, const Parts& parts) {
  const bool present = to.out(1) != kNoValue;
  const ValueId k = present ? to.new_value() : kNoValue, v = present ? to.new_value() : kNoValue;
  attend(to, parts, {to.out(0) == kNoValue ? to.new_value() : to.out(0), k, v});
  if (!present) return;
  const ValueId first = to.constant({0});
  to.add("Concat", {to.add("Unsqueeze", {k, first}), to.add("Unsqueeze", {v, first})}, {integer("axis", 0)}, to.out(1));
}

void attention(Expansion& to) {
  const Attributes attributes = to.attributes();
  Parts parts;
  parts.heads = parts.kv_heads = heads_of(to, "num_heads");
  if (attributes.find_integer("do_rotary").value_or(0) != 0) {
    to.fail(unsupported("Attention is not computed with do_rotary; RotaryEmbedding nodes are."));
  }
  const ValueId rows = to.add("MatMul", {to.in(0), to.in(1)});
  parts.q = to.has(2) ? to.add("Add", {rows, to.in(2)}) : rows;
  const std::span<const int64_t> sizes = attributes.integers("qkv_hidden_sizes");
  if (!sizes.empty() && (sizes.size() != 3 || sizes[0] != sizes[1] || sizes[0] != sizes[2])) {
    if (sizes.size() != 3) {
      to.fail(invalid_argument("Attribute \"qkv_hidden_sizes\" has {} elements, not 3.", sizes.size()));
      return;
    }
    const ValueId packed = parts.q;
    parts.q = to.new_value(), parts.k = to.new_value(), parts.v = to.new_value();
    to.add_node("", "Split", {packed, to.constant(sizes)}, {integer("axis", 2)}, {parts.q, parts.k, parts.v});
  }
  split_past(to, to.in(4), parts);
  add_mask(to, 3, 5, to.type(to.in(0)), parts);
  if (attributes.flag("unidirectional")) parts.more.push_back(integer("is_causal", 1));
  if (attributes.find_integer("past_present_share_buffer").value_or(0) != 0) {
    to.fail(unsupported("Attention is not computed with past_present_share_buffer."));
  }
  attend_with_pair(to, parts);
}

// The same with X and the weights in bytes, which the product multiplies as they are.
void quantized_attention(Expansion& to) {
  enum : size_t { kX, kW, kBias, kXScale, kWScale, kMask, kXZero, kWZero, kPast };
  Parts parts;
  parts.heads = parts.kv_heads = heads_of(to, "num_heads");
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) {
    if (to.attributes().find_integer(name).value_or(0) != 0) {
      to.fail(unsupported("QAttention is not computed with {}.", name));
    }
  }
  parts.q = to.new_value();
  to.add_node("com.microsoft", "MatMulIntegerToFloat",
              {to.in(kX), to.in(kW), to.in(kXScale), to.in(kWScale), to.in(kXZero), to.in(kWZero), to.in(kBias)}, {},
              {parts.q});
  split_past(to, to.in(kPast), parts);
  const size_t no_bias = to.node().inputs.size();
  add_mask(to, kMask, no_bias, DataType::kFloat, parts);
  if (to.attributes().flag("unidirectional")) parts.more.push_back(integer("is_causal", 1));
  attend_with_pair(to, parts);
}

// 0, 1, .. up to a count of one element.
ValueId counted(Expansion& to, ValueId count) {
  return to.add("Range", {to.constant(std::array<int64_t, 1>{0}, true), to.add("Squeeze", {count, to.constant({0})}),
                          to.constant(std::array<int64_t, 1>{1}, true)});
}

// The position of each token, [batch, tokens], where `parts` has lengths and their largest.
ValueId token_positions(Expansion& to, const Parts& parts, ValueId q) {
  const ValueId tokens = to.sizes(q, 1, 2), lengths = parts.lengths;
  const ValueId total = to.reshape(parts.total, {1});
  const ValueId before = to.add("Sub", {lengths, tokens});
  // In a first run queries may lie behind the length of their batch.
  const ValueId begins = to.add("Where", {to.add("Equal", {total, tokens}), to.constant({0}), before});
  const ValueId steps = counted(to, tokens);
  const ValueId rows = to.add("Unsqueeze", {begins, to.constant({1})});
  return to.add("Max", {to.add("Add", {rows, steps}), to.constant({0})});
}

void turn(Expansion& to, ValueId positions, ValueId cosines, ValueId sines, Parts& parts) {
  const int64_t interleaved = to.attributes().find_integer("rotary_interleaved").value_or(0);
  for (const auto& [rows, heads] : {std::pair{&parts.q, parts.heads}, std::pair{&parts.k, parts.kv_heads}}) {
    const ValueId turned = to.new_value();
    to.add_node("com.microsoft", "RotaryEmbedding", {*rows, positions, cosines, sines},
                {integer("num_heads", heads), integer("interleaved", interleaved)}, {turned});
    *rows = turned;
  }
}

void check_grouped(Expansion& to) {
  const Attributes attributes = to.attributes();
  const auto refuse = [&](bool has, const char* what) {
    if (has) to.fail(unsupported("GroupQueryAttention is not computed with {}.", what));
  };
  refuse(attributes.find_integer("sliding_window_cache").value_or(0) != 0, "a cache of the window alone");
  const bool scores = attributes.find_integer("qk_output").value_or(0) != 0 && to.out(3) != kNoValue;
  refuse(scores && (to.has(11) || attributes.find_integer("smooth_softmax").value_or(-1) > 0),
         "an output of scores beside a sink");
  refuse(scores && attributes.find_text("k_quant_type").value_or("NONE") != "NONE", "an output of scores of codes");
}

// Keys and values of a cache that holds codes.
void code_caches(Expansion& to, Parts& parts) {
  const Attributes attributes = to.attributes();
  const auto kind = [&](const char* name) { return attributes.find_text(name).value_or("NONE"); };
  const std::string_view k_kind = kind("k_quant_type"), v_kind = kind("v_quant_type");
  if (k_kind == "NONE" && v_kind == "NONE") return;
  const int64_t bits = attributes.find_integer("kv_cache_bit_width").value_or(8);
  if (k_kind == "NONE" || v_kind == "NONE" || !to.has(12) || !to.has(13) || (bits != 4 && bits != 8)) {
    to.fail(
        invalid_argument("GroupQueryAttention has caches of the kinds \"{}\" and \"{}\" with {} bits; both need a "
                         "scale, and 4 or 8 bits.",
                         k_kind, v_kind, bits));
    return;
  }
  const DataType wanted = bits == 8 ? DataType::kInt8 : DataType::kUint8;
  for (ValueId past : {parts.past_k, parts.past_v}) {
    if (past == kNoValue || to.type(past) == wanted) continue;
    to.fail(unsupported("GroupQueryAttention has a cache of {} bits in {}.", bits, data_type_name(to.type(past))));
    return;
  }
  const CodedCache k = coded_cache(to, parts.k, parts.kv_heads, parts.past_k, to.in(12), bits);
  const CodedCache v = coded_cache(to, parts.v, parts.kv_heads, parts.past_v, to.in(13), bits);
  parts.k = k.rows, parts.past_k = k.past, parts.k_codes = k.codes;
  parts.v = v.rows, parts.past_v = v.past, parts.v_codes = v.codes;
}

// The scores of a grouped attention, or their shares with `qk_output` 2, [batch, heads, queries, keys]; 0 where a query
// does not see a key. `present` is the cache with the new keys.
void write_scores(Expansion& to, const Parts& parts, ValueId present) {
  const Attributes attributes = to.attributes();
  const int64_t group = parts.heads / parts.kv_heads;
  if (group * parts.kv_heads != parts.heads) {
    to.fail(
        invalid_argument("GroupQueryAttention has {} heads of queries and {} of keys.", parts.heads, parts.kv_heads));
    return;
  }
  const DataType type = to.type(parts.q);
  const ValueId total = to.reshape(parts.total, {1});
  const ValueId keys = to.add("Slice", {present, to.constant({0}), total, to.constant({2})});
  const ValueId columns = to.add("Unsqueeze", {to.transpose(keys, {0, 1, 3, 2}), to.constant({2})});
  const ValueId apart = to.add("Reshape", {parts.q, to.constant({0, 0, parts.kv_heads, group, -1})});
  const ValueId products = to.add("MatMul", {to.transpose(apart, {0, 2, 3, 1, 4}), columns});
  const ValueId shape =
      to.add("Concat", {to.sizes(parts.q, 0, 1), to.constant({parts.heads}), to.sizes(parts.q, 1, 2), total},
             {integer("axis", 0)});
  const float stated = attributes.find_number("scale").value_or(0);
  const ValueId scale = stated != 0 ? to.scalar(stated, type)
                                    : to.add("Reciprocal", {to.add("Sqrt", {to.cast(to.sizes(apart, 4, 5), type)})});
  ValueId scores = to.add("Mul", {to.add("Reshape", {products, shape}), scale});
  if (const float cap = attributes.find_number("softcap").value_or(0); cap > 0) {
    const ValueId limit = to.scalar(cap, type);
    scores = to.add("Mul", {to.add("Tanh", {to.add("Div", {scores, limit})}), limit});
  }
  scores = joined(to, scores, to.in(10));
  const ValueId queries = to.add("Unsqueeze", {token_positions(to, parts, parts.q), to.constant({1, 3})});
  const ValueId positions = counted(to, total);
  ValueId seen = to.add("LessOrEqual", {positions, queries});
  if (const int64_t window = attributes.integer("local_window_size"); window > 0) {
    const ValueId first = to.add("Sub", {queries, to.constant({window})});
    seen = to.add("And", {seen, to.add("Greater", {positions, first})});
  }
  const ValueId none = to.scalar(0, type);
  if (attributes.find_integer("qk_output").value_or(0) == 2) {
    const ValueId unseen = to.scalar(-std::numeric_limits<double>::infinity(), type);
    scores = to.add("Softmax", {to.add("Where", {seen, scores, unseen})}, {integer("axis", -1)});
  }
  to.add("Where", {seen, scores, none}, {}, to.out(3));
}

void grouped_query(Expansion& to) {
  const Attributes attributes = to.attributes();
  check_grouped(to);
  Parts parts{.q = to.in(0), .k = to.in(1), .v = to.in(2), .past_k = to.in(3), .past_v = to.in(4)};
  parts.heads = heads_of(to, "num_heads"), parts.kv_heads = heads_of(to, "kv_num_heads");
  if (!to.status().ok()) return;
  // Lengths are written as the last position of each batch.
  const ValueId last = to.reshape(to.cast(to.in(5), DataType::kInt64), {-1});
  parts.lengths = to.add("Add", {last, to.constant({1})});
  parts.total = to.cast(to.in(6), DataType::kInt64);
  if (parts.k == kNoValue) split_rows(to, parts);
  if (!to.status().ok()) return;
  if (to.has(14) != to.has(15)) {
    to.fail(invalid_argument("GroupQueryAttention has a norm of its {} alone; it takes both.",
                             to.has(14) ? "queries" : "keys"));
    return;
  }
  if (to.has(14)) {
    const float epsilon = attributes.number("qk_norm_epsilon");
    parts.q = normed_heads(to, parts.q, parts.heads, to.in(14), epsilon);
    parts.k = normed_heads(to, parts.k, parts.kv_heads, to.in(15), epsilon);
  }
  if (attributes.find_integer("do_rotary").value_or(0) != 0) {
    turn(to, to.has(9) ? to.in(9) : token_positions(to, parts, to.in(0)), to.in(7), to.in(8), parts);
  }
  code_caches(to, parts);
  if (!to.status().ok()) return;
  parts.mask = to.in(10);
  parts.sink = to.in(11);
  if (parts.sink == kNoValue && attributes.find_integer("smooth_softmax").value_or(-1) > 0) {
    parts.sink = to.add("Expand", {to.scalar(0, to.type(to.in(0))), to.constant({parts.heads})});
  }
  if (attributes.find_integer("causal").value_or(1) != 0) parts.more.push_back(integer("is_causal", 1));
  const int64_t window = attributes.integer("local_window_size");
  if (window > 0) parts.more.push_back(integer("left_window_size", window - 1));
  parts.more.push_back(number("softcap", attributes.find_number("softcap").value_or(0)));
  attend(to, parts, {to.out(0)});
  const bool scores = attributes.find_integer("qk_output").value_or(0) != 0 && to.out(3) != kNoValue;
  const ValueId present = scores && to.out(1) == kNoValue ? to.new_value() : to.out(1);
  update_caches(to, parts, true, present, to.out(2));
  if (scores && to.status().ok()) write_scores(to, parts, present);
}

// The keys that each query of a SparseAttention may see, [batch, heads, tokens, keys], without regard to their order:
// those of the blocks that the layout of its head has in its row of blocks.
ValueId block_mask(Expansion& to, const Parts& parts, ValueId positions) {
  const int64_t size = to.attributes().find_integer("sparse_block_size").value_or(0);
  const int64_t layouts = to.known_size(to.in(5), 0), ends = to.known_size(to.in(5), 1);
  if (size < 1 || layouts < 1 || ends < 2 || parts.heads % layouts != 0) {
    to.fail(
        unsupported("SparseAttention of {} heads has blocks of {} and layouts {}; their number has to be known, and "
                    "to divide the heads.",
                    parts.heads, size, to.value(to.in(5)).type_text()));
    return kNoValue;
  }
  // Entry j of a layout lies in the row that has as many ends at j or before it.
  const int64_t rows = ends - 1;
  const ValueId starts = to.cast(to.in(5), DataType::kInt64), columns = to.cast(to.in(6), DataType::kInt64);
  const ValueId behind = to.add("Slice", {starts, to.constant({1}), to.constant({ends}), to.constant({1})});
  const ValueId entries = counted(to, to.sizes(columns, 1, 2));
  const ValueId passed =
      to.cast(to.add("LessOrEqual", {to.add("Unsqueeze", {behind, to.constant({2})}), entries}), DataType::kInt64);
  const ValueId row = to.add("ReduceSum", {passed, to.constant({1})}, {integer("keepdims", 0)});
  // Entries behind the last row go to one that nobody reads.
  const ValueId layout = to.reshape(counted(to, to.constant({layouts})), {layouts, 1});
  const ValueId all_rows = to.add("Add", {to.add("Mul", {layout, to.constant({ends})}), row});
  const ValueId at =
      to.add("Add", {to.add("Mul", {all_rows, to.constant({rows})}), to.add("Max", {columns, to.constant({0})})});
  const ValueId none = to.add("Expand", {to.constant({0}), to.constant({layouts * ends * rows})});
  const ValueId flat = to.reshape(at, {-1});
  const ValueId ones = to.cast(to.add("Equal", {flat, flat}), DataType::kInt64);
  const ValueId marks = to.add("ScatterElements", {none, flat, ones});
  const ValueId blocks = to.cast(to.reshape(marks, {layouts, ends, rows}), DataType::kBool);

  const auto block_of = [&](ValueId position) {
    return to.add("Min", {to.add("Div", {position, to.constant({size})}), to.constant({rows - 1})});
  };
  const ValueId keys = block_of(counted(to, to.sizes(parts.past_k, 2, 3)));
  const ValueId by_key = to.add("Gather", {blocks, keys}, {integer("axis", 2)});
  const ValueId seen = to.add("Gather", {by_key, block_of(positions)}, {integer("axis", 1)});
  const ValueId mask = to.transpose(seen, {1, 0, 2, 3});
  return layouts == 1 ? mask : to.add("Tile", {mask, to.constant({1, parts.heads / layouts, 1, 1})});
}

void sparse_attention(Expansion& to) {
  Parts parts{.q = to.in(0), .k = to.in(1), .v = to.in(2), .past_k = to.in(3), .past_v = to.in(4)};
  parts.heads = heads_of(to, "num_heads"), parts.kv_heads = heads_of(to, "kv_num_heads");
  if (!to.status().ok()) return;
  parts.total = to.cast(to.in(7), DataType::kInt64);
  parts.lengths = to.reshape(to.cast(to.in(8), DataType::kInt64), {-1});
  if (parts.k == kNoValue) split_rows(to, parts);
  const ValueId positions = token_positions(to, parts, to.in(0));
  if (to.attributes().find_integer("do_rotary").value_or(0) != 0) turn(to, positions, to.in(9), to.in(10), parts);
  parts.mask = block_mask(to, parts, positions);
  parts.more.push_back(integer("is_causal", 1));
  attend(to, parts, {to.out(0)});
  update_caches(to, parts, true, to.out(1), to.out(2));
}

// Applies a subgraph of scores or probabilities, if the node has it.
ValueId modified(Expansion& to, const char* attribute, ValueId x) {
  const Graph* const body = to.attributes().graph(attribute);
  if (body == nullptr) return x;
  const std::vector<ValueId> outputs = to.add_body(*body, {x});
  if (outputs.size() == 1) return outputs[0];
  to.fail(invalid_argument("The subgraph \"{}\" of FlexAttention has {} outputs, not one.", attribute, outputs.size()));
  return x;
}

void flexible(Expansion& to) {
  const Attributes attributes = to.attributes();
  const ValueId q = to.in(0), k = to.in(1), v = to.in(2);
  for (ValueId rows : {q, k, v}) {
    if (to.rank(rows) == 4) continue;
    to.fail(invalid_argument("FlexAttention takes 4 dimensions, not {}.", to.value(rows).type_text()));
    return;
  }
  if (attributes.graph("score_mod") == nullptr && attributes.graph("prob_mod") == nullptr) {
    SetAttributes set;
    if (const auto scale = attributes.find_number("scale")) set.push_back(number("scale", *scale));
    to.add_node("tenon", "CachedAttention", {q, k, v}, set, {to.out(0)});
    return;
  }
  const int64_t heads = to.known_size(q, 1), kv_heads = to.known_size(k, 1), depth = to.known_size(q, 3);
  if (heads < 1 || kv_heads < 1 || depth < 1 || heads % kv_heads != 0) {
    to.fail(unsupported("FlexAttention with subgraphs needs known heads that divide evenly; Q is {} and K {}.",
                        to.value(q).type_text(), to.value(k).type_text()));
    return;
  }
  const DataType type = to.type(q);
  const int64_t stated = attributes.find_integer("softmax_precision").value_or(0);
  const DataType wide = stated != 0                 ? static_cast<DataType>(stated)
                        : type == DataType::kDouble ? DataType::kDouble
                                                    : DataType::kFloat;
  // Queries of one head of keys beside each other: [batch, heads of keys, group, queries, depth].
  const int64_t group = heads / kv_heads;
  const auto grouped = [&](ValueId x, int64_t last) {
    return to.add("Reshape", {x, to.constant({0, kv_heads, group, -1, last})});
  };
  const ValueId apart = to.constant({2});
  const ValueId keys = to.transpose(to.add("Unsqueeze", {k, apart}), {0, 1, 2, 4, 3});
  const float scale = attributes.find_number("scale").value_or(1 / std::sqrt(static_cast<float>(depth)));
  const ValueId products = to.add("MatMul", {grouped(q, depth), keys});
  const ValueId scaled = to.add("Mul", {products, to.scalar(scale, type)});
  const ValueId shape = to.add("Concat", {to.sizes(q, 0, 3), to.sizes(k, 2, 3)}, {integer("axis", 0)});
  const ValueId scores = to.cast(to.add("Reshape", {scaled, shape}), wide);
  const ValueId weights = to.add("Softmax", {modified(to, "score_mod", scores)}, {integer("axis", -1)});
  const ValueId probabilities = modified(to, "prob_mod", weights);
  const ValueId split =
      to.add("Concat", {to.sizes(q, 0, 1), to.constant({kv_heads, group}), to.sizes(q, 2, 3), to.sizes(k, 2, 3)},
             {integer("axis", 0)});
  const ValueId values = to.add("Unsqueeze", {to.cast(v, wide), apart});
  const ValueId sums = to.add("MatMul", {to.add("Reshape", {probabilities, split}), values});
  const ValueId y = to.add("Concat", {to.sizes(q, 0, 3), to.sizes(v, 3, 4)}, {integer("axis", 0)});
  to.cast(to.add("Reshape", {sums, y}), to.type(v), to.out(0));
}

constexpr Row kRows[] = {
    {"ai.onnx.preview", "FlexAttention", &flexible},
    {"com.microsoft", "Attention", &attention},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", &decoder_masked},
    {"com.microsoft", "GroupQueryAttention", &grouped_query},
    {"com.microsoft", "MultiHeadAttention", &multi_head},
    {"com.microsoft", "QAttention", &quantized_attention},
    {"com.microsoft", "SparseAttention", &sparse_attention},
};

}  // namespace

std::span<const Row> attention_rows() { return kRows; }

}  // namespace tenon::expand
