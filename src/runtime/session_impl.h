// A loaded model: its graph, its plans, and the parts that its runs share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tenon/session.h>

#include "graph/graph.h"
#include "graph/reader.h"
#include "plan/node_trail.h"
#include "runtime/device_runs.h"
#include "runtime/model_description.h"
#include "runtime/placed_constants.h"
#include "runtime/session_eps.h"
#include "runtime/session_plans.h"
#include "runtime/session_report.h"
#include "runtime/session_spaces.h"
#include "runtime/wanted_spaces.h"
#include "runtime/weight_cache.h"

namespace tenon {

// Threads: const after load, but for the parts that say that they lock.
struct SessionImpl final : public Session {
 public:
  // `number` names the session in traces.
  static Result<std::shared_ptr<Session>> create(Result<Model> model, const SessionOptions& options,
                                                 int32_t number = next_number());
  static int32_t next_number();
  // Waits for what streams still do in the session's memory.
  ~SessionImpl() override;

  std::span<const ValueInfo> inputs() const override { return description_.inputs; }
  std::span<const ValueInfo> outputs() const override { return description_.outputs; }
  std::span<const ValueInfo> overridable_initializers() const override { return description_.overridable; }
  Tensor overridable_default(size_t index) const override;
  const ModelMetadata& metadata() const override { return description_.metadata; }
  const SessionOptions& options() const override { return options_; }
  std::span<const EpAssignment> assignments() const override { return eps_.assignments(); }
  Result<Binding> make_binding() override;
  // For a holder that gives it to one thread at a time: calls of it are not checked for other threads.
  Result<Binding> make_unguarded_binding();
  Status run(Binding& binding, const RunOptions& options) override;
  Status synchronize() override;
  std::span<const ValueSpace> input_spaces() const override { return wanted_.inputs; }
  std::span<const ValueSpace> output_spaces() const override { return wanted_.outputs; }
  Result<Tensor> allocate(DataType type, const Shape& shape, const MemorySpace& space) override;
  Result<PlanReport> plan_report(const std::map<std::string, Shape>& shapes,
                                 const std::map<std::string, MemorySpace>& spaces) override;
  Result<ExplainedCopies> explain_copies(const std::map<std::string, Shape>& shapes,
                                         const std::map<std::string, MemorySpace>& spaces) override;

  const Graph& graph() const { return model_.graph; }
  const SessionSpaces& spaces() const { return spaces_; }

 private:
  explicit SessionImpl(int32_t number) : number_(number) {}
  Status prepare();
  Status make_pools();
  // Constants that no EP has to compute.
  Status fold_for_eps();
  Status run_passes_of_load();
  void make_plans();
  // With the times or the values of its nodes.
  Status run_observed(BindingImpl& binding, const RunOptions& options);
  // A span of the trace around run_plan_of().
  Status run_bound(BindingImpl& binding, const RunOptions& options);
  Status run_plan_of(BindingImpl& binding, const RunOptions& options);
  // The plan of the binding's key into it.
  Status find_plan(BindingImpl& binding, bool disallow_copies, RunReport* report);
  SessionReporter reporter();

  const int32_t number_;
  // In this order: each part may use those before it as long as it lives.
  SessionOptions options_;
  Model model_;
  ModelDescription description_;
  NodeTrail trail_;
  std::vector<Value> folded_;  // small constants of the model's graph that nothing reads any more
  SessionEps eps_;
  SessionSpaces spaces_;
  WantedSpaces wanted_;
  KeptTexts texts_;
  OnceCopies copies_;
  std::optional<PlacedConstants> constants_;
  std::shared_ptr<ThreadPool> pool_, fold_pool_;
  SessionWeightCache weights_;
  ArenaPools arenas_;
  std::unique_ptr<SubgraphKernels> subgraphs_;
  std::optional<DeviceRuns> devices_;
  std::optional<SessionPlans> plans_;
  RunResources resources_;
};

}  // namespace tenon
