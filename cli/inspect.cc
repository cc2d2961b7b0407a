// tenon inspect: prints the contents of a model file without running it.
#include <tenon/model_summary.h>

#include <memory>

#include "cli/commands.h"
#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

struct InspectArguments {
  std::string model;
  bool json = false;
};

nlohmann::ordered_json values_json(const std::vector<ValueInfo>& values) {
  auto list = nlohmann::ordered_json::array();
  for (const ValueInfo& value : values) {
    nlohmann::ordered_json entry = {{"name", value.name}, {"dtype", data_type_name(value.type)}, {"shape", nullptr}};
    if (value.has_shape) entry["shape"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < value.dims.size(); ++i) {
      if (value.dims[i] >= 0)
        entry["shape"].push_back(value.dims[i]);
      else if (value.dim_names[i].empty())
        entry["shape"].push_back(nullptr);
      else
        entry["shape"].push_back(value.dim_names[i]);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

void print_values(const char* title, const std::vector<ValueInfo>& values) {
  print("{}\n", title);
  for (const ValueInfo& value : values) print("  {} {}\n", value.name, value.to_string());
}

Status inspect(const InspectArguments& arguments) {
  TENON_TRY_ASSIGN(const ModelSummary summary, summarize_model(arguments.model));
  const ModelMetadata& metadata = summary.metadata;
  if (arguments.json) {
    print_json({{"model", arguments.model},
                {"file_bytes", summary.file_bytes},
                {"ir_version", summary.ir_version},
                {"opsets", summary.opsets},
                {"producer", metadata.producer_name},
                {"producer_version", metadata.producer_version},
                {"graph", metadata.graph_name},
                {"inputs", values_json(summary.inputs)},
                {"outputs", values_json(summary.outputs)},
                {"nodes", summary.nodes},
                {"constants", summary.constants},
                {"constant_bytes", summary.constant_bytes},
                {"operators", summary.operators},
                {"metadata", metadata.custom}});
    return {};
  }
  print("{}: {}, IR version {}", arguments.model, bytes_text(summary.file_bytes), summary.ir_version);
  for (const auto& [domain, version] : summary.opsets) print(", {} opset {}", domain, version);
  print("\n");
  if (!metadata.producer_name.empty()) print("made by {} {}\n", metadata.producer_name, metadata.producer_version);
  print_values("inputs", summary.inputs);
  print_values("outputs", summary.outputs);
  print("{} nodes, {} constants ({})\n", summary.nodes, summary.constants, bytes_text(summary.constant_bytes));
  for (const auto& [name, number] : summary.operators) print("  {:6} {}\n", number, name);
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
