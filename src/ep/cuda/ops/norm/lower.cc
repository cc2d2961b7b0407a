// Normalisations other than rows with constant scales (norm/lower_rows.cc).
#include <algorithm>
#include <array>
#include <bit>

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

// How a block's threads share groups: `lanes` each. A lane keeps its elements in registers where they are few.
struct Layout {
  Loops kept, reduced;  // strides of the input, then of the parameters
  bool beside = false;  // groups lie beside each other in memory: neighbours are threads of different groups
  int64_t threads = kGeneratedThreads, lanes = 1, groups = 1;  // of a block
  int64_t outputs = 1, steps = 1, vector = 1;                  // steps: vectors of a group
  bool keeps = false;
  DataType type = DataType::kFloat;
  std::string number;

  int64_t turns() const { return (steps + lanes - 1) / lanes; }

  // The thread's place. A block has all its threads until the end.
  std::string begin() const {
    std::string text = format(
        "  const index_t {0} = threadIdx.x % {2}u, {1} = threadIdx.x / {2}u, group = flat * {3}u + of_block;\n"
        "  const bool mine = group < {4}u;\n",
        beside ? "of_block" : "lane", beside ? "lane" : "of_block", beside ? groups : lanes, groups, outputs);
    if (!kept.dims.empty()) text += split_index(kept.dims, "g", "group");
    text += format("  __shared__ {0} parts[{1}];\n  {0} acc;\n", number, threads);
    if (!keeps) return text;
    text += format("  {0} held[{1}];\n#pragma unroll\n  for (unsigned n = 0; n < {2}u; ++n) {{\n", number,
                   turns() * vector, turns());
    text += format("    const index_t step = n * {}u + lane;\n    if (!mine || step >= {}u) continue;\n", lanes, steps);
    return text + load() + each(format("    held[n * {}u + j] = {};\n", vector, loaded(type, "p.v[j]"))) + "  }\n";
  }

  // Goes through the lane's elements `v`, with `first` before each vector of them and `last` after it.
  std::string over(const std::string& take, const std::string& first = "", const std::string& last = "") const {
    std::string text = "  if (mine) {\n";
    if (keeps) {
      text += format(
          "#pragma unroll\n  for (unsigned n = 0; n < {}u; ++n) {{\n    const index_t step = n * {}u + lane;\n"
          "    if (step >= {}u) continue;\n",
          turns(), lanes, steps);
      text += first.empty() ? "" : place();
    } else {
      text += format("#pragma unroll 4\n  for (index_t step = lane; step < {}u; step += {}u) {{\n", steps, lanes);
      text += load();
    }
    const std::string element = keeps ? format("held[n * {}u + j]", vector) : loaded(type, "p.v[j]");
    return text + first + each(format("    const {} v = {};\n{}", number, element, take)) + last + "  }\n  }\n";
  }

  // Joins `term` of every element `v`, from `start` on, by `join` (text with $0 and $1); all lanes of the group have
  // it.
  std::string joined(const char* result, const std::string& start, const std::string& term,
                     const std::string& join) const {
    const auto both = [&](const std::string& mine, const std::string& other) {
      std::string text = join;
      text.replace(text.find("$1"), 2, other);
      return text.replace(text.find("$0"), 2, mine);
    };
    std::string text = format("  acc = {};\n", start) + over(format("    acc = {};\n", both("acc", "(" + term + ")")));
    if (lanes == 1) return text + format("  const {} {} = acc;\n", number, result);
    const int64_t distance = beside ? groups : 1;
    return text + format(
                      "  parts[threadIdx.x] = acc;\n  __syncthreads();\n  for (unsigned n = {0}u; n > 0; n /= 2) {{\n"
                      "    if (lane < n) parts[threadIdx.x] = {1};\n    __syncthreads();\n  }}\n"
                      "  const {2} {3} = parts[threadIdx.x - lane * {4}u];\n  __syncthreads();\n",
                      lanes / 2, both("parts[threadIdx.x]", format("parts[threadIdx.x + n * {}u]", distance)), number,
                      result, distance);
  }
  std::string summed(const char* sum, const std::string& term) const { return joined(sum, "0", term, "$0 + $1"); }

  // Where element j of the step's vector is among the parameters.
  std::string parameter() const {
    const int64_t stride = reduced.dims.empty() ? 0 : reduced.strides[1].back();
    std::vector<int64_t> strides = reduced.strides[1];
    if (!strides.empty()) strides.back() *= vector;
    return format("{} + {}{}", address(kept.strides[1], 0, "g"), address(strides, 0, "k"),
                  stride == 0 || vector == 1 ? std::string() : format(" + j * {}", stride));
  }

 private:
  std::string each(const std::string& take) const {
    return format("#pragma unroll\n    for (unsigned j = 0; j < {}u; ++j) {{\n{}    }}\n", vector, take);
  }
  // Declares k0, k1, ... and where the step's vector begins.
  std::string place() const {
    std::vector<int64_t> dims = reduced.dims, strides = reduced.strides[0];
    if (vector > 1) dims.back() /= vector, strides.back() *= vector;
    std::string text = dims.empty() ? std::string() : split_index(dims, "k", "step");
    return text +
           format("    const index_t at = {} + {};\n", address(kept.strides[0], 0, "g"), address(strides, 0, "k"));
  }
  std::string load() const {
    return place() +
           format("    const Pack<{0}, {1}> p = *(const Pack<{0}, {1}>*)(a + at);\n", storage_type(type), vector);
  }
};

Layout lay_out(const Groups& groups, DataType type) {
  Layout layout{.kept = join_dims(groups.dims, {groups.strides, groups.scale_strides}, 0),
                .reduced = join_dims(groups.reduced, {groups.reduced_strides, groups.scale_reduced_strides}, 0),
                .outputs = count_of(groups.dims),
                .steps = count_of(groups.reduced),
                .type = type,
                .number = type == DataType::kDouble ? "double" : "float"};
  const std::vector<int64_t>&kept = layout.kept.strides[0], &reduced = layout.reduced.strides[0];
  if (layout.outputs == 0 || layout.steps == 0) return layout;
  layout.beside = !kept.empty() && kept.back() == 1;
  // So many numbers of a thread fit into registers, with a block's most threads too.
  const int64_t most_held = type == DataType::kDouble ? 16 : 32;
  const auto power = [](int64_t value) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))); };
  if (layout.beside) {
    const int64_t width = std::min<int64_t>(power(layout.kept.dims.back()), 32);
    layout.lanes = std::clamp<int64_t>(power(layout.steps) / 4, 1, layout.threads / width);
  } else {
    if (!reduced.empty() && reduced.back() == 1) {
      layout.vector = static_cast<int64_t>(16 / data_type_size(type));
      const auto divides = [&](int64_t value) { return value % layout.vector == 0; };
      while (!divides(layout.reduced.dims.back()) || !std::all_of(kept.begin(), kept.end(), divides) ||
             !std::all_of(reduced.begin(), reduced.end() - 1, divides))
        layout.vector /= 2;
    }
    layout.steps /= layout.vector;
    constexpr int64_t kMostThreads = 1024;
    if (layout.steps * layout.vector > most_held * layout.threads) layout.threads = kMostThreads;
    layout.lanes = std::clamp<int64_t>(power((layout.steps + 1) / 2), 1, layout.threads);
  }
  layout.groups = layout.threads / layout.lanes;
  layout.keeps = layout.turns() * layout.vector <= most_held;
  return layout;
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
  const Layout layout = lay_out(n.groups, type);
  const std::string& number = layout.number;
  const char* const letter = type == DataType::kDouble ? "" : "f";
  MapKernel kernel(to, node, "normalise");
  kernel.map().by_block = true;
  kernel.map().threads = static_cast<unsigned>(layout.threads);
  kernel.map().dims = {layout.steps == 0 ? 0 : (layout.outputs + layout.groups - 1) / layout.groups};
  kernel.read(from, "a");
  std::string scale = "1", bias = "0";
  const auto parameter = [&](ValueId id, const char* name, std::string& text) -> Status {
    if (id == kNoValue) return Status();
    TENON_TRY_ASSIGN(const TensorId tensor, to.plain(id));
    kernel.read(tensor, name);
    text = loaded(to.program().tensor(tensor).type, format("{}[{}]", name, layout.parameter()));
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
        format("  if (mine && lane == 0) {}[group] = {};\n", name, stored(to.program().tensor(tensor).type, value));
    return Status();
  };
  TENON_TRY(statistic(n.mean, "m", "mean"));
  TENON_TRY(statistic(n.inverse, "r", "factor"));
  const int64_t count = layout.steps * layout.vector;
  std::string& body = kernel.body();
  body = layout.begin();
  const std::string inverse_count = format("({})(1.0 / {}.0)", number, std::max<int64_t>(count, 1));
  const std::string epsilon = format("({})({:.9e})", number, n.epsilon);
  body += n.measure == Measure::kDeviation
              ? layout.summed("sum", "v") + format("  const {0} mean = sum * {1};\n", number, inverse_count)
              : format("  const {} mean = 0;\n", number);
  switch (n.measure) {
    case Measure::kDeviation:
    case Measure::kSquares:
      body += layout.summed("squares", "(v - mean) * (v - mean)");
      body +=
          format("  const {0} factor = 1 / sqrt{1}(squares * {2} + {3});\n", number, letter, inverse_count, epsilon);
      break;
    case Measure::kOne:
      body += layout.summed("size", "v < 0 ? -v : v");
      body += format("  const {0} factor = size == 0 ? ({0})0 : 1 / size;\n", number);
      break;
    case Measure::kTwo:
      body += layout.summed("size", "v * v");
      body += format("  const {0} factor = size == 0 ? ({0})0 : 1 / sqrt{1}(size);\n", number, letter);
      break;
  }
  body += statistics;
  const std::string pack = format("Pack<{}, {}>", storage_type(type), layout.vector);
  body +=
      layout.over(format("    out.v[j] = {};\n", stored(type, format("(v - mean) * factor * {} + {}", scale, bias))),
                  format("    {} out;\n", pack), format("    *({}*)(y + at) = out;\n", pack));
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
  TENON_TRY_ASSIGN(const GroupNormDesc desc, read_group_norm(node, x));
  const int64_t groups = desc.groups, channels = desc.group_channels();
  for (size_t i = 1; i <= 2; ++i) {
    const Shape parameter = to.value(node.input(i)).shape();
    TENON_INVALID_IF(parameter.element_count() != desc.parameters(), "{} has a scale or bias of {}.", to.label(node),
                     parameter.to_string());
  }
  Normalisation n{.epsilon = desc.epsilon, .scale = node.input(1), .bias = node.input(2)};
  n.groups =
      split_groups({desc.batch, groups, channels, desc.inner}, {false, false, true, true},
                   desc.scale_each_group ? std::vector<int64_t>{0, 1, 0, 0} : std::vector<int64_t>{0, channels, 1, 0});
  return add_normalisation(to, node, n);
}

// LayerNormalization and RMSNormalization whose parameters are computed, or that give their mean.
Status lower_general_layer_norm(Lowering& to, const Node& node, const LayerNormDesc& desc) {
  const Shape x = to.value(node.inputs[0]).shape();
  const ValueId factors = node.input(desc.scale), shifts = node.input(desc.bias);
  std::vector<bool> shared(static_cast<size_t>(x.rank()));
  for (int i = desc.axis; i < x.rank(); ++i) shared[static_cast<size_t>(i)] = true;
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
  Normalisation n{.measure = desc.subtract_mean ? Measure::kDeviation : Measure::kSquares,
                  .epsilon = desc.epsilon,
                  .scale = factors,
                  .bias = shifts};
  n.groups = split_groups(dims_of(x), shared, scale);
  if (node.domain == "tenon") {
    if (node.input(desc.skip) == kNoValue) return add_normalisation(to, node, n);
    // What is normalised is the sum with the skipped one, which may be an output too.
    TENON_TRY_ASSIGN(const TensorId first, to.plain(node.inputs[0]));
    TENON_TRY_ASSIGN(const TensorId skip, to.plain(node.inputs[desc.skip]));
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
  if (desc.mean < node.outputs.size()) n.mean = node.outputs[desc.mean];
  if (desc.inverse_deviation < node.outputs.size()) n.inverse = node.outputs[desc.inverse_deviation];
  return add_normalisation(to, node, n);
}

Status lower_lp_norm(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  std::vector<bool> shared(static_cast<size_t>(x.rank()));
  Normalisation n;
  if (node.op_type == "LpNormalization") {
    TENON_TRY_ASSIGN(const LpNormDesc desc, read_lp_norm(node, x));
    shared[static_cast<size_t>(desc.axis)] = true;
    n.measure = desc.p == 1 ? Measure::kOne : Measure::kTwo;
  } else {  // MeanVarianceNormalization
    TENON_TRY_ASSIGN(const std::vector<int> axes, read_mean_variance_axes(node, x.rank()));
    for (int axis : axes) shared[static_cast<size_t>(axis)] = true;
    // ONNX adds 1e-9 to the deviation, which is the same for all but constant groups: those are zeros either way.
    n.epsilon = 1e-18F;
  }
  n.groups = split_groups(dims_of(x), shared, std::vector<int64_t>(static_cast<size_t>(x.rank()), 0));
  return add_normalisation(to, node, n);
}

// Softmax and LogSoftmax over dimensions that lie anywhere: x as [outer, columns, inner].
Status lower_general_softmax(Lowering& to, const Node& node, const SoftmaxDesc& desc) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  if (tensor.shape.element_count() == 0) return Status();
  const Groups groups = split_groups({desc.outer, desc.length, desc.inner}, {false, true, false}, {0, 0, 0});
  const Layout layout = lay_out(groups, tensor.type);
  MapKernel kernel(to, node, "softmax");
  kernel.map().by_block = true;
  kernel.map().threads = static_cast<unsigned>(layout.threads);
  kernel.map().dims = {(layout.outputs + layout.groups - 1) / layout.groups};
  kernel.read(from, "a");
  kernel.write(out, "y");
  std::string& body = kernel.body();
  body = layout.begin() + layout.joined("largest", "-infinity_()", "v", "max_of($0, $1)");
  const bool logarithm = desc.kind == SoftmaxDesc::Kind::kLogSoftmax;
  body += layout.summed("total", "expf(v - largest)");
  body += logarithm ? "  const float shift = largest + logf(total);\n" : "  const float factor = 1.0f / total;\n";
  const std::string result = logarithm      ? "v - shift"
                             : desc.guarded ? "factor == factor ? expf(v - largest) * factor : 0.0f"
                                            : "expf(v - largest) * factor";
  const std::string pack = format("Pack<{}, {}>", storage_type(tensor.type), layout.vector);
  body += layout.over(format("    out.v[j] = {};\n", stored(tensor.type, result)), format("    {} out;\n", pack),
                      format("    *({}*)(y + at) = out;\n", pack));
  return kernel.add();
}

}  // namespace tenon::cuda
