// Prints a graph as text, one line for each node in a fixed order, for dumps and golden files.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "graph/graph.h"
#include "graph/symbols.h"

namespace tenon {

namespace {

constexpr size_t kShownElements = 16;  // of a list attribute; weights of old operators come as lists

void append_escaped(std::string& text, std::string_view raw) {
  for (char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      text += format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
}

std::string quoted(std::string_view raw) {
  std::string text = "\"";
  append_escaped(text, raw);
  return text + "\"";
}

template <typename T, typename Show>
std::string list_text(const std::vector<T>& items, Show&& show) {
  std::string text = "[";
  for (size_t i = 0; i < std::min(items.size(), kShownElements); ++i) {
    if (i > 0) text += ',';
    text += show(items[i]);
  }
  if (items.size() > kShownElements) text += format(",... {} in all", items.size());
  return text + "]";
}

std::string attribute_text(const Attribute& attribute) {
  const auto number = [](auto value) { return format("{}", value); };
  switch (attribute.kind) {
    case AttributeKind::kFloat:
      return number(attribute.f);
    case AttributeKind::kInt:
      return number(attribute.i);
    case AttributeKind::kString:
      return quoted(attribute.s);
    case AttributeKind::kFloats:
      return list_text(attribute.floats, number);
    case AttributeKind::kInts:
      return list_text(attribute.ints, number);
    case AttributeKind::kStrings:
      return list_text(attribute.strings, quoted);
    case AttributeKind::kGraph:
      return "graph";
    case AttributeKind::kTensor:
      if (!attribute.tensor) return "tensor";
      return format("{}{}", data_type_name(attribute.tensor->type), attribute.tensor->shape.to_string());
    case AttributeKind::kOther:
      break;
  }
  return "other";
}

// Names as they appear in the text: a name that two values share, or no name, gets the value's number.
class Names {
 public:
  explicit Names(const Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values) ++count_[value.name];
  }
  std::string operator()(ValueId id) const {
    if (id == kNoValue) return "";
    const std::string& name = graph_.value(id).name;
    std::string text = "%";
    append_escaped(text, name);
    if (name.empty() || count_.at(name) > 1) text += format("#{}", id);
    return text;
  }
  std::string typed(ValueId id) const {
    if (id == kNoValue) return "_";
    const Value& value = graph_.value(id);
    return (*this)(id) + ":" + value.type_text() + (value.layout == Layout::kBlocked8 ? "@blocked8" : "");
  }

 private:
  const Graph& graph_;
  std::unordered_map<std::string_view, int> count_;
};

std::string typed_list(const Names& names, const std::vector<ValueId>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? ", " : "") + names.typed(ids[i]);
  return text;
}

void append_graph(std::string& text, const Graph& graph, const std::string& indent);

void append_node(std::string& text, const Names& names, const Node& node, const std::string& indent) {
  text += indent + typed_list(names, node.outputs) + " = ";
  append_escaped(text, node.domain);
  if (!node.domain.empty()) text += '.';
  append_escaped(text, node.op_type);
  text += format("@{}(", node.since_version);
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i > 0 ? ", " : "") + names(node.inputs[i]);
  text += ")";

  std::vector<const Attribute*> sorted;
  sorted.reserve(node.attributes.size());
  for (const Attribute& attribute : node.attributes) sorted.push_back(&attribute);
  std::sort(sorted.begin(), sorted.end(), [](const Attribute* a, const Attribute* b) { return a->name < b->name; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    text += i == 0 ? " {" : ", ";
    append_escaped(text, sorted[i]->name);
    text += "=" + attribute_text(*sorted[i]);
  }
  text += sorted.empty() ? "\n" : "}\n";
  for (const Attribute* attribute : sorted) {
    if (!attribute->graph) continue;
    text += indent + "  " + attribute->name + ":";
    const Names inner_names(*attribute->graph);
    for (const auto& [outer, inner] : attribute->graph->captures)
      text += format(" {}<-{}", inner_names(inner), names(outer));
    text += "\n";
    append_graph(text, *attribute->graph, indent + "    ");
  }
}

void append_graph(std::string& text, const Graph& graph, const std::string& indent) {
  const Names names(graph);
  text += indent + "graph " + quoted(graph.name) + "(" + typed_list(names, graph.inputs) + ")";
  for (const auto& [domain, version] : graph.opsets)
    text += format(" {}@{}", domain.empty() ? "ai.onnx" : domain, version);
  text += "\n";
  const PerValue<int32_t> uses = graph.use_counts();
  for (ValueId id : graph.values.ids()) {
    if (graph.value(id).constant && uses[id] > 0) text += indent + names.typed(id) + "=const\n";
  }
  for (const Node& node : graph.nodes) append_node(text, names, node, indent);
  text += indent + "return " + typed_list(names, graph.outputs) + "\n";
}

}  // namespace

std::string Value::type_text() const {
  if (object != nullptr) return object->to_string();
  if (!is_tensor) return "other";
  std::string text(data_type_name(type));
  if (!has_rank) return text + "[...]";
  text += "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    if (dims[i].known()) {
      text += std::to_string(dims[i].value);
    } else if (const std::string_view declared = declared_symbol(dims[i].symbol); declared.empty()) {
      text += '?';
    } else {
      append_escaped(text, declared);
    }
  }
  return text + "]";
}

std::string Graph::to_text() const {
  std::string text;
  append_graph(text, *this, "");
  return text;
}

}  // namespace tenon
