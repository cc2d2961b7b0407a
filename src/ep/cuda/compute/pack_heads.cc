#include "ep/cuda/compute/pack_heads.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ops/attributes.h"
#include "plan/pass_rewriter.h"

namespace tenon::cuda {

namespace {

constexpr size_t kParts = 3;  // queries, keys and values
constexpr size_t kBits = 1, kScales = 2, kZeros = 3;

struct Projection {
  const Node* product = nullptr;
  ConstantRef bias;  // [columns]; may be null
  int64_t columns = 0;
};
using Projections = std::array<Projection, kParts>;
using Parts = std::array<ConstantRef, kParts>;

std::optional<Projection> projection_of(const Rewriter& rewriter, ValueId rows) {
  if (!rewriter.read_once(rows)) return std::nullopt;
  Projection found;
  if (const Node* add = rewriter.made_by(rows, "Add")) {
    const auto operands = split_operands(*add, [&](ValueId bias, ValueId /*other*/) {
      return rewriter.constant(bias) != nullptr && rewriter.constant(bias)->shape.rank() == 1;
    });
    if (!operands || !rewriter.read_once(operands->second)) return std::nullopt;
    found.bias = rewriter.constant(operands->first);
    rows = operands->second;
  }
  found.product = rewriter.made_by(rows, "MatMul");
  if (found.product != nullptr) {
    const ConstantRef& weights = rewriter.constant(found.product->inputs[1]);
    if (weights == nullptr || weights->shape.rank() != 2) return std::nullopt;
    found.columns = weights->shape[1];
  } else {
    found.product = rewriter.made_by(rows, "MatMulNBits", "com.microsoft");
    if (found.product == nullptr) return std::nullopt;
    for (size_t i = kZeros + 1; i < found.product->inputs.size(); ++i)
      if (found.product->inputs[i] != kNoValue) return std::nullopt;
    found.columns = Attributes(*found.product).integer("N");
  }
  if (found.bias != nullptr && found.bias->shape != Shape{found.columns}) return std::nullopt;
  return found;
}

// The three behind each other along the first dimension, or beside each other along the second one of matrices. Null
// where they do not fit or there is no memory.
ConstantRef joined(const Parts& parts, bool columns) {
  const ConstantRef& first = parts[0];
  const int axis = columns ? 1 : 0;
  Shape shape = first->shape;
  if (shape.rank() <= axis) return nullptr;
  shape[axis] = 0;
  for (const ConstantRef& part : parts) {
    Shape alike = part->shape;
    if (part->type != first->type || alike.rank() != shape.rank()) return nullptr;
    shape[axis] += alike[axis];
    alike[axis] = first->shape[axis];
    if (alike != first->shape) return nullptr;
  }
  std::byte* to = nullptr;
  const Result<ConstantRef> made = make_constant(first->type, shape, &to, Fill::kNothing);
  if (!made.ok()) return nullptr;
  const auto runs = static_cast<size_t>(columns ? shape[0] : 1);
  for (size_t run = 0; run < runs; ++run)
    for (const ConstantRef& part : parts) {
      const size_t bytes = part->size_bytes / runs;
      if (bytes == 0) continue;
      std::memcpy(to, part->data + run * bytes, bytes);
      to += bytes;
    }
  return *made;
}

bool alike(const Node& a, const Node& b) {
  if (a.op_type != b.op_type || a.inputs[0] != b.inputs[0]) return false;
  const auto zeros = [](const Node& node) { return node.input(kZeros) != kNoValue; };
  const auto number = [](const Node& node, const char* name) {
    return Attributes(node).find_integer(name).value_or(0);
  };
  return a.op_type == "MatMul" ||
         (zeros(a) == zeros(b) && number(a, "bits") == number(b, "bits") && number(a, "K") == number(b, "K") &&
          number(a, "block_size") == number(b, "block_size"));
}

// The product of all columns; false where the weights cannot be joined.
bool join_weights(Rewriter& rewriter, const Projections& projections, Node& product) {
  const size_t count = product.op_type == "MatMul" ? 2 : kZeros + 1;
  for (size_t input = 1; input < std::min(count, product.inputs.size()); ++input) {
    if (product.inputs[input] == kNoValue) continue;
    Parts parts;
    size_t bytes = 0;
    for (size_t i = 0; i < kParts; ++i) {
      parts[i] = rewriter.constant(projections[i].product->inputs[input]);
      if (parts[i] == nullptr) return false;
      bytes += parts[i]->size_bytes;
    }
    ConstantRef whole = rewriter.may_make(bytes) ? joined(parts, product.op_type == "MatMul") : nullptr;
    if (whole == nullptr) return false;
    product.inputs[input] =
        rewriter.add_constant(rewriter.value(product.inputs[input]).name + ":packed", std::move(whole));
  }
  return true;
}

void pack(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "GroupQueryAttention" || node.domain != "com.microsoft") return;
  Projections projections;
  for (size_t i = 0; i < kParts; ++i) {
    if (node.input(i) == kNoValue) return;
    const std::optional<Projection> found = projection_of(rewriter, node.inputs[i]);
    if (!found) return;
    projections[i] = *found;
    const bool biased = found->bias != nullptr;
    if (biased != (projections[0].bias != nullptr) || !alike(*projections[0].product, *found->product)) return;
  }
  const Attributes attributes(node);
  const int64_t heads = attributes.find_integer("num_heads").value_or(0),
                kv_heads = attributes.find_integer("kv_num_heads").value_or(0);
  if (heads < 1 || kv_heads < 1 || projections[0].columns % heads != 0) return;
  const int64_t depth = projections[0].columns / heads;
  if (projections[1].columns != kv_heads * depth || projections[2].columns != kv_heads * depth) return;
  Value rows = rewriter.value(node.inputs[0]);
  if (!rows.has_rank || rows.dims.size() != 3) return;

  Node product = *projections[0].product;
  if (!join_weights(rewriter, projections, product)) return;
  const int64_t columns = (heads + 2 * kv_heads) * depth;
  if (product.op_type != "MatMul") product.set_int("N", columns);
  rows.name = node.name + ":" + rows.name + ":packed";
  rows.dims[2] = Dim{.value = columns, .symbol = {}};
  ValueId packed = rewriter.add_value(rows);
  product.outputs = {packed};
  if (projections[0].bias != nullptr) {
    ConstantRef bias = joined({projections[0].bias, projections[1].bias, projections[2].bias}, false);
    if (bias == nullptr) return;
    rows.name += ":biased";
    const ValueId sum = rewriter.add_value(rows), added = rewriter.add_constant(rows.name + ":bias", std::move(bias));
    rewriter.insert_before(here, std::move(product));
    rewriter.insert_before(here, make_node("Add", 14, node.name, {packed, added}, {sum}));
    packed = sum;
  } else {
    rewriter.insert_before(here, std::move(product));
  }
  Node attention = node;
  attention.inputs[0] = packed;
  attention.inputs[1] = attention.inputs[2] = kNoValue;
  rewriter.replace(here, std::move(attention));
}

}  // namespace

void pack_heads(Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId id : rewriter.ids())
    if (!rewriter.erased(id)) pack(rewriter, id);
  rewriter.finish();
}

}  // namespace tenon::cuda
