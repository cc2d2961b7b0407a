// Scatters that store or add updates at indices. Results do not depend on the order in which the device works.
#include <algorithm>
#include <bit>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"
#include "ops/gather.h"

namespace tenon::cuda {

namespace {

// One of the operators, as text over coordinates: update `from` goes to the element `at` of the output.
struct Scatter {
  TensorId data = kNoTensor, index = kNoTensor, updates = kNoTensor, out = kNoTensor;
  DataType type = DataType::kFloat;
  ScatterReduction reduction = ScatterReduction::kNone;
  // Threads of their own for all updates: their dimensions, and the text that declares `at` or leaves.
  std::vector<int64_t> dims;
  std::string place;
  // Updates that may meet in an element, `steps` of them, one after the other: the dimensions of what is left, and the
  // text that declares `from` and `at` for k of them, or goes on with the next.
  std::vector<int64_t> lines;
  int64_t steps = 0;
  std::string line_place;
};

// How an update meets what is there, one after the other.
std::string joined_update(const Scatter& scatter) {
  const DataType type = scatter.type;
  const std::string old_value = loaded(type, "y[at]"), update = loaded(type, "u[from]");
  if (scatter.reduction == ScatterReduction::kAdd) return stored(type, format("{} + {}", old_value, update));
  if (scatter.reduction == ScatterReduction::kMul) return stored(type, format("{} * {}", old_value, update));
  // Both operands have the type that kernels compute in.
  const std::string compute = compute_type(type);
  const auto chosen = [&](const char* function) {
    return stored(type, format("{0}<{1}>(({1}){2}, ({1}){3})", function, compute, old_value, update));
  };
  return chosen(scatter.reduction == ScatterReduction::kMax ? "max_of" : "min_of");
}

// A thread does all that may meet in an element, in order.
Status add_in_order(Lowering& to, const Node& node, const Scatter& scatter) {
  MapKernel kernel(to, node, "scatter_lines");
  kernel.read(scatter.index, "x");
  kernel.read(scatter.updates, "u");
  kernel.write(scatter.out, "y");
  kernel.map().dims = scatter.lines;
  kernel.body() = format("  for (index_t k = 0; k < {}u; ++k) {{\n{}  y[at] = {};\n  }}\n", scatter.steps,
                         scatter.line_place, joined_update(scatter));
  return kernel.add();
}

// Updates whose order does not matter, each with a thread. `put` sees `at` and `flat`.
Status add_unordered(Lowering& to, const Node& node, const Scatter& scatter, const char* name, const std::string& put) {
  MapKernel kernel(to, node, name);
  kernel.read(scatter.index, "x");
  kernel.read(scatter.updates, "u");
  kernel.write(scatter.out, "y");
  kernel.map().dims = scatter.dims;
  kernel.body() = scatter.place + put;
  return kernel.add();
}

// Sums of whole numbers, and the greatest and least of 32 or 64 bits, are the same in any order. Of equal floats, which
// are zeros, the greatest is +0 and the least -0; numbers that are none become one.
std::string atomic_update(const Scatter& scatter) {
  const std::string type = compute_type(scatter.type);
  const bool least = scatter.reduction == ScatterReduction::kMin;
  if (scatter.reduction == ScatterReduction::kAdd)
    return type == "long long" ? "  atomicAdd((unsigned long long*)y + at, (unsigned long long)u[flat]);\n"
                               : "  atomicAdd(y + at, u[flat]);\n";
  if (scatter.type != DataType::kFloat) return format("  {}(y + at, u[flat]);\n", least ? "atomicMin" : "atomicMax");
  return format(
      "  unsigned* const place = (unsigned*)(y + at);\n  const float b = u[flat];\n"
      "  const unsigned bits = b != b ? 0x7fffffffu : __float_as_uint(b);\n  unsigned seen = *place;\n"
      "  for (;;) {{\n    const float a = __uint_as_float(seen);\n"
      "    if (seen == bits || !(b {0} a || b != b || (b == a && bits {1} seen))) break;\n"
      "    const unsigned found = atomicCAS(place, seen, bits);\n    if (found == seen) break;\n    seen = found;\n  "
      "}}\n",
      least ? "<" : ">", least ? ">" : "<");
}

// Floats are added as whole numbers of 64 bits, which are the same in any order: first the greatest exponent of all
// that meet in an element, then their sum in units of 2^(greatest - kept bits), then the element itself.
Status add_floats(Lowering& to, const Node& node, const Scatter& scatter) {
  const Shape shape = to.program().tensor(scatter.out).shape;
  // So many bits below the greatest are kept that all updates of an element fit.
  const auto room = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(scatter.steps, 1))));
  const int64_t kept = 60 - room;
  TENON_TRY_ASSIGN(const TensorId greatest, to.program().add_tensor(DataType::kUint32, shape));
  TENON_TRY_ASSIGN(const TensorId sums, to.program().add_tensor(DataType::kInt64, shape));
  MapKernel clear(to, node, "scatter_clear");
  clear.map().dims = {shape.element_count()};
  clear.write(greatest, "e");
  clear.write(sums, "s");
  clear.body() = "  e[flat] = 0;\n  s[flat] = 0;\n";
  TENON_TRY(clear.add());
  const std::string number =
      format("  const unsigned bits = __float_as_uint({});\n  unsigned exponent = bits >> 23 & 255u;\n",
             loaded(scatter.type, "u[flat]"));
  const auto over_updates = [&](const char* name, bool adds) {
    MapKernel kernel(to, node, name);
    kernel.map().dims = scatter.dims;
    kernel.read(scatter.index, "x");
    kernel.read(scatter.updates, "u");
    kernel.write(greatest, "e");
    if (adds) kernel.write(sums, "s");
    kernel.body() = scatter.place + number;
    // 1 << 28: an infinity; 1 << 29: one below zero; 1 << 30: no number. Zeros change nothing.
    kernel.body() +=
        adds ? format(
                   "  if (exponent == 255u) atomicOr(e + at, bits << 9 != 0 ? 1u << 30 : 1u << (28 + (bits >> 31)));\n"
                   "  if (exponent == 255u || bits << 1 == 0) return;\n"
                   "  long long v = bits & 0x7fffffu;\n  if (exponent != 0) v |= 0x800000;\n  else exponent = 1;\n"
                   "  const int shift = {} - (int)((e[at] & 255u) - exponent);\n"
                   "  if (shift < -24) return;\n"
                   "  v = shift >= 0 ? v << shift : (v + (1ll << (-shift - 1))) >> -shift;\n"
                   "  atomicAdd((unsigned long long*)s + at, (unsigned long long)(bits >> 31 ? -v : v));\n",
                   kept - 23)
             : "  if (exponent == 255u || bits << 1 == 0) return;\n  if (exponent == 0) exponent = 1;\n"
               "  if (e[at] < exponent) atomicMax(e + at, exponent);\n";
    return kernel.add();
  };
  TENON_TRY(over_updates("scatter_exponents", false));
  TENON_TRY(over_updates("scatter_sums", true));
  MapKernel last(to, node, "scatter_add");
  last.map().dims = {shape.element_count()};
  last.read(scatter.data, "a");
  last.read(greatest, "e");
  last.read(sums, "s");
  last.write(scatter.out, "y");
  last.body() = format(
      "  const unsigned exponent = e[flat] & 255u, special = e[flat] >> 28;\n  double sum = {};\n"
      "  if (exponent != 0) sum += (double)s[flat] * __longlong_as_double((long long)(exponent + {}u) << 52);\n"
      "  if (special & 1u) sum += infinity_();\n  if (special & 2u) sum -= infinity_();\n"
      "  if (special & 4u) sum = infinity_() - infinity_();\n"
      "  if (e[flat] == 0) y[flat] = a[flat];\n  else y[flat] = {};\n",
      loaded(scatter.type, "a[flat]"), 1023 - 127 - kept, stored(scatter.type, "(float)sum"));
  return last.add();
}

Status add_scatter(Lowering& to, const Node& node, const Scatter& scatter) {
  const DataType type = scatter.type;
  const bool add = scatter.reduction == ScatterReduction::kAdd, floats = compute_type(type) == "float",
             none = scatter.reduction == ScatterReduction::kNone;
  // Few updates an element are quickly done one after the other.
  constexpr int64_t kFewSteps = 32;
  const bool few = scatter.steps <= kFewSteps,
             extreme = scatter.reduction == ScatterReduction::kMax || scatter.reduction == ScatterReduction::kMin;
  if (add && floats && !few && to.program().tensor(scatter.updates).shape.element_count() != 0)
    return add_floats(to, node, scatter);
  to.add_copy(node, scatter.data, scatter.out);
  if (none) return add_unordered(to, node, scatter, "scatter", "  y[at] = u[flat];\n");
  const bool whole =
      type == DataType::kInt32 || type == DataType::kUint32 || type == DataType::kInt64 || type == DataType::kUint64;
  if (!few && ((whole && (add || extreme)) || (type == DataType::kFloat && extreme)))
    return add_unordered(to, node, scatter, "scatter_atomic", atomic_update(scatter));
  return add_in_order(to, node, scatter);
}

Result<Scatter> read_scatter(Lowering& to, const Node& node) {
  Scatter scatter;
  TENON_TRY_ASSIGN(scatter.data, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(scatter.index, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(scatter.updates, to.plain(node.inputs[2]));
  TENON_TRY_ASSIGN(scatter.out, to.make(node.outputs[0]));
  scatter.type = to.program().tensor(scatter.out).type;
  TENON_TRY_ASSIGN(scatter.reduction, read_scatter_reduction(node));
  TENON_UNSUPPORTED_IF(scatter.reduction != ScatterReduction::kNone && scatter.type == DataType::kBool,
                       "{} combines truth values.", to.label(node));
  return scatter;
}

}  // namespace

Status lower_scatter_elements(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(Scatter scatter, read_scatter(to, node));
  const Shape shape = to.program().tensor(scatter.out).shape, by = to.program().tensor(scatter.index).shape;
  const Shape updates = to.program().tensor(scatter.updates).shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(node, shape, by));
  TENON_INVALID_IF(by != updates, "{} puts updates of {} at indices of {}.", to.label(node), updates.to_string(),
                   by.to_string());
  const auto rank = static_cast<size_t>(shape.rank()), at = static_cast<size_t>(axis);
  const std::vector<int64_t> dims = dims_of(by);
  std::vector<std::string> read = index_names(rank), written = read;
  read[at] = "k", written[at] = "g";
  const std::string put = format("  const place_t at = {};\n", dense_address(written, dims_of(shape)));
  scatter.dims = scatter.lines = dims;
  scatter.lines[at] = by.element_count() == 0 ? 0 : 1;
  scatter.steps = by[axis];
  scatter.place = index_text("g", "x[flat]", shape[axis], "return;") + put;
  scatter.line_place = format("  const index_t from = {};\n", dense_address(read, dims)) +
                       index_text("g", "x[from]", shape[axis], "continue;") + put;
  return add_scatter(to, node, scatter);
}

Status lower_scatter_nd(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(Scatter scatter, read_scatter(to, node));
  const Shape shape = to.program().tensor(scatter.out).shape, by = to.program().tensor(scatter.index).shape;
  const Shape updates = to.program().tensor(scatter.updates).shape;
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(node, shape, by));
  // Of no width each tuple names all of the data.
  const auto width = static_cast<size_t>(desc.width);
  const std::vector<int64_t> dims = dims_of(shape);
  const int64_t slice = desc.slice, tuples = desc.tuples;
  TENON_INVALID_IF(updates != desc.output, "{} has updates of {} at indices of {}.", to.label(node),
                   updates.to_string(), by.to_string());
  const auto place = [&](const char* tuple, const char* inside, const char* leave) {
    std::string text, at = "0";
    for (size_t d = 0; d < width; ++d) {
      text += index_text(format("g{}", d), format("x[{} * {} + {}]", tuple, width, d), dims[d], leave);
      at = d == 0 ? "g0" : format("({} * {} + g{})", at, dims[d], d);
    }
    return text + format("  const place_t at = (place_t)({} * {} + {});\n", at, slice, inside);
  };
  scatter.dims = {tuples, slice};
  scatter.lines = {tuples == 0 ? 0 : slice};
  scatter.steps = tuples;
  scatter.place = place("i0", "i1", "return;");
  scatter.line_place = format("  const index_t from = k * {}u + i0;\n", slice) + place("k", "i0", "continue;");
  return add_scatter(to, node, scatter);
}

}  // namespace tenon::cuda
