#include "ep/cuda/compute/rewrites.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "ep/cuda/compute/lowering.h"
#include "ops/attributes.h"
#include "ops/concat.h"
#include "ops/gather.h"
#include "ops/integer_inputs.h"
#include "ops/matmul.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon::cuda {

namespace {

// Reshape(Gemm(Reshape(x))), a product that some host made two-dimensional and back: a product of x as it is, so that
// what follows meets it.
bool product_of_rows(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "Reshape" || !node.domain.empty() || !rewriter.read_once(node.inputs[0])) return false;
  const Node* product = rewriter.made_by(node.inputs[0], "Gemm");
  if (product == nullptr) product = rewriter.made_by(node.inputs[0], "MatMul", "tenon");
  if (product == nullptr) return false;
  const MatMulForm form = read_matmul_form(*product);
  if (form.activated || form.residual != kNoInput || form.trans_a) return false;
  const ValueId added = product->input(form.addend);
  if (added != kNoValue && form.beta != 1) return false;
  const Node* flat = rewriter.made_by(product->inputs[0], "Reshape");
  const ConstantRef weights = rewriter.constant(product->inputs[1]), bias = rewriter.constant(added);
  if (flat == nullptr || weights == nullptr || weights->shape.rank() != 2) return false;
  const Value &x = rewriter.value(flat->inputs[0]), &y = rewriter.value(node.outputs[0]);
  if (x.type != DataType::kFloat || !x.fully_known() || !y.fully_known()) return false;
  Shape wanted = x.shape();
  if (wanted.rank() < 2 || wanted[wanted.rank() - 1] != weights->shape[form.trans_b ? 1 : 0]) return false;
  const int64_t columns = weights->shape[form.trans_b ? 0 : 1];
  wanted[wanted.rank() - 1] = columns;
  if (y.shape() != wanted) return false;
  if (added != kNoValue && (bias == nullptr || bias->shape != Shape{columns})) return false;
  Node rows = make_internal("MatMul", product->name, {flat->inputs[0], product->inputs[1]}, node.outputs);
  if (added != kNoValue) rows.inputs.push_back(added);
  write_matmul_form(form, rows);
  rewriter.replace(here, std::move(rows));
  return true;
}

// Gemm whose first input is transposed, or that adds something other than a constant row: its parts. Decided by what
// never depends on sizes, so that a claim holds for all of them.
bool parts_of_gemm(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "Gemm" || !node.domain.empty()) return false;
  const MatMulForm form = read_matmul_form(node);
  const bool turned = form.trans_a, added = form.addend != kNoInput;
  const ConstantRef bias = rewriter.constant(node.input(form.addend)), weights = rewriter.constant(node.inputs[1]);
  bool row = bias != nullptr && form.beta == 1 && bias->shape.rank() >= 1;
  if (row) {
    const int64_t columns = bias->shape[bias->shape.rank() - 1];
    row = bias->shape.element_count() == columns && columns != 1 && columns != 0;
    if (weights != nullptr && weights->shape.rank() == 2 && weights->shape[form.trans_b ? 0 : 1] == 1)
      row = bias->shape.element_count() == 1;
  }
  if (!turned && (!added || row)) return false;
  const DataType type = rewriter.value(node.outputs[0]).type;
  if (added && !row && type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16)
    return false;
  const auto value_like = [&](ValueId like, const char* what) {
    Value made = rewriter.value(like);
    made.name = node.name + ":" + rewriter.value(node.outputs[0]).name + what;
    made.constant = nullptr;
    return made;
  };
  Node product = node;
  if (turned) {
    Value a = value_like(node.inputs[0], ":turned");
    if (a.dims.size() == 2) std::swap(a.dims[0], a.dims[1]);
    const ValueId id = rewriter.add_value(std::move(a));
    Node transpose = make_node("Transpose", 13, node.name, {node.inputs[0]}, {id});
    transpose.set_ints("perm", {1, 0});
    rewriter.insert_before(here, std::move(transpose));
    product.inputs[0] = id;
    product.set_int("transA", 0);
  }
  if (added && !row) {
    const ValueId bare = rewriter.add_value(value_like(node.outputs[0], ":product"));
    product.inputs.resize(2);
    product.outputs = {bare};
    ValueId addend = node.inputs[2];
    if (form.beta != 1) {
      std::byte* bytes = nullptr;
      Result<ConstantRef> factor = make_constant(type, Shape{}, &bytes);
      if (!factor.ok()) return false;
      store_floats({&form.beta, 1}, type, bytes);
      const ValueId by = rewriter.add_constant(node.name + ":beta", *std::move(factor));
      Value scaled = value_like(node.inputs[2], ":addend");
      const ValueId to = rewriter.add_value(std::move(scaled));
      rewriter.insert_before(here, make_node("Mul", 14, node.name, {addend, by}, {to}));
      addend = to;
    }
    rewriter.insert_before(here, std::move(product));
    rewriter.replace(here, make_node("Add", 14, node.name, {bare, addend}, node.outputs));
    return true;
  }
  rewriter.replace(here, std::move(product));
  return true;
}

// A product with a vector: of a matrix of one row, or one column.
bool product_of_vector(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "MatMul" || !node.domain.empty()) return false;
  const Value &a = rewriter.value(node.inputs[0]), &b = rewriter.value(node.inputs[1]);
  if (!a.has_rank || !b.has_rank || (a.dims.size() != 1 && b.dims.size() != 1)) return false;
  Node product = node;
  std::vector<int64_t> axes;
  const auto widen = [&](size_t input, int64_t axis) {
    const ValueId from = node.inputs[input];
    Value wide = rewriter.value(from);
    wide.name = node.name + ":" + wide.name + (input == 0 ? ":row" : ":column");
    wide.constant = nullptr;
    wide.dims.insert(wide.dims.begin() + axis, Dim{.value = 1, .symbol = {}});
    const ValueId id = rewriter.add_value(std::move(wide));
    const ValueId at = rewriter.add_constant(node.name + ":axis", make_int64_constant(std::array<int64_t, 1>{axis}));
    rewriter.insert_before(here, make_node("Unsqueeze", 13, node.name, {from, at}, {id}));
    product.inputs[input] = id;
  };
  if (a.dims.size() == 1) axes.push_back(-2);
  if (b.dims.size() == 1) axes.push_back(-1);
  const bool row = a.dims.size() == 1, column = b.dims.size() == 1;
  Value matrix = rewriter.value(node.outputs[0]);
  matrix.name = node.name + ":" + matrix.name + ":matrix";
  matrix.has_rank = false;
  matrix.dims.clear();
  if (row) widen(0, 0);
  if (column) widen(1, 1);
  const ValueId whole = rewriter.add_value(std::move(matrix));
  product.outputs = {whole};
  rewriter.insert_before(here, std::move(product));
  const ValueId at = rewriter.add_constant(node.name + ":axes", make_int64_constant(axes));
  rewriter.replace(here, make_node("Squeeze", 13, node.name, {whole, at}, node.outputs));
  return true;
}

// Softmax over a dimension in the middle: over the last one of the transposed tensor. Over channels there are rows
// already.
bool softmax_in_the_middle(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if ((node.op_type != "Softmax" && node.op_type != "LogSoftmax") || !node.domain.empty() || node.since_version < 13)
    return false;
  const Value& x = rewriter.value(node.inputs[0]);
  if (!x.has_rank) return false;
  const auto rank = static_cast<int>(x.dims.size());
  const Result<int> found = read_softmax_axis(node, rank);
  if (!found.ok()) return false;
  const int axis = *found;
  if (axis >= rank - 1 || (axis == 1 && rank >= 3)) return false;
  std::vector<int64_t> perm(x.dims.size());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[axis], perm.back());
  const auto turned = [&](const char* what) {
    Value made = rewriter.value(node.inputs[0]);
    made.name = node.name + ":" + rewriter.value(node.outputs[0]).name + what;
    made.constant = nullptr;
    std::swap(made.dims[axis], made.dims.back());
    return rewriter.add_value(std::move(made));
  };
  const ValueId before = turned(":turned"), after = turned(":rows");
  Node first = make_node("Transpose", 13, node.name, {node.inputs[0]}, {before});
  first.set_ints("perm", perm);
  Node softmax = node;
  softmax.inputs = {before};
  softmax.outputs = {after};
  softmax.set_int("axis", -1);
  Node last = make_node("Transpose", 13, node.name, {after}, node.outputs);
  last.set_ints("perm", perm);
  rewriter.insert_before(here, std::move(first));
  rewriter.insert_before(here, std::move(softmax));
  rewriter.replace(here, std::move(last));
  return true;
}

// Norms of ONNX Runtime's own: an addition, and a norm of ai.onnx.
bool contrib_norm(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  const bool skips = node.domain == "com.microsoft" &&
                     (node.op_type == "SkipLayerNormalization" || node.op_type == "SkipSimplifiedLayerNormalization");
  if (!skips && !(node.domain.empty() && node.op_type == "SimplifiedLayerNormalization")) return false;
  const bool centred = node.op_type == "SkipLayerNormalization";
  const size_t sum_output = skips ? 3 : SIZE_MAX;
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (i != sum_output && node.outputs[i] != kNoValue) return false;
  if (node.outputs.empty() || node.outputs[0] == kNoValue) return false;
  ValueId x = node.inputs[0];
  if (skips) {
    const ValueId bias = node.input(centred ? 4 : 3);
    const auto sum_like = [&](const char* what) {
      Value made = rewriter.value(node.inputs[0]);
      made.name = node.name + ":" + rewriter.value(node.outputs[0]).name + what;
      made.constant = nullptr;
      return rewriter.add_value(std::move(made));
    };
    // The bias belongs to the product before, which takes it in.
    if (bias != kNoValue) {
      const ValueId biased = sum_like(":biased");
      rewriter.insert_before(here, make_node("Add", 14, node.name, {x, bias}, {biased}));
      x = biased;
    }
    const bool read = sum_output < node.outputs.size() && node.outputs[sum_output] != kNoValue;
    const ValueId sum = read ? node.outputs[sum_output] : sum_like(":sum");
    rewriter.insert_before(here, make_node("Add", 14, node.name, {x, node.inputs[1]}, {sum}));
    x = sum;
  }
  const Attributes attributes(node);
  const ValueId scale = node.inputs[skips ? 2 : 1];
  Node norm = centred ? make_node("LayerNormalization", 17, node.name, {x, scale}, {node.outputs[0]})
                      : make_node("RMSNormalization", 23, node.name, {x, scale}, {node.outputs[0]});
  if (centred && node.input(3) != kNoValue) norm.inputs.push_back(node.inputs[3]);
  norm.set_int("axis", skips ? -1 : attributes.integer("axis"));
  norm.set_float("epsilon", attributes.number("epsilon"));
  rewriter.replace(here, std::move(norm));
  return true;
}

// LayerNormalization whose bias has another shape than its scale: the norm, and an addition that broadcasts.
bool bias_apart(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "LayerNormalization" || !node.domain.empty() || node.input(2) == kNoValue) return false;
  const Value &scale = rewriter.value(node.inputs[1]), &bias = rewriter.value(node.inputs[2]);
  if (!scale.fully_known() || !bias.fully_known() || scale.shape() == bias.shape()) return false;
  Node norm = node;
  Value made = rewriter.value(node.outputs[0]);
  made.name = node.name + ":" + made.name + ":bare";
  norm.inputs.resize(2);
  norm.outputs[0] = rewriter.add_value(std::move(made));
  const ValueId bare = norm.outputs[0];
  rewriter.insert_before(here, std::move(norm));
  rewriter.replace(here, make_node("Add", 14, node.name, {bare, node.inputs[2]}, {node.outputs[0]}));
  return true;
}

// A factor for each column behind a product with constant weights: part of the weights and the bias. Not one that takes
// weights of 16 bits where numbers are few.
bool scale_into_product(Rewriter& rewriter, NodeId here, DataType half) {
  constexpr float kLeast = 0x1p-6F, kMost = 0x1p6F;
  const Node node = rewriter.node(here);
  if (node.op_type != "Mul" || !node.domain.empty() || node.inputs.size() != 2) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ValueId made = node.inputs[side];
    const Node* const product = rewriter.made_by(made, "MatMul", "tenon");
    const ConstantRef factors = rewriter.constant(node.inputs[1 - side]);
    if (product == nullptr || factors == nullptr || factors->type != DataType::kFloat || !rewriter.read_once(made))
      continue;
    const MatMulForm form = read_matmul_form(*product);
    const ConstantRef weights = rewriter.constant(product->input(form.b)),
                      bias = rewriter.constant(product->input(form.addend));
    const Value& y = rewriter.value(made);
    if (form.activated || product->input(form.residual) != kNoValue || form.beta != 1 || weights == nullptr ||
        weights->type != DataType::kFloat || weights->shape.rank() != 2 || !y.has_rank ||
        (product->input(form.addend) != kNoValue && (bias == nullptr || bias->type != DataType::kFloat)))
      continue;
    const int64_t rows = weights->shape[0], width = weights->shape[1], columns = form.trans_b ? rows : width;
    const int last = factors->shape.rank() - 1;
    if (last < 0 || factors->shape.rank() > static_cast<int>(y.dims.size()) || factors->shape[last] != columns ||
        factors->shape.element_count() != columns || (bias != nullptr && bias->shape.element_count() != columns))
      continue;
    const std::span<const float> each = factors->as<float>();
    if (half == DataType::kFloat16 && !std::all_of(each.begin(), each.end(), [](float factor) {
          return std::fabs(factor) >= kLeast && std::fabs(factor) <= kMost;
        }))
      continue;
    if (!rewriter.may_make(weights->size_bytes)) return false;
    std::byte *bytes = nullptr, *bias_bytes = nullptr;
    Result<ConstantRef> scaled = make_constant(DataType::kFloat, weights->shape, &bytes);
    if (!scaled.ok()) return false;
    const std::span<const float> from = weights->as<float>();
    auto* const to = reinterpret_cast<float*>(bytes);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < width; ++c) to[r * width + c] = from[r * width + c] * each[form.trans_b ? r : c];
    Node whole = *product;
    whole.outputs = node.outputs;
    whole.inputs[form.b] = rewriter.add_constant(node.name + ":weights", *std::move(scaled));
    if (bias != nullptr) {
      Result<ConstantRef> shifted = make_constant(DataType::kFloat, bias->shape, &bias_bytes);
      if (!shifted.ok()) return false;
      for (int64_t c = 0; c < columns; ++c) reinterpret_cast<float*>(bias_bytes)[c] = bias->as<float>()[c] * each[c];
      whole.inputs[form.addend] = rewriter.add_constant(node.name + ":bias", *std::move(shifted));
    }
    rewriter.replace(here, std::move(whole));
    return true;
  }
  return false;
}

// x + Transpose(product) of images, where x was transposed so too, or lies with channels last in any case: the product
// adds x to its rows before they get another name.
bool residual_through_transpose(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "Add" || !node.domain.empty() || node.inputs.size() != 2) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ValueId turned = node.inputs[side], x = node.inputs[1 - side];
    const Node* const transpose = rewriter.made_by(turned, "Transpose");
    if (transpose == nullptr || !rewriter.read_once(turned) || !rewriter.same_shape(turned, x) ||
        !rewriter.same_shape(turned, node.outputs[0]))
      continue;
    const Node* const product = rewriter.made_by(transpose->inputs[0], "MatMul", "tenon");
    if (product == nullptr || !rewriter.read_once(transpose->inputs[0]) || product->input(3) != kNoValue) continue;
    const std::span<const int64_t> given = Attributes(*transpose).integers("perm");
    const std::vector<int64_t> perm(given.begin(), given.end());
    const auto rank = static_cast<int64_t>(perm.size());
    bool to_channels_first = rank >= 3 && perm[0] == 0 && perm[1] == rank - 1;
    for (int64_t d = 2; d < rank; ++d) to_channels_first = to_channels_first && perm[d] == d - 1;
    if (!to_channels_first) continue;
    const Node* const other = rewriter.made_by(x, "Transpose");
    ValueId residual = kNoValue;
    Value rows = rewriter.value(transpose->inputs[0]);
    if (other != nullptr && std::ranges::equal(Attributes(*other).integers("perm"), perm)) {
      residual = other->inputs[0];
    } else if (rewriter.made_by(x, "Conv", "tenon") != nullptr) {
      Value back = rows;
      back.name = node.name + ":" + rewriter.value(x).name + ":rows";
      residual = rewriter.add_value(std::move(back));
      Node turn = make_node("Transpose", 13, node.name, {x}, {residual});
      std::vector<int64_t> inverse = {0};
      for (int64_t d = 2; d < rank; ++d) inverse.push_back(d);
      inverse.push_back(1);
      turn.set_ints("perm", inverse);
      rewriter.insert_before(here, std::move(turn));
    } else {
      continue;
    }
    rows.name = node.name + ":" + rows.name + ":sum";
    Node last = *transpose, sum = *product;
    const ValueId added = rewriter.add_value(std::move(rows));
    sum.inputs.resize(4, kNoValue);
    sum.inputs[3] = residual;
    sum.outputs = {added};
    if (has_activation(sum)) sum.set_int("residual_after", 1);
    rewriter.insert_before(here, std::move(sum));
    last.inputs = {added};
    last.outputs = node.outputs;
    rewriter.replace(here, std::move(last));
    return true;
  }
  return false;
}

// GatherND of whole elements at constant indices: a Gather from the flat tensor.
bool flat_gather(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "GatherND" || !node.domain.empty()) return false;
  const ConstantRef indices = rewriter.constant(node.input(1));
  const Value& data = rewriter.value(node.inputs[0]);
  if (indices == nullptr || indices->type != DataType::kInt64 || indices->shape.rank() < 1 || !data.fully_known())
    return false;
  const Shape shape = data.shape();
  const Result<GatherNdDesc> desc = read_gather_nd(node, shape, indices->shape);
  if (!desc.ok() || desc->batch_rank != 0 || desc->width != shape.rank()) return false;
  const size_t depth = desc->width;
  const std::span<const int64_t> values = indices->as<int64_t>();
  Shape out_shape;
  for (int i = 0; i + 1 < indices->shape.rank(); ++i) out_shape.push_back(indices->shape[i]);
  std::byte* bytes = nullptr;
  Result<ConstantRef> flat = make_constant(DataType::kInt64, out_shape, &bytes);
  if (!flat.ok()) return false;
  auto* const out = reinterpret_cast<int64_t*>(bytes);
  for (size_t i = 0; i < values.size() / depth; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < depth; ++d) {
      const int64_t dim = shape[static_cast<int>(d)], index_of_dim = values[i * depth + d];
      if (index_of_dim < -dim || index_of_dim >= dim) return false;
      at = at * dim + (index_of_dim < 0 ? index_of_dim + dim : index_of_dim);
    }
    out[i] = at;
  }
  Value flattened = data;
  flattened.name += ":flat";
  flattened.constant = nullptr;
  flattened.set_shape(Shape{shape.element_count()});
  const ValueId flat_id = rewriter.add_value(std::move(flattened));
  const ValueId size = rewriter.add_constant(node.name + ":size", make_int64_constant(std::array<int64_t, 1>{-1}));
  rewriter.insert_before(here, make_node("Reshape", 14, node.name + ":flat", {node.inputs[0], size}, {flat_id}));
  Node gather = make_node("Gather", 13, node.name,
                          {flat_id, rewriter.add_constant(node.name + ":offsets", *std::move(flat))}, node.outputs);
  gather.set_int("axis", 0);
  rewriter.replace(here, std::move(gather));
  return true;
}

// Where a slice of `x` along `axis` alone begins, and its end; nullopt for any other node.
std::optional<std::pair<int64_t, int64_t>> range_along(const Rewriter& rewriter, const Node* slice, const Shape& x,
                                                       int axis) {
  if (slice == nullptr) return std::nullopt;
  const Result<SliceDesc> desc = read_slice(*slice, x, constant_integers(rewriter.graph(), *slice));
  if (!desc.ok()) return std::nullopt;
  for (int i = 0; i < x.rank(); ++i) {
    const SliceRange& range = desc->ranges[i];
    if (range.step != 1 || (i != axis && range.count != x[i])) return std::nullopt;
  }
  return std::pair(desc->ranges[axis].start, desc->ranges[axis].start + desc->ranges[axis].count);
}

// Concat(Slice(x, from k on), Slice(x, up to k)), a roll of windows: one Gather.
bool roll_of_slices(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "Concat" || !node.domain.empty() || node.inputs.size() != 2) return false;
  const Node *const behind = rewriter.made_by(node.inputs[0], "Slice"), *const before =
                                                                            rewriter.made_by(node.inputs[1], "Slice");
  if (behind == nullptr || before == nullptr || behind->inputs[0] != before->inputs[0]) return false;
  if (!rewriter.read_once(node.inputs[0]) || !rewriter.read_once(node.inputs[1])) return false;
  const Value& x = rewriter.value(behind->inputs[0]);
  if (!x.fully_known()) return false;
  const Shape shape = x.shape();
  const Result<int> axis = read_concat_axis(node, shape.rank());
  if (!axis.ok()) return false;
  const auto last = range_along(rewriter, behind, shape, *axis), first = range_along(rewriter, before, shape, *axis);
  if (!last || !first || first->first != 0 || first->second != last->first || last->second != shape[*axis])
    return false;
  std::vector<int64_t> places(shape[*axis]);
  std::iota(places.begin(), places.end(), int64_t{0});
  std::rotate(places.begin(), places.begin() + last->first, places.end());
  const std::string name = rewriter.value(node.outputs[0]).name + ":places";
  Node roll = make_node("Gather", 13, node.name,
                        {behind->inputs[0], rewriter.add_constant(name, make_int64_constant(places))}, node.outputs);
  roll.set_int("axis", *axis);
  rewriter.replace(here, std::move(roll));
  return true;
}

}  // namespace

void split_skips(Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node node = rewriter.node(i);
    if (node.domain != "tenon" || node.op_type != "LayerNorm" || node.input(1) == kNoValue ||
        Attributes(node).flag("subtract_mean"))
      continue;
    const bool read = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
    Value made = rewriter.value(node.outputs[0]);
    made.name = node.name + ":" + made.name + ":sum";
    const ValueId sum = read ? node.outputs[1] : rewriter.add_value(std::move(made));
    rewriter.insert_before(i, make_node("Add", 14, node.name, {node.inputs[0], node.inputs[1]}, {sum}));
    Node norm = node;
    norm.inputs[0] = sum;
    norm.inputs[1] = kNoValue;
    norm.outputs.resize(1);
    rewriter.replace(i, std::move(norm));
  }
  rewriter.finish();
}

void leave_gates(Graph& graph) {
  // Of fewer rows one kernel computes both products and the gate (matmul/few_rows.h).
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node gate = rewriter.node(i);
    if (gate.op_type != "Mul" || !gate.domain.empty()) continue;
    for (size_t input = 0; input < 2; ++input) {
      const ValueId activated = gate.inputs[input], other = gate.inputs[1 - input];
      const Node* const product = rewriter.made_by(activated, "MatMul", "tenon");
      if (product == nullptr || !rewriter.read_once(activated) || !rewriter.same_shape(activated, other) ||
          rewriter.constant(other) != nullptr)
        continue;
      const Result<Epilogue> epilogue = read_epilogue(*product);
      const Value& value = rewriter.value(activated);
      if (!epilogue.ok() || epilogue->residual_after || epilogue->activation == Activation::kNone ||
          epilogue->activation == Activation::kRelu || epilogue->activation == Activation::kGelu ||
          epilogue->activation == Activation::kGeluTanh || !value.fully_known())
        continue;
      const Shape shape = value.shape();
      const int64_t columns = shape.rank() > 0 ? shape[shape.rank() - 1] : 0;
      if (columns == 0 || shape.element_count() / columns <= kMostFewRows) continue;
      Node bare = *product, gated = gate;
      Value made = value;
      made.name = gate.name + ":" + made.name + ":bare";
      const ValueId sum = rewriter.add_value(made);
      made.name += ":activated";
      Node activation = make_internal("Activation", product->name, {sum}, {rewriter.add_value(std::move(made))});
      write_activation(activation, *epilogue);
      write_activation(bare, {});
      bare.outputs = {sum};
      gated.inputs[input] = activation.outputs[0];
      rewriter.insert_before(i, std::move(bare));
      rewriter.insert_before(i, std::move(activation));
      rewriter.replace(i, std::move(gated));
      break;
    }
  }
  rewriter.finish();
}

void join_scales(Graph& graph, DataType half) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids())
    if (!rewriter.erased(i)) (void)scale_into_product(rewriter, i, half);
  rewriter.finish();
}

void join_images(Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids())
    if (!rewriter.erased(i))
      (void)(group_norm_of_reshapes(rewriter, i) || scale_into_group_norm(rewriter, i) ||
             residual_through_transpose(rewriter, i) || roll_of_slices(rewriter, i));
  rewriter.finish();
}

Status run_rewrites(Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    // A node without its first output has none of these forms.
    if (rewriter.node(i).outputs.empty() || rewriter.node(i).outputs[0] == kNoValue) continue;
    (void)(contrib_norm(rewriter, i) || bias_apart(rewriter, i) || hoist_factors(rewriter, i, true) ||
           product_of_rows(rewriter, i) || flat_gather(rewriter, i) || group_norm_of_reshapes(rewriter, i) ||
           scale_into_group_norm(rewriter, i) || parts_of_gemm(rewriter, i) || product_of_vector(rewriter, i) ||
           softmax_in_the_middle(rewriter, i));
  }
  rewriter.finish();
  return Status();
}

}  // namespace tenon::cuda
