// EPContext nodes: a compiled program as the attribute of a node of a model, or as a file beside it.
#include <fstream>
#include <iterator>

#include "ep/sim/sim_ep.h"

namespace tenon::sim {

using plugin::GraphNode;
using plugin::GraphValue;

namespace {

constexpr const char* kContextDomain = "com.microsoft";
constexpr const char* kContextOp = "EPContext";

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("The compiled program \"{}\" cannot be opened.", path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Status write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return device_error("The compiled program \"{}\" cannot be written.", path);
  return Status();
}

// A name from a model is no path: it may not leave the model's folder.
Status check_file_name(const std::string& name) {
  TENON_INVALID_IF(name.empty() || name.find('/') != std::string::npos || name == "." || name == "..",
                   "The compiled program \"{}\" is no file beside the model.", name);
  return Status();
}

}  // namespace

bool SimEp::is_own_context(const GraphNode& node) const {
  if (node.op_type != kContextOp || node.domain != kContextDomain) return false;
  const Result<std::string> source = text_attribute(host(), node, "source", "");
  return source.ok() && *source == name();
}

Result<std::shared_ptr<SimProgram>> SimEp::read_context(const GraphNode& node) const {
  TENON_TRY(runtime_->hit(SimStep::read_context));
  TENON_TRY_ASSIGN(const int64_t embedded, int_attribute(host(), node, "embed_mode", 1));
  TENON_TRY_ASSIGN(std::string bytes, text_attribute(host(), node, "ep_cache_context", ""));
  if (embedded == 0) {
    TENON_TRY(check_file_name(bytes));
    const OrtGraph* graph = nullptr;
    TENON_ORT_TRY(host(), Node_GetGraph, node.node, &graph);
    const ORTCHAR_T* model_path = nullptr;
    if (graph != nullptr) TENON_ORT_TRY(host(), Graph_GetModelPath, graph, &model_path);
    std::string folder = model_path != nullptr ? model_path : "";
    folder = folder.empty() ? context_folder_ : folder.substr(0, folder.find_last_of('/') + 1);
    TENON_TRY_ASSIGN(bytes, read_file(folder + bytes));
  }
  auto program = SimProgram::parse(runtime_, bytes);
  if (!program.ok()) return std::move(program).status().with_context(tenon::format("while reading {}", node.label()));
  return program;
}

Result<OrtNode*> SimEp::write_context(const GraphNode& fused, const SimProgram& program) {
  TENON_TRY(runtime_->hit(SimStep::write_context));
  TENON_UNSUPPORTED_IF(host().model_editor() == nullptr,
                       "The host has no OrtModelEditorApi, which makes EPContext nodes.");
  std::string content = program.serialize();
  if (!context_embedded_) {
    const std::string file = fused.name + "_tenon_sim.bin";
    TENON_TRY(check_file_name(file));
    TENON_TRY(write_file(context_folder_ + file, content));
    content = file;
  }
  const int64_t main_context = 1, embed_mode = context_embedded_ ? 1 : 0;
  const std::string compatibility(kSimCompatibility);
  struct Wanted {
    const char* name;
    OrtOpAttrType type;
    const void* data;
    int length;
  };
  const Wanted wanted[] = {
      {"main_context", ORT_OP_ATTR_INT, &main_context, 1},
      {"embed_mode", ORT_OP_ATTR_INT, &embed_mode, 1},
      {"ep_cache_context", ORT_OP_ATTR_STRING, content.data(), static_cast<int>(content.size())},
      {"ep_sdk_version", ORT_OP_ATTR_STRING, compatibility.data(), static_cast<int>(compatibility.size())},
      {"partition_name", ORT_OP_ATTR_STRING, fused.name.data(), static_cast<int>(fused.name.size())},
      {"source", ORT_OP_ATTR_STRING, name().data(), static_cast<int>(name().size())},
  };
  TENON_INVALID_IF(content.size() > INT32_MAX, "A compiled program of {} bytes is too large to embed.", content.size());
  std::vector<plugin::HostPtr<OrtOpAttr>> owned;
  std::vector<OrtOpAttr*> attributes;
  for (const Wanted& attribute : wanted) {
    OrtOpAttr* created = nullptr;
    TENON_ORT_TRY(host(), CreateOpAttr, attribute.name, attribute.data, attribute.length, attribute.type, &created);
    owned.push_back(host().own(created, host().ort().ReleaseOpAttr));
    attributes.push_back(created);
  }
  std::vector<const char*> inputs, outputs;
  for (const GraphValue& input : fused.inputs) inputs.push_back(input.name.c_str());
  for (const GraphValue& output : fused.outputs) outputs.push_back(output.name.c_str());
  OrtNode* node = nullptr;
  TENON_TRY(host().take(
      host().model_editor()->CreateNode(kContextOp, kContextDomain, fused.name.c_str(), inputs.data(), inputs.size(),
                                        outputs.data(), outputs.size(), attributes.data(), attributes.size(), &node),
      "CreateNode"));
  // The host's node has taken the attributes.
  for (auto& attribute : owned) (void)attribute.release();
  return node;
}

}  // namespace tenon::sim
