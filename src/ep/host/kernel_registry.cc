#include "ep/host/kernel_registry.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "abi/objects/type_info.h"
#include "base/format.h"
#include "graph/schema.h"

namespace {

using tenon::DataType;
using tenon::Graph;
using tenon::kNoValue;
using tenon::Node;
using tenon::Schema;
using tenon::SchemaParameter;
using tenon::ValueId;

constexpr int kNoLastVersion = 2147483647;

std::string_view plain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

OrtMemType find_mem_type(const std::map<size_t, OrtMemType>& types, size_t index) {
  const auto found = types.find(index);
  return found != types.end() ? found->second : OrtMemTypeDefault;
}

// As in the reference: a kernel without a last version serves the version that it names, and no later one, because a
// later schema may mean something else.
bool serves_version(const OrtKernelDef& def, int since) {
  if (def.since_end == kNoLastVersion) return since == def.since_start;
  return def.since_start <= since && since <= def.since_end;
}

bool allows(const std::vector<const OrtDataType*>& types, DataType type) {
  const ONNXTensorElementDataType element = tenon::abi::to_element_type(type);
  return std::any_of(types.begin(), types.end(), [&](const OrtDataType* t) { return t->element == element; });
}

// The first input or output whose type a constraint of the definition does not list, as text; nothing when all fit.
std::optional<std::string> refused_type(const OrtKernelDef& def, const Graph& graph, const Node& node,
                                        const std::optional<Schema>& schema) {
  const auto check = [&](const std::vector<ValueId>& ids, const char* what, auto parameter_of) {
    std::optional<std::string> refused;
    for (size_t i = 0; i < ids.size() && !refused; ++i) {
      if (ids[i] == kNoValue) continue;
      const std::optional<SchemaParameter> parameter = schema ? parameter_of(i) : std::nullopt;
      if (!parameter) continue;
      auto constraint = def.constraints.find(std::string(parameter->type));
      if (constraint == def.constraints.end()) constraint = def.constraints.find(std::string(parameter->name));
      if (constraint == def.constraints.end()) continue;
      const DataType type = graph.value(ids[i]).type;
      if (!allows(constraint->second, type))
        refused = tenon::format("{} {} (\"{}\") is {}, which constraint \"{}\" does not list", what, i,
                                graph.value(ids[i]).name, tenon::data_type_name(type), constraint->first);
    }
    return refused;
  };
  if (auto refused = check(node.inputs, "input", [&](size_t i) { return schema->input(i); })) return refused;
  return check(node.outputs, "output", [&](size_t i) { return schema->output(i); });
}

}  // namespace

OrtMemType OrtKernelDef::input_mem_type(size_t index) const { return find_mem_type(input_memory, index); }
OrtMemType OrtKernelDef::output_mem_type(size_t index) const { return find_mem_type(output_memory, index); }

const OrtKernelRegistry::Entry* OrtKernelRegistry::find(const Graph& graph, const Node& node,
                                                        std::string* why_not) const {
  const auto explain = [&](std::string text) {
    if (why_not != nullptr) *why_not = std::move(text);
  };
  explain(tenon::format("no kernel of operator \"{}\" of domain \"{}\"", node.op_type, node.domain));
  const std::optional<Schema> schema = tenon::find_schema(node.domain, node.op_type, node.since_version);
  for (const Entry& entry : entries) {
    const OrtKernelDef& def = *entry.def;
    if (def.op_type != node.op_type || plain(def.domain) != plain(node.domain)) continue;
    if (!serves_version(def, node.since_version)) {
      explain(tenon::format("the kernel serves versions {} to {}, and the node's is {}", def.since_start, def.since_end,
                            node.since_version));
      continue;
    }
    if (std::optional<std::string> refused = refused_type(def, graph, node, schema)) {
      explain(*std::move(refused));
      continue;
    }
    return &entry;
  }
  return nullptr;
}
