#include "runtime/plan_cache.h"

namespace tenon {

bool PlanCache::keep_to_budget(const Plan& made) {
  bool any = false;
  for (size_t left = plans_.lock()->size() / 2; left > 0 && made.share.budget_is_exceeded(); --left) {
    const std::shared_ptr<PlanRuntime> taken = plans_.lock()->take_oldest();  // ends with no lock held
    if (taken == nullptr) break;
    any = true;
  }
  return any;
}

}  // namespace tenon
