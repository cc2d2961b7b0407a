// Which nodes around products of few rows one kernel computes (few_rows.h).
#include <algorithm>
#include <memory>

#include "base/format.h"
#include "ep/cuda/ops/matmul/few_rows.h"
#include "ep/cuda/ops/matmul/lower.h"
#include "ops/norm.h"
#include "ops/unary.h"

namespace tenon::cuda {

namespace {

// Nodes that become one kernel.
struct RowGroup {
  std::vector<const Node*> products;
  std::vector<RowCandidate> operands;
  std::vector<ValueId> results;  // one a product; of a gate one
  bool gated = false;
  Epilogue epilogue;
  ValueId residual = kNoValue;
  const Node* norm = nullptr;
};

Result<TensorId> bias_of(Lowering& to, ValueId bias) {
  return bias == kNoValue ? Result<TensorId>(kNoTensor) : to.float_constant(bias);
}

class Finder {
 public:
  explicit Finder(Lowering& to) : to_(to) {}

  Status run() {
    // Gates first: of their two products the other one may come before.
    for (const Node& node : to_.graph().nodes) {
      if (to_.is_lowered_by_other(node)) continue;
      if (const std::optional<RowCandidate> operand = row_candidate(to_, node)) find_gate(node, *operand);
    }
    for (const Node& node : to_.graph().nodes) {
      if (to_.is_lowered_by_other(node)) continue;
      const std::optional<RowCandidate> operand = row_candidate(to_, node);
      if (!operand) continue;
      RowGroup group{.products = {&node}, .operands = {*operand}, .results = {node.outputs[0]}};
      group.epilogue = operand->epilogue;
      group.residual = operand->residual;
      const Node* place = &node;
      find_peers(group);
      if (group.products.size() == 1) place = find_residual(group);
      finish(std::move(group), *place);
    }
    return Status();
  }

 private:
  static bool is_bare(const RowCandidate& operand) {
    return operand.epilogue.activation == Activation::kNone && operand.residual == kNoValue;
  }
  static bool alike(const RowCandidate& a, const RowCandidate& b) {
    return a.x == b.x && a.scale == b.scale && a.bits == b.bits && a.block_size == b.block_size;
  }
  const Node* only_reader(ValueId id) const {
    if (!to_.read_once(id)) return nullptr;
    const Node& reader = to_.graph().nodes[to_.readers(id)[0]];
    return to_.is_lowered_by_other(reader) && !to_.joined(reader) ? nullptr : &reader;
  }

  // act(x w0) * (x w1), from the product that has the activation behind it or in it.
  void find_gate(const Node& node, const RowCandidate& first) {
    if (first.residual != kNoValue || first.scale != 1) return;
    ValueId value = node.outputs[0];
    RowGroup group{.gated = true, .epilogue = first.epilogue};
    const Node* activation = nullptr;
    const Node* reader = only_reader(value);
    if (reader == nullptr) return;
    if (first.epilogue.activation == Activation::kNone && has_activation(*reader) && reader->op_type == "Activation") {
      const Result<Epilogue> epilogue = read_epilogue(*reader);
      if (!epilogue.ok()) return;
      group.epilogue = *epilogue;
      activation = reader;
      value = reader->outputs[0];
      reader = only_reader(value);
    }
    if (reader == nullptr || group.epilogue.activation == Activation::kNone || to_.joined(*reader)) return;
    if (reader->op_type != "Mul" || !reader->domain.empty() || reader->inputs.size() != 2) return;
    const ValueId other = reader->inputs[0] == value ? reader->inputs[1] : reader->inputs[0];
    if (other == value || !to_.read_once(other)) return;
    const Node* const up = to_.producer(other);
    if (up == nullptr || up == &node || to_.is_lowered_by_other(*up) || up->outputs[0] != other) return;
    const std::optional<RowCandidate> second = row_candidate(to_, *up);
    if (!second || !is_bare(*second) || !alike(first, *second) || second->columns != first.columns) return;
    if (to_.value(value).shape() != to_.value(reader->outputs[0]).shape()) return;
    group.products = {&node, up};
    group.operands = {first, *second};
    group.results = {reader->outputs[0]};
    to_.lower_elsewhere(node);
    to_.lower_elsewhere(*up);
    if (activation != nullptr) to_.lower_elsewhere(*activation);
    finish(std::move(group), *reader);
  }

  // Other products of the same rows, which nothing follows in the kernel.
  void find_peers(RowGroup& group) {
    if (!is_bare(group.operands[0])) return;
    for (NodeId id : to_.readers(group.operands[0].x)) {
      const Node& node = to_.graph().nodes[id];
      if (group.products.size() == 3) return;
      if (std::find(group.products.begin(), group.products.end(), &node) != group.products.end()) continue;
      if (to_.is_lowered_by_other(node)) continue;
      const std::optional<RowCandidate> operand = row_candidate(to_, node);
      if (!operand || !is_bare(*operand) || !alike(group.operands[0], *operand)) continue;
      group.products.push_back(&node);
      group.operands.push_back(*operand);
      group.results.push_back(node.outputs[0]);
    }
  }
  // An Add behind a product whose node has no residual. The node at whose place the kernel is.
  const Node* find_residual(RowGroup& group) {
    const Node* const product = group.products[0];
    const ValueId value = group.results[0];
    if (group.residual != kNoValue || !to_.read_once(value)) return product;
    const Node* const add = only_reader(value);
    if (add == nullptr || add->op_type != "Add" || !add->domain.empty() || add->inputs.size() != 2 || to_.joined(*add))
      return product;
    const ValueId other = add->inputs[0] == value ? add->inputs[1] : add->inputs[0];
    if (other == value || to_.type_of(other) != to_.type_of(value) ||
        to_.value(other).shape() != to_.value(value).shape() ||
        to_.value(add->outputs[0]).shape() != to_.value(value).shape())
      return product;
    // A residual that another chain would have computed on its way has to be in memory.
    if (const Node* const before = to_.producer(other); before != nullptr && to_.joined(*before)) return product;
    group.residual = other;
    group.epilogue.residual_after = true;
    group.results[0] = add->outputs[0];
    to_.lower_elsewhere(*product);
    return add;
  }

  // The normalisation that makes x, where only this group reads it.
  const Node* find_norm(const RowGroup& group) {
    const RowCandidate& operand = group.operands[0];
    const Node* const node = to_.producer(operand.x);
    if (node == nullptr || to_.is_output(operand.x) || to_.is_lowered_by_other(*node) ||
        std::ssize(to_.readers(operand.x)) != std::ssize(group.products))
      return nullptr;
    const bool internal = node->domain == "tenon" && node->op_type == "LayerNorm";
    if (!internal && !(node->domain.empty() && node->op_type == "RMSNormalization")) return nullptr;
    const Result<LayerNormDesc> desc = read_layer_norm(*node, to_.value(node->inputs[0]).shape());
    if (!desc.ok() || desc->subtract_mean || desc->columns != operand.depth) return nullptr;
    for (size_t i = 1; i < node->outputs.size(); ++i)
      if (node->outputs[i] != kNoValue) return nullptr;
    const ValueId scale = node->input(desc->scale);
    const bool whole = scale != kNoValue && to_.constant(scale) != nullptr &&
                       to_.value(scale).shape().element_count() == operand.depth;
    if (!whole || node->input(desc->skip) != kNoValue || node->input(desc->bias) != kNoValue) return nullptr;
    return to_.type_of(node->inputs[0]) == to_.type_of(operand.x) ? node : nullptr;
  }

  void finish(RowGroup group, const Node& place) {
    group.norm = find_norm(group);
    if (group.norm != nullptr) to_.lower_elsewhere(*group.norm);
    for (const Node* product : group.products) to_.lower_elsewhere(*product);
    auto shared = std::make_shared<const RowGroup>(std::move(group));
    to_.lower_by(place, [&to = to_, shared, &place] { return lower_group(to, place, *shared); });
  }

  static Status lower_group(Lowering& to, const Node& place, const RowGroup& group) {
    const RowCandidate& first = group.operands[0];
    RowProduct product{.type = to.type_of(first.x),
                       .rows = first.rows,
                       .depth = first.depth,
                       .gated = group.gated,
                       .scale = first.scale,
                       .epilogue = group.epilogue,
                       .bits = first.bits,
                       .block_size = first.block_size};
    ValueId x = first.x;
    if (group.norm != nullptr) {
      x = group.norm->inputs[0];
      TENON_TRY_ASSIGN(const LayerNormDesc desc, read_layer_norm(*group.norm, to.value(x).shape()));
      product.epsilon = desc.epsilon;
      TENON_TRY_ASSIGN(product.norm_scale, to.float_constant(group.norm->input(desc.scale)));
    }
    TENON_TRY_ASSIGN(product.x, to.plain(x));
    if (group.residual != kNoValue) {
      TENON_TRY_ASSIGN(product.residual, to.plain(group.residual));
    }
    for (size_t i = 0; i < group.operands.size(); ++i) {
      const RowCandidate& operand = group.operands[i];
      RowProduct::Matrix matrix{.columns = operand.columns};
      if (operand.bits == 0) {
        TENON_TRY_ASSIGN(matrix.w, matrix_of_weights(to, operand.w, product.type, operand.transposed, false));
      } else {
        TENON_TRY_ASSIGN(matrix.w, to.typed_constant(operand.w));
        TENON_TRY_ASSIGN(matrix.scales, to.typed_constant(operand.scales));
        if (operand.zeros != kNoValue) {
          TENON_TRY_ASSIGN(matrix.zeros, to.typed_constant(operand.zeros));
        }
      }
      TENON_TRY_ASSIGN(matrix.bias, bias_of(to, operand.bias));
      if (i < group.results.size()) {
        TENON_TRY_ASSIGN(matrix.y, to.make(group.results[i]));
      }
      product.matrices.push_back(matrix);
    }
    // Vectors of x are loaded whole, and a view may begin anywhere.
    if (to.program().tensor(product.x).offset_bytes % 16 != 0) {
      const DeviceTensor from = to.program().tensor(product.x);
      TENON_TRY_ASSIGN(const TensorId copy, to.program().add_tensor(from.type, from.shape));
      to.add_copy(place, product.x, copy);
      product.x = copy;
    }
    return add_few_rows(to, place, product);
  }

  Lowering& to_;
};

}  // namespace

std::optional<RowCandidate> row_candidate(Lowering& to, const Node& node) {
  if (node.op_type == "MatMulNBits" && node.domain == "com.microsoft") return nbits_candidate(to, node);
  const bool product = (node.op_type == "MatMul" && (node.domain.empty() || node.domain == "tenon")) ||
                       (node.op_type == "Gemm" && node.domain.empty());
  return product ? matmul_candidate(to, node) : std::nullopt;
}

Status find_row_products(Lowering& to) { return Finder(to).run(); }

}  // namespace tenon::cuda
