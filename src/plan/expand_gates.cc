// Gates, norms and mixes of recent language models: gated norms, hyper-connections, Engram, M-RoPE. They compute in
// float32 whatever the type.
#include <algorithm>

#include "plan/expand.h"

namespace tenon::expand {

namespace {

ValueId wide(Expansion& to, ValueId x) { return to.type(x) == DataType::kFloat ? x : to.cast(x, DataType::kFloat); }

// The result x, as float32, in the type of input 0.
void finish(Expansion& to, ValueId x, ValueId result) {
  const DataType type = to.type(to.in(0));
  if (type == DataType::kFloat) {
    to.add("Identity", {x}, {}, result);
  } else {
    to.cast(x, type, result);
  }
}

// x / sqrt(mean(x^2) + epsilon) along the last axis, times a scale that broadcasts.
ValueId normalised(Expansion& to, ValueId x, ValueId scale, float epsilon) {
  const ValueId mean = to.add("ReduceMean", {to.add("Mul", {x, x}), to.constant({-1})});
  const ValueId root = to.add("Sqrt", {to.add("Add", {mean, to.scalar(epsilon, DataType::kFloat)})});
  const ValueId y = to.add("Div", {x, root});
  return scale == kNoValue ? y : to.add("Mul", {y, scale});
}

// The rank of an input; an error where it is not known.
int rank_of(Expansion& to, size_t input) {
  const int rank = to.rank(to.in(input));
  if (rank < 1) {
    to.fail(unsupported("{} needs input {} of a known rank.", to.node().op_type, input));
  }
  return rank;
}

void gated_add(Expansion& to) { to.add("Add", {to.in(0), to.add("Mul", {to.in(1), to.in(2)})}, {}, to.out(0)); }

void gated_rms_norm(Expansion& to) {
  const int rank = rank_of(to, 0);
  const std::string_view activation = to.attributes().text("activation");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid") {
    to.fail(invalid_argument("GatedRMSNorm has the activation \"{}\".", activation));
  }
  if (const int scale = to.rank(to.in(1)); scale >= 0 && scale != 1)
    to.fail(invalid_argument("GatedRMSNorm has a scale of {} dimensions; it takes one.", scale));
  const int64_t width = to.known_size(to.in(1), 0), last = to.known_size(to.in(0), -1);
  if (width == 0 || (width > 0 && last >= 0 && last % width != 0)) {
    to.fail(invalid_argument("GatedRMSNorm has rows of {} elements and a scale of {}.", last, width));
  }
  if (!to.status().ok()) return;
  // Groups of as many elements as the scale has.
  const ValueId group = to.sizes(to.in(1), 0, 1);
  const ValueId shape = to.sizes(to.in(0), 0, rank);
  const bool whole = width >= 0 && width == last;
  const ValueId rows =
      whole ? to.in(0)
            : to.add("Reshape", {to.in(0), to.add("Concat", {to.constant({-1}), group}, {integer("axis", 0)})});
  ValueId y = to.add("RMSNormalization", {rows, to.in(1)},
                     {integer("axis", -1), number("epsilon", to.attributes().number("epsilon"))});
  if (!whole) y = to.add("Reshape", {y, shape});
  const ValueId gate = to.add(activation == "sigmoid" ? "Sigmoid" : "Swish", {to.in(2)});
  to.add("Mul", {y, gate}, {}, to.out(0));
}

void scaled_silu(Expansion& to) {
  const ValueId scale = to.has(1) ? wide(to, to.in(1)) : to.scalar(to.attributes().number("alpha"), DataType::kFloat);
  finish(to, to.add("Swish", {to.add("Mul", {wide(to, to.in(0)), scale})}), to.out(0));
}

void linear_attention_gate(Expansion& to) {
  if (to.out(0) != kNoValue) {
    // The other inputs are a number for each element of the last axis, in whatever number of dimensions.
    const auto row = [&](size_t input) {
      const ValueId id = to.in(input);
      return to.rank(id) == 1 ? id : to.add("Reshape", {id, to.constant({-1})});
    };
    const ValueId steps = to.add("Softplus", {to.add("Add", {wide(to, to.in(0)), row(1)})});
    const ValueId y = to.add("Mul", {steps, row(2)});
    finish(to, y, to.out(0));
  }
  if (to.out(1) == kNoValue) return;
  if (!to.has(3)) {
    to.fail(invalid_argument("LinearAttentionGate has an output of rates (1), and no input of them (3)."));
    return;
  }
  to.add("Sigmoid", {to.in(3)}, {}, to.out(1));
}

// Streams [.., C, H], also where they lie flat [.., C * H] for `num_branches` of them.
struct Streams {
  ValueId grouped = kNoValue, shape = kNoValue;  // shape: that of the input
  int rank = 0;                                  // of the grouped form
  int64_t count = -1, width = -1;                // C and H; -1 where it is not known
  bool flat = false;
};

ValueId grouped(Expansion& to, ValueId x, int rank, int64_t count) {
  const ValueId tail = to.constant({count, -1});
  const ValueId shape = rank < 2 ? tail : to.add("Concat", {to.sizes(x, 0, rank - 1), tail}, {integer("axis", 0)});
  return to.add("Reshape", {x, shape});
}

Streams streams_of(Expansion& to) {
  Streams all;
  const int rank = rank_of(to, 0);
  if (!to.status().ok()) return all;
  const int64_t count = to.attributes().integer("num_branches");
  const ValueId x = wide(to, to.in(0));
  all.flat = count > 0;
  all.rank = rank + (all.flat ? 1 : 0);
  if (all.rank < 2) to.fail(invalid_argument("{} has streams of one dimension.", to.node().op_type));
  all.shape = all.flat ? to.sizes(x, 0, rank) : kNoValue;
  const int64_t last = to.known_size(x, -1);
  all.count = all.flat ? count : to.known_size(x, -2);
  all.width = !all.flat ? last : last >= 0 && last % count == 0 ? last / count : -1;
  all.grouped = all.flat ? grouped(to, x, rank, count) : x;
  return all;
}

// Gates of streams as something that broadcasts to [.., C, H].
ValueId gates_of(Expansion& to, size_t input, const Streams& streams) {
  const ValueId gates = wide(to, to.in(input));
  const int rank = rank_of(to, input);
  if (rank >= streams.rank || !to.status().ok()) return gates;
  const int64_t last = to.known_size(gates, -1);
  if (streams.count < 0 || last < 0) {
    to.fail(unsupported("{} has gates {} for a number of streams that is not known.", to.node().op_type,
                        to.value(gates).type_text()));
    return gates;
  }
  if (last == streams.count) return to.add("Unsqueeze", {gates, to.constant({-1})});
  return grouped(to, gates, rank, streams.count);
}

void branchwise_rms_norm(Expansion& to) {
  const Streams streams = streams_of(to);
  if (!to.status().ok()) return;
  ValueId scale = to.has(1) ? wide(to, to.in(1)) : kNoValue;
  // A scale of one dimension is that of a stream, or of all of them.
  if (scale != kNoValue && to.rank(scale) == 1 && streams.count > 1) {
    const int64_t given = to.known_size(scale, 0);
    if (given < 0 || (streams.width < 0 && given % streams.count == 0)) {
      to.fail(unsupported("BranchwiseRMSNorm has a scale {} for streams whose width is not known.",
                          to.value(scale).type_text()));
      return;
    }
    if (given != streams.width && given % streams.count == 0) scale = to.reshape(scale, {streams.count, -1});
  }
  ValueId y = normalised(to, streams.grouped, scale, to.attributes().number("epsilon"));
  if (streams.flat) y = to.add("Reshape", {y, streams.shape});
  finish(to, y, to.out(0));
}

void pre_mix(Expansion& to) {
  const Streams streams = streams_of(to);
  if (!to.status().ok()) return;
  const ValueId mixed = to.add("Mul", {streams.grouped, gates_of(to, 1, streams)});
  ValueId sum = to.add("ReduceSum", {mixed, to.constant({-2})}, {integer("keepdims", 0)});
  const float scale = to.attributes().number("reduction_scale");
  if (scale != 1) sum = to.add("Mul", {sum, to.scalar(scale, DataType::kFloat)});
  finish(to, sum, to.out(0));
}

void post_mix(Expansion& to) {
  const Streams streams = streams_of(to);
  if (!to.status().ok()) return;
  ValueId mixed = streams.grouped;
  if (to.has(3)) {
    const int rank = rank_of(to, 3);
    if (rank < 2) to.fail(invalid_argument("HyperConnectionPostMix has a stream_mix of one dimension."));
    if (!to.status().ok()) return;
    std::vector<int64_t> order;
    for (int d = 0; d + 2 < rank; ++d) order.push_back(d);
    order.push_back(rank - 1);
    order.push_back(rank - 2);
    mixed = to.add("MatMul", {to.transpose(wide(to, to.in(3)), order), mixed});
  }
  const ValueId block = to.add("Unsqueeze", {wide(to, to.in(1)), to.constant({-2})});
  ValueId y = to.add("Add", {mixed, to.add("Mul", {gates_of(to, 2, streams), block})});
  if (streams.flat) y = to.add("Reshape", {y, streams.shape});
  finish(to, y, to.out(0));
}

void engram_gate(Expansion& to) {
  const float epsilon = to.attributes().number("epsilon");
  const auto norm = [&](size_t x, size_t scale) {
    return normalised(to, wide(to, to.in(x)), wide(to, to.in(scale)), epsilon);
  };
  // The mean of products times the root of their number is their sum over that root.
  const ValueId mean = to.add("ReduceMean", {to.add("Mul", {norm(0, 3), norm(1, 4)}), to.constant({-1})});
  const ValueId width = to.cast(to.sizes(to.in(0), 3, 4), DataType::kFloat);
  const ValueId dot = to.add("Mul", {mean, to.add("Sqrt", {width})});
  const ValueId size = to.add("Max", {to.add("Abs", {dot}), to.scalar(1e-6, DataType::kFloat)});
  const ValueId gate = to.add("Sigmoid", {to.add("Mul", {to.add("Sign", {dot}), to.add("Sqrt", {size})})});
  const ValueId value = to.add("Unsqueeze", {wide(to, to.in(2)), to.constant({2})});
  const ValueId gated = to.add("Mul", {gate, value});
  if (to.out(0) != kNoValue) finish(to, gated, to.out(0));
  if (to.out(1) == kNoValue) return;
  if (!to.has(5)) {
    to.fail(invalid_argument("EngramGate has an output of normed values (1), and no scale of them (5)."));
    return;
  }
  finish(to, normalised(to, gated, wide(to, to.in(5)), epsilon), to.out(1));
}

// The stream of positions (time, height, width) that each pair of elements turns by.
std::vector<int64_t> rotary_streams(Expansion& to) {
  const std::span<const int64_t> section = to.attributes().integers("mrope_section");
  const int64_t layout = to.attributes().find_integer("mrope_layout").value_or(0);
  if (section.size() != 3 || *std::min_element(section.begin(), section.end()) < 0 ||
      *std::max_element(section.begin(), section.end()) > INT32_MAX || layout < 0 || layout > 1) {
    to.fail(invalid_argument("MRotaryEmbedding has {} sections in layout {}; they are three, of 0 elements or more.",
                             section.size(), layout));
    return {};
  }
  std::vector<int64_t> streams;
  const int64_t half = section[0] + section[1] + section[2], angles = to.known_size(to.in(2), 1);
  constexpr int64_t kMostAngles = 1 << 16;
  if ((angles >= 0 && angles != half) || half > kMostAngles) {
    to.fail(invalid_argument("MRotaryEmbedding has sections of {} elements, and cosines of {} (at most {}).", half,
                             angles, kMostAngles));
    return {};
  }
  for (int64_t i = 0; i < half; ++i) {
    if (layout == 0) {
      streams.push_back(i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2);
    } else {
      const int64_t third = i % 3;
      streams.push_back(third != 0 && i < 3 * section[static_cast<size_t>(third)] ? third : 0);
    }
  }
  return streams;
}

void multimodal_rotary(Expansion& to) {
  const Attributes attributes = to.attributes();
  if (attributes.find_integer("is_packed_batching").value_or(0) != 0) {
    to.fail(unsupported("MRotaryEmbedding is not computed for packed batches."));
  }
  const std::vector<int64_t> streams = rotary_streams(to);
  if (!to.status().ok()) return;
  const auto half = static_cast<int64_t>(streams.size());
  const ValueId shape =
      to.add("Concat", {to.constant({1}), to.sizes(to.in(1), 1, 3), to.constant({half})}, {integer("axis", 0)});
  const ValueId chosen = to.add("Expand", {to.constant(streams), shape});
  const ValueId first = to.constant({0});
  const auto angles = [&](size_t cache) {
    const ValueId rows = to.add("Gather", {to.in(cache), to.in(1)});
    return to.add("Squeeze", {to.add("GatherElements", {rows, chosen}, {integer("axis", 0)}), first});
  };
  const ValueId cos = angles(2), sin = angles(3);
  to.add("RotaryEmbedding", {to.in(0), cos, sin},
         {integer("interleaved", attributes.find_integer("interleaved").value_or(0)),
          integer("num_heads", attributes.find_integer("num_heads").value_or(0)),
          integer("rotary_embedding_dim", 2 * half)},
         to.out(0));
}

constexpr Row kRows[] = {
    {"com.microsoft", "BranchwiseRMSNorm", &branchwise_rms_norm},
    {"com.microsoft", "EngramGate", &engram_gate},
    {"com.microsoft", "GatedAdd", &gated_add},
    {"com.microsoft", "GatedRMSNorm", &gated_rms_norm},
    {"com.microsoft", "HyperConnectionPostMix", &post_mix},
    {"com.microsoft", "HyperConnectionPreMix", &pre_mix},
    {"com.microsoft", "LinearAttentionGate", &linear_attention_gate},
    {"com.microsoft", "MRotaryEmbedding", &multimodal_rotary},
    {"com.microsoft", "ScaledSiLU", &scaled_silu},
};

}  // namespace

std::span<const Row> gate_rows() { return kRows; }

}  // namespace tenon::expand
