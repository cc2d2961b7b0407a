// Arguments of several commands: a model, its inputs as .npy files or random values, symbolic dimensions, threads.
#pragma once

#include <tenon/session.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/plugin_arguments.h"

namespace tenon::cli {

struct ModelArguments : PluginArguments {
  std::string model;
  std::vector<std::string> inputs;  // NAME=FILE.npy
  std::vector<std::string> dims;    // NAME=N
  int threads = 0;
  bool random = false;
  uint64_t seed = 0;
  bool json = false;
  bool strict = false;
  std::vector<std::string> without;  // passes
  bool reference_kernels = false;
  bool no_winograd = false;

  void add_model(CLI::App& command);
  void add_dims(CLI::App& command);
  void add_inputs(CLI::App& command);
  void add_seed(CLI::App& command);
  void add_threads(CLI::App& command);
  void add_strict(CLI::App& command);
  void add_without(CLI::App& command);
  // Options that choose slower kernels.
  void add_kernels(CLI::App& command);
  // All of these, and EP libraries: what a command that runs a model takes.
  void add_for_runs(CLI::App& command);

  // Loads the EP libraries. Errors: kInvalidArgument for text that is no NAME=N, and for libraries without an --ep;
  // what PluginArguments refuses.
  Result<SessionOptions> session_options() const;
  // The values of --input, by name. Errors name the inputs that are given twice or unknown.
  Result<std::vector<std::pair<std::string, Tensor>>> given_inputs(const Session& session) const;
  // Every input of the model in its order: from its file, or random when `fill` is set. Errors name the inputs without
  // values, and dimensions that nothing fixes.
  Result<std::vector<std::pair<std::string, Tensor>>> read_inputs(const Session& session, bool fill) const;
};

// The declared shape of a value with `dims` put in. kInvalidArgument names the dimensions that stay open and the
// options that fix them; takes_input: --input is one.
Result<Shape> fixed_shape(const ValueInfo& info, const std::map<std::string, int64_t>& dims, bool takes_input);
// Values for a benchmark or a first try: normal floats, integers 0 and 1 (valid indices nearly everywhere).
Result<Tensor> random_tensor(DataType type, const Shape& shape, uint64_t seed);

}  // namespace tenon::cli
