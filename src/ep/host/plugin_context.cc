#include "ep/host/plugin_context.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>
#include <utility>

#include "abi/objects/session_options.h"
#include "abi/objects/status.h"
#include "graph/external_initializers.h"
#include "graph/output_file.h"

namespace tenon::abi {

namespace {

constexpr char kDependenciesKey[] = "external_dependencies";

}  // namespace

std::string compatibility_key(const std::string& ep_name) { return "ep_compatibility_info." + ep_name; }

bool wants_context(const OrtKeyValuePairs& config) {
  const char* enable = config.find("ep.context_enable");
  return enable != nullptr && std::string_view(enable) == "1";
}

std::string default_context_path(const std::string& model_path) {
  return std::filesystem::path(model_path).replace_extension().string() + "_ctx.onnx";
}

Status check_context_path(const std::string& path) {
  std::error_code error;
  if (!path.ends_with('/') && !std::filesystem::is_directory(path, error)) return {};
  return with_ort_code(invalid_argument("context_file_path should not point to a folder."), ORT_INVALID_ARGUMENT);
}

Status context_exists(const std::string& path) {
  return with_ort_code(
      invalid_argument("Failed to generate EP context model since the file '\"{}\"' exists already. Please "
                       "remove the EP context model if you want to re-generate it.",
                       path),
      ORT_FAIL);
}

Result<std::string> context_path(const OrtKeyValuePairs& config, const std::string& model_path) {
  const char* given = config.find("ep.context_file_path");
  std::string path = given != nullptr ? given : "";
  if (path.empty()) {
    if (model_path.empty())
      return with_ort_code(
          invalid_argument("Inference session with a model loaded from bytes was configured with EPContext model "
                           "generation enabled but without a valid location (e.g., file or buffer) for the output "
                           "model. Please specify a valid ep.context_file_path via SessionOption configs or use the "
                           "OrtCompileApi to compile a model to a file or buffer."),
          ORT_FAIL);
    path = default_context_path(model_path);
  }
  TENON_TRY(check_context_path(path));
  std::error_code error;
  if (std::filesystem::exists(path, error)) return context_exists(path);
  return path;
}

Result<std::shared_ptr<ContextModel>> ContextModel::create(const OrtKeyValuePairs& config,
                                                           const std::string& model_path) {
  const OrtSessionOptions* making = MakingSession::options();
  if (making != nullptr && making->compilation != nullptr) return making->compilation;
  if (!wants_context(config)) return std::shared_ptr<ContextModel>();
  TENON_TRY_ASSIGN(const std::string path, context_path(config, model_path));
  // A session is loaded on one thread, and its EPs let go when it is.
  static thread_local std::map<std::string, std::weak_ptr<ContextModel>> loading;
  std::erase_if(loading, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<ContextModel>& known = loading[path];
  std::shared_ptr<ContextModel> model = known.lock();
  if (model != nullptr) return model;
  known = model = std::make_shared<ContextModel>(Private());
  model->path_ = path;
  const char* external = config.find("ep.context_model_external_initializers_file_name");
  if (external != nullptr) model->external_name_ = external;
  return model;
}

void ContextModel::begin(const Graph& graph, ModelInfo info, GraphNotes notes) {
  if (std::exchange(begun_, true)) return;
  graph_ = graph;
  info_ = std::move(info);
  notes_ = std::move(notes);
}

void ContextModel::set_compatibility(const std::string& ep_name, const std::string& text) {
  const std::string key = compatibility_key(ep_name);
  std::erase_if(info_.metadata, [&](const auto& entry) { return entry.first == key; });
  info_.metadata.emplace_back(key, text);
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
  for (const OrtOpAttr& attribute : node.attributes) context.attributes.edit().push_back(*attribute.attribute);

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

Result<std::string> ContextModel::serialize(WriterOptions options) const {
  Graph graph = graph_;
  TENON_TRY(graph.sort_topologically());
  ModelInfo info = info_;
  if (replaced_) std::erase_if(info.metadata, [](const auto& entry) { return entry.first == kDependenciesKey; });
  options.info = &info;
  options.notes = &notes_;
  bool external_weights = false;
  const InitializerPlacer place = std::move(options.place);  // outlives the function below, which calls it
  if (place) {
    options.place = [&](const std::string& name, const ConstantRef& constant) {
      Result<std::optional<ExternalPlace>> placed = place(name, constant);
      external_weights = external_weights || (placed.ok() && *placed);
      return placed;
    };
  }
  TENON_TRY_ASSIGN(std::string bytes, write_model(graph, options));
  if (replaced_) append_metadata(bytes, kDependenciesKey, dependencies(external_weights));
  return bytes;
}

// The list of files that a program has to ship beside the model, in ONNX Runtime's words.
std::string ContextModel::dependencies(bool external_weights) const {
  const bool binaries = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const Node& node) {
    const Attribute* embedded = node.op_type == "EPContext" ? node.find("embed_mode") : nullptr;
    return embedded != nullptr && embedded->i == 0;
  });
  std::string text = external_weights ? "external_weights" : "";
  if (binaries) text += text.empty() ? "ep_context_binary" : ";ep_context_binary";
  return text;
}

Status ContextModel::write() const {
  if (!replaced_ || path_.empty()) return {};
  std::unique_ptr<ExternalInitializersFile> external;
  WriterOptions options;
  if (!external_name_.empty()) {
    TENON_TRY_ASSIGN(external, ExternalInitializersFile::create({.location = external_name_}, path_));
    options.place = [&external](const std::string&, const ConstantRef& constant) { return external->place(*constant); };
  }
  TENON_TRY_ASSIGN(const std::string bytes, serialize(std::move(options)));
  TENON_TRY_ASSIGN(OutputFile file, OutputFile::create(path_));
  TENON_TRY(file.write(std::as_bytes(std::span(bytes))));
  if (external != nullptr) TENON_TRY(external->commit());
  return file.commit();
}

}  // namespace tenon::abi
