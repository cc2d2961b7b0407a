// Normalisations other than rows with constant scales (lower_rows.cc): a block for all that share a mean.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"

namespace tenon::cuda {

namespace {

enum class Measure : uint8_t { kDeviation, kSquares, kOne, kTwo };

// What is normalised: the coordinates that share a mean are `reduced`, all with the strides of the input.
struct Groups {
  std::vector<int64_t> dims, strides, reduced, reduced_strides;
  // Of scale and bias over both.
  std::vector<int64_t> scale_strides, scale_reduced_strides;
};

// Adds up `term` of every element `v` of the group; all threads have the sum.
std::string summed(const Groups& groups, DataType type, int64_t count, const char* sum, const std::string& term) {
  const std::string element =
      loaded(type, format("a[{} + {}]", address(groups.strides, 0), address(groups.reduced_strides, 0, "k")));
  const std::string number = type == DataType::kDouble ? "double" : "float";
  std::string text =
      format("  acc = 0;\n  for (index_t k = threadIdx.x; k < {}u; k += {}u) {{\n", count, kGeneratedThreads);
  if (!groups.reduced.empty()) text += split_index(groups.reduced, "k", "k");
  text += format(
      "    const {0} v = {1};\n    acc += {2};\n  }}\n  parts[threadIdx.x] = acc;\n  __syncthreads();\n"
      "  for (unsigned n = {3}u; n > 0; n /= 2) {{\n"
      "    if (threadIdx.x < n) parts[threadIdx.x] += parts[threadIdx.x + n];\n    __syncthreads();\n  }}\n"
      "  const {0} {4} = parts[0];\n  __syncthreads();\n",
      number, element, term, kGeneratedThreads / 2, sum);
  return text;
}

struct Normalisation {
  Groups groups;
  Measure measure = Measure::kDeviation;
  float epsilon = 0;
  ValueId scale = kNoValue, bias = kNoValue;
  // Where layer normalisation wants them: one a group.
  ValueId mean = kNoValue, inverse = kNoValue;
};

// Of `from`, or of the first input.
Status add_normalisation(Lowering& to, const Node& node, const Normalisation& n, TensorId from = kNoTensor) {
  if (from == kNoTensor) {
    TENON_TRY_ASSIGN(from, to.plain(node.inputs[0]));
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DataType type = to.program().tensor(from).type;
  TENON_UNSUPPORTED_IF(compute_type(type) != "float" && type != DataType::kDouble, "{} normalises {}.", to.label(node),
                       data_type_name(type));
  const std::string number = type == DataType::kDouble ? "double" : "float";
  const char* const letter = type == DataType::kDouble ? "" : "f";
  MapKernel kernel(to, node, "normalise");
  kernel.map().by_block = true;
  kernel.map().dims = n.groups.dims;
  kernel.read(from, "a");
  std::string scale = "1", bias = "0";
  const auto parameter = [&](ValueId id, const char* name, std::string& text) -> Status {
    if (id == kNoValue) return Status();
    TENON_TRY_ASSIGN(const TensorId tensor, to.plain(id));
    kernel.read(tensor, name);
    text = loaded(to.program().tensor(tensor).type, format("{}[{} + {}]", name, address(n.groups.scale_strides, 0),
                                                           address(n.groups.scale_reduced_strides, 0, "k")));
    return Status();
  };
  TENON_TRY(parameter(n.scale, "s", scale));
  TENON_TRY(parameter(n.bias, "b", bias));
  kernel.write(out, "y");
  std::string statistics;
  const auto statistic = [&](ValueId id, const char* name, const char* value) -> Status {
    if (id == kNoValue) return Status();
    TENON_TRY_ASSIGN(const TensorId tensor, to.make(id));
    kernel.write(tensor, name);
    statistics +=
        format("  if (threadIdx.x == 0) {}[flat] = {};\n", name, stored(to.program().tensor(tensor).type, value));
    return Status();
  };
  TENON_TRY(statistic(n.mean, "m", "mean"));
  TENON_TRY(statistic(n.inverse, "r", "factor"));
  int64_t count = 1;
  for (int64_t dim : n.groups.reduced) count *= dim;
  std::string& body = kernel.body();
  body = format("  __shared__ {0} parts[{1}];\n  {0} acc;\n", number, kGeneratedThreads);
  const std::string inverse_count = format("({})(1.0 / {}.0)", number, std::max<int64_t>(count, 1));
  const std::string epsilon = format("({})({:.9e})", number, n.epsilon);
  body += n.measure == Measure::kDeviation ? summed(n.groups, type, count, "sum", "v") +
                                                 format("  const {0} mean = sum * {1};\n", number, inverse_count)
                                           : format("  const {} mean = 0;\n", number);
  switch (n.measure) {
    case Measure::kDeviation:
    case Measure::kSquares:
      body += summed(n.groups, type, count, "squares", "(v - mean) * (v - mean)");
      body +=
          format("  const {0} factor = 1 / sqrt{1}(squares * {2} + {3});\n", number, letter, inverse_count, epsilon);
      break;
    case Measure::kOne:
      body += summed(n.groups, type, count, "size", "v < 0 ? -v : v");
      body += format("  const {0} factor = size == 0 ? ({0})0 : 1 / size;\n", number);
      break;
    case Measure::kTwo:
      body += summed(n.groups, type, count, "size", "v * v");
      body += format("  const {0} factor = size == 0 ? ({0})0 : 1 / sqrt{1}(size);\n", number, letter);
      break;
  }
  body += statistics;
  body += format("  for (index_t k = threadIdx.x; k < {}u; k += {}u) {{\n", count, kGeneratedThreads);
  if (!n.groups.reduced.empty()) body += split_index(n.groups.reduced, "k", "k");
  body += format("    const index_t at = {} + {};\n", address(n.groups.strides, 0),
                 address(n.groups.reduced_strides, 0, "k"));
  body += format("    y[at] = {};\n  }}\n",
                 stored(type, format("({} - mean) * factor * {} + {}", loaded(type, "a[at]"), scale, bias)));
  return kernel.add();
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
  return strides;
}

// Splits `dims` by which of them share a mean; `scale` are the strides of the parameters.
Groups split_groups(const std::vector<int64_t>& dims, const std::vector<bool>& shared,
                    const std::vector<int64_t>& scale) {
  const std::vector<int64_t> strides = dense_strides(dims);
  Groups groups;
  for (size_t d = 0; d < dims.size(); ++d) {
    (shared[d] ? groups.reduced : groups.dims).push_back(dims[d]);
    (shared[d] ? groups.reduced_strides : groups.strides).push_back(strides[d]);
    (shared[d] ? groups.scale_reduced_strides : groups.scale_strides).push_back(scale[d]);
  }
  return groups;
}

}  // namespace

// InstanceNormalization and GroupNormalization.
Status lower_group_norm(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  TENON_INVALID_IF(x.rank() < 2, "{} normalises {}.", to.label(node), x.to_string());
  const bool instance = node.op_type == "InstanceNormalization";
  const int64_t groups = instance ? x[1] : node.int_or("num_groups", 1);
  TENON_INVALID_IF(groups < 1 && x[1] != 0, "{} has {} groups.", to.label(node), groups);
  TENON_INVALID_IF(groups != 0 && x[1] % groups != 0, "{} has {} channels in {} groups.", to.label(node), x[1], groups);
  int64_t pixels = 1;
  for (int i = 2; i < x.rank(); ++i) pixels *= x[i];
  const int64_t channels = groups == 0 ? 0 : x[1] / groups;
  // Before version 21 a group had one scale.
  const bool by_channel = instance || node.since_version >= 21;
  for (size_t i = 1; i <= 2; ++i) {
    const Shape parameter = to.value(node.input(i)).shape();
    TENON_INVALID_IF(parameter.element_count() != (by_channel ? x[1] : groups), "{} has a scale or bias of {}.",
                     to.label(node), parameter.to_string());
  }
  Normalisation n{.epsilon = node.float_or("epsilon", 1e-5F), .scale = node.input(1), .bias = node.input(2)};
  n.groups = split_groups({x[0], groups, channels, pixels}, {false, false, true, true},
                          by_channel ? std::vector<int64_t>{0, channels, 1, 0} : std::vector<int64_t>{0, 1, 0, 0});
  return add_normalisation(to, node, n);
}

// LayerNormalization and RMSNormalization whose parameters are computed, or that give their mean.
Status lower_general_layer_norm(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  TENON_TRY_ASSIGN(const int axis, axis_of(to, node, node.int_or("axis", -1), x.rank()));
  const bool rms = node.op_type == "RMSNormalization", internal = node.domain == "tenon";
  const ValueId factors = node.input(internal ? 2 : 1), shifts = node.input(internal ? 3 : 2);
  std::vector<bool> shared(static_cast<size_t>(x.rank()));
  for (int i = axis; i < x.rank(); ++i) shared[static_cast<size_t>(i)] = true;
  std::vector<int64_t> scale(static_cast<size_t>(x.rank()), 0);
  const Shape parameter = to.value(factors).shape();
  TENON_INVALID_IF(parameter.rank() > x.rank(), "{} scales {} by {}.", to.label(node), x.to_string(),
                   parameter.to_string());
  const std::vector<int64_t> strides = dense_strides(dims_of(parameter));
  for (int i = 0; i < parameter.rank(); ++i) {
    const int at = x.rank() - parameter.rank() + i;
    TENON_INVALID_IF(parameter[i] != 1 && parameter[i] != x[at], "{} scales {} by {}.", to.label(node), x.to_string(),
                     parameter.to_string());
    if (parameter[i] != 1) scale[static_cast<size_t>(at)] = strides[static_cast<size_t>(i)];
  }
  if (shifts != kNoValue)
    TENON_UNSUPPORTED_IF(to.value(shifts).shape() != parameter, "{} has a bias of another shape than its scale.",
                         to.label(node));
  Normalisation n{.measure = rms ? Measure::kSquares : Measure::kDeviation,
                  .epsilon = node.float_or("epsilon", 1e-5F),
                  .scale = factors,
                  .bias = shifts};
  n.groups = split_groups(dims_of(x), shared, scale);
  if (internal) {
    if (node.input(1) == kNoValue) return add_normalisation(to, node, n);
    // What is normalised is the sum with the skipped one, which may be an output too.
    TENON_TRY_ASSIGN(const TensorId first, to.plain(node.inputs[0]));
    TENON_TRY_ASSIGN(const TensorId skip, to.plain(node.inputs[1]));
    const DataType type = to.program().tensor(first).type;
    TensorId sum = kNoTensor;
    if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
      TENON_TRY_ASSIGN(sum, to.make(node.outputs[1]));
    } else {
      TENON_TRY_ASSIGN(sum, to.program().add_tensor(type, x));
    }
    if (x.element_count() == 0) return to.make(node.outputs[0]).status();
    const std::vector<int64_t> dense = dense_strides(dims_of(x));
    TENON_TRY(to.add_generated(node, "sum",
                               {.dims = dims_of(x),
                                .type = type,
                                .strides = dense,
                                .leaves = {{.type = type, .strides = dense}, {.type = type, .strides = dense}},
                                .steps = {{.type = type, .expression = "$0 + $1", .arguments = {0, 1}}}},
                               {first, skip}, {}, sum));
    return add_normalisation(to, node, n, sum);
  }
  if (node.outputs.size() > 1) n.mean = node.outputs[1];
  if (node.outputs.size() > 2) n.inverse = node.outputs[2];
  return add_normalisation(to, node, n);
}

Status lower_lp_norm(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  std::vector<bool> shared(static_cast<size_t>(x.rank()));
  Normalisation n;
  if (node.op_type == "LpNormalization") {
    const int64_t p = node.int_or("p", 2);
    TENON_UNSUPPORTED_IF(p != 1 && p != 2, "{} has p {}.", to.label(node), p);
    TENON_TRY_ASSIGN(const int axis, axis_of(to, node, node.int_or("axis", -1), x.rank()));
    shared[static_cast<size_t>(axis)] = true;
    n.measure = p == 1 ? Measure::kOne : Measure::kTwo;
  } else {  // MeanVarianceNormalization
    constexpr std::array<int64_t, 3> kAxes = {0, 2, 3};
    const auto given = node.ints("axes");
    for (int64_t axis : given.empty() ? std::span<const int64_t>(kAxes) : given) {
      TENON_TRY_ASSIGN(const int at, axis_of(to, node, axis, x.rank()));
      shared[static_cast<size_t>(at)] = true;
    }
    // ONNX adds 1e-9 to the deviation, which is the same for all but constant groups: those are zeros either way.
    n.epsilon = 1e-18F;
  }
  n.groups = split_groups(dims_of(x), shared, std::vector<int64_t>(static_cast<size_t>(x.rank()), 0));
  return add_normalisation(to, node, n);
}

}  // namespace tenon::cuda
