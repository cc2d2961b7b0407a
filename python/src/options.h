#pragma once

#include <tenon/copy_ledger_api.h>

#include <map>
#include <optional>
#include <tuple>

#include "compile.h"
#include "core.h"
#include "value.h"

namespace tenon::python {

using Texts = std::map<std::string, std::string>;

// A copy that a run made, or that its call made of an argument.
struct Copy {
  std::string name;
  std::string source, target;  // "cpu", "gpu:0 (vendor 0x10de)"
  std::string reason;
  size_t size_bytes = 0;
  bool once = false;
};

enum class ExecutionOrder { kDefault = 0, kPriorityBased = 1, kMemoryEfficient = 2 };

// SessionOptions as Python sees it. What onnxruntime has as attributes is kept here and given to the C ABI when a
// session is made; what it has as functions goes to `handle` at once, so that errors come at once, and into `calls`, so
// that options can be pickled.
struct Options {
  OwnedSessionOptions handle;
  GraphOptimizationLevel graph_optimization_level = ORT_ENABLE_ALL;
  ExecutionMode execution_mode = ORT_SEQUENTIAL;
  ExecutionOrder execution_order = ExecutionOrder::kDefault;
  int intra_op_num_threads = 0;
  int inter_op_num_threads = 0;
  int log_severity_level = -1;
  int log_verbosity_level = 0;
  bool enable_cpu_mem_arena = true;
  bool enable_mem_pattern = true;
  bool enable_mem_reuse = true;
  bool enable_profiling = false;
  bool use_deterministic_compute = false;
  bool use_per_session_threads = true;
  std::string logid;
  std::string optimized_model_filepath;
  std::string profile_file_prefix = "onnxruntime_profile_";
  std::vector<std::tuple<std::string, Texts>> providers;
  bool has_devices = false;      // add_provider_for_devices, or a selection policy
  bool has_own_devices = false;  // the former
  bool has_custom_operators = false;
  std::shared_ptr<const ContextReader> context_reader;
  std::shared_ptr<const nb::callable> policy_delegate;
  // Function and arguments of each call that has changed `handle`, in order.
  std::vector<std::pair<std::string, nb::object>> calls;

  Options();
  // For one session. `session_providers` are those of the InferenceSession's call; `default_threads` counts where the
  // options name no number of threads (0: the library's own default).
  OwnedSessionOptions prepare(const std::vector<std::tuple<std::string, Texts>>& session_providers,
                              int default_threads) const;
};

// A function that chooses devices: the options keep it.
void set_policy_delegate(Options& options, nb::callable delegate);

// RunOptions as Python sees it.
struct RunSettings {
  OwnedRunOptions handle;
  bool terminate = false;
  bool only_execute_path_to_fetches = false;
  bool has_adapters = false;
  nb::list waits, signals;  // of Fence

  RunSettings();
  RunSettings(const RunSettings&) = delete;
  RunSettings& operator=(const RunSettings&) = delete;
  ~RunSettings();
  void set_fences(nb::handle new_waits, nb::handle new_signals);
  // The copies of the runs with these options since the last call.
  std::vector<Copy> take_copies();
  // Whether a run with these options may copy nothing.
  bool strict() const;

 private:
  TenonCopyLedger* ledger_ = nullptr;
};

}  // namespace tenon::python
