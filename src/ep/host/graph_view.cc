#include "ep/host/graph_view.h"

#include <algorithm>
#include <unordered_set>

#include "base/status.h"
#include "ep/host/attribute_defaults.h"
#include "ep/host/node_order.h"
#include "graph/symbols.h"

OrtNode::~OrtNode() = default;

namespace tenon::abi {

namespace {

constexpr size_t kMaxNesting = 64;  // the reader's limit; graphs from elsewhere must not overflow the stack either

class ViewBuilder {
 public:
  ViewBuilder(const Graph& graph, std::shared_ptr<const GraphOrigin> origin) : graph_(graph) {
    view_ = std::make_unique<OrtGraph>();
    view_->name = graph.name;
    view_->core = &graph;
    view_->origin = std::move(origin);
    for (const auto& [domain, version] : graph.opsets) view_->opsets.emplace_back(domain, version);
    std::sort(view_->opsets.begin(), view_->opsets.end());
  }

  OrtGraph& view() { return *view_; }

  // The object for a value of the core, made when it is first asked for.
  Result<OrtValueInfo*> value(ValueId id) {
    if (id == kNoValue) return static_cast<OrtValueInfo*>(nullptr);
    OrtValueInfo*& known = view_->by_id[id];
    if (known != nullptr) return known;
    const Value& core = graph_.value(id);
    auto info = std::make_unique<OrtValueInfo>();
    info->name = core.name;
    info->type = type_info_of(core);
    info->graph = view_.get();
    info->core = id;
    if (core.constant) {
      TENON_TRY_ASSIGN(info->initializer, value_of(core.constant));
    }
    known = info.get();
    view_->values.push_back(std::move(info));
    return known;
  }

  // `shown_id`: the id that the EP sees.
  Status add_node(NodeId id, size_t shown_id, size_t depth) {
    const Node& core = graph_.nodes[id];
    auto node = std::make_unique<OrtNode>();
    node->id = shown_id;
    node->name = core.name;
    node->op_type = core.op_type;
    node->domain = core.domain;
    node->since_version = core.since_version;
    node->graph = view_.get();
    node->core = id;
    for (size_t i = 0; i < core.inputs.size(); ++i) {
      TENON_TRY_ASSIGN(OrtValueInfo* const info, value(core.inputs[i]));
      node->inputs.push_back(info);
      if (info != nullptr) info->uses.push_back({node.get(), static_cast<int64_t>(i)});
    }
    for (size_t i = 0; i < core.outputs.size(); ++i) {
      TENON_TRY_ASSIGN(OrtValueInfo* const info, value(core.outputs[i]));
      node->outputs.push_back(info);
      if (info == nullptr) continue;
      info->producer = node.get();
      info->producer_output = i;
    }
    for (const Attribute& attribute : core.attributes) {
      node->attributes.push_back({nullptr, &attribute});
      if (attribute.kind == AttributeKind::kGraph && attribute.graph) TENON_TRY(add_subgraph(*node, attribute, depth));
    }
    for (std::unique_ptr<Attribute>& attribute : default_attributes(core)) {
      const Attribute* borrowed = attribute.get();
      node->attributes.push_back({std::move(attribute), borrowed});
    }
    view_->nodes.push_back(std::move(node));
    return Status();
  }

  Status add_boundary(std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
    for (ValueId id : inputs) {
      TENON_TRY_ASSIGN(OrtValueInfo* const info, value(id));
      if (info == nullptr) continue;
      info->graph_input = true;
      view_->inputs.push_back(info);
    }
    for (ValueId id : outputs) {
      TENON_TRY_ASSIGN(OrtValueInfo* const info, value(id));
      if (info == nullptr) continue;
      info->graph_output = true;
      view_->outputs.push_back(info);
    }
    return Status();
  }

  std::unique_ptr<OrtGraph> finish() {
    for (const std::unique_ptr<OrtValueInfo>& info : view_->values)
      if (info->initializer) view_->initializers.push_back(info.get());
    return std::move(view_);
  }

 private:
  Status add_subgraph(OrtNode& node, const Attribute& attribute, size_t depth);

  const Graph& graph_;
  std::unique_ptr<OrtGraph> view_;
};

Result<std::unique_ptr<OrtGraph>> make_whole(const Graph& graph, std::shared_ptr<const GraphOrigin> origin,
                                             IdSpan<NodeId, const NodeId> node_ids, const OrtNode* parent,
                                             size_t depth) {
  if (depth > kMaxNesting) return resource_exhausted("Subgraphs are nested more than {} deep.", kMaxNesting);
  ViewBuilder builder(graph, std::move(origin));
  builder.view().parent = parent;
  TENON_TRY(builder.add_boundary(graph.inputs, graph.outputs));
  for (NodeId n : reference_order(graph)) {
    TENON_TRY(builder.add_node(n, (node_ids.contains(n) ? node_ids[n] : n).index(), depth));
  }
  for (const auto& [outer, inner] : graph.captures) {
    TENON_TRY_ASSIGN(OrtValueInfo* const info, builder.value(inner));
    info->from_outer_scope = true;
  }
  return builder.finish();
}

Status ViewBuilder::add_subgraph(OrtNode& node, const Attribute& attribute, size_t depth) {
  TENON_TRY_ASSIGN(std::unique_ptr<OrtGraph> sub, make_whole(*attribute.graph, view_->origin, {}, &node, depth + 1));
  node.subgraphs.push_back({attribute.name, std::move(sub)});
  for (const auto& [outer, inner] : attribute.graph->captures) {
    TENON_TRY_ASSIGN(OrtValueInfo* const info, value(outer));
    if (std::find(node.implicit_inputs.begin(), node.implicit_inputs.end(), info) != node.implicit_inputs.end())
      continue;
    node.implicit_inputs.push_back(info);
    info->uses.push_back({&node, -1});
  }
  return Status();
}

// Calls `use` for each value that the node reads, and for each that its subgraphs capture.
template <typename Use>
void for_each_read(const Node& node, Use&& use) {
  for (ValueId id : node.inputs) use(id);
  for (const Attribute& attribute : node.attributes) {
    if (attribute.kind != AttributeKind::kGraph || !attribute.graph) continue;
    for (const auto& [outer, inner] : attribute.graph->captures) use(outer);
  }
}

}  // namespace

OrtTypeInfo type_info_of(const Value& value) {
  OrtTypeInfo info;
  if (!value.is_tensor || value.type == DataType::kUndefined) return info;
  OrtTensorTypeAndShapeInfo tensor;
  tensor.type = to_element_type(value.type);
  tensor.has_shape = value.has_rank;
  if (value.has_rank) {
    for (const Dim& dim : value.dims) {
      tensor.dims.push_back(dim.known() ? dim.value : -1);
      tensor.dim_names.push_back(dim.known() ? std::string() : std::string(declared_symbol(dim.symbol)));
    }
  }
  return make_tensor_type(std::move(tensor));
}

Result<std::unique_ptr<OrtValue>> value_of(const ConstantRef& constant) {
  auto value = std::make_unique<OrtValue>();
  if (constant->type == DataType::kString) {
    value->kind = ONNX_TYPE_TENSOR;
    value->element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    value->shape = constant->shape;
    value->strings = std::make_shared<std::vector<std::string>>(constant->strings.begin(), constant->strings.end());
    return value;
  }
  TENON_TRY_ASSIGN(Tensor tensor,
                   Tensor::view(constant->type, constant->shape, const_cast<std::byte*>(constant->data.bytes()),
                                constant->size_bytes, constant));
  *value = make_value(tensor.as_read_only());
  return value;
}

OrtOpAttrType attribute_type(AttributeKind kind) noexcept {
  switch (kind) {
    case AttributeKind::kFloat:
      return ORT_OP_ATTR_FLOAT;
    case AttributeKind::kInt:
      return ORT_OP_ATTR_INT;
    case AttributeKind::kString:
      return ORT_OP_ATTR_STRING;
    case AttributeKind::kTensor:
      return ORT_OP_ATTR_TENSOR;
    case AttributeKind::kGraph:
      return ORT_OP_ATTR_GRAPH;
    case AttributeKind::kFloats:
      return ORT_OP_ATTR_FLOATS;
    case AttributeKind::kInts:
      return ORT_OP_ATTR_INTS;
    case AttributeKind::kStrings:
      return ORT_OP_ATTR_STRINGS;
    case AttributeKind::kOther:
      return ORT_OP_ATTR_UNDEFINED;
  }
  return ORT_OP_ATTR_UNDEFINED;
}

Result<std::unique_ptr<OrtGraph>> make_graph_view(const Graph& graph, std::shared_ptr<const GraphOrigin> origin,
                                                  IdSpan<NodeId, const std::string> ep_names) {
  TENON_TRY_ASSIGN(std::unique_ptr<OrtGraph> view, make_whole(graph, std::move(origin), {}, nullptr, 0));
  for (const std::unique_ptr<OrtNode>& node : view->nodes) {
    if (ep_names.contains(node->core)) node->ep_name = ep_names[node->core];
  }
  return view;
}

Result<std::unique_ptr<OrtGraph>> make_part_view(const Graph& graph, std::span<const NodeId> nodes,
                                                 std::shared_ptr<const GraphOrigin> origin) {
  PerNode<bool> in_part(graph.nodes.size());
  for (NodeId n : nodes) {
    TENON_INVALID_IF(!graph.nodes.contains(n), "Node {} does not exist; the graph has {}.", n, graph.nodes.size());
    in_part[n] = true;
  }
  const PerValue<NodeId> producers = graph.producers();
  const auto is_inside = [&](ValueId id) { return producers[id].valid() && in_part[producers[id]]; };
  std::vector<ValueId> inputs, outputs;
  std::unordered_set<ValueId> read_inside, read_outside(graph.outputs.begin(), graph.outputs.end());
  for (NodeId n : graph.nodes.ids()) {
    for_each_read(graph.nodes[n], [&](ValueId id) {
      if (id == kNoValue || graph.value(id).constant) return;
      if (!in_part[n]) {
        read_outside.insert(id);
      } else if (!is_inside(id) && read_inside.insert(id).second) {
        inputs.push_back(id);
      }
    });
  }
  for (NodeId n : graph.nodes.ids()) {
    if (!in_part[n]) continue;
    for (ValueId id : graph.nodes[n].outputs)
      if (read_outside.contains(id)) outputs.push_back(id);
  }
  ViewBuilder builder(graph, std::move(origin));
  builder.view().name = "sub_graph";
  TENON_TRY(builder.add_boundary(inputs, outputs));
  for (NodeId n : reference_order(graph))
    if (in_part[n]) TENON_TRY(builder.add_node(n, n.index(), 0));
  for (const auto& [outer, inner] : graph.captures) {
    const auto known = builder.view().by_id.find(inner);
    if (known != builder.view().by_id.end()) known->second->from_outer_scope = true;
  }
  return builder.finish();
}

Result<std::unique_ptr<OrtGraph>> make_region_view(const Graph& body, std::string name,
                                                   std::shared_ptr<const GraphOrigin> origin,
                                                   IdSpan<NodeId, const NodeId> node_ids) {
  TENON_TRY_ASSIGN(std::unique_ptr<OrtGraph> view, make_whole(body, std::move(origin), node_ids, nullptr, 0));
  view->name = std::move(name);
  return view;
}

std::unique_ptr<OrtNode> make_region_node(const OrtGraph& view, std::string name, std::string ep_name, size_t id) {
  auto node = std::make_unique<OrtNode>();
  node->id = id;
  node->name = std::move(name);
  node->op_type = view.name;
  node->domain = ep_name;
  node->ep_name = std::move(ep_name);
  node->since_version = 1;
  node->inputs = view.inputs;
  node->outputs = view.outputs;
  return node;
}

}  // namespace tenon::abi
