#include "abi/plugin_context.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unordered_set>
#include <utility>

#include "graph/writer.h"

namespace tenon::abi {

Result<std::optional<ContextModel>> ContextModel::create(const OrtKeyValuePairs& config,
                                                         const std::string& model_path) {
  const char* enable = config.find("ep.context_enable");
  if (enable == nullptr || std::string_view(enable) != "1") return std::optional<ContextModel>();
  const char* given = config.find("ep.context_file_path");
  std::string path = given != nullptr ? given : "";
  if (path.empty()) {
    TENON_INVALID_IF(model_path.empty(),
                     "\"ep.context_enable\" needs \"ep.context_file_path\": the model comes from memory.");
    path = std::filesystem::path(model_path).replace_extension().string() + "_ctx.onnx";
  }
  std::error_code error;
  TENON_INVALID_IF(std::filesystem::exists(path, error), "The EP context model \"{}\" exists already.", path);
  return std::optional<ContextModel>(ContextModel(std::move(path)));
}

ValueId ContextModel::find(const std::string& name) const {
  const auto found =
      std::find_if(graph_.values.begin(), graph_.values.end(), [&](const Value& value) { return value.name == name; });
  return found != graph_.values.end() ? static_cast<ValueId>(found - graph_.values.begin()) : kNoValue;
}

Status ContextModel::replace(const Region& region, const OrtNode& node) {
  std::unordered_set<std::string> made;
  for (const Node& part : region.body.nodes) {
    for (ValueId id : part.outputs) {
      if (id != kNoValue) made.insert(region.body.value(id).name);
    }
  }
  Node context;
  context.name = node.name;
  context.op_type = node.op_type;
  context.domain = node.domain;
  context.since_version = 1;
  for (const std::string& name : node.input_names) {
    context.inputs.push_back(name.empty() ? kNoValue : find(name));
    if (!name.empty() && context.inputs.back() == kNoValue)
      return device_error("The context node \"{}\" reads \"{}\", which the model does not have.", node.name, name);
  }
  for (const std::string& name : node.output_names) {
    context.outputs.push_back(name.empty() ? kNoValue : find(name));
    if (!name.empty() && !made.contains(name))
      return device_error("The context node \"{}\" makes \"{}\", which its region did not.", node.name, name);
  }
  for (const OrtOpAttr& attribute : node.attributes) context.attributes.push_back(*attribute.attribute);

  const auto belongs = [&](const Node& one) {
    return std::any_of(one.outputs.begin(), one.outputs.end(),
                       [&](ValueId id) { return id != kNoValue && made.contains(graph_.value(id).name); });
  };
  const auto first = std::find_if(graph_.nodes.begin(), graph_.nodes.end(), belongs);
  if (first == graph_.nodes.end()) return internal_error("The region \"{}\" has no node of the model.", region.name);
  *first = std::move(context);
  graph_.nodes.erase(std::remove_if(first + 1, graph_.nodes.end(), belongs), graph_.nodes.end());
  if (graph_.opset(node.domain) == 0) graph_.opsets.emplace_back(node.domain, 1);
  replaced_ = true;
  return {};
}

Status ContextModel::write() const {
  if (!replaced_) return {};
  Graph graph = graph_;
  TENON_TRY(graph.sort_topologically());
  TENON_TRY_ASSIGN(const std::string bytes, write_model(graph));
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    std::error_code error;
    std::filesystem::remove(path_, error);
    return not_found("The EP context model \"{}\" cannot be written.", path_);
  }
  return {};
}

}  // namespace tenon::abi
