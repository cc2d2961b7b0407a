#include "abi/model_editor.h"

#include <unordered_map>

#include "abi/objects/status.h"
#include "graph/schema.h"

namespace tenon::abi {

namespace {

constexpr int64_t kIrVersion = 10;

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

class GraphMaker {
 public:
  explicit GraphMaker(const OrtModel& model) : model_(model) {}
  // Adds to a graph.
  GraphMaker(const OrtModel& model, const Graph& base) : model_(model), changes_(true), graph_(base) {
    const PerValue<NodeId> producers = graph_.producers();
    defined_ = PerValue<bool>(graph_.values.size(), false);
    for (ValueId id : graph_.values.ids()) {
      const Value& value = graph_.value(id);
      defined_[id] = producers[id].valid() || value.constant != nullptr;
      if (!value.name.empty()) ids_.emplace(value.name, id);
    }
    for (ValueId id : graph_.inputs) defined_[id] = true;
  }

  Result<Graph> make(const OrtGraph& from) {
    TENON_TRY(add_opsets());
    const size_t first_new = graph_.nodes.size();
    if (!from.inputs.empty()) {
      for (ValueId id : graph_.inputs) defined_[id] = false;
      graph_.inputs.clear();
    }
    if (!from.outputs.empty()) graph_.outputs.clear();
    for (const OrtValueInfo* input : from.inputs) {
      TENON_TRY_ASSIGN(const ValueId id, define(input->name, "input"));
      TENON_TRY(set_type(graph_.value(id), *input));
      graph_.inputs.push_back(id);
    }
    for (const EditorInitializer& initializer : from.editor_initializers) TENON_TRY(add_initializer(initializer));
    for (const std::unique_ptr<OrtNode>& node : from.nodes) TENON_TRY(add_node(*node));
    for (const auto& [name, id] : ids_) {
      if (!defined_[id])
        return with_ort_code(
            invalid_argument("Value \"{}\" is read, and no input, initializer or node makes it.", name),
            ORT_INVALID_ARGUMENT);
    }
    for (const OrtValueInfo* output : from.outputs) {
      const auto found = ids_.find(output->name);
      TENON_INVALID_IF(found == ids_.end(), "Output \"{}\" is made by no node.", output->name);
      Value& value = graph_.value(found->second);
      if (!value.constant && value.type == DataType::kUndefined) TENON_TRY(set_type(value, *output));
      graph_.outputs.push_back(found->second);
    }
    for (NodeId id : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[id];
      if (id.index() < first_new) continue;
      const int opset = graph_.opset(node.domain);
      const std::optional<Schema> schema = find_schema(node.domain, node.op_type, opset);
      TENON_INVALID_IF(changes_ && !schema && newest_opset(node.domain) > 0,
                       "Node {} is of no operator that domain \"{}\" has at opset {}.", node.label(graph_), node.domain,
                       opset);
      if (schema) TENON_TRY(check_node(graph_, node, *schema));
    }
    TENON_TRY(graph_.sort_topologically());
    return std::move(graph_);
  }

 private:
  Status add_opsets() {
    for (const auto& [domain, version] : model_.opsets) {
      const int newest = newest_readable_opset(plain_domain(domain));
      TENON_INVALID_IF(version < 1 || version > INT32_MAX, "The model imports opset {} of \"{}\".", version, domain);
      TENON_UNSUPPORTED_IF(newest > 0 && version > newest,
                           "The model imports opset {} of \"{}\"; the newest that is known is {}.", version, domain,
                           newest);
      const int before = graph_.opset(plain_domain(domain));
      if (before == version) continue;
      if (before != 0 && changes_)
        return with_ort_code(invalid_argument("Domain version can not be changed for '{}'. Current version: {}",
                                              plain_domain(domain), before),
                             ORT_INVALID_ARGUMENT);
      graph_.opsets.emplace_back(plain_domain(domain), static_cast<int>(version));
    }
    return Status();
  }

  ValueId read(const std::string& name) {
    if (name.empty()) return kNoValue;
    const auto [found, is_new] = ids_.try_emplace(name, ValueId(graph_.values.size()));
    if (is_new) {
      Value value;
      value.name = name;
      graph_.add_value(std::move(value));
      defined_.push_back(false);
    }
    return found->second;
  }

  Result<ValueId> define(const std::string& name, const char* what) {
    const ValueId id = read(name);
    if (id == kNoValue) return id;
    if (defined_[id])
      return with_ort_code(invalid_argument("The {} \"{}\" has the name of another value.", what, name), ORT_FAIL);
    defined_[id] = true;
    return id;
  }

  Status set_type(Value& value, const OrtValueInfo& info) {
    TENON_UNSUPPORTED_IF(info.type.kind != ONNX_TYPE_TENSOR, "Value \"{}\" is not a tensor (kind {}).", info.name,
                         static_cast<int>(info.type.kind));
    const OrtTensorTypeAndShapeInfo& tensor = info.type.tensor;
    value.type = from_element_type(tensor.type);
    TENON_UNSUPPORTED_IF(value.type == DataType::kUndefined, "Value \"{}\" has the element type {}.", info.name,
                         static_cast<int>(tensor.type));
    value.has_rank = tensor.has_shape;
    value.dims.clear();
    if (!tensor.has_shape) return Status();
    TENON_UNSUPPORTED_IF(tensor.dims.size() > Shape::kMaxRank, "Value \"{}\" has {} dimensions; the most are {}.",
                         info.name, tensor.dims.size(), Shape::kMaxRank);
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      const std::string symbol = i < tensor.dim_names.size() ? tensor.dim_names[i] : std::string();
      value.dims.push_back(tensor.dims[i] >= 0 ? Dim{tensor.dims[i], {}} : Dim{-1, symbol});
    }
    return Status();
  }

  Status add_initializer(const EditorInitializer& initializer) {
    const OrtValue& from = *initializer.value;
    auto constant = std::make_shared<Constant>();
    if (from.is_string_tensor()) {
      *constant = *make_string_constant(from.shape, *from.strings);
    } else {
      constant->type = from.tensor.type();
      constant->shape = from.tensor.shape();
      constant->data = static_cast<const std::byte*>(from.tensor.data());
      constant->size_bytes = from.tensor.size_bytes();
      // The tensor keeps what it views; without an owner the program does.
      constant->owner = std::make_shared<const Tensor>(from.tensor);
    }
    const auto input = ids_.find(initializer.name);
    ValueId id = kNoValue;
    if (input != ids_.end()) {
      id = input->second;
      TENON_INVALID_IF(graph_.value(id).constant != nullptr, "There are two initializers \"{}\".", initializer.name);
      std::erase(graph_.inputs, id);
    } else {
      TENON_TRY_ASSIGN(id, define(initializer.name, "initializer"));
    }
    Value& value = graph_.value(id);
    value.type = constant->type;
    value.set_shape(constant->shape);
    value.constant = std::move(constant);
    return Status();
  }

  Status add_node(const OrtNode& from) {
    Node node;
    node.name = from.name;
    node.op_type = from.op_type;
    node.domain = plain_domain(from.domain);
    for (const std::string& name : from.input_names) node.inputs.push_back(read(name));
    for (const std::string& name : from.output_names) {
      TENON_TRY_ASSIGN(const ValueId id, define(name, "output"));
      node.outputs.push_back(id);
    }
    for (const OrtOpAttr& attribute : from.attributes) node.attributes.edit().push_back(*attribute.attribute);
    TENON_INVALID_IF(node.op_type.empty(), "Node \"{}\" names no operator.", node.name);
    TENON_INVALID_IF(node.domain == "tenon", "Node \"{}\" is of domain \"tenon\", which is for Tenon's own operators.",
                     node.name);
    const int opset = graph_.opset(node.domain);
    TENON_INVALID_IF(opset == 0 && newest_opset(node.domain) > 0,
                     "Node {} is of domain {}, of which no opset is imported.", node.label(graph_),
                     node.domain.empty() ? "ai.onnx" : node.domain);
    const std::optional<Schema> schema = find_schema(node.domain, node.op_type, opset);
    node.since_version = schema ? schema->since_version : 0;
    graph_.nodes.push_back(std::move(node));
    return Status();
  }

  const OrtModel& model_;
  const bool changes_ = false;  // a graph that there was
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
  PerValue<bool> defined_;
};

}  // namespace

Result<Model> to_core(const OrtModel& from) {
  TENON_INVALID_IF(from.graph == nullptr, "The model has no graph; AddGraphToModel gives it one.");
  Model model;
  GraphMaker maker(from);
  TENON_TRY_ASSIGN(model.graph, maker.make(*from.graph));
  model.info.ir_version = kIrVersion;
  return model;
}

Result<Model> with_update(const Model& base, const OrtModel& update) {
  TENON_INVALID_IF(update.graph == nullptr, "The model has no graph; AddGraphToModel gives it one.");
  Model changed = base;
  GraphMaker maker(update, base.graph);
  TENON_TRY_ASSIGN(changed.graph, maker.make(*update.graph));
  return changed;
}

}  // namespace tenon::abi
