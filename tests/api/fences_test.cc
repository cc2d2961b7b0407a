// Waits, signals, deadlines and poison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <type_traits>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::ints;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Gather fails at run time for an index that is out of range.
    OnnxModel model;
    model.input("x", DataType::kFloat, {2}).input("i", DataType::kInt64, {1}).output("y", DataType::kFloat, {1});
    model.node(OnnxNode("Gather", {"x", "i"}, {"y"}));
    auto session = model.load();
    ASSERT_THAT(session, is_ok());
    session_ = *session;
    binding_ = std::make_unique<Binding>(*session_->make_binding());
    ready_ = *make_host_timeline("ready");
    done_ = *make_host_timeline("done");
    x_ = floats({2}, {1, 2});
    ASSERT_THAT(binding_->bind_input("x", x_), is_ok());
    bind_index(1);
  }
  void bind_index(int64_t index) { ASSERT_THAT(binding_->bind_input("i", ints({1}, {index})), is_ok()); }
  Status run(int64_t timeout_ns = kWaitForever) {
    const Fence waits[] = {{ready_, 1}};
    const Fence signals[] = {{done_, 1}};
    return session_->run(*binding_, {.waits = waits, .signals = signals, .timeout_ns = timeout_ns, .report = &report_});
  }

  std::shared_ptr<Session> session_;
  std::unique_ptr<Binding> binding_;
  std::shared_ptr<Timeline> ready_, done_;
  Tensor x_;
  RunReport report_;
};

TEST_F(FenceTest, AFenceWithoutTimelineIsRefused) {
  const Fence undefined[] = {{}};
  EXPECT_THAT(session_->run(*binding_, {.waits = undefined}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("RunOptions::waits has no timeline")));
  EXPECT_THAT(session_->run(*binding_, {.signals = undefined}), has_status(StatusCode::kInvalidArgument));
}

TEST_F(FenceTest, BadArgumentsLeaveTheFencesAlone) {
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(binding_->clear(), is_ok());
  EXPECT_THAT(run(), has_status(StatusCode::kInvalidArgument));
  EXPECT_EQ(*done_->value(), 0u);
  EXPECT_THAT(done_->status(), is_ok());
}

TEST_F(FenceTest, AnOutputThatIsTooSmallLeavesTheFencesAlone) {
  ASSERT_THAT(binding_->bind_output("y", floats({0}, {})), is_ok());
  EXPECT_THAT(run(), has_status(StatusCode::kInvalidArgument, HasSubstr("needs 4 bytes")));
  EXPECT_EQ(*done_->value(), 0u);
  EXPECT_THAT(done_->status(), is_ok());
}

// The first failure stays, and a waiter does not hang.
TEST_F(FenceTest, AFailedRunPoisonsItsSignals) {
  ASSERT_THAT(ready_->signal(1), is_ok());
  bind_index(9);
  EXPECT_FALSE(run().ok());
  const Fence fence{done_, 1};
  EXPECT_THAT(fence.wait(1'000'000'000), has_status(StatusCode::kOutOfRange, HasSubstr("Gather_of_y")));
  bind_index(1);
  EXPECT_THAT(session_->run(*binding_), is_ok());  // the session stays usable
}

TEST_F(FenceTest, AProducerThatNeverSignalsEndsInADeadline) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(run(20'000'000), has_status(StatusCode::kTimeout, HasSubstr("ready")));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_THAT(Fence({done_, 1}).wait(0), has_status(StatusCode::kTimeout));
}

TEST_F(FenceTest, APoisonedProducerFailsTheRunAndItsSignals) {
  ready_->poison(1, device_lost("The producer died."));
  EXPECT_THAT(run(), has_status(StatusCode::kDeviceLost, HasSubstr("The producer died.")));
  EXPECT_THAT(Fence({done_, 1}).wait(0), has_status(StatusCode::kDeviceLost, HasSubstr("The producer died.")));
}

// The time for the run is over while it waits.
TEST_F(FenceTest, TheTimeForTheRunCoversItsWaits) {
  const Fence ready{ready_, 1};
  const std::span<const Fence> waits(&ready, 1);
  const Status late = session_->run(*binding_, {.waits = waits, .run_timeout_ns = 20'000'000});
  EXPECT_THAT(late, has_status(StatusCode::kTimeout, HasSubstr("in the time for the run (tenon.timeout_ms")));
  const Status earlier =
      session_->run(*binding_, {.waits = waits, .timeout_ns = 1'000'000, .run_timeout_ns = 60'000'000'000});
  EXPECT_THAT(earlier, has_status(StatusCode::kTimeout, Not(HasSubstr("tenon.timeout_ms"))));
  ASSERT_THAT(ready_->signal(1), is_ok());
  EXPECT_THAT(session_->run(*binding_, {.waits = waits, .run_timeout_ns = 60'000'000'000}), is_ok());
}

// Each way to write fences, and options that outlive the braces that they were written with.
TEST_F(FenceTest, FencesAreWrittenInBraces) {
  const Fence ready{ready_, 1};
  ASSERT_THAT(ready.signal(), is_ok());
  EXPECT_THAT(session_->run(*binding_, {.waits = {ready}, .signals = {{done_, 1}}}), is_ok());
  EXPECT_EQ(*done_->value(), 1U);
  RunOptions kept;
  kept.waits = {ready, {ready_, 1}};
  kept.signals = {Fence{done_, 2}};
  const RunOptions copy = kept;
  kept = {};
  EXPECT_EQ(copy.waits.size(), 2U);
  EXPECT_TRUE(kept.waits.empty());
  EXPECT_THAT(session_->run(*binding_, copy), is_ok());
  EXPECT_EQ(*done_->value(), 2U);
  EXPECT_THAT(session_->run(*binding_, {.waits = std::vector<Fence>{ready, {ready_, 2}}, .timeout_ns = 0}),
              has_status(StatusCode::kTimeout, HasSubstr("does not reach 2")));
}

// Lists that borrow show the caller's own fences, and copy none.
TEST_F(FenceTest, ListsThatBorrowCopyNoFence) {
  const std::vector<Fence> vector(2, Fence{ready_, 1});
  const std::array<Fence, 2> array{vector[0], vector[1]};
  const Fence plain[] = {vector[0]};
  const auto data = [](const FenceList& list) { return std::span<const Fence>(list).data(); };
  EXPECT_EQ(data(vector), vector.data());
  EXPECT_EQ(data(array), array.data());
  EXPECT_EQ(data(plain), &plain[0]);
  EXPECT_EQ(data({&plain[0], 1}), &plain[0]);
  EXPECT_EQ(data(std::span<const Fence>(vector)), vector.data());
  EXPECT_NE(data({plain[0]}), &plain[0]);
  static_assert(!std::is_constructible_v<FenceList, const std::array<Fence, 2>>);
}

// Nothing is read before the fence: the input is written by another thread, which signals 50 ms later.
TEST_F(FenceTest, TheInputIsReadAfterTheWaitAndTheSignalComesAfterTheOutput) {
  const Tensor y = floats({1}, {0});
  ASSERT_THAT(binding_->bind_output("y", y), is_ok());
  std::thread producer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    x_.data_as<float>()[1] = 42;
    ASSERT_TRUE(ready_->signal(1).ok());
  });
  float seen = 0;
  std::thread consumer([&] {
    ASSERT_TRUE(done_->wait(1, 5'000'000'000).ok());
    seen = y.data_as<float>()[0];
  });
  EXPECT_THAT(run(), is_ok());
  producer.join();
  consumer.join();
  EXPECT_EQ(seen, 42);
  EXPECT_GT(report_.wait_ns, 0);
  EXPECT_EQ(*done_->value(), 1u);
}

}  // namespace
}  // namespace tenon
