#include "runtime/model_summary.h"

#include <tenon/model_summary.h>

#include <protozero/pbf_writer.hpp>
#include <set>

#include "base/status.h"
#include "graph/mapped_file.h"
#include "graph/ort_format.h"
#include "graph/proto.h"
#include "graph/symbols.h"
#include "runtime/value_tap.h"

namespace tenon {

namespace {

void count(const Graph& graph, ModelSummary* summary) {
  for (const Value& value : graph.values) {
    if (value.constant == nullptr) continue;
    ++summary->constants;
    summary->constant_bytes += value.constant->size_bytes;
  }
  for (const Node& node : graph.nodes) {
    ++summary->nodes;
    ++summary->operators[node.domain.empty() ? node.op_type : node.domain + ":" + node.op_type];
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph != nullptr) count(*attribute.graph, summary);
  }
}

std::string_view name_of(const Graph& graph, ValueId id) {
  return id == kNoValue ? std::string_view() : std::string_view(graph.value(id).name);
}

// `in_file`: the outputs of the nodes in the file's graph; null below it, where the file's names are unique only within
// their graphs.
void list(const Graph& graph, const std::string& body, const std::set<std::string_view>* in_file,
          std::vector<ModelNode>& nodes) {
  for (const Node& node : graph.nodes) {
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph != nullptr) list(*attribute.graph, body_path(body, graph, node), nullptr, nodes);
    ModelNode& listed =
        nodes.emplace_back(ModelNode{.name = node.name, .domain = node.domain, .op_type = node.op_type, .body = body});
    for (ValueId id : node.inputs) listed.inputs.emplace_back(name_of(graph, id));
    for (ValueId id : node.outputs) {
      listed.outputs.emplace_back(name_of(graph, id));
      const std::string& name = listed.outputs.back();
      listed.in_file = listed.in_file && in_file != nullptr && (name.empty() || in_file->contains(name));
    }
  }
}

// The names of what the nodes in the file's graph make. The reader has checked the encoding.
std::set<std::string_view> made_in_file(std::string_view bytes) {
  std::set<std::string_view> names;
  proto::Reader model = proto::reader(bytes);
  while (model.next(proto::ModelProto::kGraph)) {
    proto::Reader graph(model.get_message());
    while (graph.next(proto::GraphProto::kNode)) {
      proto::Reader node(graph.get_message());
      while (node.next(proto::NodeProto::kOutput)) names.insert(proto::text(node.get_view()));
    }
  }
  return names;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string field(uint32_t number, std::string_view bytes) {
  std::string text;
  protozero::pbf_writer(text).add_bytes(number, bytes.data(), bytes.size());
  return text;
}

}  // namespace

ValueInfo info_of(const Value& value) {
  ValueInfo info;
  info.name = value.name;
  info.type = value.type;
  info.has_shape = value.has_rank;
  info.object = value.object;
  if (!value.has_rank) return info;
  for (const Dim& dim : value.dims) {
    info.dims.push_back(dim.known() ? dim.value : -1);
    info.dim_names.emplace_back(declared_symbol(dim.symbol));
  }
  return info;
}

ModelMetadata metadata_of(const Model& model) {
  const ModelInfo& info = model.info;
  return {.producer_name = info.producer_name,
          .producer_version = info.producer_version,
          .domain = info.domain,
          .description = info.doc_string,
          .graph_name = model.graph.name,
          .graph_description = model.notes.doc_string,
          .version = info.model_version,
          .has_version = info.has_model_version,
          .custom = {info.metadata.begin(), info.metadata.end()}};
}

Result<ModelSummary> summarize_model(const std::string& path) {
  TENON_TRY_ASSIGN(const Model model, read_model_file(path));
  ModelSummary summary;
  summary.file_bytes = model.info.file_bytes;
  summary.ir_version = model.info.ir_version;
  for (const auto& [domain, version] : model.graph.opsets)
    summary.opsets[domain.empty() ? "ai.onnx" : domain] = static_cast<int>(version);
  summary.metadata = metadata_of(model);
  for (const ValueId id : model.graph.inputs) summary.inputs.push_back(info_of(model.graph.value(id)));
  for (const ValueId id : model.graph.outputs) summary.outputs.push_back(info_of(model.graph.value(id)));
  count(model.graph, &summary);
  return summary;
}

Result<std::vector<ModelNode>> list_nodes(const std::string& path) {
  TENON_TRY_ASSIGN(const Model model, read_model_file(path));
  TENON_TRY_ASSIGN(const auto file, MappedFile::open(path));
  std::vector<ModelNode> nodes;
  if (is_ort_format(file->bytes())) {
    list(model.graph, "", nullptr, nodes);
  } else {
    const std::set<std::string_view> in_file = made_in_file(text_of(*file));
    list(model.graph, "", &in_file, nodes);
  }
  return nodes;
}

Result<std::string> model_with_outputs(const std::string& path, std::span<const std::string> values) {
  TENON_TRY(read_model_file(path).status());
  TENON_TRY_ASSIGN(const auto file, MappedFile::open(path));
  TENON_UNSUPPORTED_IF(is_ort_format(file->bytes()),
                       "The model \"{}\" is in ONNX Runtime's own format; outputs are added to .onnx files only.",
                       path);
  std::string outputs;
  for (const std::string& name : values)
    outputs += field(proto::GraphProto::kOutput, field(proto::ValueInfoProto::kName, name));
  // The elements of a repeated field may stand anywhere in their message: these come after the model's own.
  std::string bytes;
  for (proto::Reader model = proto::reader(text_of(*file)); model;) {
    const char* const begin = model.data().data();
    (void)model.next();
    if (model.tag_and_type() == proto::bytes(proto::ModelProto::kGraph)) {
      bytes += field(proto::ModelProto::kGraph, std::string(proto::text(model.get_view())) + outputs);
      continue;
    }
    model.skip();
    bytes.append(begin, model.data().data());
  }
  return bytes;
}

}  // namespace tenon
