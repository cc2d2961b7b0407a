// Scatters that store updates at indices, or combine them with what is there. Results do not depend on the order in
// which the device works.
#include <algorithm>
#include <bit>
#include <utility>

#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/gather/scatter_params.h"
#include "ops/gather.h"

namespace tenon::cuda {

namespace {

constexpr const char* kHeader = "ep/cuda/ops/gather/scatter.cuh";

// One of the operators: how its updates find their elements is a template argument and two sets of parameters.
struct Scatter {
  TensorId data = kNoTensor, index = kNoTensor, updates = kNoTensor, out = kNoTensor;
  DataType type = DataType::kFloat, index_type = DataType::kInt64;
  ScatterReduction reduction = ScatterReduction::kNone;
  bool wide = false;
  std::string target, line_target;  // ElementScatter or SliceScatter of scatter.cuh, of updates and of lines
  ScatterParams each;               // a thread for each update
  ScatterParams lines;              // the updates that may meet in an element, one after the other
};

TemplateEnum combine_of(ScatterReduction reduction) {
  static_assert(static_cast<int>(ScatterReduction::kNone) == static_cast<int>(ScatterCombine::kReplace) &&
                static_cast<int>(ScatterReduction::kAdd) == static_cast<int>(ScatterCombine::kAdd) &&
                static_cast<int>(ScatterReduction::kMul) == static_cast<int>(ScatterCombine::kMultiply) &&
                static_cast<int>(ScatterReduction::kMax) == static_cast<int>(ScatterCombine::kMax) &&
                static_cast<int>(ScatterReduction::kMin) == static_cast<int>(ScatterCombine::kMin));
  return {.type = "tenon::cuda::ScatterCombine", .value = static_cast<int>(reduction)};
}

// A kernel that combines updates with the output, a thread for each or for each line.
Status add_combining(Lowering& to, const Node& node, const Scatter& scatter, const char* kernel, bool lines) {
  const ScatterParams& params = lines ? scatter.lines : scatter.each;
  const std::string instance = template_instance(kernel, lines ? scatter.line_target : scatter.target,
                                                 combine_of(scatter.reduction), scatter.type, scatter.index_type);
  return add_map(to, node, kernel, kHeader, instance, params, params.count, {scatter.index, scatter.updates},
                 {scatter.out});
}

// The same sums in any order (scatter.cuh).
Status add_floats(Lowering& to, const Node& node, const Scatter& scatter) {
  const Shape shape = to.program().tensor(scatter.out).shape;
  // So many bits below the greatest are kept that all updates of an element fit.
  const auto room =
      static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(scatter.lines.steps, 1))));
  TENON_TRY_ASSIGN(const TensorId greatest, to.program().add_tensor(DataType::kUint32, shape));
  TENON_TRY_ASSIGN(const TensorId sums, to.program().add_tensor(DataType::kInt64, shape));
  const ScatterParams elements{.count = shape.element_count()};
  TENON_TRY(add_map(to, node, "scatter_clear", kHeader, template_instance("scatter_clear", scatter.wide), elements,
                    elements.count, {}, {greatest, sums}));
  const ScatterSumParams each{.scatter = scatter.each, .kept_bits = 60 - room};
  TENON_TRY(add_map(to, node, "scatter_exponents", kHeader,
                    template_instance("scatter_exponents", scatter.target, scatter.type, scatter.index_type),
                    scatter.each, scatter.each.count, {scatter.index, scatter.updates}, {greatest}));
  TENON_TRY(add_map(to, node, "scatter_sums", kHeader,
                    template_instance("scatter_sums", scatter.target, scatter.type, scatter.index_type), each,
                    scatter.each.count, {scatter.index, scatter.updates}, {greatest, sums}));
  return add_map(to, node, "scatter_add", kHeader, template_instance("scatter_add", scatter.type, scatter.wide),
                 ScatterSumParams{.scatter = elements, .kept_bits = each.kept_bits}, elements.count,
                 {scatter.data, greatest, sums}, {scatter.out});
}

Status add_scatter(Lowering& to, const Node& node, const Scatter& scatter) {
  const DataType type = scatter.type;
  const bool add = scatter.reduction == ScatterReduction::kAdd, floats = compute_type(type) == "float",
             none = scatter.reduction == ScatterReduction::kNone;
  // Few updates an element are quickly done one after the other.
  constexpr int64_t kFewSteps = 32;
  const bool few = scatter.lines.steps <= kFewSteps,
             extreme = scatter.reduction == ScatterReduction::kMax || scatter.reduction == ScatterReduction::kMin;
  if (add && floats && !few && scatter.each.count != 0) return add_floats(to, node, scatter);
  to.add_copy(node, scatter.data, scatter.out);
  if (none) return add_combining(to, node, scatter, "scatter_in_order", false);
  const bool whole =
      type == DataType::kInt32 || type == DataType::kUint32 || type == DataType::kInt64 || type == DataType::kUint64;
  if (!few && ((whole && (add || extreme)) || (type == DataType::kFloat && extreme)))
    return add_combining(to, node, scatter, "scatter_atomically", false);
  return add_combining(to, node, scatter, "scatter_in_order", true);
}

Result<Scatter> read_scatter(Lowering& to, const Node& node) {
  Scatter scatter;
  TENON_TRY_ASSIGN(scatter.data, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(scatter.index, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(scatter.updates, to.plain(node.inputs[2]));
  TENON_TRY_ASSIGN(scatter.out, to.make(node.outputs[0]));
  scatter.type = to.program().tensor(scatter.out).type;
  scatter.index_type = to.program().tensor(scatter.index).type;
  scatter.wide = is_wide(to, {}, {scatter.index, scatter.updates, scatter.out});
  TENON_TRY_ASSIGN(scatter.reduction, read_scatter_reduction(node));
  TENON_UNSUPPORTED_IF(scatter.reduction != ScatterReduction::kNone && scatter.type == DataType::kBool,
                       "{} combines truth values.", to.label(node));
  return scatter;
}

}  // namespace

Status lower_scatter_elements(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(Scatter scatter, read_scatter(to, node));
  const DeviceTensor out = to.program().tensor(scatter.out), updates = to.program().tensor(scatter.updates);
  const Shape by = to.program().tensor(scatter.index).shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(node, out.shape, by));
  TENON_INVALID_IF(by != updates.shape, "{} puts updates of {} at indices of {}.", to.label(node),
                   updates.shape.to_string(), by.to_string());
  if (by.element_count() == 0) {
    to.add_copy(node, scatter.data, scatter.out);
    return Status();
  }
  std::vector<int64_t> dims = dims_of(by), read = updates.strides(), written = out.strides();
  const int64_t step = std::exchange(written[axis], 0);
  // Loops over `dims`, and the class that finds their elements.
  const auto loops_over = [&](ScatterParams& params, std::string& target) -> Status {
    const Loops loops = join_dims(dims, {read, written}, 0);
    TENON_TRY_ASSIGN(params.loops, loop_params<2>(loops));
    params.limits[0] = out.shape[axis];
    params.strides[0] = step;
    params.count = count_of(dims);
    target = template_instance("ElementScatter", std::max<size_t>(loops.dims.size(), 1), scatter.wide);
    return Status();
  };
  TENON_TRY(loops_over(scatter.each, scatter.target));
  scatter.lines.steps = dims[axis];
  scatter.lines.update_step = read[axis];
  dims[axis] = 1;
  TENON_TRY(loops_over(scatter.lines, scatter.line_target));
  return add_scatter(to, node, scatter);
}

Status lower_scatter_nd(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(Scatter scatter, read_scatter(to, node));
  const Shape shape = to.program().tensor(scatter.out).shape, by = to.program().tensor(scatter.index).shape;
  const Shape updates = to.program().tensor(scatter.updates).shape;
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(node, shape, by));
  TENON_INVALID_IF(updates != desc.output, "{} has updates of {} at indices of {}.", to.label(node),
                   updates.to_string(), by.to_string());
  const int64_t slice = desc.slice, tuples = desc.tuples;
  if (slice * tuples == 0) {
    to.add_copy(node, scatter.data, scatter.out);
    return Status();
  }
  // Of no width each tuple names all of the data.
  TENON_UNSUPPORTED_IF(desc.width > kMostRank, "{} has tuples of {} indices; kernels take {}.", to.label(node),
                       desc.width, kMostRank);
  scatter.each.slice = make_divisor(slice);
  int64_t stride = slice;
  for (int64_t d = desc.width; d-- > 0; stride *= shape[static_cast<int>(d)]) {
    scatter.each.limits[d] = shape[static_cast<int>(d)];
    scatter.each.strides[d] = stride;
  }
  scatter.each.update_step = slice;
  scatter.lines = scatter.each;
  scatter.each.count = tuples * slice;
  scatter.lines.count = slice;
  scatter.lines.steps = tuples;
  scatter.target = scatter.line_target = template_instance("SliceScatter", desc.width, scatter.wide);
  return add_scatter(to, node, scatter);
}

}  // namespace tenon::cuda
