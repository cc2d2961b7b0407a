// Finds GroupNormalization where exporters of versions without it write Reshape, InstanceNormalization and Reshape, and
// puts factors and summands of channels into norms of channels.
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

constexpr int kOfChannels = 21;  // from this version on scale and bias of GroupNormalization have a number a channel

// A float32 constant with a number for each of `channels`, on dimension 1 of `rank`, or one number for all.
std::optional<std::vector<float>> numbers_of_channels(const Rewriter& rewriter, ValueId id, int64_t channels,
                                                      size_t rank) {
  const ConstantRef& constant = rewriter.constant(id);
  if (constant == nullptr || constant->type != DataType::kFloat) return std::nullopt;
  const Shape& shape = constant->shape;
  const int first = shape.rank() - static_cast<int>(rank);  // where `shape` has the dimension 0 of the other operand
  for (int d = 0; d < shape.rank(); ++d)
    if (shape[d] != 1 && (d != first + 1 || shape[d] != channels)) return std::nullopt;
  if (first > 0 || (shape.element_count() != 1 && shape.element_count() != channels)) return std::nullopt;
  const std::span<const float> values = constant->as<float>();
  std::vector<float> numbers(values.begin(), values.end());
  if (numbers.size() == 1) numbers.resize(channels, numbers[0]);
  return numbers;
}

std::optional<ValueId> add_numbers(Rewriter& rewriter, const std::string& name, std::span<const float> numbers) {
  if (!rewriter.may_make(numbers.size_bytes())) return std::nullopt;
  std::byte* bytes = nullptr;
  Result<ConstantRef> made = make_constant(DataType::kFloat, Shape{static_cast<int64_t>(numbers.size())}, &bytes);
  if (!made.ok()) return std::nullopt;
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<float*>(bytes));
  return rewriter.add_constant(name, *std::move(made));
}

// The float32 constant if it has `count` numbers.
std::optional<std::vector<float>> numbers_of(const Rewriter& rewriter, ValueId id, int64_t count) {
  const ConstantRef& held = rewriter.constant(id);
  if (held == nullptr || held->type != DataType::kFloat || held->shape.element_count() != count) return std::nullopt;
  const std::span<const float> values = held->as<float>();
  return std::vector<float>(values.begin(), values.end());
}

}  // namespace

bool group_norm_of_reshapes(Rewriter& rewriter, NodeId here) {
  const Node& node = rewriter.node(here);
  if (node.op_type != "Reshape" || !node.domain.empty() || !rewriter.read_once(node.inputs[0])) return false;
  const Node* const norm = rewriter.made_by(node.inputs[0], "InstanceNormalization");
  if (norm == nullptr || !rewriter.read_once(norm->inputs[0])) return false;
  const Node* const flat = rewriter.made_by(norm->inputs[0], "Reshape");
  if (flat == nullptr || !rewriter.same_shape(flat->inputs[0], node.outputs[0])) return false;
  const Value &x = rewriter.value(flat->inputs[0]), &grouped = rewriter.value(norm->inputs[0]);
  if (!x.has_rank || !grouped.has_rank || x.dims.size() < 3 || grouped.dims.size() < 3 || x.type != DataType::kFloat)
    return false;
  const Dim &images = x.dims[0], &same_images = grouped.dims[0];
  if (images != same_images || (!images.known() && images.symbol.empty())) return false;
  const int64_t channels = x.dims[1].value, groups = grouped.dims[1].value;
  if (channels < 1 || groups < 1 || channels % groups != 0) return false;
  const Node norm_node = *norm;
  const ValueId from = flat->inputs[0];
  const std::string name = rewriter.value(node.outputs[0]).name;
  std::vector<ValueId> inputs = {from};
  for (size_t i : {1, 2}) {
    const auto given = numbers_of(rewriter, norm_node.input(i), groups);
    if (!given) return false;
    std::vector<float> each;
    for (float number : *given) each.insert(each.end(), channels / groups, number);
    const auto added = add_numbers(rewriter, name + (i == 1 ? ":scale" : ":bias"), each);
    if (!added) return false;
    inputs.push_back(*added);
  }
  Node whole = make_node("GroupNormalization", kOfChannels, norm_node.name, std::move(inputs), node.outputs);
  whole.set_int("num_groups", groups);
  whole.set_float("epsilon", Attributes(norm_node).number("epsilon"));
  rewriter.replace(here, std::move(whole));
  return true;
}

bool scale_into_group_norm(Rewriter& rewriter, NodeId here) {
  const Node& node = rewriter.node(here);
  if ((node.op_type != "Mul" && node.op_type != "Add") || !node.domain.empty() || node.inputs.size() != 2) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ValueId normal = node.inputs[side];
    const Node* norm = rewriter.made_by(normal, "GroupNormalization");
    if (norm == nullptr) norm = rewriter.made_by(normal, "InstanceNormalization");
    const Value& y = rewriter.value(normal);
    if (norm == nullptr || !rewriter.read_once(normal) || !y.has_rank || y.dims.size() < 3 || !y.dims[1].known() ||
        y.type != DataType::kFloat || (norm->op_type == "GroupNormalization" && norm->since_version < kOfChannels))
      continue;
    const int64_t channels = y.dims[1].value;
    const auto numbers = numbers_of_channels(rewriter, node.inputs[1 - side], channels, y.dims.size());
    auto factors = numbers_of(rewriter, norm->input(1), channels);
    auto summands = numbers_of(rewriter, norm->input(2), channels);
    if (!numbers || !factors || !summands) continue;
    Node scaled = *norm;
    scaled.outputs = node.outputs;
    const std::string name = rewriter.value(node.outputs[0]).name;
    for (int64_t c = 0; c < channels; ++c) {
      if (node.op_type == "Add") {
        (*summands)[c] += (*numbers)[c];
      } else {
        (*factors)[c] *= (*numbers)[c];
        (*summands)[c] *= (*numbers)[c];
      }
    }
    if (node.op_type == "Mul") {
      const auto added = add_numbers(rewriter, name + ":scale", *factors);
      if (!added) return false;
      scaled.inputs[1] = *added;
    }
    const auto added = add_numbers(rewriter, name + ":bias", *summands);
    if (!added) return false;
    scaled.inputs[2] = *added;
    rewriter.replace(here, std::move(scaled));
    return true;
  }
  return false;
}

Status pass_group_norms(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i) || rewriter.node(i).outputs.empty() || rewriter.node(i).outputs[0] == kNoValue) continue;
    (void)(group_norm_of_reshapes(rewriter, i) || scale_into_group_norm(rewriter, i));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
