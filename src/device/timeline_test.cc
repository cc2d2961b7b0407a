#include <tenon/fence.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::shared_ptr<Timeline> timeline(uint64_t initial = 0) { return make_host_timeline("frames", initial).value(); }

TEST(Fence, WithoutATimelineIsAnError) {
  EXPECT_THAT(Fence{}.wait(), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(Fence{}.signal(), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(Fence{}.status(), has_status(StatusCode::kInvalidArgument));
}

TEST(HostTimeline, RefusesValuesThatDoNotGrow) {
  auto t = timeline(5);
  EXPECT_THAT(t->signal(5), has_status(StatusCode::kInvalidArgument, HasSubstr("frames")));
  EXPECT_THAT(t->signal(4), has_status(StatusCode::kInvalidArgument, HasSubstr("4")));
  EXPECT_EQ(t->value().value(), 5u);
  EXPECT_THAT(t->signal(UINT64_MAX), is_ok());
  EXPECT_THAT(t->wait(UINT64_MAX, kWaitForever), is_ok());
}

// S1.5: a wait that starts first is ended by a signal that comes later.
TEST(HostTimeline, AWaitEndsWhenAnotherThreadSignals) {
  auto t = timeline();
  std::atomic<bool> signalled{false};
  std::thread signaller([&] {
    sleep_ms(30);
    signalled = true;
    EXPECT_THAT(t->signal(3), is_ok());
  });
  EXPECT_THAT((Fence{t, 2}.wait()), is_ok());
  EXPECT_TRUE(signalled);
  signaller.join();
}

TEST(HostTimeline, ADeadlineEndsAWaitWithCancelled) {
  auto t = timeline();
  const int64_t start = monotonic_ns();
  EXPECT_THAT(t->wait(1, 20 * kMs), has_status(StatusCode::kTimeout, HasSubstr("does not reach 1")));
  EXPECT_GE(monotonic_ns() - start, 20 * kMs);
  EXPECT_THAT(t->wait(1, 0), has_status(StatusCode::kTimeout));
  EXPECT_THAT(t->wait(1, -2), has_status(StatusCode::kInvalidArgument, HasSubstr("negative")));
}

TEST(HostTimeline, ATimeoutTooLargeToAddToTheClockDoesNotPassEarly) {
  auto t = timeline();
  std::thread signaller([&] {
    sleep_ms(30);
    EXPECT_THAT(t->signal(1), is_ok());
  });
  EXPECT_THAT(t->wait(1, INT64_MAX), is_ok());
  signaller.join();
}

TEST(HostTimeline, PoisonReachesThePromisedValueAndEveryWaiter) {
  auto t = timeline(3);
  std::vector<std::thread> waiters;
  std::atomic<int> poisoned{0};
  for (uint64_t value : {4, 5, 9})
    waiters.emplace_back([&, value] {
      if (t->wait(value, kWaitForever).code() == StatusCode::kDeviceError) ++poisoned;
    });
  sleep_ms(20);
  t->poison(5, Status(StatusCode::kDeviceError, "The kernel fails."));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(poisoned, 3);
  EXPECT_EQ(t->value().value(), 5u);
  // Work that was done before stays done.
  EXPECT_THAT(t->wait(3, 0), is_ok());
  EXPECT_THAT(t->status(), has_status(StatusCode::kDeviceError));
}

TEST(HostTimeline, TheFirstPoisonStays) {
  auto t = timeline();
  t->poison(1, Status(StatusCode::kDeviceError, "first"));
  t->poison(2, Status(StatusCode::kInternal, "second"));
  EXPECT_THAT(t->wait(2, 0), has_status(StatusCode::kDeviceError, HasSubstr("first")));
  EXPECT_EQ(t->value().value(), 2u);
}

TEST(HostTimeline, ManySignallersAndWaitersAllFinish) {
  auto t = timeline();
  std::vector<std::thread> threads;
  std::atomic<int> reached{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (uint64_t value = 1; value <= 200; ++value)
        if (t->wait(value, 10'000 * kMs).ok()) ++reached;
    });
  threads.emplace_back([&] {
    for (uint64_t value = 1; value <= 200; ++value) EXPECT_THAT(t->signal(value), is_ok());
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reached, 800);
}

struct FakeForeignTimeline {
  std::atomic<uint64_t> value{0};
  TimelineCallbacks callbacks() {
    return {.value = [this]() -> Result<uint64_t> { return value.load(); },
            .wait =
                [this](uint64_t wanted, int64_t timeout_ns) {
                  const Deadline deadline = Deadline::after(timeout_ns);
                  while (value.load() < wanted) {
                    if (deadline.passed()) return Status(StatusCode::kTimeout, "The foreign wait times out.");
                    std::this_thread::yield();
                  }
                  return Status();
                },
            .signal =
                [this](uint64_t next) {
                  value = next;
                  return Status();
                }};
  }
};

TEST(CallbackTimeline, RefusesMissingCallbacks) {
  FakeForeignTimeline foreign;
  TimelineCallbacks callbacks = foreign.callbacks();
  callbacks.wait = nullptr;
  EXPECT_THAT(make_callback_timeline("vk", callbacks), has_status(StatusCode::kInvalidArgument, HasSubstr("wait")));
}

TEST(CallbackTimeline, WaitsAndSignalsThroughTheCallbacks) {
  FakeForeignTimeline foreign;
  auto t = make_callback_timeline("vk", foreign.callbacks()).value();
  EXPECT_THAT(t->wait(1, kMs), has_status(StatusCode::kTimeout));
  std::thread signaller([&] {
    sleep_ms(10);
    foreign.value = 7;
  });
  EXPECT_THAT(t->wait(7, kWaitForever), is_ok());
  signaller.join();
  EXPECT_THAT(t->signal(8), is_ok());
  EXPECT_EQ(foreign.value, 8u);
  EXPECT_EQ(t->value().value(), 8u);
}

TEST(CallbackTimeline, PoisonMovesTheForeignValueAndKeepsTheReasonHere) {
  FakeForeignTimeline foreign;
  auto t = make_callback_timeline("vk", foreign.callbacks()).value();
  foreign.value = 2;
  t->poison(5, Status(StatusCode::kDeviceError, "The run fails."));
  EXPECT_EQ(foreign.value, 5u);
  EXPECT_THAT(t->wait(4, kWaitForever), has_status(StatusCode::kDeviceError));
  EXPECT_THAT(t->wait(9, kWaitForever), has_status(StatusCode::kDeviceError));
  EXPECT_THAT(t->wait(2, kWaitForever), is_ok());
}

TEST(CallbackTimeline, WhatACallbackThrowsBecomesAStatus) {
  FakeForeignTimeline foreign;
  TimelineCallbacks callbacks = foreign.callbacks();
  callbacks.signal = [](uint64_t) -> Status { throw std::runtime_error("driver gone"); };
  auto t = make_callback_timeline("vk", callbacks).value();
  EXPECT_THAT(t->signal(1), has_status(StatusCode::kDeviceError, HasSubstr("driver gone")));
}

}  // namespace
}  // namespace tenon
