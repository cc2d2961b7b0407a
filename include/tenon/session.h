// Loading a model and running it.
//
//   auto session = *tenon::Session::load("model.onnx");  // a Result: * ends the process on an error, see status.h
//   auto binding = *session->make_binding();
//   auto status = binding.bind_input("x", x);  // the run reads x in place
//   if (status.ok()) status = binding.bind_output("y", y);
//   if (status.ok()) status = session->run(binding, {.waits = {ready}, .signals = {done}});
//
// Threads: Session is safe from many threads. A Binding belongs to one run or call at a time: make one for each thread.
// A call that comes while another thread uses the binding is refused with kInvalidArgument, and changes nothing.
// Errors: clear statuses; the session stays usable after a failed run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/copy_ledger.h"
#include "tenon/custom_threads.h"
#include "tenon/ep.h"
#include "tenon/fence.h"
#include "tenon/object_type.h"
#include "tenon/packed_weights.h"
#include "tenon/tensor.h"
#include "tenon/thread_pool.h"

namespace tenon {

struct SessionOptions {
  // Threads for the session's own pool (see ThreadPoolOptions); ignored when `pool` is set.
  int threads = 0;
  bool allow_spinning = true;
  // Shared with other sessions.
  std::shared_ptr<ThreadPool> pool = nullptr;
  // The caller's own threads for the session's own pool.
  CustomThreads custom_threads = {};
  // Strict mode (config key tenon.disallow_copies): a copy that a run would need is an error at bind or plan time, or
  // in the run where only data tell that it is needed. So are copies of constants to where an EP's kernels want them.
  bool disallow_copies = false;
  // Winograd for 3x3 convolutions (config key tenon.winograd): faster, error a few 1e-6 of the largest output.
  bool winograd = true;
  // Passes of the planner to leave out, by their names (pass_names() in tenon/node_values.h), to find the one that
  // makes a value wrong; "all": every pass (config key tenon.disabled_passes, names with commas). A name that no pass
  // has is an error. Passes that an EP makes within its regions are that EP's own.
  std::vector<std::string> disabled_passes = {};
  // Only the plain kernels that stand behind the fast ones on the CPU EP (config key tenon.reference_kernels): slow,
  // and what the fast ones are compared with.
  bool reference_kernels = false;
  // Plans kept, one a signature (input shapes); the least recently used goes first. At least 1.
  size_t plan_cache_size = 64;
  // Plans that hold more bytes than this, all of the session together with those of bodies and of what comes after
  // sizes that only a run finds, go earlier (config key tenon.plan_cache_mb, in MiB). At least one stays.
  size_t plan_cache_bytes = size_t{32} << 20;
  // Fixes symbolic dimensions by name: {"batch", 1}. A name that no dimension of the model has is an error.
  std::map<std::string, int64_t> dims = {};
  // Fixes dimensions of inputs by their denotation: {"DATA_BATCH", 1}.
  std::map<std::string, int64_t> dims_by_denotation = {};
  // Names in `dims`, `dims_by_denotation`, `initializers` and `external_files` that the model does not have are left
  // alone, as ONNX Runtime does; otherwise they are errors.
  bool ignore_unknown_names = false;
  // Host tensors in the place of the model's initializers of these names, used where they lie. Type and shape must be
  // the model's; external data that a replaced one names is not looked for.
  std::map<std::string, Tensor> initializers = {};
  // External data files by the name that the model gives, instead of files beside it. The bytes are copied.
  std::map<std::string, std::span<const std::byte>> external_files = {};
  // Initializers that the model also lists as inputs (IR 4 and newer) become inputs that every run binds.
  bool initializers_as_inputs = false;
  // Inputs that the model declares as scalars have no declared shape: runs bind tensors of any, as ONNX Runtime's do.
  bool scalars_of_any_shape = false;
  // Sessions with the same object read one copy of packed weights (tenon/packed_weights.h). Sessions of several
  // processes share through a folder: config key tenon.packed_weights_folder.
  std::shared_ptr<PackedWeights> packed_weights = nullptr;
  // EPs in order of preference (see tenon/ep.h); what none of them takes runs on the CPU EP.
  std::vector<EpChoice> eps = {};
  // Other entries, as a C ABI host keeps them: "ep.<name>.<key>", "session.<key>", "tenon.<key>". Those of Tenon count
  // as the fields above do (docs/reference/options.md); an unknown one, a bad value, and one that contradicts its field
  // are errors.
  std::map<std::string, std::string> config = {};
};

// An input or output as the model declares it. A dimension is a number, or -1 with its name (may be empty).
struct ValueInfo {
  std::string name;
  DataType type = DataType::kUndefined;
  bool has_shape = false;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
  ObjectTypeRef object = nullptr;  // of a sequence, an optional or a map: `type` is then kObject (tenon/object.h)
  // "float32[DynamicDimension.0,3,height,width]"
  TENON_API std::string to_string() const;
};

// The metadata that a model's file holds.
struct ModelMetadata {
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  std::string description;
  std::string graph_name;
  std::string graph_description;
  int64_t version = 0;
  bool has_version = false;
  std::map<std::string, std::string> custom;
};

// Nodes of the model that run together, and which EP runs them.
struct EpAssignment {
  struct AssignedNode {
    std::string name;
    std::string domain;
    std::string op_type;
  };
  std::string ep_name;  // "CPUExecutionProvider"
  std::vector<AssignedNode> nodes;
};

// Where an input is wanted or an output is made: a tensor that lives there needs no copy (S1.8).
struct ValueSpace {
  std::string ep_name;
  MemorySpace space;
};

// The copies and times of one run. Reuse one object: its memory is kept. Threads: of one run at a time.
struct RunReport {
  CopyLedger copies;
  bool timed = true;     // set to false before a run, whose times then stay 0: only its copies are wanted
  int64_t wait_ns = 0;   // for the fences in RunOptions::waits
  int64_t infer_ns = 0;  // planning (on a new signature) and kernels
  int64_t signal_ns = 0;
  bool planned = false;  // this run built a plan
};

class DeviceStream;
struct NodeTime;      // tenon/plan_report.h
struct PlanReport;    // alike
class ValueObserver;  // tenon/node_values.h

struct RunOptions {
  FenceList waits = {};    // waited for before anything reads an input
  FenceList signals = {};  // signalled when all outputs are written; poisoned when the run fails after the call was
                           // found valid (bad arguments leave them alone)
  int64_t timeout_ns = kWaitForever;  // for all waits together
  // For the whole run, waits included: it ends with kTimeout before the step, or the iteration of a body, that would
  // begin later. A step that has begun is not interrupted.
  int64_t run_timeout_ns = kWaitForever;
  // Set by any thread, the run ends with kCancelled before its next step. Null: nobody cancels.
  const std::atomic<bool>* cancel = nullptr;
  RunReport* report = nullptr;
  // The times of the run's kernels, in the order of their ends, are appended: PlanReport::add_times takes them. Nodes
  // in the bodies of others are not among them, nor those whose EP has its own profiler. Null: nothing is measured.
  std::vector<NodeTime>* node_times = nullptr;
  // Gets the values of the nodes as the run computes them. Such a run waits for its streams after each step and replays
  // no graph. Null: nobody does.
  ValueObserver* values = nullptr;
  // Strict mode for this run, also where the session's options do not ask for it.
  bool disallow_copies = false;
  const void* native_options = nullptr;  // the OrtRunOptions of a run that came through the C ABI, for plugins
  // A stream of one of the session's EPs that the caller has ordered the run on (borrowed): the EP's work is enqueued
  // there, after what is there already. Null: the EPs' own streams.
  DeviceStream* stream = nullptr;
  // False: the run may return when its work is enqueued, if all of it is on one stream and nobody asks for `signals`.
  // Then inputs and outputs have to live until that stream is done with them, and what fails later fails the stream:
  // Session::synchronize() reports it. A plan in which the host takes part is waited for all the same.
  bool synchronize = true;
};

class Session;
struct BindingImpl;

// Which tensors a run reads and writes. Names are checked when bound; types and ranks too; shapes when run.
class TENON_API Binding {
 public:
  ~Binding();
  Binding(Binding&&) noexcept;
  Binding& operator=(Binding&&) noexcept;

  Status bind_input(std::string_view name, Tensor tensor);
  // Written in place. A tensor whose capacity is larger than the output needs is fine: output() has the real shape.
  Status bind_output(std::string_view name, Tensor tensor);
  // Memory from Tenon, reused by later runs of this binding when the size allows. The default for unbound outputs. It
  // lies where the output is made (Session::output_spaces), or in `space` when one is given.
  Status bind_output_auto(std::string_view name);
  Status bind_output_auto(std::string_view name, const MemorySpace& space);
  // The same by position in Session::inputs() and outputs().
  Status bind_input(size_t index, Tensor tensor);
  Status bind_output(size_t index, Tensor tensor);
  Status bind_output_auto(size_t index);
  Status bind_output_auto(size_t index, const MemorySpace& space);
  Status unbind_input(size_t index);
  Status clear();
  // After a run: the output with its real shape; undefined before the first run, for unknown names, and while a run or
  // a call on another thread uses the binding.
  Tensor output(std::string_view name) const;
  Tensor output(size_t index) const;

 private:
  friend class Session;
  friend struct SessionImpl;
  explicit Binding(std::unique_ptr<BindingImpl> impl);
  std::unique_ptr<BindingImpl> impl_;
};

class TENON_API Session : public std::enable_shared_from_this<Session> {
 public:
  // Maps the file; it must not shrink while the session lives. External data is found beside it.
  static Result<std::shared_ptr<Session>> load(const std::string& path, const SessionOptions& options = {});
  // Copies what it needs; `base_directory` is where external data is looked for ("" refuses external data).
  static Result<std::shared_ptr<Session>> load_from_bytes(std::span<const std::byte> model,
                                                          const SessionOptions& options = {},
                                                          const std::string& base_directory = "");
  virtual ~Session() = default;

  virtual std::span<const ValueInfo> inputs() const = 0;
  virtual std::span<const ValueInfo> outputs() const = 0;
  // Initializers that the model also lists as inputs: a run may replace them only with initializers_as_inputs.
  virtual std::span<const ValueInfo> overridable_initializers() const = 0;
  // The value that one of them has when no run replaces it; undefined past the end.
  virtual Tensor overridable_default(size_t index) const = 0;
  virtual const ModelMetadata& metadata() const = 0;
  virtual const SessionOptions& options() const = 0;
  // Which EP took which nodes of the model as it was read: one entry for each region that an EP compiles and for each
  // node that it has a kernel for, in the order of preference, then one for each node of the CPU EP.
  virtual std::span<const EpAssignment> assignments() const = 0;
  // In the order of inputs() and outputs().
  virtual std::span<const ValueSpace> input_spaces() const = 0;
  virtual std::span<const ValueSpace> output_spaces() const = 0;
  // Memory to bind, in any space that an EP of this session has an allocator for (plain host memory included).
  // Contents are undefined outside of plain host memory.
  virtual Result<Tensor> allocate(DataType type, const Shape& shape, const MemorySpace& space) = 0;

  virtual Result<Binding> make_binding() = 0;
  // Blocks; runs on this thread and the pool. The second run of a signature allocates nothing.
  virtual Status run(Binding& binding, const RunOptions& options = {}) = 0;
  // Waits for the runs that have returned before their streams were done (RunOptions::synchronize). Errors: the first
  // failure among them.
  virtual Status synchronize() = 0;
  // Convenience: outputs in the model's order, in fresh plain host memory.
  Result<std::vector<Tensor>> run(std::span<const std::pair<std::string, Tensor>> inputs,
                                  const RunOptions& options = {});
  // The same as written: session->run({{"x", x}}).
  Result<std::vector<Tensor>> run(std::initializer_list<std::pair<std::string, Tensor>> inputs,
                                  const RunOptions& options = {}) {
    return run(std::span<const std::pair<std::string, Tensor>>(inputs.begin(), inputs.size()), options);
  }

  // The plan for input shapes (name -> shape; missing ones must be static or fixed by SessionOptions::dims): steps with
  // kernels and layouts, memory spaces with their arenas, the copies that a run makes, and why (S6.1). `spaces` says
  // where inputs and outputs are bound (name -> space); those that it does not name are in plain host memory. A space's
  // alignment is that of the tensor's address; 0: as memory that was allocated there. In strict mode a plan that copies
  // is the error that a run would be. Copies and runs nothing.
  virtual Result<PlanReport> plan_report(const std::map<std::string, Shape>& shapes,
                                         const std::map<std::string, MemorySpace>& spaces) = 0;
  // PlanReport::to_text() of it.
  Result<std::string> explain(const std::map<std::string, Shape>& shapes,
                              const std::map<std::string, MemorySpace>& spaces = {});
  // The copies alone, as a run's ledger will have them. Copies nothing. Errors: those of plan_report(),
  // without strict mode's.
  virtual Result<ExplainedCopies> explain_copies(const std::map<std::string, Shape>& shapes,
                                                 const std::map<std::string, MemorySpace>& spaces) = 0;
};

// "MAJOR.MINOR.PATCH", from project() in CMakeLists.txt.
TENON_API std::string_view version();

}  // namespace tenon
