// The plans of one graph by signature, each with what its runs keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"
#include "plan/plan.h"
#include "plan/signature.h"
#include "runtime/idle_pool.h"
#include "runtime/run_state.h"
#include "runtime/unfinished_runs.h"

namespace tenon {

struct PlanRuntime;

struct CachedPlan {
  std::shared_ptr<PlanRuntime> runtime;
  bool made = false;     // by this call
  bool evicted = false;  // another plan had to go for it
};

// A bounded number of plans, and fewer where their budget is exceeded (plan/plan_budget.h), the least recently used
// goes first. Threads: any. Plans are made and end with no lock held; of two threads that miss at once, both make a
// plan and the first one is kept.
class PlanCache {
 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity), plans_(std::in_place, capacity) {}

  // `found` is the plan of `key`: the one that is kept, or the one that `make`, a function that returns
  // Result<std::shared_ptr<Plan>>, gives. A hit allocates nothing. Errors: those of `make`.
  template <typename Make>
  Status find_or_make(const SignatureKey& key, const Make& make, CachedPlan& found);

 private:
  // Lets plans go until the budget of `made` is kept, at most half of those that are here: a plan that still runs
  // holds its memory without being kept. Whether one went.
  bool keep_to_budget(const Plan& made);

  const size_t capacity_;
  Guarded<SignatureCache<PlanRuntime>> plans_;
};

// The plan that a caller used last, for one that mostly asks for the same again: it is found without a lock, and kept
// even when the cache has dropped it. Threads: one at a time.
class LastPlan {
 public:
  // As PlanCache::find_or_make, which `find`, a function of a CachedPlan&, calls.
  template <typename Find>
  Status find(const SignatureKey& key, const Find& find) {
    if (runtime_ != nullptr && key == key_) [[likely]]
      return {};
    CachedPlan found;
    runtime_ = nullptr;
    TENON_TRY(find(found));
    key_ = key;
    runtime_ = std::move(found.runtime);
    return {};
  }
  // After a find() that succeeded.
  const std::shared_ptr<PlanRuntime>& runtime() const { return runtime_; }

 private:
  SignatureKey key_;
  std::shared_ptr<PlanRuntime> runtime_;
};

// A plan with what its runs keep. Threads: any.
struct PlanRuntime {
  PlanRuntime(std::shared_ptr<Plan> made, size_t cache_size)
      : plan(std::move(made)), only_stream(tenon::only_stream(*plan)), rests(cache_size) {}

  const std::shared_ptr<Plan> plan;
  const EpId only_stream;  // see unfinished_runs.h
  IdleObjects<RunState> idle_states;
  PlanCache rests;  // of the graph after the plan's cut, by the shapes and values found there
};

template <typename Make>
Status PlanCache::find_or_make(const SignatureKey& key, const Make& make, CachedPlan& found) {
  found = {.runtime = plans_.lock()->find(key)};
  if (found.runtime != nullptr) [[likely]]
    return {};
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, make());
  const auto made = std::make_shared<PlanRuntime>(std::move(plan), capacity_);
  std::shared_ptr<PlanRuntime> dropped;  // ends after the lock
  found = {.runtime = plans_.lock()->insert(key, made, dropped), .made = true};
  found.evicted = dropped != nullptr;
  dropped = nullptr;
  if (made->plan->share.budget_is_exceeded()) found.evicted = keep_to_budget(*made->plan) || found.evicted;
  return {};
}

}  // namespace tenon
