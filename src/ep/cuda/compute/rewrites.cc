#include "ep/cuda/compute/rewrites.h"

#include <algorithm>
#include <optional>

#include "plan/pass_rewriter.h"

namespace tenon::cuda {

namespace {

Node make_node(std::string op_type, int since, std::string name, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = since;
  node.name = std::move(name);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

// Where(IsNaN(p), 0, p) with p = Softmax(x): a softmax that gives zeros where everything is masked.
bool guarded_softmax(Rewriter& rewriter, size_t index) {
  const Node node = rewriter.node(index);
  if (node.op_type != "Where" || !node.domain.empty() || node.inputs.size() != 3) return false;
  const Node* test = rewriter.made_by(node.inputs[0], "IsNaN");
  const Node* softmax = rewriter.made_by(node.inputs[2], "Softmax");
  if (test == nullptr || softmax == nullptr || test->inputs[0] != node.inputs[2]) return false;
  if (rewriter.scalar(node.inputs[1]) != 0.0F || rewriter.is_output(node.inputs[2])) return false;
  if (rewriter.uses(node.inputs[2]) != 2 || !rewriter.read_once(node.inputs[0])) return false;
  Node guarded = *softmax;
  guarded.outputs = node.outputs;
  guarded.set_int("guarded", 1);
  rewriter.replace(index, std::move(guarded));
  return true;
}

// MatMul(a * c, b * d) with numbers c and d: MatMul(a, b) * (c * d).
bool hoist_factors(Rewriter& rewriter, size_t index) {
  const Node node = rewriter.node(index);
  const bool internal = node.domain == "tenon";
  if (node.op_type != "MatMul" || (!internal && !node.domain.empty())) return false;
  if (internal && (node.inputs.size() > 2 || node.has("activation"))) return false;
  float factor = 1;
  std::vector<ValueId> inputs = node.inputs;
  for (ValueId& id : inputs) {
    const Node* mul = rewriter.made_by(id, "Mul");
    if (mul == nullptr || !rewriter.read_once(id)) continue;
    const auto parts =
        split_operands(*mul, [&](ValueId a, ValueId b) { return rewriter.scalar_beside(a, b).has_value(); });
    if (!parts) continue;
    factor *= *rewriter.scalar(parts->first);
    id = parts->second;
  }
  if (inputs == node.inputs) return false;
  Node product = make_internal("MatMul", node.name, inputs, node.outputs);
  if (const Attribute* transposed = node.find("trans_b")) product.attributes.push_back(*transposed);
  product.set_float("alpha", factor * node.float_or("alpha", 1));
  rewriter.replace(index, std::move(product));
  return true;
}

// Reshape(Transpose(Reshape(x), [0,2,1])), heads taken into the batch and back: Transpose(x, [0,1,3,2]).
bool transpose_of_heads(Rewriter& rewriter, size_t index) {
  const Node node = rewriter.node(index);
  if (node.op_type != "Reshape" || !node.domain.empty() || node.outputs.size() != 1) return false;
  const Node* transpose = rewriter.made_by(node.inputs[0], "Transpose");
  if (transpose == nullptr || !rewriter.read_once(node.inputs[0])) return false;
  const auto perm = transpose->ints("perm");
  if (perm.size() != 3 || perm[0] != 0 || perm[1] != 2 || perm[2] != 1) return false;
  const Node* inner = rewriter.made_by(transpose->inputs[0], "Reshape");
  if (inner == nullptr || !rewriter.read_once(transpose->inputs[0])) return false;
  const Value &x = rewriter.value(inner->inputs[0]), &y = rewriter.value(node.outputs[0]);
  const Value& middle = rewriter.value(transpose->inputs[0]);
  if (!x.fully_known() || !y.fully_known() || !middle.fully_known()) return false;
  const Shape from = x.shape(), to = y.shape(), between = middle.shape();
  if (from.rank() != 4 || to.rank() != 4 || between.rank() != 3) return false;
  if (between != Shape{from[0] * from[1], from[2], from[3]} || to != Shape{from[0], from[1], from[3], from[2]})
    return false;
  Node turned = make_node("Transpose", 13, node.name, {inner->inputs[0]}, node.outputs);
  turned.set_ints("perm", {0, 1, 3, 2});
  rewriter.replace(index, std::move(turned));
  return true;
}

// Reshape(Gemm(Reshape(x))), a product that some host made two-dimensional and back: a product of x as it is, so that
// what follows meets it.
bool product_of_rows(Rewriter& rewriter, size_t index) {
  const Node node = rewriter.node(index);
  if (node.op_type != "Reshape" || !node.domain.empty() || !rewriter.read_once(node.inputs[0])) return false;
  const Node* product = rewriter.made_by(node.inputs[0], "Gemm");
  if (product == nullptr) product = rewriter.made_by(node.inputs[0], "MatMul", "tenon");
  if (product == nullptr || product->has("activation") || product->input(3) != kNoValue) return false;
  const bool gemm = product->op_type == "Gemm";
  if (gemm && (product->int_or("transA", 0) != 0 || product->float_or("beta", 1) != 1)) return false;
  const Node* flat = rewriter.made_by(product->inputs[0], "Reshape");
  const ConstantRef weights = rewriter.constant(product->inputs[1]), bias = rewriter.constant(product->input(2));
  if (flat == nullptr || weights == nullptr || weights->shape.rank() != 2) return false;
  const Value &x = rewriter.value(flat->inputs[0]), &y = rewriter.value(node.outputs[0]);
  if (x.type != DataType::kFloat || !x.fully_known() || !y.fully_known()) return false;
  const bool transposed = product->int_or(gemm ? "transB" : "trans_b", 0) != 0;
  Shape wanted = x.shape();
  if (wanted.rank() < 2 || wanted[wanted.rank() - 1] != weights->shape[transposed ? 1 : 0]) return false;
  const int64_t columns = weights->shape[transposed ? 0 : 1];
  wanted[wanted.rank() - 1] = columns;
  if (y.shape() != wanted) return false;
  if (product->input(2) != kNoValue && (bias == nullptr || bias->shape != Shape{columns})) return false;
  Node rows = make_internal("MatMul", product->name, {flat->inputs[0], product->inputs[1]}, node.outputs);
  if (product->input(2) != kNoValue) rows.inputs.push_back(product->inputs[2]);
  if (transposed) rows.set_int("trans_b", 1);
  if (const float alpha = product->float_or("alpha", 1); alpha != 1) rows.set_float("alpha", alpha);
  rewriter.replace(index, std::move(rows));
  return true;
}

// GatherND of whole elements at constant places: a Gather from the flat tensor.
bool flat_gather(Rewriter& rewriter, size_t index) {
  const Node node = rewriter.node(index);
  if (node.op_type != "GatherND" || !node.domain.empty() || node.int_or("batch_dims", 0) != 0) return false;
  const ConstantRef indices = rewriter.constant(node.input(1));
  const Value& data = rewriter.value(node.inputs[0]);
  if (indices == nullptr || indices->type != DataType::kInt64 || indices->shape.rank() < 1 || !data.fully_known())
    return false;
  const Shape shape = data.shape();
  const auto depth = static_cast<size_t>(shape.rank());
  if (depth == 0 || indices->shape[indices->shape.rank() - 1] != shape.rank()) return false;
  const std::span<const int64_t> places = indices->as<int64_t>();
  Shape out_shape;
  for (int i = 0; i + 1 < indices->shape.rank(); ++i) out_shape.push_back(indices->shape[i]);
  std::byte* bytes = nullptr;
  Result<ConstantRef> flat = make_constant(DataType::kInt64, out_shape, &bytes);
  if (!flat.ok()) return false;
  auto* const out = reinterpret_cast<int64_t*>(bytes);
  for (size_t i = 0; i < places.size() / depth; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < depth; ++d) {
      const int64_t dim = shape[static_cast<int>(d)], place = places[i * depth + d];
      if (place < -dim || place >= dim) return false;
      at = at * dim + (place < 0 ? place + dim : place);
    }
    out[i] = at;
  }
  Value flattened = data;
  flattened.name += ":flat";
  flattened.constant = nullptr;
  flattened.set_shape(Shape{shape.element_count()});
  const ValueId flat_id = rewriter.add_value(std::move(flattened));
  const ValueId size = rewriter.add_constant(node.name + ":size", make_int64_constant(std::array<int64_t, 1>{-1}));
  rewriter.insert_before(index, make_node("Reshape", 14, node.name + ":flat", {node.inputs[0], size}, {flat_id}));
  Node gather = make_node("Gather", 13, node.name,
                          {flat_id, rewriter.add_constant(node.name + ":places", *std::move(flat))}, node.outputs);
  gather.set_int("axis", 0);
  rewriter.replace(index, std::move(gather));
  return true;
}

}  // namespace

Status run_rewrites(Graph& graph) {
  Rewriter rewriter(graph);
  for (size_t i = 0; i < rewriter.size(); ++i) {
    if (rewriter.erased(i)) continue;
    (void)(guarded_softmax(rewriter, i) || hoist_factors(rewriter, i) || transpose_of_heads(rewriter, i) ||
           product_of_rows(rewriter, i) || flat_gather(rewriter, i));
  }
  rewriter.finish();
  return Status();
}

}  // namespace tenon::cuda
