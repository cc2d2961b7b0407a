// The GELU family and other elementwise operators of com.microsoft, and SwiGLU of ai.onnx.
#include "plan/expand.h"

namespace tenon::expand {

namespace {

// x, or x + y where there is y.
ValueId sum(Expansion& to, ValueId x, ValueId y) { return y == kNoValue ? x : to.add("Add", {x, y}); }

void gelu(Expansion& to) { to.add("Gelu", {to.in(0)}, {}, to.out(0)); }

void bias_gelu(Expansion& to) { to.add("Gelu", {sum(to, to.in(0), to.in(1))}, {}, to.out(0)); }

void fast_gelu(Expansion& to) {
  to.add("Gelu", {sum(to, to.in(0), to.in(1))}, {text("approximate", "tanh")}, to.out(0));
}

void gemm_fast_gelu(Expansion& to) {
  const ValueId product = to.add("MatMul", {to.in(0), to.in(1)});
  to.add("Gelu", {sum(to, product, to.in(2))}, {text("approximate", "tanh")}, to.out(0));
}

void quick_gelu(Expansion& to) {
  to.add("Swish", {to.in(0)}, {number("alpha", to.attributes().number("alpha"))}, to.out(0));
}

void swiglu(Expansion& to) {
  const ValueId gate = to.add("Swish", {to.in(0)}, {number("alpha", to.attributes().number("alpha"))});
  // Without broadcasting: shapes that certainly differ are refused.
  const Value &a = to.value(to.in(0)), &b = to.value(to.in(1));
  for (size_t i = 0; i < a.dims.size() && a.has_rank && b.has_rank; ++i) {
    const bool differ = a.dims.size() != b.dims.size() ||
                        (a.dims[i].known() && b.dims[i].known() && a.dims[i].value != b.dims[i].value);
    if (!differ) continue;
    to.fail(invalid_argument("SwiGLU has A {} and B {}; it does not broadcast.", a.type_text(), b.type_text()));
    return;
  }
  to.add("Mul", {gate, to.in(1)}, {}, to.out(0));
}

void bias_add(Expansion& to) { to.add("Add", {sum(to, to.in(0), to.in(1)), to.in(2)}, {}, to.out(0)); }

// The last axis holds values and then their gates.
void bias_split_gelu(Expansion& to) {
  const ValueId left = to.new_value(), right = to.new_value();
  to.add_node("", "Split", {sum(to, to.in(0), to.in(1))}, {integer("axis", -1), integer("num_outputs", 2)},
              {left, right});
  to.add("Mul", {left, to.add("Gelu", {right})}, {}, to.out(0));
}

void bias_softmax(Expansion& to) {
  const ValueId scores = to.add("Add", {to.in(0), to.in(1)});
  const int64_t axis = to.attributes().integer("axis");
  const int rank = to.rank(scores);
  if (rank < 0) {
    to.fail(unsupported("BiasSoftmax needs data of a known rank."));
    return;
  }
  // The axes from `axis` on are one.
  const int64_t first = axis < 0 ? axis + rank : axis;
  if (first == rank - 1) {
    to.add("Softmax", {scores}, {integer("axis", -1)}, to.out(0));
    return;
  }
  const ValueId flat = to.add("Flatten", {scores}, {integer("axis", first)});
  const ValueId weights = to.add("Softmax", {flat}, {integer("axis", 1)});
  to.add("Reshape", {weights, to.sizes(scores, 0, rank)}, {}, to.out(0));
}

void all_finite(Expansion& to) {
  const bool nan_only = to.attributes().flag("isnan_only"), infinity_only = to.attributes().flag("isinf_only");
  if (nan_only && infinity_only) {
    to.fail(invalid_argument("IsAllFinite looks for nothing with both isnan_only and isinf_only."));
    return;
  }
  ValueId found = kNoValue;
  const auto look = [&](const char* op_type, ValueId x) {
    const ValueId flags = to.cast(to.add(op_type, {x}), DataType::kUint8);
    const ValueId any = to.add("ReduceMax", {flags}, {integer("keepdims", 0)});
    found = found == kNoValue ? any : to.add("Max", {found, any});
  };
  for (ValueId x : to.node().inputs) {
    if (!infinity_only) look("IsNaN", x);
    if (!nan_only) look("IsInf", x);
  }
  to.add("Not", {to.cast(found, DataType::kBool)}, {}, to.out(0));
}

// Pairs (real, imaginary) in the last axis.
void multiply_complex(Expansion& to, bool conjugate) {
  std::array<ValueId, 2> parts[2];
  for (size_t i = 0; i < 2; ++i) {
    parts[i] = {to.new_value(), to.new_value()};
    to.add_node("", "Split", {to.in(i)}, {integer("axis", -1), integer("num_outputs", 2)}, {parts[i][0], parts[i][1]});
  }
  const auto product = [&](size_t a, size_t b) { return to.add("Mul", {parts[0][a], parts[1][b]}); };
  const ValueId real = to.add(conjugate ? "Add" : "Sub", {product(0, 0), product(1, 1)});
  const ValueId imaginary =
      conjugate ? to.add("Sub", {product(1, 0), product(0, 1)}) : to.add("Add", {product(0, 1), product(1, 0)});
  to.add("Concat", {real, imaginary}, {integer("axis", -1)}, to.out(0));
}

void complex_mul(Expansion& to) { multiply_complex(to, false); }
void complex_mul_conj(Expansion& to) { multiply_complex(to, true); }

constexpr Row kRows[] = {
    {"", "SwiGLU", &swiglu},
    {"com.microsoft", "BiasAdd", &bias_add},
    {"com.microsoft", "BiasGelu", &bias_gelu},
    {"com.microsoft", "BiasSoftmax", &bias_softmax},
    {"com.microsoft", "BiasSplitGelu", &bias_split_gelu},
    {"com.microsoft", "ComplexMul", &complex_mul},
    {"com.microsoft", "ComplexMulConj", &complex_mul_conj},
    {"com.microsoft", "FastGelu", &fast_gelu},
    {"com.microsoft", "Gelu", &gelu},
    {"com.microsoft", "GemmFastGelu", &gemm_fast_gelu},
    {"com.microsoft", "IsAllFinite", &all_finite},
    {"com.microsoft", "QuickGelu", &quick_gelu},
};

}  // namespace

std::span<const Row> activation_rows() { return kRows; }

}  // namespace tenon::expand
