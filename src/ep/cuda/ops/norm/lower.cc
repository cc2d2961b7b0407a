#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ep/cuda/ops/norm/channels_last.h"
#include "ep/cuda/ops/norm/layout.h"
#include "ep/cuda/ops/norm/op.h"
#include "ops/norm.h"

namespace tenon::cuda {

namespace {

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
  // The simplified norms of ONNX Runtime's own may make another type.
  TENON_UNSUPPORTED_IF(to.program().tensor(out).type != type, "{} normalises {} and makes {}.", to.label(node),
                       data_type_name(type), data_type_name(to.program().tensor(out).type));
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

// Makes the tensors that a layer normalisation writes. As f16 parts: a row has a norm of at most the root of its length
// before it is scaled.
Status make_normal(Lowering& to, const Node& node, DataType type, int64_t columns, LayerNormOp::Tensors* tensors) {
  const ValueId y = node.outputs[0];
  const Shape& shape = to.value(y).shape();
  if (type == DataType::kFloat && columns % 8 == 0 && columns <= LayerNormOp::kMostSplitColumns &&
      shape[shape.rank() - 1] == columns) {
    const bool internal = node.domain == "tenon";
    const auto floats = [&](size_t input) {
      const ConstantRef& held = to.constant(node.input(input));
      return held != nullptr ? floats_of(*held) : std::vector<float>();
    };
    // Where one is NaN, so is what it makes: bounds are of numbers.
    double largest_scale = 0, largest_bias = 0, bias_squares = 0;
    for (float scale : floats(internal ? 2 : 1)) largest_scale = std::max<double>(largest_scale, std::fabs(scale));
    for (float bias : floats(internal ? 3 : 2)) {
      largest_bias = std::max<double>(largest_bias, std::fabs(bias));
      if (!std::isnan(bias)) bias_squares += double{bias} * bias;
    }
    const double norm = std::sqrt(static_cast<double>(columns)) * largest_scale;
    TENON_TRY_ASSIGN(const Lowering::SplitTensor split,
                     to.make_split_tensor(y, {norm + largest_bias, norm + std::sqrt(bias_squares)}));
    tensors->y_parts = split.tensor;
    tensors->y_terms = split.terms;
    tensors->y_shift = split.shift;
    if (split.terms != 0 && to.only_split(y)) return Status();
  }
  TENON_TRY_ASSIGN(tensors->y, to.make(y));
  return Status();
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
  TENON_TRY_ASSIGN(const bool lowered, lower_image_norm(to, node));
  if (lowered) return Status();
  Normalisation n{.epsilon = desc.epsilon, .scale = node.input(1), .bias = node.input(2)};
  n.groups =
      split_groups({desc.batch, groups, channels, desc.inner}, {false, false, true, true},
                   desc.scale_each_group ? std::vector<int64_t>{0, 1, 0, 0} : std::vector<int64_t>{0, channels, 1, 0});
  return add_normalisation(to, node, n);
}

namespace {

// LayerNormalization and RMSNormalization whose parameters are computed, or that give their mean.
Status lower_general_layer_norm(Lowering& to, const Node& node, const LayerNormDesc& desc) {
  const Shape x = to.value(node.inputs[0]).shape();
  const ValueId factors = node.input(desc.scale), shifts = node.input(desc.bias);
  std::vector<bool> shared(x.rank());
  for (int i = desc.axis; i < x.rank(); ++i) shared[i] = true;
  std::vector<int64_t> scale(x.rank(), 0);
  const Shape parameter = to.value(factors).shape();
  TENON_INVALID_IF(parameter.rank() > x.rank(), "{} scales {} by {}.", to.label(node), x.to_string(),
                   parameter.to_string());
  const std::vector<int64_t> strides = dense_strides(dims_of(parameter));
  for (int i = 0; i < parameter.rank(); ++i) {
    const int at = x.rank() - parameter.rank() + i;
    TENON_INVALID_IF(parameter[i] != 1 && parameter[i] != x[at], "{} scales {} by {}.", to.label(node), x.to_string(),
                     parameter.to_string());
    if (parameter[i] != 1) scale[at] = strides[i];
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

}  // namespace

Status lower_lp_norm(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  std::vector<bool> shared(x.rank());
  Normalisation n;
  if (node.op_type == "LpNormalization") {
    TENON_TRY_ASSIGN(const LpNormDesc desc, read_lp_norm(node, x));
    shared[desc.axis] = true;
    n.measure = desc.p == 1 ? NormMeasure::kOne : NormMeasure::kTwo;
  } else {  // MeanVarianceNormalization
    TENON_TRY_ASSIGN(const std::vector<int> axes, read_mean_variance_axes(node, x.rank()));
    for (int axis : axes) shared[axis] = true;
    // ONNX adds 1e-9 to the deviation, which is the same for all but constant groups: those are zeros either way.
    n.epsilon = 1e-18F;
  }
  n.groups = split_groups(dims_of(x), shared, std::vector<int64_t>(x.rank(), 0));
  return add_normalisation(to, node, n);
}

Status lower_layer_norm(Lowering& to, const Node& node) {
  const bool internal = node.domain == "tenon";
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape();
  TENON_TRY_ASSIGN(const LayerNormDesc desc, read_layer_norm(node, x));
  const ValueId skip = node.input(desc.skip), scale = node.input(desc.scale), bias = node.input(desc.bias);
  const int64_t columns = desc.columns;
  // Constants, one for each column.
  const auto whole = [&](ValueId id) {
    return id == kNoValue || (to.constant(id) != nullptr && to.value(id).shape().element_count() == columns);
  };
  const bool further =
      std::any_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId id) { return id != kNoValue; });
  constexpr int64_t kManyColumns = 4096;  // more than a block of the row kernel keeps
  if (!desc.subtract_mean || (!internal && further) || !whole(scale) || !whole(bias) || type == DataType::kDouble ||
      columns > kManyColumns)
    return lower_general_layer_norm(to, node, desc);
  TENON_UNSUPPORTED_IF(!is_kernel_float(type), "{} is computed in {}.", to.label(node), data_type_name(type));
  LayerNormOp::Tensors tensors;
  TENON_TRY_ASSIGN(tensors.x, to.plain(node.inputs[0]));
  if (skip != kNoValue) {
    TENON_TRY_ASSIGN(tensors.skip, to.plain(skip));
  }
  TENON_TRY_ASSIGN(tensors.scale, to.float_constant(scale));
  if (bias != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, to.float_constant(bias));
  }
  TENON_TRY(make_normal(to, node, type, columns, &tensors));
  if (internal && node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
    TENON_TRY_ASSIGN(tensors.sum, to.make(node.outputs[1]));
  }
  if (x.element_count() == 0) return Status();
  TENON_TRY(check_sizes(to, node, {x.element_count() / columns, columns}));
  to.program().add_op(std::make_unique<LayerNormOp>(node.name, type, narrow(x.element_count() / columns),
                                                    narrow(columns), desc.epsilon, tensors));
  return Status();
}

Status lower_contrib_norm(Lowering& to, const Node& node) {
  return unsupported("{} gives its mean or its deviations.", to.label(node));
}

}  // namespace tenon::cuda
