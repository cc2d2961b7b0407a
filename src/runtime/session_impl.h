// A loaded model: its graph, its plans, and what runs share.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tenon/session.h>

#include "base/guarded.h"
#include "graph/graph.h"
#include "graph/reader.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "plan/signature.h"
#include "runtime/arena_pool.h"
#include "runtime/run_state.h"
#include "runtime/weight_cache.h"

namespace tenon {

// A plan with what its runs keep. Threads: any.
struct PlanRuntime {
  explicit PlanRuntime(std::shared_ptr<Plan> made, size_t cache_size)
      : plan(std::move(made)), rests(std::in_place, cache_size) {}

  std::shared_ptr<Plan> plan;
  Guarded<std::vector<std::unique_ptr<RunState>>> idle_states;
  Guarded<SignatureCache<PlanRuntime>> rests;  // what follows a cut, by the shapes and values found there
};

// Threads: const after load, but for the caches, which lock.
struct SessionImpl final : public Session {
 public:
  static Result<std::shared_ptr<Session>> create(Result<Model> model, const SessionOptions& options);

  std::span<const ValueInfo> inputs() const override { return inputs_; }
  std::span<const ValueInfo> outputs() const override { return outputs_; }
  std::span<const ValueInfo> overridable_initializers() const override { return overridable_; }
  Tensor overridable_default(size_t index) const override {
    return index < overridable_defaults_.size() ? overridable_defaults_[index] : Tensor();
  }
  const ModelMetadata& metadata() const override { return metadata_; }
  const SessionOptions& options() const override { return options_; }
  Result<Binding> make_binding() override;
  Status run(Binding& binding, const RunOptions& options) override;
  Result<std::string> explain(const std::map<std::string, Shape>& shapes) override;

  const Graph& graph() const { return model_.graph; }
  ThreadPool& pool() const { return *pool_; }
  ArenaPool& arenas() { return arenas_; }
  const PlannerOptions& planner_options() const { return planner_options_; }

  // The plan of these shapes, from the cache or made now.
  Result<std::shared_ptr<PlanRuntime>> find_plan(const SignatureKey& key, std::span<const Shape> shapes, bool& planned);
  Result<std::shared_ptr<PlanRuntime>> make_plan(std::span<const Shape> shapes) const;
  Status check_shapes(std::span<const Shape> shapes) const;

 private:
  SessionImpl() = default;
  Status prepare(const SessionOptions& options);
  void fix_dims();
  Status check_nodes() const;
  void describe_values();
  Status run_bound(BindingImpl& binding, const RunOptions& options);

  SessionOptions options_;
  Model model_;
  std::vector<ValueInfo> inputs_, outputs_, overridable_;
  std::vector<Tensor> overridable_defaults_;
  ModelMetadata metadata_;
  std::unique_ptr<ExecutionProvider> provider_;
  std::shared_ptr<ThreadPool> pool_, fold_pool_;
  SessionWeightCache weights_;
  ArenaPool arenas_;
  PlannerOptions planner_options_;
  std::unique_ptr<Guarded<SignatureCache<PlanRuntime>>> plans_;
};

}  // namespace tenon
