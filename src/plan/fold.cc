#include "plan/fold.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/shape_inference.h"
#include "plan/fold_rules.h"
#include "plan/fold_sizes.h"
#include "plan/node_origins.h"
#include "plan/regions.h"

namespace tenon {
namespace {

constexpr size_t kMaxResultBytes = size_t{16} << 20;
// The bytes that folding may allocate in all, even for a small file, beside twice those of its constants.
constexpr size_t kFoldingBytes = size_t{64} << 20;
// Inputs of operators whose result size is only known afterwards (NonZero of a constant).
constexpr size_t kMaxUnsizedInputBytes = size_t{1} << 20;

bool is_random(const Node& node) {
  static constexpr std::string_view kRandom[] = {
      "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout"};
  return std::find(std::begin(kRandom), std::end(kRandom), node.op_type) != std::end(kRandom);
}

// EPs look for the first two, and the third says more than the numbers that it makes.
bool is_for_claims(const Node& node) {
  return node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear" || node.op_type == "ConstantOfShape";
}

class Folder {
 public:
  Folder(Graph& graph, const EvaluateNode& evaluate, FoldOptions options)
      : graph_(graph), evaluate_(evaluate), options_(options) {}

  // Instead of run().
  Status run_before_claims() {
    return each([this](Node node) {
      if (is_region(node) || is_for_claims(node) || makes_output(node) || !evaluate_all(node)) keep(std::move(node));
      return Status();
    });
  }

  Status run() {
    if (FoldSizes::has_open_inputs(graph_)) sizes_.emplace(graph_, evaluate_);
    TENON_TRY(each([this](Node node) { return visit(std::move(node)); }));
    finish_renames();
    return {};
  }

 private:
  template <typename Visit>
  Status each(const Visit& visit) {
    is_output_.assign(graph_.values.size(), false);
    for (ValueId id : graph_.outputs) is_output_[id] = true;
    for (const Value& value : graph_.values)
      if (value.constant) budget_bytes_ += 2 * std::min(value.constant->size_bytes, SIZE_MAX / 8 - budget_bytes_ / 4);
    PerNode<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(nodes.size());
    grow();
    for (Node& node : nodes) TENON_TRY(visit(std::move(node)));
    return {};
  }

  bool makes_output(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [this](ValueId id) { return id != kNoValue && is_output_[id]; });
  }

  // Values may be added while folding; the side tables follow.
  void grow() {
    same_as_.resize(graph_.values.size(), kNoValue);
    producer_.resize(graph_.values.size());
    is_output_.resize(graph_.values.size(), false);
  }

  ValueId resolve(ValueId id) const {
    while (id != kNoValue && same_as_[id] != kNoValue) id = same_as_[id];
    return id;
  }

  void redirect(Node& node) const {
    for (ValueId& id : node.inputs) id = resolve(id);
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      bool moved = false;
      for (const auto& [outer, inner] : attribute.graph->captures) moved = moved || resolve(outer) != outer;
      if (!moved) continue;
      if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (auto& capture : attribute.graph->captures) capture.first = resolve(capture.first);
    }
  }

  void keep(Node node) {
    for (ValueId id : node.outputs)
      if (id != kNoValue) producer_[id] = graph_.nodes.end_id();
    graph_.nodes.push_back(std::move(node));
  }

  const Node* producer(ValueId id) const {
    if (id == kNoValue || !producer_[id].valid()) return nullptr;
    return &graph_.nodes[producer_[id]];
  }

  void set_constant(ValueId id, ConstantRef constant) {
    Value& value = graph_.value(id);
    value.type = constant->type;
    value.set_shape(constant->shape);
    value.constant = std::move(constant);
  }

  // Output `id` of a node that goes is `source`. False: the node has to stay, because a graph output needs a producer.
  bool forward(ValueId id, ValueId source) {
    if (!is_output_[id]) {
      same_as_[id] = source;
      return true;
    }
    if (graph_.value(source).constant) {
      set_constant(id, graph_.value(source).constant);
      return true;
    }
    if (!producer_[source].valid() || is_output_[source]) return false;
    // The producer writes the graph output directly; earlier readers of `source` follow at the end.
    const NodeId maker = producer_[source];
    for (ValueId& out : graph_.nodes[maker].outputs)
      if (out == source) out = id;
    producer_[id] = maker;
    producer_[source] = kNoNode;
    same_as_[source] = id;
    Value& to = graph_.value(id);
    const Value& from = graph_.value(source);
    to.type = from.type;
    to.has_rank = from.has_rank;
    to.dims = from.dims;
    renamed_ = true;
    return true;
  }

  void finish_renames() {
    if (!renamed_) return;
    for (Node& node : graph_.nodes) redirect(node);
  }

  // True if the node waits for sizes, and its outputs with it.
  bool is_late(const Node& node) {
    if (!options_.only_known_sizes) return false;
    late_.resize(graph_.values.size(), false);
    const auto late = [this](ValueId id) { return id != kNoValue && late_[id]; };
    bool any = std::any_of(node.inputs.begin(), node.inputs.end(), late);
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph)
        for (const auto& [outer, inner] : attribute.graph->captures) any = any || late(outer);
    if (any) mark_late(node);
    return any;
  }

  void mark_late(const Node& node) {
    for (ValueId id : node.outputs)
      if (id != kNoValue) late_[id] = true;
  }

  Status visit(Node node) {
    redirect(node);
    if (is_late(node)) {
      keep(std::move(node));
      return {};
    }
    if (inline_branch(node)) return splice(std::move(node));
    if (sizes_) sizes_->use_sizes(node);
    TENON_TRY(infer_node(graph_, node));
    if (sizes_) sizes_->refine_dims(node);
    if (is_region(node)) {
      if (!fold_body(node)) keep(std::move(node));
      return {};
    }
    if (ConstantRef known = fold_rules::known_from_shapes(graph_, node)) {
      set_constant(node.outputs[0], std::move(known));
      return {};
    }
    if (evaluate_all(node)) return {};
    const auto has_size = [this](ValueId id) { return id == kNoValue || graph_.value(id).fully_known(); };
    if (options_.only_known_sizes && !std::all_of(node.outputs.begin(), node.outputs.end(), has_size)) {
      mark_late(node);
      keep(std::move(node));
      return {};
    }
    if (sizes_) {
      ValueId same = kNoValue;
      if (ConstantRef known = sizes_->note_elements(node, same)) {
        set_constant(node.outputs[0], std::move(known));
        return {};
      }
      if (same != kNoValue && forward(node.outputs[0], same)) return {};
    }
    // The rules may make another node of this one; they do not copy where it came from.
    std::shared_ptr<const NodeOrigins> origins = std::exchange(node.origins, nullptr);
    fold_rules::simplify(graph_, node, [this](ValueId id) { return producer(id); });
    node.origins = std::move(origins);
    grow();
    if (ValueId source = fold_rules::unchanged_input(graph_, node); source != kNoValue) {
      if (forward(node.outputs[0], source)) return {};
    }
    keep(std::move(node));
    return {};
  }

  // The shapes that a region's body computes are found on a copy of it: the region itself stays as it was compiled.
  // True if it makes nothing but sizes, which are constants now.
  bool fold_body(const Node& node) {
    const auto known = [this](ValueId id) { return id == kNoValue || graph_.value(id).fully_known(); };
    const auto may_be_size = [&](ValueId id) {
      return id != kNoValue && known(id) && graph_.value(id).type == DataType::kInt64 &&
             graph_.value(id).dims.size() <= 1;
    };
    const bool sizes = std::all_of(node.outputs.begin(), node.outputs.end(), may_be_size);
    if (!sizes && std::all_of(node.outputs.begin(), node.outputs.end(), known)) return false;
    Graph body = region_body(node);
    // A body that does not fold leaves its shapes to the run.
    if (!Folder(body, evaluate_, {.keep_bytes = options_.keep_bytes}).run().ok()) return false;
    bool all_constant = sizes;
    for (size_t i = 0; i < node.outputs.size() && i < body.outputs.size(); ++i) {
      const Value& inner = body.value(body.outputs[i]);
      all_constant = all_constant && inner.constant != nullptr;
      if (node.outputs[i] == kNoValue || !inner.has_rank) continue;
      Value& outer = graph_.value(node.outputs[i]);
      outer.type = inner.type;
      outer.has_rank = true;
      outer.dims = inner.dims;
    }
    if (!all_constant || node.outputs.size() != body.outputs.size()) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      set_constant(node.outputs[i], body.value(body.outputs[i]).constant);
    }
    return true;
  }

  bool all_constant(const Node& node) const {
    if (node.inputs.empty()) return false;
    bool any = false;
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      if (!graph_.value(id).constant) return false;
      any = true;
    }
    return any;
  }

  // Whether a product may take the codes as they are; one number or one row is no operand of one.
  bool dequantizes_matrix(const Node& node) const {
    if (node.op_type != "DequantizeLinear" || !node.domain.empty()) return false;
    const Constant& codes = *graph_.value(node.inputs[0]).constant;
    static constexpr DataType kOperands[] = {DataType::kUint8, DataType::kInt8, DataType::kUint4, DataType::kInt4};
    return std::find(std::begin(kOperands), std::end(kOperands), codes.type) != std::end(kOperands) &&
           codes.shape.rank() > 1 && codes.shape.element_count() > 1;
  }

  bool affordable(const Node& node) const {
    size_t inputs = 0;
    for (ValueId id : node.inputs)
      if (id != kNoValue) inputs += graph_.value(id).constant->size_bytes;
    size_t outputs = 0;
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const Value& value = graph_.value(id);
      if (!value.is_tensor || value.type == DataType::kUndefined || value.type == DataType::kString) return false;
      if (!value.fully_known()) {
        if (inputs > kMaxUnsizedInputBytes) return false;
        continue;
      }
      Result<size_t> size = tensor_size_bytes(value.type, value.shape());
      if (!size.ok() || *size > SIZE_MAX / 4) return false;
      outputs += *size;
      if (outputs > budget_bytes_) return false;
      if (outputs > kMaxResultBytes && outputs > inputs) return false;
    }
    return true;
  }

  // Whether the node only repeats or counts, and writes an output of the graph: the run would copy the constant, which
  // takes as long as making it, and the plan would hold it.
  bool fills_output(const Node& node) const {
    static constexpr std::string_view kFilling[] = {"ConstantOfShape", "Expand", "Range", "Tile"};
    constexpr size_t kLeastBytes = 4096;
    if (!node.domain.empty() || std::find(std::begin(kFilling), std::end(kFilling), node.op_type) == std::end(kFilling))
      return false;
    const Value& value = graph_.value(node.outputs[0]);
    if (!is_output_[node.outputs[0]] || !value.fully_known()) return false;
    const Result<size_t> size = tensor_size_bytes(value.type, value.shape());
    return size.ok() && *size >= kLeastBytes;
  }

  // True if the node is gone: all its outputs are constants now.
  bool evaluate_all(const Node& node) {
    if (!all_constant(node) || is_random(node) || (options_.keep_bytes && dequantizes_matrix(node))) return false;
    for (const auto view_of : {fold_rules::reshaped_constant, fold_rules::sliced_constant}) {
      if (ConstantRef view = view_of(graph_, node)) {
        set_constant(node.outputs[0], std::move(view));
        return true;
      }
    }
    if (!evaluate_) return false;
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph) return false;
    if (!affordable(node) || fills_output(node)) return false;
    Result<std::vector<ConstantRef>> results = evaluate_(graph_, node);
    if (!results.ok() || results->size() < node.outputs.size()) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue && !(*results)[i]) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      budget_bytes_ -= std::min(budget_bytes_, (*results)[i]->size_bytes);
      set_constant(node.outputs[i], (*results)[i]);
    }
    return true;
  }

  // True for an If whose condition is known.
  bool inline_branch(const Node& node) const {
    if (node.op_type != "If" || !node.domain.empty() || node.input(0) == kNoValue) return false;
    const ConstantRef& condition = graph_.value(node.inputs[0]).constant;
    return condition && condition->type == DataType::kBool && condition->size_bytes == 1 && chosen_branch(node);
  }

  const Graph* chosen_branch(const Node& node) const {
    const bool taken = graph_.value(node.inputs[0]).constant->data[0] != std::byte{0};
    const Attribute* branch = node.find(taken ? "then_branch" : "else_branch");
    if (!branch || !branch->graph || branch->graph->outputs.size() < node.outputs.size()) return nullptr;
    return branch->graph.get();
  }

  // The branch's nodes in place of the If.
  Status splice(Node node) {
    const Graph body = *chosen_branch(node);
    PerValue<ValueId> outer(body.values.size(), kNoValue);
    for (const auto& [outer_id, inner_id] : body.captures) outer[inner_id] = resolve(outer_id);
    for (ValueId id : body.values.ids())
      if (outer[id] == kNoValue) outer[id] = graph_.add_value(body.value(id));
    grow();
    auto mapped = [&](ValueId id) { return id == kNoValue ? kNoValue : outer[id]; };
    for (const Node& inner : body.nodes) {
      Node copy = inner;
      for (ValueId& id : copy.inputs) id = mapped(id);
      for (ValueId& id : copy.outputs) id = mapped(id);
      for (Attribute& attribute : copy.attributes.edit_bodies()) {
        if (!attribute.graph) continue;
        attribute.graph = std::make_shared<Graph>(*attribute.graph);
        for (auto& capture : attribute.graph->captures) capture.first = mapped(capture.first);
      }
      TENON_TRY(visit(std::move(copy)));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == kNoValue) continue;
      const ValueId source = resolve(mapped(body.outputs[i]));
      if (forward(id, source)) continue;
      Node identity;
      identity.name = node.name;
      identity.op_type = "Identity";
      identity.since_version = 1;
      identity.inputs = {source};
      identity.outputs = {id};
      TENON_TRY(infer_node(graph_, identity));
      keep(std::move(identity));
    }
    return {};
  }

  Graph& graph_;
  const EvaluateNode& evaluate_;
  const FoldOptions options_;
  PerValue<bool> late_;             // with only_known_sizes: of unknown size, or computed from one that is
  std::optional<FoldSizes> sizes_;  // while dimensions are open
  PerValue<ValueId> same_as_;       // a value that is another one, kNoValue for itself
  PerValue<NodeId> producer_;       // in the new node list
  PerValue<bool> is_output_;
  bool renamed_ = false;
  size_t budget_bytes_ = kFoldingBytes;
};

}  // namespace

Status fold_before_claims(Graph& graph, const EvaluateNode& evaluate) {
  TENON_TRY(Folder(graph, evaluate, {.keep_bytes = true}).run_before_claims());
  graph.remove_dead_nodes();
  return {};
}

Status fold_constants(Graph& graph, const EvaluateNode& evaluate, FoldOptions options) {
  graph.remove_dead_nodes();
  TENON_TRY(Folder(graph, evaluate, options).run());
  graph.remove_dead_nodes();
  return {};
}

}  // namespace tenon
