#include "runtime/run_fences.h"

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "runtime/plan_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMillisecond = 1'000'000;

std::shared_ptr<Timeline> timeline(const char* name) { return make_host_timeline(name).value(); }

TEST(RunFences, AFenceWithoutATimelineIsRefusedByItsNumber) {
  const std::array<Fence, 2> fences{Fence{timeline("a"), 1}, Fence{}};
  EXPECT_THAT(check_fences(fences, "RunOptions::waits"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Fence 1 of 2 in RunOptions::waits")));
  EXPECT_THAT(check_fences(std::span(fences).first(1), "RunOptions::waits"), is_ok());
}

TEST(RunFences, AWaitEndsWithItsTimeOrTheRuns) {
  const std::array<Fence, 1> fences{Fence{timeline("late"), 1}};
  EXPECT_THAT(wait_for_fences(fences, kMillisecond, Deadline::after(kWaitForever)),
              has_status(StatusCode::kTimeout, ::testing::Not(HasSubstr("tenon.timeout_ms"))));
  EXPECT_THAT(wait_for_fences(fences, kWaitForever, Deadline::after(kMillisecond)),
              has_status(StatusCode::kTimeout, HasSubstr("tenon.timeout_ms")));
  ASSERT_THAT(fences[0].signal(), is_ok());
  EXPECT_THAT(wait_for_fences(fences, kWaitForever, Deadline::after(kWaitForever)), is_ok());
}

TEST(RunFences, AFailedSignalDoesNotKeepTheOthersFromBeingSignalled) {
  const auto broken = make_callback_timeline("broken", {.value = [] { return Result<uint64_t>(0); },
                                                        .wait = [](uint64_t, int64_t) { return Status(); },
                                                        .signal = [](uint64_t) { return device_error("Broken."); }})
                          .value();
  const std::array<Fence, 2> fences{Fence{broken, 1}, Fence{timeline("sound"), 3}};
  EXPECT_THAT(signal_fences(fences),
              has_status(StatusCode::kDeviceError, HasSubstr("while signalling timeline \"broken\"")));
  EXPECT_EQ(fences[1].timeline->value().value(), 3u);
}

TEST(RunFences, AnEpTakesAllWaitsOrNoneAndAllSignalsOrNone) {
  const auto its_own = timeline("ep"), foreign = timeline("foreign");
  const std::array<Fence, 2> mixed{Fence{its_own, 1}, Fence{foreign, 1}};
  const std::array<Fence, 2> own{Fence{its_own, 1}, Fence{its_own, 2}};
  const auto takes = [&](const Fence& fence) { return fence.timeline == its_own; };
  HandedFences handed = hand_fences({.waits = own, .signals = own}, true, takes);
  EXPECT_EQ(handed.waits.size(), 2u);
  EXPECT_EQ(handed.signals.size(), 2u);
  handed = hand_fences({.waits = mixed, .signals = own}, true, takes);
  EXPECT_TRUE(handed.waits.empty());
  EXPECT_EQ(handed.signals.size(), 2u);
  handed = hand_fences({.waits = own, .signals = mixed}, true, takes);
  EXPECT_EQ(handed.waits.size(), 2u);
  EXPECT_TRUE(handed.signals.empty());
}

// A device waits without a deadline.
TEST(RunFences, WaitsThatMustEndInTimeStayWithTheHost) {
  const std::array<Fence, 1> fences{Fence{timeline("ep"), 1}};
  const auto takes = [](const Fence& /*fence*/) { return true; };
  EXPECT_TRUE(hand_fences({.waits = fences, .timeout_ns = kMillisecond}, true, takes).waits.empty());
  EXPECT_TRUE(hand_fences({.waits = fences}, /*ep_knows_deadline=*/false, takes).waits.empty());
  EXPECT_FALSE(hand_fences({.waits = fences}, true, takes).waits.empty());
}

TEST(RunFences, OnlyAPlanWhoseStepsAreAllOnOneStreamIsTheEps) {
  const auto of = [](const std::function<void(Plan&)>& change, std::vector<EpId> active) {
    std::shared_ptr<Plan> plan = plan_of([](KernelContext& /*context*/) { return Status(); });
    plan->steps[StepId(0)].executor = EpId(1);
    plan->steps[StepId(0)].ep = EpId(1);
    change(*plan);
    return only_provider(PlanRuntime(std::move(plan), 1), active);
  };
  EXPECT_EQ(of([](Plan& /*plan*/) {}, {EpId(1)}), EpId(1));
  EXPECT_EQ(of([](Plan& /*plan*/) {}, {EpId(1), EpId(2)}), kCpuEp);
  EXPECT_EQ(of([](Plan& /*plan*/) {}, {EpId(2)}), kCpuEp);
  EXPECT_EQ(of([](Plan& plan) { plan.steps[StepId(0)].executor = kCpuEp; }, {EpId(1)}), kCpuEp);
  EXPECT_EQ(of([](Plan& plan) { plan.outputs[0].spec.dynamic = true; }, {EpId(1)}), kCpuEp);
  EXPECT_EQ(of([](Plan& plan) { plan.outputs[0].first_write = kAtEnd<StepId>; }, {EpId(1)}), kCpuEp);
  EXPECT_EQ(of([](Plan& plan) { plan.steps[StepId(0)].copy = std::make_unique<StepCopy>(); }, {EpId(1)}), kCpuEp);
}

}  // namespace
}  // namespace tenon
