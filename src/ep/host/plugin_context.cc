#include "ep/host/plugin_context.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <unordered_set>
#include <utility>

#include "graph/writer.h"

namespace tenon::abi {

namespace {

constexpr protozero::pbf_tag_type kMetadataProps = 14;  // of ModelProto

}  // namespace

std::string compatibility_key(const std::string& ep_name) { return "ep_compatibility_info." + ep_name; }

Result<std::shared_ptr<ContextModel>> ContextModel::create(const OrtKeyValuePairs& config,
                                                           const std::string& model_path) {
  const char* enable = config.find("ep.context_enable");
  if (enable == nullptr || std::string_view(enable) != "1") return std::shared_ptr<ContextModel>();
  const char* given = config.find("ep.context_file_path");
  std::string path = given != nullptr ? given : "";
  if (path.empty()) {
    TENON_INVALID_IF(model_path.empty(),
                     "\"ep.context_enable\" needs \"ep.context_file_path\": the model comes from memory.");
    path = std::filesystem::path(model_path).replace_extension().string() + "_ctx.onnx";
  }
  std::error_code error;
  TENON_INVALID_IF(std::filesystem::exists(path, error), "The EP context model \"{}\" exists already.", path);
  // A session is loaded on one thread, and its EPs let go when it is.
  static thread_local std::map<std::string, std::weak_ptr<ContextModel>> loading;
  std::erase_if(loading, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<ContextModel>& known = loading[path];
  std::shared_ptr<ContextModel> model = known.lock();
  if (model == nullptr) known = model = std::shared_ptr<ContextModel>(new ContextModel(path));
  return model;
}

void ContextModel::begin(const Graph& graph, std::vector<std::pair<std::string, std::string>> metadata) {
  if (std::exchange(begun_, true)) return;
  graph_ = graph;
  metadata_ = std::move(metadata);
}

void ContextModel::set_compatibility(const std::string& ep_name, const std::string& text) {
  const std::string key = compatibility_key(ep_name);
  std::erase_if(metadata_, [&](const auto& entry) { return entry.first == key; });
  metadata_.emplace_back(key, text);
}

ValueId ContextModel::find(const std::string& name) const {
  const auto found =
      std::find_if(graph_.values.begin(), graph_.values.end(), [&](const Value& value) { return value.name == name; });
  return found != graph_.values.end() ? ValueId(found - graph_.values.begin()) : kNoValue;
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
  TENON_TRY_ASSIGN(std::string bytes, write_model(graph));
  for (const auto& [key, value] : metadata_) {
    std::string entry;
    protozero::pbf_writer pair(entry);
    pair.add_string(1, key);
    pair.add_string(2, value);
    protozero::pbf_writer(bytes).add_message(kMetadataProps, entry);
  }
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
