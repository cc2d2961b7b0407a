// Normalisations other than rows with constant scales (norm/lower_rows.cc).
#include <algorithm>
#include <bit>

#include "base/format.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/norm/norm_params.h"

namespace tenon::cuda {

namespace {

// The groups that are normalised: the coordinates that share a mean are `reduced`, all with the strides of the input.
struct Groups {
  std::vector<int64_t> dims, strides, reduced, reduced_strides;
  // Of scale and bias over both.
  std::vector<int64_t> scale_strides, scale_reduced_strides;
};

// How a block's threads share groups: `lanes` each. A lane keeps its elements in registers where they are few.
struct Layout {
  Loops kept, reduced;  // strides of the input, then of the parameters
  bool beside = false;  // groups lie beside each other in memory: neighbours are threads of different groups
  int64_t threads = kMapThreads, lanes = 1, groups = 1;  // of a block
  int64_t outputs = 1, steps = 1, vector = 1;            // steps: vectors of a group
  int64_t turns = 0;                                     // vectors that a lane keeps; 0: none are kept
};

Layout lay_out(const Groups& groups, DataType type) {
  Layout layout{.kept = join_dims(groups.dims, {groups.strides, groups.scale_strides}, 0),
                .reduced = join_dims(groups.reduced, {groups.reduced_strides, groups.scale_reduced_strides}, 0),
                .outputs = count_of(groups.dims),
                .steps = count_of(groups.reduced)};
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
  // Few different numbers, because each is a kernel of its own.
  const int64_t turns = (layout.steps + layout.lanes - 1) / layout.lanes;
  if (turns * layout.vector <= most_held) layout.turns = power(turns);
  return layout;
}

// The kernel's template arguments, after those of its own, and its parameters.
struct NormKernel {
  std::string arguments;
  NormParams params;
  LaunchShape shape;
};

Result<NormKernel> norm_kernel(const Layout& layout, int64_t elements) {
  NormKernel kernel;
  const int64_t count = std::max<int64_t>(layout.steps * layout.vector, 1);
  kernel.params = {.outputs = layout.outputs,
                   .steps = layout.steps,
                   .parameter_step = layout.reduced.dims.empty() ? 0 : layout.reduced.strides[1].back(),
                   .inverse_count = 1.0 / static_cast<double>(count),
                   .inverse_count_float = static_cast<float>(1.0 / static_cast<double>(count)),
                   .lane_bits = static_cast<uint32_t>(std::countr_zero(static_cast<uint64_t>(layout.lanes))),
                   .beside = layout.beside ? 1 : 0};
  Loops reduced = layout.reduced;
  if (layout.vector > 1) {
    reduced.dims.back() /= layout.vector;
    for (std::vector<int64_t>& strides : reduced.strides) strides.back() *= layout.vector;
  }
  TENON_TRY_ASSIGN(kernel.params.kept, loop_params<2>(layout.kept));
  TENON_TRY_ASSIGN(kernel.params.reduced, loop_params<2>(reduced));
  TENON_TRY_ASSIGN(kernel.shape.grid_x, blocks_of(layout.outputs, layout.groups));
  kernel.shape.block_x = static_cast<unsigned>(layout.threads);
  kernel.arguments = format("{}, {}, {}, {}, {}", layout.threads, layout.turns, layout.vector,
                            layout.reduced.dims.size(), elements > INT32_MAX);
  return kernel;
}

struct Normalisation {
  Groups groups;
  NormMeasure measure = NormMeasure::kDeviation;
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
  TensorId scale = kNoTensor, bias = kNoTensor, mean = kNoTensor, inverse = kNoTensor;
  if (n.scale != kNoValue) {
    TENON_TRY_ASSIGN(scale, to.plain(n.scale));
  }
  if (n.bias != kNoValue) {
    TENON_TRY_ASSIGN(bias, to.plain(n.bias));
  }
  if (n.mean != kNoValue) {
    TENON_TRY_ASSIGN(mean, to.make(n.mean));
  }
  if (n.inverse != kNoValue) {
    TENON_TRY_ASSIGN(inverse, to.make(n.inverse));
  }
  if (layout.outputs == 0 || layout.steps == 0) return Status();
  const int64_t elements = to.program().tensor(from).shape.element_count();
  TENON_TRY_ASSIGN(NormKernel kernel, norm_kernel(layout, elements));
  kernel.params.epsilon = n.epsilon;
  // Of a tensor that is not there, a type that another kernel mostly has.
  const auto type_of = [&](TensorId id) { return id == kNoTensor ? type : to.program().tensor(id).type; };
  const DataType statistics = type_of(mean != kNoTensor ? mean : inverse);
  TENON_UNSUPPORTED_IF(inverse != kNoTensor && type_of(inverse) != statistics,
                       "{} gives a mean of {} and a deviation of {}.", to.label(node), data_type_name(statistics),
                       data_type_name(type_of(inverse)));
  return to.add_kernel(
      node, "normalise",
      {.header = "ep/cuda/ops/norm/norm.cuh",
       .instance = template_instance("normalise", type, type_of(scale), type_of(bias), statistics,
                                     TemplateEnum{"tenon::cuda::NormMeasure", static_cast<int>(n.measure)},
                                     scale != kNoTensor, bias != kNoTensor, kernel.arguments),
       .params = kernel_params(kernel.params),
       .shape = kernel.shape,
       .in_place = {}},
      {from, scale, bias}, {out, mean, inverse});
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
  Normalisation n{.measure = desc.subtract_mean ? NormMeasure::kDeviation : NormMeasure::kSquares,
                  .epsilon = desc.epsilon,
                  .scale = factors,
                  .bias = shifts};
  n.groups = split_groups(dims_of(x), shared, scale);
  if (node.domain == "tenon") {
    if (node.input(desc.skip) == kNoValue) return add_normalisation(to, node, n);
    // The normalised value is the sum with the skipped one, which may be an output too.
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
    n.measure = desc.p == 1 ? NormMeasure::kOne : NormMeasure::kTwo;
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
  TENON_TRY_ASSIGN(NormKernel kernel, norm_kernel(layout, tensor.shape.element_count()));
  kernel.params.guarded = desc.guarded ? 1 : 0;
  return to.add_kernel(node, "softmax",
                       {.header = "ep/cuda/ops/norm/norm.cuh",
                        .instance = template_instance("softmax", tensor.type,
                                                      desc.kind == SoftmaxDesc::Kind::kLogSoftmax, kernel.arguments),
                        .params = kernel_params(kernel.params),
                        .shape = kernel.shape,
                        .in_place = {}},
                       {from}, {out});
}

}  // namespace tenon::cuda
