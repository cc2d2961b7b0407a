#include "device/stream.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fault.h"
#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLong = 20'000 * kMs;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
std::shared_ptr<Timeline> timeline() { return make_host_timeline("t").value(); }
std::unique_ptr<Stream> stream() { return Stream::create("2").value(); }
Status failing() { return Status(StatusCode::kDeviceError, "The kernel fails."); }

TEST(Stream, RunsItemsInProgramOrder) {
  auto s = stream();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i)
    ASSERT_THAT(s->enqueue([&order, i] {
      order.push_back(i);
      return Status();
    }),
                is_ok());
  ASSERT_THAT(s->synchronize(kLong), is_ok());
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

// S1.5: the call returns before the fence is reached; what follows the wait runs after the signal from elsewhere.
TEST(Stream, WaitReturnsAtOnceAndHoldsBackWhatFollows) {
  auto s = stream();
  auto t = timeline();
  std::atomic<bool> ran{false};
  ASSERT_THAT(s->wait({t, 1}), is_ok());
  ASSERT_THAT(s->enqueue([&] {
    ran = true;
    return Status();
  }),
              is_ok());
  ASSERT_THAT(s->signal({t, 2}), is_ok());
  sleep_ms(30);
  EXPECT_FALSE(ran);
  EXPECT_EQ(t->value().value(), 0u);
  ASSERT_THAT(t->signal(1), is_ok());
  EXPECT_THAT(t->wait(2, kLong), is_ok());
  EXPECT_TRUE(ran);
}

TEST(Stream, TwoStreamsOrderEachOtherThroughATimeline) {
  auto first = stream(), second = stream();
  auto t = timeline();
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    const auto turn = static_cast<uint64_t>(2 * i);
    ASSERT_THAT(first->wait({t, turn}), is_ok());
    ASSERT_THAT(first->enqueue([&order, i] {
      order.push_back(2 * i);
      return Status();
    }),
                is_ok());
    ASSERT_THAT(first->signal({t, turn + 1}), is_ok());
    ASSERT_THAT(second->wait({t, turn + 1}), is_ok());
    ASSERT_THAT(second->enqueue([&order, i] {
      order.push_back(2 * i + 1);
      return Status();
    }),
                is_ok());
    ASSERT_THAT(second->signal({t, turn + 2}), is_ok());
  }
  ASSERT_THAT(t->wait(100, kLong), is_ok());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Stream, AFailureSkipsLaterWorkPoisonsLaterFencesAndIsReportedOnce) {
  auto s = stream();
  auto t = timeline();
  bool ran = false;
  ASSERT_THAT(s->signal({t, 1}), is_ok());
  ASSERT_THAT(s->enqueue(failing), is_ok());
  ASSERT_THAT(s->enqueue([&] {
    ran = true;
    return Status(StatusCode::kInternal, "later");
  }),
              is_ok());
  ASSERT_THAT(s->signal({t, 2}), is_ok());
  EXPECT_THAT(t->wait(2, kLong), has_status(StatusCode::kDeviceError, HasSubstr("kernel")));
  EXPECT_THAT(t->wait(1, 0), is_ok());
  EXPECT_THAT(s->synchronize(kLong), has_status(StatusCode::kDeviceError));
  EXPECT_FALSE(ran);
  // The stream is usable again.
  auto next = timeline();
  ASSERT_THAT(s->signal({next, 1}), is_ok());
  EXPECT_THAT(next->wait(1, kLong), is_ok());
  EXPECT_THAT(s->synchronize(kLong), is_ok());
}

TEST(Stream, AFenceThatFailsOrPassesItsDeadlineFailsTheStream) {
  auto s = stream();
  auto poisoned = timeline(), never = timeline(), done = timeline();
  poisoned->poison(1, Status(StatusCode::kTimeout, "The producer gives up."));
  ASSERT_THAT(s->wait({poisoned, 1}), is_ok());
  ASSERT_THAT(s->signal({done, 1}), is_ok());
  EXPECT_THAT(done->wait(1, kLong), has_status(StatusCode::kTimeout, HasSubstr("gives up")));
  EXPECT_THAT(s->synchronize(kLong), has_status(StatusCode::kTimeout));
  const int64_t start = monotonic_ns();
  ASSERT_THAT(s->wait({never, 1}, 25 * kMs), is_ok());
  EXPECT_THAT(s->synchronize(kLong), has_status(StatusCode::kTimeout, HasSubstr("does not reach 1")));
  EXPECT_GE(monotonic_ns() - start, 20 * kMs);
}

TEST(Stream, WorkThatThrowsIsAFailure) {
  auto s = stream();
  ASSERT_THAT(s->enqueue([]() -> Status { throw std::runtime_error("bad"); }), is_ok());
  EXPECT_THAT(s->synchronize(kLong), has_status(StatusCode::kInternal, HasSubstr("bad")));
}

TEST(Stream, ItsEndDoesNotHangOnAFenceThatNeverComes) {
  auto never = timeline(), done = timeline();
  std::atomic<bool> ran{false};
  {
    auto s = stream();
    ASSERT_THAT(s->wait({never, 1}), is_ok());
    ASSERT_THAT(s->enqueue([&] {
      ran = true;
      return Status();
    }),
                is_ok());
    ASSERT_THAT(s->signal({done, 1}), is_ok());
    sleep_ms(5);
  }
  EXPECT_FALSE(ran);
  EXPECT_THAT(done->wait(1, 0), has_status(StatusCode::kCancelled, HasSubstr("ends")));
}

TEST(Stream, MayBeDestroyedByItsOwnWork) {
  auto done = timeline();
  auto* s = stream().release();
  ASSERT_THAT(s->enqueue([s, done] {
    delete s;
    return done->signal(1);
  }),
              is_ok());
  EXPECT_THAT(done->wait(1, kLong), is_ok());
}

TEST(Stream, SynchronizeHasADeadlineAndRefusesToWaitForItself) {
  auto s = stream();
  auto t = timeline();
  ASSERT_THAT(s->wait({t, 1}), is_ok());
  EXPECT_THAT(s->synchronize(20 * kMs), has_status(StatusCode::kTimeout, HasSubstr("1 items left")));
  ASSERT_THAT(t->signal(1), is_ok());
  ASSERT_THAT(s->enqueue([&] { return s->synchronize(); }), is_ok());
  EXPECT_THAT(s->synchronize(kLong), has_status(StatusCode::kInvalidArgument, HasSubstr("own end")));
}

TEST(Stream, RefusesEmptyWorkFencesWithoutTimelineAndTooManyItems) {
  auto s = stream();
  EXPECT_THAT(s->enqueue(nullptr), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(s->wait({}), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(s->signal({}), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(s->wait({timeline(), 1}, -3), has_status(StatusCode::kInvalidArgument));
  auto t = timeline();
  ASSERT_THAT(s->wait({t, 1}), is_ok());
  Status status;
  for (size_t i = 0; i < Stream::kMaxItems + 2 && status.ok(); ++i) status = s->enqueue([] { return Status(); });
  EXPECT_THAT(status, has_status(StatusCode::kResourceExhausted, HasSubstr("65536")));
  ASSERT_THAT(t->signal(1), is_ok());
  EXPECT_THAT(s->synchronize(kLong), is_ok());
}

TEST(Stream, AThreadThatDoesNotStartIsAStatus) {
  FaultInjection fault(1);
  EXPECT_THAT(Stream::create("x"), has_status(StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tenon
