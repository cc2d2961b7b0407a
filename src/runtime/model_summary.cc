#include "runtime/model_summary.h"

#include <tenon/model_summary.h>

#include "base/status.h"
#include "graph/symbols.h"

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

}  // namespace

ValueInfo info_of(const Value& value) {
  ValueInfo info;
  info.name = value.name;
  info.type = value.type;
  info.has_shape = value.has_rank;
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

}  // namespace tenon
