#include "plan/pass_rewriter.h"

#include <algorithm>
#include <utility>

#include "ops/shape_inference_context.h"
#include "plan/node_origins.h"

namespace tenon {

Rewriter::Rewriter(Graph& graph) : graph_(graph), erased_(graph.nodes.size(), false) {}

Rewriter::Links& Rewriter::find_links() const {
  links_.emplace(Links{graph_.producers(), graph_.use_counts(), PerValue<bool>(graph_.values.size(), false)});
  for (ValueId id : graph_.outputs) links_->is_output[id] = true;
  return *links_;
}

void Rewriter::add_links() {
  if (!links_) return;  // they are found with the value, then
  links_->producer.push_back(kNoNode);
  links_->uses.push_back(0);
  links_->is_output.push_back(false);
}

bool Rewriter::may_make(size_t bytes) {
  if (!budget_bytes_) {
    size_t budget = size_t{64} << 20;
    for (const Value& value : graph_.values)
      if (value.constant) budget += std::min(value.constant->size_bytes, SIZE_MAX / 2 - budget / 2);
    budget_bytes_ = budget;
  }
  if (bytes > *budget_bytes_) return false;
  *budget_bytes_ -= bytes;
  return true;
}

const Node* Rewriter::producer(ValueId id) const {
  if (id == kNoValue || !producer_id(id).valid()) return nullptr;
  return &graph_.nodes[producer_id(id)];
}

const Node* Rewriter::made_by(ValueId id, std::string_view op_type, std::string_view domain) const {
  const Node* node = producer(id);
  return node && node->op_type == op_type && node->domain == domain && node->outputs[0] == id ? node : nullptr;
}

bool Rewriter::read_once(ValueId id) const { return uses(id) == 1 && !is_output(id); }

const ConstantRef& Rewriter::constant(ValueId id) const {
  static const ConstantRef none;
  return id == kNoValue ? none : graph_.value(id).constant;
}

bool Rewriter::is_float(ValueId id) const {
  return id != kNoValue && graph_.value(id).is_tensor && graph_.value(id).type == DataType::kFloat;
}

std::optional<float> Rewriter::scalar(ValueId id) const {
  const ConstantRef& found = constant(id);
  if (!found || found->type != DataType::kFloat || found->size_bytes != sizeof(float)) return std::nullopt;
  return found->as<float>()[0];
}

std::optional<float> Rewriter::scalar_beside(ValueId id, ValueId other) const {
  std::optional<float> number = scalar(id);
  if (!number || !is_float(other)) return std::nullopt;
  const size_t rank = constant(id)->shape.rank();
  const Value& beside = graph_.value(other);
  if (rank > 0 && (!beside.has_rank || beside.dims.size() < rank)) return std::nullopt;
  return number;
}

bool Rewriter::same_shape(ValueId a, ValueId b) const {
  if (a == kNoValue || b == kNoValue) return false;
  const Value &x = graph_.value(a), &y = graph_.value(b);
  if (x.type != y.type || !x.has_rank || !y.has_rank) return false;
  return infer::same(x.dims, y.dims);
}

void Rewriter::count(const Node& node, int32_t change) {
  PerValue<int32_t>& uses = links().uses;
  for (ValueId id : node.inputs)
    if (id != kNoValue) uses[id] += change;
  for (const Attribute& attribute : node.attributes)
    if (attribute.graph)
      for (const auto& capture : attribute.graph->captures) uses[capture.first] += change;
}

void Rewriter::release(ValueId id) {
  std::vector<ValueId> pending{id};
  while (!pending.empty()) {
    const ValueId at = pending.back();
    pending.pop_back();
    if (uses(at) > 0 || !producer(at)) continue;
    const NodeId made_by = producer_id(at);
    if (erased_[made_by]) continue;
    const Node& maker = graph_.nodes[made_by];
    if (std::any_of(maker.outputs.begin(), maker.outputs.end(), [&](ValueId out) { return uses(out) > 0; })) continue;
    erased_[made_by] = true;
    begin_origins(maker);
    count(maker, -1);
    for (ValueId input : maker.inputs)
      if (input != kNoValue) pending.push_back(input);
    for (const Attribute& attribute : maker.attributes)
      if (attribute.graph)
        for (const auto& capture : attribute.graph->captures) pending.push_back(capture.first);
  }
}

void Rewriter::replace(NodeId id, Node replacement) {
  PerValue<NodeId>& producer = links().producer;
  Node old = std::exchange(graph_.nodes[id], std::move(replacement));
  Node& current = graph_.nodes[id];
  for (ValueId out : old.outputs)
    if (out != kNoValue && producer[out] == id) producer[out] = kNoNode;
  for (ValueId out : current.outputs)
    if (out != kNoValue) producer[out] = id;
  count(current, 1);
  count(old, -1);
  begin_origins(old);
  for (ValueId in : old.inputs)
    if (in != kNoValue) release(in);
  end_origins(current);
}

void Rewriter::erase(NodeId id) {
  if (erased_[id]) return;
  erased_[id] = true;
  const Node& node = graph_.nodes[id];
  count(node, -1);
  begin_origins(node);
  for (ValueId in : node.inputs)
    if (in != kNoValue) release(in);
  end_origins(node);
}

void Rewriter::begin_origins(const Node& node) {
  // Those of nodes that became this one in this pass.
  for (ValueId out : node.outputs) {
    if (const auto known = origins_.find(out); known != origins_.end()) {
      going_.insert(going_.end(), known->second.begin(), known->second.end());
      origins_.erase(known);
    }
  }
  const std::span<const int64_t> numbers = origins_of(node);
  going_.insert(going_.end(), numbers.begin(), numbers.end());
  if (names_ == nullptr) names_ = names_of_origins(node);
}

void Rewriter::end_origins(const Node& last) {
  std::vector<int64_t> gone = std::exchange(going_, {});
  const auto made = std::find_if(last.outputs.begin(), last.outputs.end(), [](ValueId id) { return id != kNoValue; });
  if (made == last.outputs.end() || gone.empty()) return;
  std::vector<int64_t>& origins = origins_[*made];
  if (origins.empty()) {
    origins = std::move(gone);
  } else {
    origins.insert(origins.end(), gone.begin(), gone.end());
  }
}

void Rewriter::add_origins() {
  if (origins_.empty()) return;
  // A node that was only moved lives on, and what stands in its place does not stand for it.
  std::vector<const Node*> moved(names_ != nullptr ? names_->strings.size() : 0, nullptr);
  const auto note = [&moved](const Node& node) {
    for (const int64_t number : origins_of(node))
      if (moved[number] == nullptr) moved[number] = &node;
  };
  for (NodeId id : graph_.nodes.ids())
    if (!erased_[id]) note(graph_.nodes[id]);
  for (const auto& [before, node] : inserted_) note(node);
  std::vector<std::pair<Node*, std::vector<int64_t>>> all;
  for (auto& [made, origins] : origins_) {
    Node* maker = nullptr;
    if (producer(made) != nullptr && !erased_[producer_id(made)]) maker = &graph_.nodes[producer_id(made)];
    for (auto& [before, node] : inserted_)
      if (std::find(node.outputs.begin(), node.outputs.end(), made) != node.outputs.end()) maker = &node;
    if (maker == nullptr) continue;
    std::erase_if(origins, [&](int64_t number) { return moved[number] != nullptr && moved[number] != maker; });
    all.emplace_back(maker, std::move(origins));
  }
  for (auto& [node, origins] : all) tenon::add_origins(*node, std::move(origins), names_);
}

ValueId Rewriter::add_value(Value value) {
  add_links();
  return graph_.add_value(std::move(value));
}

ValueId Rewriter::add_constant(std::string name, ConstantRef constant) {
  add_links();
  return graph_.add_constant(std::move(name), std::move(constant));
}

void Rewriter::insert_before(NodeId id, Node node) {
  count(node, 1);
  inserted_.emplace(id, std::move(node));
}

void Rewriter::finish() {
  add_origins();
  if (inserted_.empty() && std::find(erased_.begin(), erased_.end(), true) == erased_.end()) return;
  PerNode<Node> nodes;
  nodes.reserve(graph_.nodes.size() + inserted_.size());
  auto next = inserted_.begin();
  for (NodeId id : graph_.nodes.ids()) {
    for (; next != inserted_.end() && next->first == id; ++next) nodes.push_back(std::move(next->second));
    if (!erased_[id]) nodes.push_back(std::move(graph_.nodes[id]));
  }
  graph_.nodes = std::move(nodes);
}

std::optional<ReduceDesc> constant_reduce(const Rewriter& rewriter, const Node& node) {
  return read_reduce(node, node.input(1) != kNoValue, rewriter.constant(node.input(1)));
}

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

Node make_internal(std::string op_type, std::string name, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node = make_node(std::move(op_type), 1, std::move(name), std::move(inputs), std::move(outputs));
  node.domain = "tenon";
  return node;
}

}  // namespace tenon
