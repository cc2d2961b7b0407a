#include "runtime/plan_executor.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "runtime/plan_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// Outputs in memory of the test.
class GivenOutputs final : public PlanOutputs {
 public:
  explicit GivenOutputs(void* output) : addresses_{output} {}
  Status prepare(const Plan& /*plan*/, std::span<void* const> /*inputs*/) override {
    ++prepared;
    return {};
  }
  std::span<void* const> addresses() const override { return addresses_; }
  Status finish(const Plan& /*plan*/, RunState& /*state*/, bool is_rest) override {
    finished.push_back(is_rest);
    return {};
  }
  int prepared = 0;
  std::vector<bool> finished;

 private:
  std::vector<void*> addresses_;
};

// Plans of what follows a cut write the constant that they are planned for.
class ConstantPlanner final : public RestPlanner {
 public:
  Result<std::shared_ptr<Plan>> plan_rest(const PlanCut& /*cut*/, std::span<const Shape> /*shapes*/,
                                          std::span<const ConstantRef> constants, const BoundSpaces& /*bound*/,
                                          bool /*disallow_copies*/) const override {
    ++planned;
    const float value = constants[0]->as<float>()[0];
    std::shared_ptr<Plan> plan = plan_of([value](KernelContext& context) {
      *context.output<float>(0) = value;
      return Status();
    });
    plan->steps[StepId(0)].inputs.clear();
    plan->inputs.clear();
    return plan;
  }
  mutable int planned = 0;
};

class PlanExecutorTest : public ::testing::Test {
 protected:
  PlanExecutorTest() {
    arenas_.add(nullptr);
    resources_ = {.pool = pool_.get(),
                  .arenas = &arenas_,
                  .spaces = &spaces_,
                  .texts = &texts_,
                  .rests = &rests_,
                  .unfinished = nullptr};
  }

  Status run(PlanRuntime& runtime, void* input, GivenOutputs& outputs) {
    return PlanExecutor(resources_, info_).run(runtime, std::array{input}, outputs);
  }

  const std::shared_ptr<ThreadPool> pool_ = ThreadPool::create({.threads = 1}).value();
  ArenaPools arenas_;
  SessionSpaces spaces_;
  KeptTexts texts_;
  ConstantPlanner rests_;
  RunInfo info_;
  RunResources resources_;
};

TEST_F(PlanExecutorTest, StepsReadAndWriteTheMemoryOfTheCaller) {
  PlanRuntime runtime(plan_of([](KernelContext& context) {
                        for (int i = 0; i < 4; ++i) context.output<float>(0)[i] = context.input<float>(0)[i] + 1;
                        return Status();
                      }),
                      1);
  std::array<float, 4> x{1, 2, 3, 4}, y{};
  GivenOutputs outputs(y.data());
  ASSERT_THAT(run(runtime, x.data(), outputs), is_ok());
  EXPECT_EQ(y, (std::array<float, 4>{2, 3, 4, 5}));
  EXPECT_EQ(outputs.prepared, 0);  // the caller prepares the first plan
  EXPECT_EQ(outputs.finished, std::vector<bool>{false});
}

TEST_F(PlanExecutorTest, RunsOneAfterTheOtherUseTheSameMemoryAndNestedOnesDoNot) {
  std::vector<std::byte*> scratch;
  std::function<void()> inside = [] {};
  PlanRuntime runtime(plan_of([&](KernelContext& context) {
                        scratch.push_back(context.scratch);
                        std::exchange(inside, [] {})();
                        return Status();
                      }),
                      1);
  std::array<float, 4> x{}, y{};
  GivenOutputs outputs(y.data());
  ASSERT_THAT(run(runtime, x.data(), outputs), is_ok());
  inside = [&] { EXPECT_THAT(run(runtime, x.data(), outputs), is_ok()); };
  ASSERT_THAT(run(runtime, x.data(), outputs), is_ok());
  ASSERT_EQ(scratch.size(), 3u);
  EXPECT_EQ(scratch[1], scratch[0]);
  EXPECT_NE(scratch[2], scratch[1]);
  EXPECT_EQ(runtime.idle_states.size(), 2u);
}

TEST_F(PlanExecutorTest, TheCallersLastStateIsTakenAgain) {
  std::function<void()> inside = [] {};
  PlanRuntime runtime(plan_of([&](KernelContext& /*context*/) {
                        std::exchange(inside, [] {})();
                        return Status();
                      }),
                      1);
  std::array<float, 4> x{}, y{};
  GivenOutputs outputs(y.data());
  PlanExecutor outer(resources_, info_), inner(resources_, info_), later(resources_, info_);
  inside = [&] { EXPECT_THAT(inner.run(runtime, std::array<void*, 1>{x.data()}, outputs), is_ok()); };
  ASSERT_THAT(outer.run(runtime, std::array<void*, 1>{x.data()}, outputs), is_ok());
  ASSERT_NE(inner.last_state, outer.last_state);
  const RunState* const preferred = inner.last_state;
  later.last_state = preferred;
  ASSERT_THAT(later.run(runtime, std::array<void*, 1>{x.data()}, outputs), is_ok());
  EXPECT_EQ(later.last_state, preferred);
}

TEST_F(PlanExecutorTest, AFailureNamesTheNodeAndGivesTheMemoryBack) {
  PlanRuntime runtime(plan_of([](KernelContext& /*context*/) { return device_error("No luck."); }), 1);
  std::array<float, 4> x{}, y{};
  GivenOutputs outputs(y.data());
  EXPECT_THAT(run(runtime, x.data(), outputs), has_status(StatusCode::kDeviceError, HasSubstr("the_step")));
  EXPECT_TRUE(outputs.finished.empty());
  EXPECT_EQ(runtime.idle_states.size(), 1u);
  EXPECT_GE(arenas_[kHostSpace].idle_bytes(), 64u);
}

TEST_F(PlanExecutorTest, WhatFollowsACutIsPlannedOnceForEachValueFoundThere) {
  std::shared_ptr<Plan> plan = plan_of([](KernelContext& /*context*/) { return Status(); }, 1);
  plan->cut = std::make_unique<PlanCut>();
  CutValue value;
  value.name = "x";
  value.location = {StorageKind::kInput, 0, 0};
  value.spec = floats(1);
  value.as_constant = true;
  plan->cut->values.push_back(value);
  PlanRuntime runtime(plan, 2);
  for (const float number : {5.0F, 5.0F, 6.0F}) {
    float x = number, y = 0;
    GivenOutputs outputs(&y);
    PlanExecutor executor(resources_, info_);
    const int before = rests_.planned;
    ASSERT_THAT(executor.run(runtime, std::array<void*, 1>{&x}, outputs), is_ok());
    EXPECT_EQ(y, number);
    EXPECT_EQ(executor.planned(), rests_.planned > before);
    EXPECT_EQ(outputs.prepared, 1);
    EXPECT_EQ(outputs.finished, (std::vector<bool>{true, false}));
  }
  EXPECT_EQ(rests_.planned, 2);
}

TEST_F(PlanExecutorTest, ThreadsRunOnePlanAtOnce) {
  PlanRuntime runtime(plan_of([](KernelContext& context) {
                        // The scratch memory is this run's alone.
                        auto* scratch = reinterpret_cast<float*>(context.scratch);
                        std::copy_n(context.input<float>(0), 4, scratch);
                        std::this_thread::yield();
                        std::copy_n(scratch, 4, context.output<float>(0));
                        return Status();
                      }),
                      1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto number = static_cast<float>(t);
      std::array<float, 4> x{number, number, number, number}, y{};
      GivenOutputs outputs(y.data());
      for (int i = 0; i < 200; ++i) {
        ASSERT_THAT(run(runtime, x.data(), outputs), is_ok());
        ASSERT_EQ(y, x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tenon
