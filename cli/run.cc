// tenon run: runs a model once and writes the outputs to files.
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/keep.h"
#include "cli/model_arguments.h"
#include "cli/placements.h"
#include "cli/status.h"
#include "programs/npy.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

struct RunArguments : ModelArguments {
  std::string output_dir;
  std::vector<std::string> keep;  // nodes or values
  PlacementArguments placement;
};

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return io_failure(format("The folder \"{}\" cannot be made", path), error.value());
  return {};
}

Status run(const RunArguments& arguments) {
  TENON_TRY_ASSIGN(const SessionOptions options, arguments.session_options());
  TENON_TRY_ASSIGN(const auto session, Session::load(arguments.model, options));
  TENON_TRY_ASSIGN(const auto inputs, arguments.read_inputs(*session, arguments.random));
  // Before the run: a folder that cannot be made should not cost a run.
  if (!arguments.output_dir.empty()) TENON_TRY(make_folder(arguments.output_dir));
  TENON_TRY_ASSIGN(const auto spaces, arguments.placement.read(*session));
  TENON_TRY_ASSIGN(Binding binding, session->make_binding());
  TENON_TRY(bind_in_spaces(*session, spaces, inputs, binding));
  std::optional<ValueKeeper> keeper;
  if (!arguments.keep.empty()) {
    TENON_TRY_ASSIGN(keeper, ValueKeeper::make(arguments.model, arguments.keep, arguments.output_dir));
  }
  RunReport report;
  TENON_TRY(session->run(binding, {.report = &report, .values = keeper ? &*keeper : nullptr}));
  if (keeper) TENON_TRY(keeper->finish(*session, inputs));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < session->outputs().size(); ++i) {
    TENON_TRY_ASSIGN(Tensor output, on_host(binding.output(i)));
    outputs.push_back(std::move(output));
  }

  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string file = format("{}.npy", i);
    nlohmann::ordered_json entry = {{"name", session->outputs()[i].name},
                                    {"dtype", data_type_name(outputs[i].type())},
                                    {"shape", outputs[i].shape().dims()}};
    if (!arguments.output_dir.empty()) {
      TENON_TRY(write_npy(arguments.output_dir + "/" + file, outputs[i]));
      entry["file"] = file;
    }
    list.push_back(std::move(entry));
  }
  if (!arguments.output_dir.empty()) {
    TENON_TRY(write_text(arguments.output_dir + "/outputs.json",
                         list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
  }
  const double infer_ms = static_cast<double>(report.infer_ns) / 1e6;
  if (arguments.json) {
    nlohmann::ordered_json object = {{"model", arguments.model},
                                     {"outputs", list},
                                     {"infer_ms", infer_ms},
                                     {"bytes_copied", report.copies.bytes_copied()},
                                     {"copies", copies_json(report.copies)}};
    if (keeper) object["kept"] = keeper->json();
    print_json(object);
    return {};
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    print("{} {}{}{}\n", session->outputs()[i].name, data_type_name(outputs[i].type()), outputs[i].shape().to_string(),
          arguments.output_dir.empty() ? "" : format(" -> {}/{}.npy", arguments.output_dir, i));
  }
  if (keeper) print("{}", keeper->text());
  print("{}, {} copied\n", time_text(infer_ms), bytes_text(report.copies.bytes_copied()));
  return {};
}

}  // namespace

void add_run(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("run", "Runs a model once and writes its outputs as .npy files");
  const auto arguments = std::make_shared<RunArguments>();
  arguments->add_for_runs(*command);
  CLI::Option* random =
      command->add_flag("--random", arguments->random, "Fill inputs that are not given with random values");
  command->get_option("--seed")->needs(random);
  CLI::Option* folder = command->add_option("--output-dir", arguments->output_dir,
                                            "Write 0.npy, 1.npy, ... and outputs.json into this folder");
  command
      ->add_option("--keep", arguments->keep,
                   "Also write what this node computes, this value, or all of them, with values.json; may be repeated")
      ->type_name("NODE|all")
      ->allow_extra_args(false)
      ->needs(folder);
  arguments->add_kernels(*command);
  arguments->placement.add_spaces(*command);
  command->callback([arguments, action] { *action = [arguments] { return run(*arguments); }; });
}

}  // namespace tenon::cli
