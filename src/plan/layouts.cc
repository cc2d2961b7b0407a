#include "plan/layouts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ops/reorder.h"
#include "ops/transpose.h"
#include "plan/kernel_node.h"
#include "plan/views.h"

namespace tenon {

namespace {

class LayoutAssigner {
 public:
  LayoutAssigner(Graph& graph, const Providers& providers, const KernelNode& base)
      : graph_(graph), providers_(providers), base_(base) {}

  Status run() {
    PerNode<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(nodes.size());
    for (Node& node : nodes) TENON_TRY(assign(std::move(node)));
    for (ValueId& id : graph_.outputs) id = in_layout(id, Layout::kPlain);
    leave_plain();
    reorder_bytes();
    join_transposes();
    return {};
  }

 private:
  Status assign(Node node) {
    const KernelNodeData data(graph_, node, base_);
    const ExecutionProvider& provider = providers_.of(node);
    const LayoutChoice choice = provider.choose_layouts(data.view);
    if (choice.inputs.size() != node.inputs.size() || choice.outputs.size() != node.outputs.size()) {
      return internal_error("The {} EP chose layouts for {} inputs and {} outputs of node {}, which has {} and {}.",
                            provider.name(), choice.inputs.size(), choice.outputs.size(), node.label(graph_),
                            node.inputs.size(), node.outputs.size());
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || graph_.value(id).constant) continue;
      node.inputs[i] = in_layout(id, choice.inputs[i]);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id != kNoValue && has_layouts(id)) graph_.value(id).layout = choice.outputs[i];
    }
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  // A node whose output only a reorder to the plain layout reads is asked again: it may rather write that itself.
  void leave_plain() {
    if (reordered_.empty()) return;
    const PerValue<int32_t> readers = graph_.use_counts();
    std::map<ValueId, ValueId> reordered, replaced;  // from blocked to plain; from what a reorder gave to what it read
    for (const Node& node : graph_.nodes) {
      if (is_reorder(node) && graph_.value(node.outputs[0]).layout == Layout::kPlain && readers[node.inputs[0]] == 1)
        reordered[node.inputs[0]] = node.outputs[0];
    }
    for (const Node& node : graph_.nodes) {
      const auto found = node.outputs.size() == 1 ? reordered.find(node.outputs[0]) : reordered.end();
      if (found == reordered.end() || !prefers_plain(node)) continue;
      graph_.value(found->first).layout = Layout::kPlain;
      replaced[found->second] = found->first;
    }
    if (replaced.empty()) return;
    const auto replace = [&](std::vector<ValueId>& ids) {
      for (ValueId& id : ids)
        if (const auto found = replaced.find(id); found != replaced.end()) id = found->second;
    };
    graph_.nodes.erase(
        std::remove_if(graph_.nodes.begin(), graph_.nodes.end(),
                       [&](const Node& node) { return is_reorder(node) && replaced.contains(node.outputs[0]); }),
        graph_.nodes.end());
    for (Node& node : graph_.nodes) replace(node.inputs);
    replace(graph_.outputs);
  }

  // Numbers that a DequantizeLinear makes and only a reorder to the plain layout reads: their bytes are reordered.
  void reorder_bytes() {
    if (reordered_.empty()) return;
    const PerValue<int32_t> readers = graph_.use_counts();
    const PerValue<NodeId> producers = graph_.producers();
    for (Node& reorder : graph_.nodes) {
      if (!is_reorder(reorder) || graph_.value(reorder.outputs[0]).layout != Layout::kPlain) continue;
      const ValueId numbers = reorder.inputs[0];
      if (readers[numbers] != 1 || producers[numbers] == kNoNode) continue;
      Node& maker = graph_.nodes[producers[numbers]];
      if (maker.op_type != "DequantizeLinear" || graph_.value(maker.inputs[0]).layout == Layout::kPlain) continue;
      Value plain = graph_.value(maker.inputs[0]);
      plain.layout = Layout::kPlain;
      plain.name += ".plain";
      const ValueId bytes = graph_.add_value(std::move(plain));
      std::swap(maker, reorder);
      reorder.outputs = maker.outputs;
      maker = make_reorder_node(reorder.inputs[0], bytes, Layout::kPlain);
      reorder.inputs[0] = bytes;
    }
  }

  // A transpose between channels last and channels first moves single numbers, and a reorder beside it does so again:
  // one reorder moves whole blocks of channels instead.
  void join_transposes() {
    if (reordered_.empty()) return;
    producers_ = graph_.producers();
    bool any = false;
    for (Node& node : graph_.nodes) {
      const bool joins = is_reorder(node) ? join_before(node) : join_behind(node);
      any = any || joins;
    }
    if (any) graph_.remove_dead_nodes();
  }

  // A reorder of a tensor whose channels were last.
  bool join_before(Node& node) {
    const Node* const source = through_views(node.inputs[0]);
    if (graph_.value(node.outputs[0]).layout != Layout::kBlocked8 || source == nullptr || !same_ep(*source, node) ||
        !moves_channels(*source, Move::kToFront))
      return false;
    write_reorder(node, source->inputs[0], {.to = Layout::kBlocked8, .channels_last = true});
    return true;
  }

  // A transpose of what a reorder made plain.
  bool join_behind(Node& node) {
    if (!moves_channels(node, Move::kToBack)) return false;
    const Node* const source = through_views(node.inputs[0]);
    if (source == nullptr || !is_reorder(*source) || !same_ep(*source, node)) return false;
    const Result<ReorderDesc> reorder = read_reorder(*source);
    if (!reorder.ok() || reorder->to != Layout::kPlain || reorder->channels_last) return false;
    write_reorder(node, source->inputs[0], {.to = Layout::kPlain, .channels_last = true});
    return true;
  }

  bool same_ep(const Node& a, const Node& b) const { return &providers_.of(a) == &providers_.of(b); }

  enum class Move : uint8_t { kToFront, kToBack };

  // Whether the node turns [batch, ..., channels] into [batch, channels, ...], or back.
  bool moves_channels(const Node& node, Move move) const {
    if (!node.domain.empty() || node.op_type != "Transpose" || !has_layouts(node.inputs[0])) return false;
    const auto rank = static_cast<int>(graph_.value(node.inputs[0]).dims.size());
    const auto perm = read_perm(node, rank);
    if (!perm.ok() || (*perm)[0] != 0) return false;
    for (int i = 1; i < rank; ++i) {
      const int next = move == Move::kToFront ? (i + rank - 3) % (rank - 1) + 1 : i % (rank - 1) + 1;
      if ((*perm)[i] != next) return false;
    }
    return true;
  }

  // The node that made a plain tensor, behind nodes that only split its dimensions otherwise, but for the first two.
  const Node* through_views(ValueId id) const {
    constexpr std::array<std::string_view, 4> kViews = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
    while (producers_[id] != kNoNode) {
      const Node& node = graph_.nodes[producers_[id]];
      if (!node.domain.empty() || std::find(kViews.begin(), kViews.end(), node.op_type) == kViews.end()) return &node;
      const Value &from = graph_.value(node.inputs[0]), &to = graph_.value(id);
      if (!has_layouts(node.inputs[0]) || !has_layouts(id) || from.layout != Layout::kPlain ||
          !std::equal(from.dims.begin(), from.dims.begin() + 2, to.dims.begin()))
        return nullptr;
      id = node.inputs[0];
    }
    return nullptr;
  }

  bool prefers_plain(const Node& node) const {
    KernelNodeData data(graph_, node, base_);
    data.view.outputs_read_plain = true;
    const LayoutChoice choice = providers_.of(node).choose_layouts(data.view);
    if (choice.outputs[0] != Layout::kPlain) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (data.inputs[i].present() && data.constants[i] == nullptr && choice.inputs[i] != data.inputs[i].layout)
        return false;
    return true;
  }

  bool has_layouts(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.fully_known() && value.dims.size() >= 3;
  }

  ValueId in_layout(ValueId id, Layout layout) {
    if (graph_.value(id).layout == layout || graph_.value(id).constant || !has_layouts(id)) return id;
    if (const auto found = reordered_.find({id, layout}); found != reordered_.end()) return found->second;
    Value value = graph_.value(id);
    value.layout = layout;
    value.name += layout == Layout::kPlain ? ".plain" : ".blocked8";
    const ValueId result = graph_.add_value(std::move(value));
    graph_.nodes.push_back(make_reorder_node(id, result, layout));
    reordered_[{id, layout}] = result;
    reordered_[{result, graph_.value(id).layout}] = id;
    return result;
  }

  Graph& graph_;
  const Providers& providers_;
  const KernelNode& base_;
  std::map<std::pair<ValueId, Layout>, ValueId> reordered_;
  PerValue<NodeId> producers_;  // for join_transposes()
};

}  // namespace

Status assign_layouts(Graph& graph, const Providers& providers, const KernelNode& base) {
  return LayoutAssigner(graph, providers, base).run();
}

}  // namespace tenon
