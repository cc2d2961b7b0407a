// A loaded model: its graph, its plans, and resources that runs share.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <tenon/session.h>

#include "base/guarded.h"
#include "graph/graph.h"
#include "graph/reader.h"
#include "plan/pass_table.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "plan/regions.h"
#include "plan/signature.h"
#include "plan/space_table.h"
#include "runtime/arena_pool.h"
#include "runtime/run_state.h"
#include "runtime/run_streams.h"
#include "runtime/unfinished_runs.h"
#include "runtime/weight_cache.h"

namespace tenon {

// A plan with what its runs keep. Threads: any.
struct PlanRuntime {
  explicit PlanRuntime(std::shared_ptr<Plan> made, size_t cache_size)
      : plan(std::move(made)), only_stream(tenon::only_stream(*plan)), rests(std::in_place, cache_size) {}

  std::shared_ptr<Plan> plan;
  const int32_t only_stream;  // see unfinished_runs.h
  Guarded<std::vector<std::unique_ptr<RunState>>> idle_states;
  Guarded<SignatureCache<PlanRuntime>> rests;  // what follows a cut, by the shapes and values found there
};

// Threads: const after load, but for the caches, which lock.
struct SessionImpl final : public Session {
 public:
  static Result<std::shared_ptr<Session>> create(Result<Model> model, const SessionOptions& options);
  // Waits for what streams still do in the session's memory.
  ~SessionImpl() override;

  std::span<const ValueInfo> inputs() const override { return inputs_; }
  std::span<const ValueInfo> outputs() const override { return outputs_; }
  std::span<const ValueInfo> overridable_initializers() const override { return overridable_; }
  Tensor overridable_default(size_t index) const override {
    return index < overridable_defaults_.size() ? overridable_defaults_[index] : Tensor();
  }
  const ModelMetadata& metadata() const override { return metadata_; }
  const SessionOptions& options() const override { return options_; }
  std::span<const EpAssignment> assignments() const override { return assignments_; }
  Result<Binding> make_binding() override;
  Status run(Binding& binding, const RunOptions& options) override;
  Status synchronize() override;
  std::span<const ValueSpace> input_spaces() const override { return input_spaces_; }
  std::span<const ValueSpace> output_spaces() const override { return output_spaces_; }
  Result<Tensor> allocate(DataType type, const Shape& shape, const MemorySpace& space) override;
  Result<PlanReport> plan_report(const std::map<std::string, Shape>& shapes,
                                 const std::map<std::string, MemorySpace>& spaces) override;
  Result<ExplainedCopies> explain_copies(const std::map<std::string, Shape>& shapes,
                                         const std::map<std::string, MemorySpace>& spaces) override;

  const Graph& graph() const { return model_.graph; }
  ThreadPool& pool() const { return *pool_; }
  ArenaPool& arenas(size_t space) { return arenas_[space]; }
  const SpaceTable& spaces() const { return spaces_; }
  bool has_devices() const { return !device_providers_.empty(); }
  DeviceProvider& device_provider(int32_t number) { return *device_providers_[static_cast<size_t>(number - 1)]; }
  // The numbers of the EPs that have regions.
  std::span<const int32_t> active_providers() const { return active_providers_; }
  // As much as somebody may ask for.
  uint32_t alignment_of(const void* address) const;
  // The space of a tensor with as much alignment as somebody may ask for, and the same as a word of a signature.
  MemorySpace space_of(const Tensor& tensor, int64_t& word) const;
  int64_t space_word(int32_t space, uint32_t alignment) const;
  std::unique_ptr<RunStreams> take_streams();
  void give_streams(std::unique_ptr<RunStreams> streams);
  UnfinishedRuns& unfinished_runs() { return unfinished_runs_; }
  // Waits for it, and gives its memory back; what may still be in use is never used again.
  Status finish(UnfinishedRun run);
  // Whether work of provider `number` can be enqueued on the caller's `stream`.
  bool can_use_stream(int32_t number, const DeviceStream& stream);
  // Held by a run while an EP of the session supports only one at a time; null otherwise.
  std::mutex* one_run_at_a_time() { return serial_ ? &serial_mutex_ : nullptr; }
  // The EP that captures graphs, if there is one that may.
  GraphCapture* graph_capture() { return graph_capture_; }
  // A graph that an EP has captured, with what it must find where it was. Touched by one run at a time.
  struct CapturedGraph {
    std::shared_ptr<PlanRuntime> plan;
    std::vector<void*> inputs, outputs;
    std::vector<std::shared_ptr<std::byte>> memory;
  };
  std::map<int32_t, CapturedGraph>& captured_graphs() { return captured_graphs_; }
  // Memory in a space of the table.
  Result<Tensor> allocate_in(int32_t space, DataType type, const Shape& shape) const;
  Result<std::shared_ptr<std::byte>> allocate_bytes_in(int32_t space, size_t size_bytes) const;

  // The same text, living as long as the session.
  const char* keep_text(const std::string& text);

  // The plan of these shapes, from the cache or made now.
  Result<std::shared_ptr<PlanRuntime>> find_plan(const SignatureKey& key, std::span<const Shape> shapes,
                                                 const BoundSpaces& spaces, bool disallow_copies, bool& planned);
  Result<std::shared_ptr<PlanRuntime>> make_plan(std::span<const Shape> shapes, const BoundSpaces& spaces,
                                                 const PlannerOptions& options);
  Result<BoundSpaces> bound_spaces(const std::map<std::string, MemorySpace>& named) const;
  // Constants that a plan places are copied once, and written down in the session's ledger of such copies; refused in
  // strict mode, the session's or that of the run which plans.
  PlannerOptions planner_options(bool disallow_copies);
  // For a plan that never runs: constants are only written down, in `copies`.
  PlannerOptions explaining_options(CopyLedger& copies);
  // A plan that is made for the report alone. `strict`: copies of a run are an error.
  Result<PlanReport> report_for(const std::map<std::string, Shape>& shapes,
                                const std::map<std::string, MemorySpace>& spaces, bool strict);
  // What was copied once for the session and is in no run's ledger yet.
  void take_once_copies(CopyLedger& ledger);
  Status check_shapes(std::span<const Shape> shapes) const;
  void warn_of_output_shapes(const Plan& plan) const;

 private:
  SessionImpl() = default;
  Status prepare(const SessionOptions& options);
  Status make_device_providers();
  // The types of operators that only an EP knows.
  Status infer_provider_types();
  Status partition();
  Status choose_graph_capture();
  Status make_space_table(std::span<const Region> regions, const Partition& partition);
  void add_neighbours();
  void describe_assignments(const Partition& partition);
  Status check_nodes() const;
  // The bodies that the host runs for other EPs go through the passes too.
  Status prepare_region_bodies(const PassOptions& passes);
  // After the passes: those that are left.
  Status check_control_flow_nodes() const;
  // `declared`: the outputs as the model has them.
  void describe_values(std::span<const Value> declared);
  Status check_fallback() const;
  Result<Tensor> place_constant(const ConstantRef& constant, const std::string& name, int32_t space,
                                bool disallow_copies);
  // One that an EP has put there itself.
  Tensor find_placed_constant(const ConstantRef& constant, int32_t space) const;
  Status describe_spaces();
  Status run_bound(BindingImpl& binding, const RunOptions& options);

  SessionOptions options_;
  Model model_;
  std::vector<ValueInfo> inputs_, outputs_, overridable_;
  std::vector<Tensor> overridable_defaults_;
  ModelMetadata metadata_;
  std::unique_ptr<ExecutionProvider> provider_;
  std::unique_ptr<ExecutionProvider> host_provider_;               // with the operators of other EPs in bodies
  std::vector<std::unique_ptr<DeviceProvider>> device_providers_;  // outlive everything that runs on them
  std::vector<std::string> device_ep_names_;
  std::vector<EpAssignment> assignments_;
  SpaceTable spaces_;
  std::vector<ValueSpace> input_spaces_, output_spaces_;
  std::vector<int32_t> active_providers_;  // the numbers of those that have regions
  std::vector<uint32_t> alignments_;       // that spaces ask for, the strictest first
  GraphCapture* graph_capture_ = nullptr;
  std::map<int32_t, CapturedGraph> captured_graphs_;
  bool serial_ = false;
  std::mutex serial_mutex_;
  struct PlacedConstant {
    std::weak_ptr<const Constant> source;
    Tensor tensor;
  };
  Guarded<std::map<std::pair<const Constant*, int32_t>, PlacedConstant>> placed_constants_;
  CopyLedger load_copies_;           // made while loading
  Guarded<CopyLedger> once_copies_;  // all that were made once, until a run's ledger has them
  Guarded<std::set<std::string>> texts_;
  Guarded<std::vector<std::unique_ptr<RunStreams>>> idle_streams_;
  std::shared_ptr<ThreadPool> pool_, fold_pool_;
  SessionWeightCache weights_;
  std::deque<ArenaPool> arenas_;  // by space
  UnfinishedRuns unfinished_runs_;
  PlannerOptions planner_options_;
  std::unique_ptr<SubgraphKernels> subgraphs_;  // outlives the plans
  std::unique_ptr<Guarded<SignatureCache<PlanRuntime>>> plans_;
};

}  // namespace tenon
