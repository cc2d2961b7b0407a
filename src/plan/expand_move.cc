// Operators of com.microsoft that ai.onnx has by now, mostly with other types of sizes and indices.
#include "plan/expand.h"

namespace tenon::expand {

namespace {

ValueId as_scalar(Expansion& to, ValueId x) { return to.add("Reshape", {x, to.constant(std::span<const int64_t>{})}); }

ValueId as_int64(Expansion& to, ValueId x) { return to.type(x) == DataType::kInt64 ? x : to.cast(x, DataType::kInt64); }

void expand_dims(Expansion& to) {
  to.add("Unsqueeze", {to.in(0), to.reshape(as_int64(to, to.in(1)), {1})}, {}, to.out(0));
}

void gather_nd(Expansion& to) { to.add("GatherND", {to.in(0), as_int64(to, to.in(1))}, {}, to.out(0)); }

void torch_embedding(Expansion& to) { to.add("Gather", {to.in(0), to.in(1)}, {}, to.out(0)); }

void grid_sample(Expansion& to) {
  const Attributes attributes = to.attributes();
  std::string mode(attributes.text("mode"));
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  to.add("GridSample", {to.in(0), to.in(1)},
         {text("mode", mode), text("padding_mode", std::string(attributes.text("padding_mode"))),
          integer("align_corners", attributes.integer("align_corners"))},
         to.out(0));
}

void pad(Expansion& to) {
  const ValueId value = to.has(2) ? as_scalar(to, to.in(2)) : kNoValue;
  to.add("Pad", {to.in(0), to.reshape(to.in(1), {-1}), value},
         {text("mode", std::string(to.attributes().text("mode")))}, to.out(0));
}

void range(Expansion& to) {
  const DataType type = to.type(to.in(0));
  const ValueId delta = to.has(2) ? as_scalar(to, to.in(2)) : to.scalar(1, type);
  to.add("Range", {as_scalar(to, to.in(0)), as_scalar(to, to.in(1)), delta}, {}, to.out(0));
}

void triangle(Expansion& to) {
  to.add("Trilu", {to.in(0), to.in(1)}, {integer("upper", to.attributes().integer("upper"))}, to.out(0));
}

void unique(Expansion& to) {
  to.add_node("", "Unique", {to.in(0)}, {integer("sorted", 0)},
              {to.out(0) == kNoValue ? to.new_value() : to.out(0), kNoValue, to.out(1), to.out(2)});
}

void sample(Expansion& to) { to.add("Identity", {to.in(0)}, {}, to.out(0)); }

constexpr Row kRows[] = {
    {"com.microsoft", "ExpandDims", &expand_dims},
    {"com.microsoft", "GatherND", &gather_nd},
    {"com.microsoft", "GridSample", &grid_sample},
    {"com.microsoft", "Pad", &pad},
    {"com.microsoft", "Range", &range},
    {"com.microsoft", "SampleOp", &sample},
    {"com.microsoft", "TorchEmbedding", &torch_embedding},
    {"com.microsoft", "Trilu", &triangle},
    {"com.microsoft", "Unique", &unique},
};

}  // namespace

std::span<const Row> move_rows() { return kRows; }

}  // namespace tenon::expand
