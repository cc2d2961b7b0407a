// Biases of attention that depend on positions, rotations of precomputed halves, and Fourier transforms of real rows.
#include <cmath>

#include "plan/expand.h"

namespace tenon::expand {

namespace {

constexpr DataType kWide = DataType::kFloat;

// 0, 1, ... below a count of one element, as float32.
ValueId positions(Expansion& to, ValueId count) {
  const ValueId scalar = to.add("Reshape", {count, to.constant(std::span<const int64_t>{})});
  const ValueId steps = to.add(
      "Range", {to.constant(std::array<int64_t, 1>{0}, true), scalar, to.constant(std::array<int64_t, 1>{1}, true)});
  return to.cast(steps, kWide);
}

// The bucket of each distance from a query to a key, as T5 has them: one each for near ones, and further out they grow
// by a factor. With two directions half of the buckets are of keys behind the query.
ValueId buckets_of(Expansion& to, ValueId distance, int64_t count, int64_t furthest, bool both) {
  const auto number = [&](double value) { return to.scalar(value, kWide); };
  const int64_t own = both ? count / 2 : count, near = own / 2;
  ValueId first = kNoValue;
  ValueId steps = to.add("Neg", {distance});
  if (both) {
    first = to.add("Mul", {to.cast(to.add("Greater", {distance, number(0)}), kWide), number(static_cast<double>(own))});
    steps = to.add("Abs", {steps});
  } else {
    steps = to.add("Max", {steps, number(0)});
  }
  const double exact = static_cast<double>(near);
  const double scale = static_cast<double>(own - near) / std::log(static_cast<double>(furthest) / exact);
  // Near ones take no part in the logarithm.
  const ValueId far = to.add("Log", {to.add("Div", {to.add("Max", {steps, number(exact)}), number(exact)})});
  const ValueId grown = to.add("Add", {to.add("Floor", {to.add("Mul", {far, number(scale)})}), number(exact)});
  const ValueId last = to.add("Min", {grown, number(static_cast<double>(own - 1))});
  const ValueId bucket = to.add("Where", {to.add("Less", {steps, number(exact)}), steps, last});
  return to.cast(first == kNoValue ? bucket : to.add("Add", {first, bucket}), DataType::kInt64);
}

void relative_position_bias(Expansion& to) {
  const Attributes attributes = to.attributes();
  const int64_t count = to.known_size(to.in(0), 0), furthest = attributes.find_integer("max_distance").value_or(0);
  const bool both = attributes.flag("is_bidirectional");
  if (count < 0) {
    to.fail(unsupported("RelativePositionBias needs a known number of buckets."));
  } else if (count < (both ? 4 : 2) || furthest <= (both ? count / 4 : count / 2)) {
    to.fail(invalid_argument("RelativePositionBias has {} buckets for distances up to {}.", count, furthest));
  }
  if (!to.status().ok()) return;
  const ValueId queries = to.add("Unsqueeze", {positions(to, to.in(1)), to.constant({1})});
  const ValueId distance = to.add("Sub", {positions(to, to.in(2)), queries});
  const ValueId rows = to.add("Gather", {to.in(0), buckets_of(to, distance, count, furthest, both)});
  to.add("Unsqueeze", {to.transpose(rows, {2, 0, 1}), to.constant({0})}, {}, to.out(0));
}

// The bias of relative positions times a gate that each query computes from itself.
void gated_position_bias(Expansion& to) {
  const int64_t heads = to.attributes().find_integer("num_heads").value_or(0);
  if (heads < 1) to.fail(invalid_argument("Attribute \"num_heads\" ({}) has to be positive.", heads));
  if (to.has(6)) to.fail(unsupported("GatedRelativePositionBias is not computed for packed rows."));
  if (!to.status().ok()) return;
  const DataType type = to.type(to.in(0));
  const ValueId rows = to.reshape(to.add("Add", {to.in(0), to.in(1)}), {0, 0, heads, -1});
  const ValueId projected = to.add("Add", {to.add("MatMul", {to.transpose(rows, {0, 2, 1, 3}), to.in(3)}), to.in(4)});
  // Two gates, each the sum of half of the columns.
  const ValueId halves = to.reshape(projected, {0, 0, 0, 2, -1});
  const ValueId sums = to.add("ReduceSum", {halves, to.constant({-1})}, {integer("keepdims", 0)});
  const ValueId u = to.new_value(), r = to.new_value();
  to.add_node("", "Split", {to.add("Sigmoid", {sums})}, {integer("axis", 3), integer("num_outputs", 2)}, {u, r});
  const ValueId inner = to.add("Sub", {to.add("Mul", {r, to.in(5)}), to.scalar(1, type)});
  const ValueId gate = to.add("Add", {to.add("Mul", {u, inner}), to.scalar(2, type)});
  to.add("Mul", {gate, to.in(2)}, {}, to.out(0));
}

// q * cos + rotated q * sin for queries and keys.
void gemma_rotary(Expansion& to) {
  const DataType type = to.type(to.in(1));
  const ValueId heads = to.constant({1});
  const auto angles = [&](const char* function) {
    const ValueId wide = to.add(function, {to.in(0)});
    return to.add("Unsqueeze", {type == kWide ? wide : to.cast(wide, type), heads});
  };
  const ValueId sin = angles("Sin"), cos = angles("Cos");
  for (size_t i : {0, 1}) {
    if (to.out(i) == kNoValue) continue;
    to.add("Add", {to.add("Mul", {to.in(1 + 2 * i), cos}), to.add("Mul", {to.in(2 + 2 * i), sin})}, {}, to.out(i));
  }
}

// One side of the transform of real rows; `inverse` gives rows of an even length.
void fourier(Expansion& to, bool inverse) {
  const Attributes attributes = to.attributes();
  if (attributes.find_integer("signal_ndim").value_or(1) != 1 || attributes.integer("normalized") != 0 ||
      attributes.integer("onesided") != 1) {
    to.fail(unsupported("{} is computed along one dimension, of one side and not normalized.", to.node().op_type));
    return;
  }
  const int rank = to.rank(to.in(0));
  if (rank < (inverse ? 2 : 1)) {
    to.fail(unsupported("{} needs an input of a known rank.", to.node().op_type));
    return;
  }
  const ValueId last = to.constant({-1});
  const ValueId rows = inverse ? to.in(0) : to.add("Unsqueeze", {to.in(0), last});
  const ValueId axis = to.constant(std::array<int64_t, 1>{inverse ? rank - 2 : rank - 1}, true);
  const ValueId y = to.add("DFT", {rows, kNoValue, axis}, {integer("inverse", inverse ? 1 : 0), integer("onesided", 1)},
                           inverse ? kNoValue : to.out(0));
  if (inverse) to.add("Squeeze", {y, last}, {}, to.out(0));
}

void forward_fourier(Expansion& to) { fourier(to, false); }
void inverse_fourier(Expansion& to) { fourier(to, true); }

constexpr Row kRows[] = {
    {"com.microsoft", "GatedRelativePositionBias", &gated_position_bias},
    {"com.microsoft", "GemmaRotaryEmbedding", &gemma_rotary},
    {"com.microsoft", "Irfft", &inverse_fourier},
    {"com.microsoft", "RelativePositionBias", &relative_position_bias},
    {"com.microsoft", "Rfft", &forward_fourier},
};

}  // namespace

std::span<const Row> position_rows() { return kRows; }

}  // namespace tenon::expand
