#include "windows.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/model_writer.h"
#include "graph/reader.h"
#include "ops/shape_inference.h"

namespace tenon::fuzz {

namespace {

using Names = std::vector<std::string>;

Names texts_of(const Message& message, uint32_t number) {
  Names texts;
  for (const Field& field : message.fields)
    if (field.number == number && field.bytes && !field.bytes->empty()) texts.push_back(*field.bytes);
  return texts;
}

bool is_constant(const Message& node) { return texts_of(node, proto::NodeProto::kOpType) == Names{"Constant"}; }

Field message_field(uint32_t number, MessageRef message) {
  return Field{.number = number, .wire = 2, .message = std::move(message)};
}

// Null when the type is not known well enough to declare it.
MessageRef declare(const Value& value) {
  if (!value.has_rank || !value.is_tensor || value.type == DataType::kUndefined) return nullptr;
  std::vector<model_writer::DimText> dims;
  for (const Dim& dim : value.dims) {
    if (dim.known()) {
      dims.emplace_back(dim.value);
    } else {
      dims.emplace_back(dim.symbol);
    }
  }
  const std::string type = model_writer::tensor_type(static_cast<int>(value.type), dims);
  return parse(model_writer::value_info(value.name, type), MessageKind::kValueInfo);
}

// The parts of one model that its windows are cut from.
struct Source {
  std::vector<Field> nodes;
  std::map<std::string, Field> initializers, constants;  // by the name of what they make
  std::map<std::string, const Value*> values;
};

MessageRef cut_graph(const Source& source, size_t first, size_t count) {
  auto graph = std::make_shared<Message>();
  graph->kind = MessageKind::kGraph;
  std::set<std::string> made, read;
  Names left;
  for (size_t i = first; i < first + count; ++i) {
    for (std::string& name : texts_of(*source.nodes[i].message, proto::NodeProto::kOutput))
      made.insert(std::move(name));
    for (std::string& name : texts_of(*source.nodes[i].message, proto::NodeProto::kInput)) read.insert(std::move(name));
  }
  for (const std::string& name : made)
    if (!read.contains(name)) left.push_back(name);
  for (const std::string& name : read) {
    if (made.contains(name)) continue;
    if (const auto initializer = source.initializers.find(name); initializer != source.initializers.end()) {
      graph->fields.push_back(initializer->second);
    } else if (const auto constant = source.constants.find(name); constant != source.constants.end()) {
      graph->fields.push_back(constant->second);
    } else {
      const auto value = source.values.find(name);
      MessageRef declared = value == source.values.end() ? nullptr : declare(*value->second);
      if (!declared) return nullptr;
      graph->fields.push_back(message_field(proto::GraphProto::kInput, std::move(declared)));
    }
  }
  for (size_t i = first; i < first + count; ++i) graph->fields.push_back(source.nodes[i]);
  for (const std::string& name : left) {
    MessageRef declared = parse(model_writer::value_info(name, ""), MessageKind::kValueInfo);
    graph->fields.push_back(message_field(proto::GraphProto::kOutput, std::move(declared)));
  }
  return graph;
}

}  // namespace

std::vector<MessageRef> cut_windows(const MessageRef& model, size_t nodes_each, const std::string& directory) {
  const std::string bytes = serialize(*model);
  Result<Model> typed = read_model_bytes(model_writer::bytes(bytes), directory);
  if (!typed.ok() || !infer_shapes(typed->graph).ok()) return {};
  Source source;
  for (const Value& value : typed->graph.values) source.values.emplace(value.name, &value);
  const auto graph = std::find_if(model->fields.begin(), model->fields.end(),
                                  [](const Field& field) { return field.number == proto::ModelProto::kGraph; });
  for (const Field& field : graph->message->fields) {
    if (!field.message) continue;
    if (field.number == proto::GraphProto::kInitializer) {
      for (const std::string& name : texts_of(*field.message, proto::TensorProto::kName))
        source.initializers.emplace(name, field);
    } else if (field.number == proto::GraphProto::kNode && is_constant(*field.message)) {
      for (const std::string& name : texts_of(*field.message, proto::NodeProto::kOutput))
        source.constants.emplace(name, field);
    } else if (field.number == proto::GraphProto::kNode) {
      source.nodes.push_back(field);
    }
  }
  std::vector<MessageRef> windows;
  const auto place = static_cast<size_t>(graph - model->fields.begin());
  for (size_t first = 0; first + nodes_each <= source.nodes.size(); first += nodes_each) {
    MessageRef window = cut_graph(source, first, nodes_each);
    if (!window) continue;
    auto copy = std::make_shared<Message>(*model);
    copy->fields[place].message = std::move(window);
    windows.push_back(std::move(copy));
  }
  return windows;
}

}  // namespace tenon::fuzz
