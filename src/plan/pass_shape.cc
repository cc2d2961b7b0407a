// Passes over Reshape, Transpose and other operators that change shapes only.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/shape_inference.h"
#include "ops/transpose.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

std::optional<std::vector<int64_t>> axes_of(const Rewriter& rewriter, const Node& node) {
  const Result<std::vector<int64_t>> given = read_squeeze_axes(node, constant_integers(rewriter.graph(), node));
  const Value& x = rewriter.value(node.inputs[0]);
  if (!given.ok() || given->empty() || !x.has_rank) return std::nullopt;
  const Result<AxisSet> set = axis_set(*given, static_cast<int>(x.dims.size()));
  if (!set.ok()) return std::nullopt;
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < x.dims.size(); ++axis)
    if (set->test(axis)) axes.push_back(static_cast<int64_t>(axis));
  return axes;
}

// The dimensions of 1 that `to` lacks of `from`, both known; nullopt when more than that differs.
std::optional<std::vector<int64_t>> dropped_ones(const Value& from, const Value& to) {
  if (!from.fully_known() || !to.fully_known()) return std::nullopt;
  std::vector<int64_t> axes;
  size_t next = 0;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (next < to.dims.size() && from.dims[i].value == to.dims[next].value) {
      ++next;
    } else if (from.dims[i].value == 1) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      return std::nullopt;
    }
  }
  return next == to.dims.size() ? std::optional(axes) : std::nullopt;
}

// The axes that a Squeeze, or a Reshape that is one, drops; nullopt for any other node.
std::optional<std::vector<int64_t>> squeezed_axes(const Rewriter& rewriter, ValueId id) {
  if (const Node* squeeze = rewriter.made_by(id, "Squeeze")) return axes_of(rewriter, *squeeze);
  const Node* reshape = rewriter.made_by(id, "Reshape");
  if (!reshape || !rewriter.constant(reshape->inputs[1])) return std::nullopt;
  return dropped_ones(rewriter.value(reshape->inputs[0]), rewriter.value(id));
}

// A constant of the squeezed rank with ones put back at `axes`; a scalar stays.
ConstantRef unsqueezed(const ConstantRef& constant, size_t squeezed_rank, const std::vector<int64_t>& axes) {
  if (constant->shape.rank() == 0) return constant;
  if (constant->shape.dims().size() != squeezed_rank) return nullptr;
  if (squeezed_rank + axes.size() > Shape::kMaxRank) return nullptr;
  auto view = std::make_shared<Constant>(*constant);
  view->shape = Shape();
  int next = 0;
  for (size_t i = 0; i < squeezed_rank + axes.size(); ++i) {
    const bool put_back = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    view->shape.push_back(put_back ? 1 : constant->shape[next++]);
  }
  return view;
}

bool is_global_pool(const Node& node) {
  return node.domain.empty() && (node.op_type == "GlobalMaxPool" || node.op_type == "GlobalAveragePool");
}

// A pool over fewer spatial dimensions of the same elements is the same pool.
bool drops_spatial_only(const Rewriter& rewriter, ValueId squeezed) {
  std::optional<std::vector<int64_t>> axes = squeezed_axes(rewriter, squeezed);
  return axes && std::all_of(axes->begin(), axes->end(), [](int64_t axis) { return axis >= 2; });
}

}  // namespace

Status pass_fold(Graph& graph, const PassOptions& options) {
  return fold_constants(graph, options.evaluate, {.keep_bytes = true, .only_known_sizes = options.only_known_sizes});
}

Status pass_dequantize_weights(Graph& graph, const PassOptions& options) {
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.op_type == "DequantizeLinear" && node.domain.empty() && graph.value(node.inputs[0]).constant != nullptr;
  });
  return any ? fold_constants(graph, options.evaluate) : Status();
}

// op(Squeeze(x)) becomes Squeeze(op(x)), also where a Reshape is a Squeeze, for global pools, activations and
// operations with constants, so that they meet the convolution before the Squeeze.
Status pass_sink_squeeze(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (node.outputs.size() != 1 || node.inputs.empty()) continue;
    ValueId squeezed = kNoValue, constant = kNoValue;
    if (node.domain == "tenon" && node.op_type == "Activation") {
      squeezed = node.inputs[0];
    } else if (is_global_pool(node)) {
      squeezed = node.inputs[0];
      if (!drops_spatial_only(rewriter, squeezed)) continue;
    } else if (node.domain.empty() && (node.op_type == "Add" || node.op_type == "Mul" || node.op_type == "Sub")) {
      auto parts = split_operands(node, [&](ValueId a, ValueId b) {
        return rewriter.constant(a) != nullptr && squeezed_axes(rewriter, b).has_value();
      });
      if (!parts) continue;
      std::tie(constant, squeezed) = *parts;
    } else {
      continue;
    }
    std::optional<std::vector<int64_t>> axes = squeezed_axes(rewriter, squeezed);
    if (!axes || axes->empty() || !rewriter.read_once(squeezed)) continue;
    const Node squeeze = *rewriter.producer(squeezed);
    const Value& x = rewriter.value(squeeze.inputs[0]);
    const Value y = rewriter.value(node.outputs[0]);
    if (!y.has_rank || y.dims.size() + axes->size() != x.dims.size()) continue;
    // A Reshape names its shape: the one after a pool is that of the pool.
    const bool pool = is_global_pool(node);
    if (pool && !y.fully_known()) continue;
    Value inner = x;
    if (pool)
      for (size_t axis = 2; axis < inner.dims.size(); ++axis) inner.dims[axis] = Dim{.value = 1, .symbol = {}};
    inner.name = y.name + ":unsqueezed";
    inner.constant = nullptr;
    inner.layout = Layout::kPlain;
    Node operation = node;
    for (ValueId& id : operation.inputs) {
      if (id == squeezed) id = squeeze.inputs[0];
    }
    if (constant != kNoValue) {
      ConstantRef view = unsqueezed(rewriter.constant(constant), y.dims.size(), *axes);
      // The constant must not enlarge what it meets: the Squeeze afterwards would then be another one.
      if (!view || !rewriter.same_shape(squeezed, node.outputs[0])) continue;
      const ValueId id = view == rewriter.constant(constant)
                             ? constant
                             : rewriter.add_constant(rewriter.value(constant).name + ":unsqueezed", std::move(view));
      for (ValueId& input : operation.inputs)
        if (input == constant) input = id;
    }
    const ValueId inner_id = rewriter.add_value(std::move(inner));
    operation.outputs = {inner_id};
    Node after = squeeze;
    after.inputs[0] = inner_id;
    after.outputs = node.outputs;
    if (pool && after.op_type == "Reshape") {
      std::vector<int64_t> dims;
      dims.reserve(y.dims.size());
      for (const Dim& dim : y.dims) dims.push_back(dim.value);
      write_reshape(after, inner_id, rewriter.add_constant(y.name + ":shape", make_int64_constant(dims)));
    }
    rewriter.insert_before(i, std::move(operation));
    rewriter.replace(i, std::move(after));
  }
  rewriter.finish();
  return {};
}

// ReduceMean over every spatial dimension.
Status pass_global_pool(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.op_type != "ReduceMean") continue;
    if (!rewriter.is_float(node.inputs[0])) continue;
    const Value& x = rewriter.value(node.inputs[0]);
    const std::optional<ReduceDesc> mean = constant_reduce(rewriter, node);
    if (!mean || !mean->keepdims || !x.has_rank || x.dims.size() < 3) continue;
    const Result<AxisSet> axes = reduced_axes(mean->axes, mean->noop_with_empty_axes, static_cast<int>(x.dims.size()));
    AxisSet spatial;
    for (size_t d = 2; d < x.dims.size(); ++d) spatial.set(d);
    if (!axes.ok() || *axes != spatial) continue;
    Node pool;
    pool.name = node.name;
    pool.op_type = "GlobalAveragePool";
    pool.since_version = 1;
    pool.inputs = {node.inputs[0]};
    pool.outputs = node.outputs;
    rewriter.replace(i, std::move(pool));
  }
  rewriter.finish();
  return {};
}

// (x + c) + d becomes x + (c + d).
Status pass_join_constant_adds(Graph& graph, const PassOptions& options) {
  if (!options.evaluate) return {};
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    auto constant_and_add = [&](const Node& add) {
      return split_operands(add, [&](ValueId a, ValueId b) { return rewriter.constant(a) && !rewriter.constant(b); });
    };
    if (!node.domain.empty() || node.op_type != "Add" || !rewriter.is_float(node.outputs[0])) continue;
    auto outer = constant_and_add(node);
    if (!outer || !rewriter.read_once(outer->second)) continue;
    const Node* inner_add = rewriter.made_by(outer->second, "Add");
    if (!inner_add) continue;
    auto inner = constant_and_add(*inner_add);
    // Neither step may broadcast x, else the sum of the constants could be larger than what it replaces.
    if (!inner || !rewriter.same_shape(inner->second, node.outputs[0])) continue;
    Node sum = node;
    sum.inputs = {inner->first, outer->first};
    Value joined;
    joined.name = rewriter.value(node.outputs[0]).name + ":constants";
    joined.type = DataType::kFloat;
    sum.outputs = {rewriter.add_value(std::move(joined))};
    TENON_TRY(infer_node(graph, sum));
    Result<std::vector<ConstantRef>> value = options.evaluate(graph, sum);
    if (!value.ok() || value->empty() || !(*value)[0]) continue;
    Node add = node;
    add.inputs = {inner->second, rewriter.add_constant(rewriter.value(node.outputs[0]).name + ":addend", (*value)[0])};
    rewriter.replace(i, std::move(add));
  }
  rewriter.finish();
  return {};
}

// x + x * s becomes x * (s + 1) where s is much smaller than x (the gate of a squeeze-and-excitation block): one pass
// over x instead of two.
Status pass_scale_shortcuts(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& add = rewriter.node(i);
    if (!add.domain.empty() || add.op_type != "Add" || !rewriter.is_float(add.outputs[0])) continue;
    auto parts = split_operands(add, [&](ValueId a, ValueId b) {
      const Node* mul = rewriter.made_by(a, "Mul");
      return mul && rewriter.read_once(a) && mul->inputs.size() == 2 && (mul->inputs[0] == b || mul->inputs[1] == b);
    });
    if (!parts) continue;
    const ValueId x = parts->second;
    const Node* mul = rewriter.made_by(parts->first, "Mul");
    const ValueId gate = mul->inputs[0] == x ? mul->inputs[1] : mul->inputs[0];
    if (gate == x || !rewriter.same_shape(x, add.outputs[0])) continue;
    if (!rewriter.value(x).fully_known() || !rewriter.value(gate).fully_known()) continue;
    Result<int64_t> large = rewriter.value(x).shape().checked_element_count();
    Result<int64_t> small = rewriter.value(gate).shape().checked_element_count();
    if (!large.ok() || !small.ok() || *small > *large / 8) continue;
    // An infinity minus a part of itself is NaN, and times (1 - that part) is not.
    if (const ConstantRef& factors = rewriter.constant(gate);
        factors &&
        !std::all_of(factors->as<float>().begin(), factors->as<float>().end(), [](float f) { return f > 0; }))
      continue;
    std::byte* data = nullptr;
    TENON_TRY_ASSIGN(ConstantRef one, make_constant(DataType::kFloat, Shape(), &data));
    *reinterpret_cast<float*>(data) = 1.0f;
    Value raised = rewriter.value(gate);
    raised.name += ":plus_one";
    raised.constant = nullptr;
    Node sum = add;
    Node product = *mul;
    sum.inputs = {gate, rewriter.add_constant(raised.name + ":one", std::move(one))};
    sum.outputs = {rewriter.add_value(std::move(raised))};
    product.inputs = {x, sum.outputs[0]};
    product.outputs = add.outputs;
    rewriter.insert_before(i, std::move(sum));
    rewriter.replace(i, std::move(product));
  }
  rewriter.finish();
  return {};
}

// Transpose(Reshape(x)) where the Reshape only adds dimensions of 1 becomes Reshape(Transpose(x)), so that the
// Transpose meets the one before x.
Status pass_transpose_before_unsqueeze(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& transpose = rewriter.node(i);
    if (!transpose.domain.empty() || transpose.op_type != "Transpose") continue;
    const Node* reshape = rewriter.made_by(transpose.inputs[0], "Reshape");
    if (!reshape || !rewriter.read_once(transpose.inputs[0])) continue;
    const ValueId x = reshape->inputs[0];
    if (!rewriter.made_by(x, "Transpose") || !rewriter.value(transpose.outputs[0]).fully_known()) continue;
    std::optional<std::vector<int64_t>> added = dropped_ones(rewriter.value(transpose.inputs[0]), rewriter.value(x));
    const auto perm = read_perm(transpose, static_cast<int>(rewriter.value(transpose.inputs[0]).dims.size()));
    if (!added || !perm.ok()) continue;
    std::vector<int64_t> inner;
    Value moved = rewriter.value(x);
    moved.name = rewriter.value(transpose.outputs[0]).name + ":moved";
    moved.dims.clear();
    for (int64_t from : *perm) {
      if (std::find(added->begin(), added->end(), from) != added->end()) continue;
      inner.push_back(from - std::count_if(added->begin(), added->end(), [&](int64_t axis) { return axis < from; }));
      moved.dims.push_back(rewriter.value(x).dims[inner.back()]);
    }
    std::vector<int64_t> dims;
    for (const Dim& dim : rewriter.value(transpose.outputs[0]).dims) dims.push_back(dim.value);
    Node first = transpose, second = *reshape;
    first.set_ints("perm", std::move(inner));
    first.inputs = {x};
    first.outputs = {rewriter.add_value(std::move(moved))};
    write_reshape(
        second, first.outputs[0],
        rewriter.add_constant(rewriter.value(transpose.outputs[0]).name + ":shape", make_int64_constant(dims)));
    second.outputs = transpose.outputs;
    rewriter.insert_before(i, std::move(first));
    rewriter.replace(i, std::move(second));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
