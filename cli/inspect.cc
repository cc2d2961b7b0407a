// tenon inspect: prints the contents of a model file without running it.
#include <map>
#include <memory>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "graph/reader.h"

namespace tenon::cli {
namespace {

struct InspectArguments {
  std::string model;
  bool json = false;
};

struct Counts {
  std::map<std::string, size_t> operators;  // nodes by domain and operator, subgraphs included
  size_t nodes = 0;
  size_t constants = 0;
  size_t constant_bytes = 0;
};

void count(const Graph& graph, Counts* counts) {
  for (const Value& value : graph.values) {
    if (value.constant == nullptr) continue;
    ++counts->constants;
    counts->constant_bytes += value.constant->size_bytes;
  }
  for (const Node& node : graph.nodes) {
    ++counts->nodes;
    ++counts->operators[node.domain.empty() ? node.op_type : node.domain + ":" + node.op_type];
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph != nullptr) count(*attribute.graph, counts);
  }
}

nlohmann::ordered_json value_json(const Value& value) {
  nlohmann::ordered_json entry = {{"name", value.name}, {"dtype", data_type_name(value.type)}};
  if (!value.has_rank) {
    entry["shape"] = nullptr;
    return entry;
  }
  entry["shape"] = nlohmann::ordered_json::array();
  for (const Dim& dim : value.dims) {
    if (dim.known())
      entry["shape"].push_back(dim.value);
    else if (dim.symbol.empty())
      entry["shape"].push_back(nullptr);
    else
      entry["shape"].push_back(dim.symbol);
  }
  return entry;
}

nlohmann::ordered_json values_json(const Graph& graph, std::span<const ValueId> ids) {
  auto list = nlohmann::ordered_json::array();
  for (const ValueId id : ids) list.push_back(value_json(graph.value(id)));
  return list;
}

void print_values(const Graph& graph, const char* title, std::span<const ValueId> ids) {
  print("{}\n", title);
  for (const ValueId id : ids) print("  {} {}\n", graph.value(id).name, graph.value(id).type_text());
}

Status inspect(const InspectArguments& arguments) {
  TENON_TRY_ASSIGN(const Model model, read_model_file(arguments.model));
  const Graph& graph = model.graph;
  Counts counts;
  count(graph, &counts);
  if (arguments.json) {
    nlohmann::ordered_json opsets;
    for (const auto& [domain, version] : graph.opsets) opsets[domain.empty() ? "ai.onnx" : domain] = version;
    nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
    for (const auto& [key, value] : model.info.metadata) metadata[key] = value;
    print_json({{"model", arguments.model},
                {"file_bytes", model.info.file_bytes},
                {"ir_version", model.info.ir_version},
                {"opsets", opsets},
                {"producer", model.info.producer_name},
                {"producer_version", model.info.producer_version},
                {"graph", graph.name},
                {"inputs", values_json(graph, graph.inputs)},
                {"outputs", values_json(graph, graph.outputs)},
                {"nodes", counts.nodes},
                {"constants", counts.constants},
                {"constant_bytes", counts.constant_bytes},
                {"operators", counts.operators},
                {"metadata", metadata}});
    return {};
  }
  print("{}: {}, IR version {}", arguments.model, bytes_text(model.info.file_bytes), model.info.ir_version);
  for (const auto& [domain, version] : graph.opsets)
    print(", {} opset {}", domain.empty() ? "ai.onnx" : domain, version);
  print("\n");
  if (!model.info.producer_name.empty())
    print("made by {} {}\n", model.info.producer_name, model.info.producer_version);
  print_values(graph, "inputs", graph.inputs);
  print_values(graph, "outputs", graph.outputs);
  print("{} nodes, {} constants ({})\n", counts.nodes, counts.constants, bytes_text(counts.constant_bytes));
  for (const auto& [name, number] : counts.operators) print("  {:6} {}\n", number, name);
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("inspect", "Says what a model file holds");
  const auto arguments = std::make_shared<InspectArguments>();
  command->add_option("model", arguments->model, "The model's file (.onnx)")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, action] { *action = [arguments] { return inspect(*arguments); }; });
}

}  // namespace tenon::cli
