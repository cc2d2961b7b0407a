#include "runtime/captured_graphs.h"

#include <array>
#include <set>

#include "base/testing.h"
#include "runtime/plan_testing.h"

namespace tenon {
namespace {

// Captures a graph in its `runs_needed`th run.
class FakeCapture final : public GraphCapture {
 public:
  bool needs_whole_model() const override { return false; }
  int32_t graph_of(const RunInfo& /*info*/) const override { return 7; }
  Result<bool> is_captured(int32_t graph) const override { return captured.contains(graph); }
  Status replay(int32_t /*graph*/) override {
    ++replays;
    return {};
  }
  Status release(int32_t graph) override {
    captured.erase(graph);
    return {};
  }
  std::set<int32_t> captured;
  int replays = 0;
};

class CapturedGraphsTest : public ::testing::Test {
 protected:
  // A plan whose one step is an EP's.
  static std::shared_ptr<PlanRuntime> device_plan() {
    std::shared_ptr<Plan> plan = plan_of([](KernelContext& /*context*/) { return Status(); });
    ++plan->steps[StepId(0)].ep;
    return std::make_shared<PlanRuntime>(std::move(plan), 1);
  }
  Status capture(const std::shared_ptr<PlanRuntime>& runtime, int needed, bool complete = true) {
    runs_ = 0;
    return graphs_.run_and_capture(7, runtime, inputs_, outputs_,
                                   [&, needed](CapturedGraphs::Memory& memory) -> Result<bool> {
                                     memory.push_back(std::make_shared<std::byte>());
                                     held_ = memory.back();
                                     if (++runs_ == needed) capture_.captured.insert(7);
                                     return complete;
                                   });
  }
  bool replay(const std::shared_ptr<PlanRuntime>& runtime) {
    return graphs_.replay(7, runtime, inputs_, outputs_).value();
  }

  FakeCapture capture_;
  CapturedGraphs graphs_{capture_};
  float x_ = 0, y_ = 0, z_ = 0;
  std::array<void*, 1> inputs_{&x_}, outputs_{&y_};
  int runs_ = 0;
  std::weak_ptr<std::byte> held_;  // memory of the last run
};

TEST_F(CapturedGraphsTest, AGraphIsReplayedForTheSamePlanAndMemory) {
  const auto runtime = device_plan();
  EXPECT_FALSE(replay(runtime));
  ASSERT_THAT(capture(runtime, 3), is_ok());
  EXPECT_EQ(runs_, 3);
  EXPECT_FALSE(held_.expired());  // a replay works on it
  EXPECT_TRUE(replay(runtime));
  EXPECT_EQ(capture_.replays, 1);
}

TEST_F(CapturedGraphsTest, AnotherPlanOrOtherMemoryGivesTheGraphUp) {
  const auto runtime = device_plan();
  ASSERT_THAT(capture(runtime, 1), is_ok());
  outputs_ = {&z_};
  EXPECT_FALSE(replay(runtime));
  EXPECT_FALSE(capture_.captured.contains(7));
  EXPECT_TRUE(held_.expired());
  ASSERT_THAT(capture(runtime, 1), is_ok());
  EXPECT_FALSE(replay(device_plan()));
  EXPECT_EQ(capture_.replays, 0);
}

TEST_F(CapturedGraphsTest, AGraphThatTheEpHasGivenUpIsNotReplayed) {
  const auto runtime = device_plan();
  ASSERT_THAT(capture(runtime, 1), is_ok());
  capture_.captured.clear();
  EXPECT_FALSE(replay(runtime));
}

TEST_F(CapturedGraphsTest, ARunWithCopiesOfTheHostIsNotKept) {
  const auto runtime = device_plan();
  ASSERT_THAT(capture(runtime, 1, /*complete=*/false), is_ok());
  EXPECT_EQ(runs_, 1);
  EXPECT_FALSE(replay(runtime));
}

TEST_F(CapturedGraphsTest, APlanWithAStepOfTheHostRunsOnce) {
  const auto host = std::make_shared<PlanRuntime>(plan_of([](KernelContext& /*context*/) { return Status(); }), 1);
  ASSERT_THAT(capture(host, 5), is_ok());
  EXPECT_EQ(runs_, 1);
}

TEST_F(CapturedGraphsTest, AnEpThatCapturesNothingIsAskedABoundedNumberOfTimes) {
  ASSERT_THAT(capture(device_plan(), 1000), is_ok());
  EXPECT_EQ(runs_, 8);
}

TEST_F(CapturedGraphsTest, AFailedRunEndsTheCapture) {
  const Status status = graphs_.run_and_capture(
      7, device_plan(), inputs_, outputs_,
      [](CapturedGraphs::Memory& /*memory*/) -> Result<bool> { return device_error("The run has failed."); });
  EXPECT_THAT(status, has_status(StatusCode::kDeviceError));
}

}  // namespace
}  // namespace tenon
