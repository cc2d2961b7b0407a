#include "ep/cuda/captured_work.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/testing.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/gate_testing.h"
#include "ep/cuda/importer_testing.h"
#include "ep/cuda/session_fences.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kLongNs = 5'000'000'000;

// A timeline of another API, and the device's import of it.
struct Shared {
  std::shared_ptr<SharedTimeline> timeline;
  std::shared_ptr<const SemaphoreImport> semaphore;

  FencePoint at(uint64_t value) const { return {semaphore, value}; }
};

class CapturedWorkTest : public ::testing::Test {
 protected:
  CapturedWorkTest() {
    fake::configure({});
    (void)fake::take_violations();
    memory_ = CudaMemory::of(fake::driver(), 0).value();
    stream_ = make_stream();
    capture_stream_ = make_stream();
  }
  void TearDown() override { EXPECT_THAT(fake::take_violations(), IsEmpty()); }

  std::shared_ptr<CudaStream> make_stream() {
    auto stream = CudaStream::create(memory_->device()).value();
    memory_->streams().add(stream);
    return stream;
  }

  Shared share() {
    Shared shared{.timeline = SharedTimeline::create("test").value()};
    const int fd = ::fcntl(shared.timeline->fd(), F_DUPFD_CLOEXEC, 0);
    shared.semaphore =
        import_semaphore(memory_, TimelineKind::kVulkanTimelineFd, reinterpret_cast<void*>(static_cast<intptr_t>(fd)))
            .value();
    return shared;
  }

  // Work that notes what its timelines said when it ran.
  struct Body {
    std::vector<std::shared_ptr<SharedTimeline>> watched;
    std::mutex mutex;
    std::vector<uint64_t> seen;
    static void CUDA_CB run(void* argument) {
      auto& body = *static_cast<Body*>(argument);
      const std::lock_guard lock(body.mutex);
      for (const auto& timeline : body.watched) body.seen.push_back(timeline->value().value());
    }
  };

  Result<CapturedWork> capture(Body& body) {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory_->device()));
    const CudaDriver& driver = memory_->device()->driver();
    return CapturedWork::capture(memory_->device(), capture_stream_->native(), [&](CUstream stream) {
      return cuda_status(driver, driver.LaunchHostFunc(stream, &Body::run, &body), "cuLaunchHostFunc");
    });
  }

  WorkFences fences(std::vector<FencePoint> waits, std::vector<FencePoint> signals) {
    return {.memory = memory_, .stream = stream_, .waits = std::move(waits), .signals = std::move(signals)};
  }

  Status launch(CapturedWork& work, WorkFences& fences) {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory_->device()));
    return work.launch(fences);
  }

  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<CudaStream> stream_, capture_stream_;
};

struct Calls {
  int64_t launches = fake::calls("cuGraphLaunch"), waits = fake::calls("cuWaitExternalSemaphoresAsync"),
          signals = fake::calls("cuSignalExternalSemaphoresAsync"), made = fake::calls("cuGraphInstantiateWithFlags");
};

// Issue 5: wait, work and signal are one launch; only values change from frame to frame. The launch returns before the
// wait is reached (S1.5), and the work runs between the two.
TEST_F(CapturedWorkTest, WaitWorkAndSignalAreOneLaunch) {
  const Shared shared = share();
  Body body{.watched = {shared.timeline}};
  CapturedWork work = capture(body).value();
  const Calls before;
  for (uint64_t frame = 0; frame < 5; ++frame) {
    WorkFences fences = this->fences({shared.at(2 * frame + 1)}, {shared.at(2 * frame + 2)});
    ASSERT_THAT(launch(work, fences), is_ok());
    EXPECT_TRUE(fences.empty());
  }
  EXPECT_FALSE(stream_->idle());
  const Calls after;
  EXPECT_EQ(after.launches - before.launches, 5);
  EXPECT_EQ(after.made - before.made, 1);
  EXPECT_EQ(after.waits, before.waits);
  EXPECT_EQ(after.signals, before.signals);
  for (uint64_t frame = 0; frame < 5; ++frame) {
    EXPECT_EQ(shared.timeline->value().value(), 2 * frame);
    ASSERT_THAT(shared.timeline->signal(2 * frame + 1), is_ok());
    ASSERT_THAT(shared.timeline->wait(2 * frame + 2, kLongNs), is_ok());
  }
  EXPECT_THAT(stream_->synchronize(), is_ok());
  EXPECT_THAT(body.seen, ElementsAre(1, 3, 5, 7, 9));
}

// A wait inside a graph is a wait too: what the driver would hold up stays until it is reached.
TEST_F(CapturedWorkTest, ALaunchThatWaitsHoldsBackTheDriversReleases) {
  const Shared shared = share();
  Body body;
  CapturedWork work = capture(body).value();
  WorkFences fences = this->fences({shared.at(1)}, {});
  ASSERT_THAT(launch(work, fences), is_ok());
  auto what = std::make_shared<int>();
  const std::weak_ptr<int> left = what;
  memory_->release_when_nobody_waits(std::move(what));
  EXPECT_FALSE(left.expired());
  ASSERT_THAT(shared.timeline->signal(1), is_ok());
  ASSERT_THAT(stream_->synchronize(), is_ok());
  for (int i = 0; i < 1000 && !left.expired(); ++i) memory_->collect();
  EXPECT_TRUE(left.expired());
}

TEST_F(CapturedWorkTest, SeveralSemaphoresAreAllWaitedForAndSignalled) {
  const Shared a = share(), b = share(), c = share(), d = share();
  Body body{.watched = {a.timeline, b.timeline, c.timeline, d.timeline}};
  CapturedWork work = capture(body).value();
  WorkFences fences = this->fences({a.at(3), b.at(4)}, {c.at(5), d.at(6)});
  ASSERT_THAT(launch(work, fences), is_ok());
  ASSERT_THAT(a.timeline->signal(3), is_ok());
  EXPECT_EQ(c.timeline->value().value(), 0U);
  ASSERT_THAT(b.timeline->signal(4), is_ok());
  EXPECT_THAT(c.timeline->wait(5, kLongNs), is_ok());
  EXPECT_THAT(d.timeline->wait(6, kLongNs), is_ok());
  EXPECT_THAT(stream_->synchronize(), is_ok());
  EXPECT_THAT(body.seen, ElementsAre(3, 4, 0, 0));
}

TEST_F(CapturedWorkTest, WaitsOrSignalsMayBeMissing) {
  const Shared shared = share();
  Body body{.watched = {shared.timeline}};
  CapturedWork work = capture(body).value();
  WorkFences only_signal = fences({}, {shared.at(1)}), only_wait = fences({shared.at(1)}, {}), none = fences({}, {});
  ASSERT_THAT(launch(work, only_signal), is_ok());
  ASSERT_THAT(launch(work, only_wait), is_ok());
  ASSERT_THAT(launch(work, none), is_ok());
  EXPECT_THAT(stream_->synchronize(), is_ok());
  EXPECT_THAT(body.seen, ElementsAre(0, 1, 1));
}

// Semaphores take turns (one a buffer, say), in sets of any size; graphs are kept for a few sizes.
TEST_F(CapturedWorkTest, SetsOfSemaphoresTakeTurns) {
  std::vector<Shared> all;
  all.reserve(7);
  for (int i = 0; i < 7; ++i) all.push_back(share());
  Body body;
  const int64_t graphs = fake::live_graphs();
  {
    CapturedWork work = capture(body).value();
    for (uint64_t round = 1; round <= 3; ++round) {
      for (size_t begin = 0; begin < all.size(); ++begin) {
        for (size_t end = begin + 1; end <= all.size(); end += 2) {
          WorkFences fences = this->fences({}, {});
          const uint64_t value = 100 * round + 10 * begin + end;
          for (size_t i = begin; i < end; ++i) fences.signals.push_back(all[i].at(value));
          ASSERT_THAT(launch(work, fences), is_ok());
          for (size_t i = begin; i < end; ++i) EXPECT_THAT(all[i].timeline->wait(value, kLongNs), is_ok());
        }
      }
    }
    EXPECT_LE(fake::live_graphs() - graphs, 1 + 2 * 4);
  }
  EXPECT_THAT(stream_->synchronize(), is_ok());
  EXPECT_EQ(fake::live_graphs(), graphs);
}

// A semaphore that is gone is not launched again: the fake driver would notice the use.
TEST_F(CapturedWorkTest, AReleasedSemaphoreIsNotUsedAgain) {
  Body body;
  CapturedWork work = capture(body).value();
  for (uint64_t round = 0; round < 6; ++round) {
    const Shared shared = share();
    WorkFences fences = this->fences({}, {shared.at(1)});
    ASSERT_THAT(launch(work, fences), is_ok());
    EXPECT_THAT(shared.timeline->wait(1, kLongNs), is_ok());
    ASSERT_THAT(stream_->synchronize(), is_ok());
    memory_->collect();
  }
}

// Each step of a launch may fail; then all fences are still the caller's, nothing leaks, and the next launch is right.
TEST_F(CapturedWorkTest, AFailureAtAnyStepLeavesTheFences) {
  const Shared shared = share();
  uint64_t value = 0;
  for (const bool known : {false, true}) {
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 50);
      Body body;
      const int64_t graphs = fake::live_graphs();
      {
        CapturedWork work = capture(body).value();
        if (known) {
          WorkFences first = fences({shared.at(value)}, {shared.at(value + 1)});
          ASSERT_THAT(launch(work, first), is_ok());
          ++value;
        }
        WorkFences fences = this->fences({shared.at(value)}, {shared.at(value + 1)});
        std::string where;
        Status launched;
        {
          FaultInjection fault(nth);
          launched = launch(work, fences);
          if (fault.fired()) where = fault.fired_at();
        }
        EXPECT_EQ(fences.waits.size(), launched.ok() ? 0U : 1U) << where;
        EXPECT_EQ(fences.signals.size(), launched.ok() ? 0U : 1U) << where;
        if (!launched.ok()) {
          ASSERT_THAT(launch(work, fences), is_ok()) << where;
        }
        ++value;
        EXPECT_THAT(shared.timeline->wait(value, kLongNs), is_ok()) << where;
        ASSERT_THAT(stream_->synchronize(), is_ok());
        if (where.empty()) {
          EXPECT_GT(nth, known ? 3 : 6);
          break;
        }
      }
      EXPECT_EQ(fake::live_graphs(), graphs);
    }
  }
}

struct Point {
  uintptr_t handle;
  uint64_t value;
};
plugin::FencesOfRun given(const std::vector<Point>& waits, const std::vector<Point>& signals = {}, size_t calls = 0) {
  plugin::FencesOfRun fences;
  const std::vector<Point>* const points[] = {&waits, &signals};
  for (size_t i = 0; i < 2; ++i) {
    for (const Point& point : *points[i])
      fences.text[i].push_back({reinterpret_cast<OrtExternalSemaphoreHandle*>(point.handle), point.value});
  }
  fences.waits = fences.text[0];
  fences.signals = fences.text[1];
  fences.calls = calls;
  return fences;
}

class SessionFencesTest : public CapturedWorkTest {
 protected:
  SessionFencesTest() : shared_(share()), held_(4096, shared_.semaphore) {}
  Shared shared_;
  HeldSemaphore held_;
  SessionFences fences_;
};

TEST_F(SessionFencesTest, UnknownAndReleasedSemaphoresAreRefused) {
  EXPECT_THAT(fences_.start(memory_, given({{0x10, 1}})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("0x10, which is no semaphore")));
  EXPECT_THAT(fences_.start(memory_, given({}, {{0x20, 1}})),
              has_status(StatusCode::kInvalidArgument,
                         HasSubstr("Signals of the run (\"tenon.run_signals\") name 0x20, which is no")));
  {
    const Shared other = share();
    const HeldSemaphore held(8192, other.semaphore);
    EXPECT_THAT(fences_.start(memory_, given({{8192, 1}})), is_ok());
    ASSERT_THAT(other.timeline->signal(1), is_ok());
    EXPECT_THAT(fences_.end(stream_), is_ok());
    ASSERT_THAT(stream_->synchronize(), is_ok());
  }
  EXPECT_THAT(fences_.start(memory_, given({{8192, 1}})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("released")));
  EXPECT_TRUE(fences_.take(stream_).empty());
}

TEST_F(SessionFencesTest, ASemaphoreOfAnotherDeviceIsRefusedNamingBoth) {
  fake::configure({.devices = 2});
  const auto second = CudaMemory::of(fake::driver(), 1).value();
  EXPECT_THAT(fences_.start(second, given({{4096, 1}})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("device 0; the session runs on device 1")));
}

// Only a run of one call may signal in that call's launch.
TEST_F(SessionFencesTest, SignalsAreTakenByTheOnlyCall) {
  ASSERT_THAT(fences_.start(memory_, given({{4096, 1}}, {{4096, 2}}, 1)), is_ok());
  WorkFences taken = fences_.take(stream_);
  EXPECT_EQ(taken.waits.size(), 1U);
  EXPECT_EQ(taken.signals.size(), 1U);
  EXPECT_TRUE(fences_.take(stream_).empty());
  EXPECT_THAT(fences_.end(stream_), is_ok());
  ASSERT_THAT(fences_.start(memory_, given({{4096, 1}}, {{4096, 2}}, 2)), is_ok());
  taken = fences_.take(stream_);
  EXPECT_EQ(taken.waits.size(), 1U);
  EXPECT_TRUE(taken.signals.empty());
  EXPECT_THAT(fences_.end(stream_), is_ok());
  EXPECT_THAT(shared_.timeline->wait(2, kLongNs), is_ok());
}

// A run that fails before, or in, its launch signals all the same, behind its waits.
TEST_F(SessionFencesTest, WhatIsGivenBackIsSignalledAtTheEnd) {
  ASSERT_THAT(fences_.start(memory_, given({{4096, 1}}, {{4096, 2}}, 1)), is_ok());
  fences_.give_back(fences_.take(stream_));
  EXPECT_THAT(fences_.end(nullptr), is_ok());
  EXPECT_FALSE(stream_->idle());
  EXPECT_EQ(shared_.timeline->value().value(), 0U);
  ASSERT_THAT(shared_.timeline->signal(1), is_ok());
  EXPECT_THAT(shared_.timeline->wait(2, kLongNs), is_ok());
  EXPECT_THAT(stream_->synchronize(), is_ok());
}

// Other work of the run (a copy, a kernel that captures nothing) comes behind the waits too, which are queued once.
TEST_F(SessionFencesTest, OtherWorkComesBehindTheWaits) {
  ASSERT_THAT(fences_.start(memory_, given({{4096, 1}}, {{4096, 2}}, 0)), is_ok());
  const Calls before;
  EXPECT_THAT(fences_.queue_waits(stream_), is_ok());
  EXPECT_THAT(fences_.queue_waits(stream_), is_ok());
  EXPECT_EQ(Calls().waits - before.waits, 1);
  EXPECT_FALSE(stream_->idle());
  ASSERT_THAT(shared_.timeline->signal(1), is_ok());
  EXPECT_THAT(stream_->synchronize(), is_ok());
  EXPECT_EQ(shared_.timeline->value().value(), 1U);
  EXPECT_THAT(fences_.end(nullptr), is_ok());
  EXPECT_THAT(shared_.timeline->wait(2, kLongNs), is_ok());
  EXPECT_THAT(stream_->synchronize(), is_ok());
}

// The host may copy results on the run's stream, behind the work of the session's stream.
TEST_F(SessionFencesTest, SignalsComeBehindTheRunsStream) {
  const auto run = make_stream();
  ASSERT_THAT(fences_.start(memory_, given({}, {{4096, 1}}, 2)), is_ok());
  EXPECT_TRUE(fences_.take(stream_, run).empty());
  fake::Gate gate(*run);
  EXPECT_THAT(fences_.end(nullptr), is_ok());
  EXPECT_THAT(stream_->synchronize(), is_ok());
  EXPECT_EQ(shared_.timeline->value().value(), 0U);
  gate.open();
  EXPECT_THAT(shared_.timeline->wait(1, kLongNs), is_ok());
  EXPECT_THAT(run->synchronize(), is_ok());
}

TEST_F(SessionFencesTest, RunsOfOtherThreadsHaveTheirOwn) {
  ASSERT_THAT(fences_.start(memory_, given({{4096, 0}}, {{4096, 1}}, 1)), is_ok());
  std::thread([&] {
    EXPECT_TRUE(fences_.take(stream_).empty());
    EXPECT_THAT(fences_.end(stream_), is_ok());
  }).join();
  EXPECT_FALSE(fences_.take(stream_).empty());
  EXPECT_THAT(fences_.end(stream_), is_ok());
}

}  // namespace
}  // namespace tenon::cuda
