#include "runtime/plan_cache.h"

#include <chrono>
#include <cstdint>
#include <future>
#include <utility>

#include "base/testing.h"
#include "runtime/plan_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Result<std::shared_ptr<Plan>> empty_plan() { return std::make_shared<Plan>(); }

template <typename Make>
Result<CachedPlan> find_or_make(PlanCache& cache, const SignatureKey& key, const Make& make) {
  CachedPlan found;
  TENON_TRY(cache.find_or_make(key, make, found));
  return found;
}

TEST(PlanCache, APlanIsMadeOnceForASignature) {
  PlanCache cache(2);
  int made = 0;
  const auto make = [&] {
    ++made;
    return empty_plan();
  };
  const Result<CachedPlan> first = find_or_make(cache, {1, 2}, make);
  const Result<CachedPlan> again = find_or_make(cache, {1, 2}, make);
  const Result<CachedPlan> other = find_or_make(cache, {1, 3}, make);
  ASSERT_THAT(first, is_ok());
  ASSERT_THAT(again, is_ok());
  ASSERT_THAT(other, is_ok());
  EXPECT_EQ(made, 2);
  EXPECT_TRUE(first->made);
  EXPECT_FALSE(again->made);
  EXPECT_EQ(again->runtime, first->runtime);
  EXPECT_NE(other->runtime, first->runtime);
  EXPECT_FALSE(other->evicted);
}

TEST(PlanCache, PlansThatHoldMoreThanTheBudgetGoEarlier) {
  const auto budget = std::make_shared<PlanBudget>(1000);
  const auto make = [&]() -> Result<std::shared_ptr<Plan>> {
    auto plan = std::make_shared<Plan>();
    plan->share = PlanShare(budget, 300);
    return plan;
  };
  PlanCache cache(64);
  for (int64_t key = 0; key < 3; ++key) EXPECT_FALSE(find_or_make(cache, {key}, make)->evicted);
  EXPECT_EQ(budget->held_bytes(), 900);
  EXPECT_TRUE(find_or_make(cache, {3}, make)->evicted);
  EXPECT_EQ(budget->held_bytes(), 900);
  EXPECT_FALSE(find_or_make(cache, {2}, make)->made);
  EXPECT_TRUE(find_or_make(cache, {0}, make)->made) << "the oldest one went";
}

TEST(PlanBudget, TheLargestLimitIsNoLimit) {
  const auto budget = std::make_shared<PlanBudget>(SIZE_MAX);
  const PlanShare share(budget, int64_t{1} << 40);
  EXPECT_FALSE(share.budget_is_exceeded());
}

// Where other plans hold the budget's bytes, a cache keeps its last plan, and lets go of half at a time.
TEST(PlanCache, ABudgetThatOthersExceedLeavesTheLastPlan) {
  const auto budget = std::make_shared<PlanBudget>(1000);
  const PlanShare others(budget, 5000);
  const auto make = [&]() -> Result<std::shared_ptr<Plan>> {
    auto plan = std::make_shared<Plan>();
    plan->share = PlanShare(budget, 300);
    return plan;
  };
  PlanCache cache(64);
  for (int64_t key = 0; key < 4; ++key) {
    EXPECT_TRUE(find_or_make(cache, {key}, make)->made);
    EXPECT_FALSE(find_or_make(cache, {key}, make)->made);
  }
  EXPECT_EQ(budget->held_bytes(), 5300);
}

TEST(PlanCache, AFailureIsNotKept) {
  PlanCache cache(2);
  EXPECT_THAT(find_or_make(cache, {1}, []() -> Result<std::shared_ptr<Plan>> { return unsupported("No plan today."); }),
              has_status(StatusCode::kUnsupported, HasSubstr("today")));
  const Result<CachedPlan> made = find_or_make(cache, {1}, empty_plan);
  ASSERT_THAT(made, is_ok());
  EXPECT_TRUE(made->made);
}

// Asks the cache when it ends, as a program's deleter may run the session.
class AskingKernel final : public Kernel {
 public:
  AskingKernel(PlanCache& cache, bool& answered) : cache_(cache), answered_(answered) {}
  ~AskingKernel() override {
    auto found = std::make_shared<std::promise<void>>();
    std::future<void> done = found->get_future();
    asking_ = std::async(std::launch::async, [&cache = cache_, found] {
      (void)find_or_make(cache, {2}, empty_plan);
      found->set_value();
    });
    answered_ = done.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
    if (!answered_) new std::future<void>(std::move(asking_));  // the thread waits for whoever ends this kernel
  }
  Status run(KernelContext& /*context*/) const override { return {}; }
  std::string_view name() const override { return "asking"; }

 private:
  PlanCache& cache_;
  bool& answered_;
  std::future<void> asking_;
};

TEST(PlanCache, ThePlanThatGoesEndsWithNoLockHeld) {
  PlanCache cache(1);
  bool answered = false;
  ASSERT_THAT(find_or_make(cache, {1},
                           [&]() -> Result<std::shared_ptr<Plan>> {
                             auto plan = std::make_shared<Plan>();
                             plan->steps.emplace_back().kernel = std::make_unique<AskingKernel>(cache, answered);
                             return plan;
                           }),
              is_ok());
  const Result<CachedPlan> second = find_or_make(cache, {2}, empty_plan);
  ASSERT_THAT(second, is_ok());
  EXPECT_TRUE(second->evicted);
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace tenon
