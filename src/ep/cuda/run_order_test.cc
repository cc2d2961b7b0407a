// The order of a session's own stream with the stream of the host's run, and the program's allocator within it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "base/testing.h"
#include "ep/cuda/cuda_session.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/gate_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunOrderTest : public ::testing::Test {
 protected:
  RunOrderTest() {
    fake::configure({});
    (void)fake::take_violations();
    memory_ = CudaMemory::of(fake::driver(), 0).value();
    // The program's stream, as it passes one with a run.
    run_ = make_stream();
  }
  void TearDown() override { EXPECT_THAT(fake::take_violations(), IsEmpty()); }

  std::shared_ptr<CudaStream> make_stream() {
    auto stream = CudaStream::create(memory_->device()).value();
    memory_->streams().add(stream);
    return stream;
  }
  std::shared_ptr<CudaSession> make_session(CudaOptions options) {
    return CudaSession::create(plugin::HostApi(), memory_, std::move(options), nullptr).value();
  }
  std::shared_ptr<CudaSession> make_unified() {
    CudaOptions options;
    options.unified_stream = true;
    return make_session(options);
  }
  // Queues a function that takes a while before it sets the flag.
  void set_late(std::atomic<bool>& flag, const CudaStream& stream) {
    const auto scope = ContextScope::enter(*memory_->device());
    const auto set = [](void* late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      *static_cast<std::atomic<bool>*>(late) = true;
    };
    ASSERT_EQ(fake::driver().LaunchHostFunc(stream.native(), set, &flag), CUDA_SUCCESS);
  }

  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<CudaStream> run_;
};

TEST_F(RunOrderTest, TheSessionsStreamWaitsForTheRunsAndTheRunsForTheSessions) {
  const auto users = make_stream();
  CudaOptions with_users;
  with_users.user_stream = reinterpret_cast<uintptr_t>(users->native());
  with_users.unified_stream = true;
  for (const auto& session : {make_unified(), make_session(with_users)}) {
    const CallStream call = session->stream_of(run_->native()).value();
    ASSERT_EQ(call.run, run_);
    ASSERT_NE(call.stream, run_);
    EXPECT_FALSE(call.synchronous);
    std::atomic<bool> worked = false;
    fake::Gate gate(*run_);
    ASSERT_THAT(session->begin_work(call), is_ok());
    set_late(worked, *call.stream);
    ASSERT_THAT(session->end_work(call, Status()), is_ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(worked) << "the work comes behind what the run's stream had queued";
    gate.open();
    ASSERT_THAT(run_->synchronize(), is_ok());
    EXPECT_TRUE(worked) << "the run's stream goes on behind the work";
  }
}

// Some of it may be queued.
TEST_F(RunOrderTest, TheRunsStreamComesBehindWorkThatFailed) {
  const auto session = make_unified();
  const CallStream call = session->stream_of(run_->native()).value();
  ASSERT_THAT(session->begin_work(call), is_ok());
  std::atomic<bool> worked = false;
  set_late(worked, *call.stream);
  EXPECT_THAT(session->end_work(call, internal_error("The second half fails.")),
              has_status(StatusCode::kInternal, HasSubstr("second half")));
  ASSERT_THAT(run_->synchronize(), is_ok());
  EXPECT_TRUE(worked);
}

TEST_F(RunOrderTest, AFailureOfTheOrderIsTheCalls) {
  const auto session = make_unified();
  for (const char* function : {"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}) {
    const auto stream = make_stream();  // whose event is not there yet
    const CallStream call = session->stream_of(stream->native()).value();
    fake::fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(session->begin_work(call), has_status(StatusCode::kResourceExhausted, HasSubstr(function)));
    fake::fail("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(session->end_work(call, Status()), has_status(StatusCode::kResourceExhausted, HasSubstr("Record")));
    ASSERT_THAT(session->begin_work(call), is_ok());
    ASSERT_THAT(session->end_work(call, Status()), is_ok());
    ASSERT_THAT(stream->synchronize(), is_ok());
  }
}

TEST_F(RunOrderTest, TheOrderAllocatesNothingForARun) {
  const auto session = make_unified();
  const auto order = [&] {
    const CallStream call = session->stream_of(run_->native()).value();
    ASSERT_THAT(session->begin_work(call), is_ok());
    ASSERT_THAT(session->end_work(call, Status()), is_ok());
  };
  order();
  const int64_t events = fake::calls("cuEventCreate"), waits = fake::calls("cuStreamWaitEvent");
  for (int run = 0; run < 100; ++run) order();
  EXPECT_EQ(fake::calls("cuEventCreate"), events);
  EXPECT_EQ(fake::calls("cuStreamWaitEvent"), waits + 200);
  EXPECT_THAT(run_->synchronize(), is_ok());
}

TEST_F(RunOrderTest, ASessionsStreamNeedsNoOrderWithItself) {
  const auto unified = make_unified();
  const auto own = make_session({});
  const int64_t waits = fake::calls("cuStreamWaitEvent");
  const auto made = unified->make_stream().value();
  for (const CallStream& call : {unified->stream_of(made->native()).value(), unified->stream_of(nullptr).value(),
                                 own->stream_of(run_->native()).value(), own->stream_of(nullptr).value()}) {
    EXPECT_EQ(call.run, nullptr);
    EXPECT_THAT(unified->begin_work(call), is_ok());
    EXPECT_THAT(unified->end_work(call, Status()), is_ok());
  }
  EXPECT_EQ(fake::calls("cuStreamWaitEvent"), waits);
}

TEST_F(RunOrderTest, AnUnknownStreamIsRefusedByEverySession) {
  EXPECT_THAT(make_unified()->stream_of(reinterpret_cast<void*>(0x1234)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("0x1234")));
}

// The program's allocator: its functions count, and note calls without the device's context.
struct Counted {
  std::set<void*> live;
  int taken = 0, freed = 0, emptied = 0, refuse = 0, without_context = 0;
};
Counted first, second;

template <Counted& Counts>
void check_context() {
  CUcontext current = nullptr;
  (void)fake::driver().CtxGetCurrent(&current);
  if (current == nullptr) ++Counts.without_context;
}
template <Counted& Counts>
void* counted_alloc(size_t size_bytes) {
  check_context<Counts>();
  if (Counts.refuse > 0) {
    --Counts.refuse;
    return nullptr;
  }
  ++Counts.taken;
  return *Counts.live.insert(std::malloc(size_bytes)).first;
}
template <Counted& Counts>
void counted_free(void* memory) {
  check_context<Counts>();
  EXPECT_EQ(Counts.live.erase(memory), 1U);
  ++Counts.freed;
  std::free(memory);
}
template <Counted& Counts>
void counted_empty() {
  check_context<Counts>();
  ++Counts.emptied;
}

template <Counted& Counts>
CudaOptions external_options() {
  Counts = {};
  CudaOptions options;
  options.external_allocator = {&counted_alloc<Counts>, &counted_free<Counts>, &counted_empty<Counts>};
  options.unified_stream = true;
  return options;
}

// The host queues copies there, and frees the block at once: the program's allocator would hand it out again.
TEST_F(RunOrderTest, ABlockGoesBackWhenTheRunsStreamHasPassedItsFree) {
  const auto session = make_session(external_options<first>());
  (void)session->stream_of(run_->native()).value();
  void* const block = session->device_memory()->allocate(100).value();
  fake::Gate gate(*run_);
  session->device_memory()->free(block);
  session->device_memory()->collect();
  EXPECT_EQ(first.freed, 0);
  gate.open();
  ASSERT_THAT(run_->synchronize(), is_ok());
  session->device_memory()->collect();
  EXPECT_EQ(first.freed, 1);
}

// Its end waits a moment for a stream that nobody lets go on; the block goes back when somebody does.
TEST_F(RunOrderTest, ASessionEndsThoughTheRunsStreamWaits) {
  auto session = make_session(external_options<first>());
  const CallStream call = session->stream_of(run_->native()).value();
  void* const block = session->device_memory()->allocate(100).value();
  fake::Gate gate(*run_);
  ASSERT_THAT(session->begin_work(call), is_ok());
  ASSERT_THAT(session->end_work(call, Status()), is_ok());
  session->device_memory()->free(block);
  session = nullptr;  // returns, although the gate is closed
  EXPECT_EQ(first.freed, 0);
  gate.open();
  ASSERT_THAT(call.stream->synchronize(), is_ok());
  const auto other = make_session({});
  for (int i = 0; i < 1000 && first.freed == 0; ++i) {
    other->device_memory()->collect();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(first.freed, 1);
  EXPECT_TRUE(first.live.empty());
  EXPECT_EQ(first.without_context, 0);
}

TEST_F(RunOrderTest, TheProgramsFunctionsAreCalledWithTheDevicesContext) {
  {
    const auto session = make_session(external_options<first>());
    const auto memory = session->device_memory();
    void* const early = memory->allocate(100).value();
    void* const late = memory->allocate(100).value();
    memory->free(early);
    fake::Gate gate(*session->stream_of(nullptr).value().stream);
    memory->free(late);
    gate.open();
    ASSERT_THAT(session->synchronize(), is_ok());
    first.refuse = 1;
    memory->free(memory->allocate(100).value());
    memory->free(memory->reserve(100).value());
  }
  EXPECT_EQ(first.freed, 4);
  EXPECT_EQ(first.without_context, 0);
}

// S4.3: of its two uses, once each.
TEST_F(RunOrderTest, TheCacheIsEmptiedBehindAReservedBlockAndBeforeARetry) {
  const auto session = make_session(external_options<first>());
  const auto memory = session->device_memory();
  memory->free(memory->allocate(100).value());
  EXPECT_EQ(first.emptied, 0);
  void* const reserved = memory->reserve(100).value();
  EXPECT_EQ(first.emptied, 0);
  fake::Gate gate(*session->stream_of(nullptr).value().stream);
  memory->free(reserved);
  EXPECT_EQ(first.emptied, 0);
  gate.open();
  ASSERT_THAT(session->synchronize(), is_ok());
  memory->collect();
  EXPECT_EQ(first.emptied, 1);
  first.refuse = 1;
  memory->free(memory->allocate(100).value());
  EXPECT_EQ(first.emptied, 2);
  first.refuse = 2;
  EXPECT_THAT(memory->allocate(100), has_status(StatusCode::kResourceExhausted));
  EXPECT_EQ(first.emptied, 3);
  EXPECT_EQ(first.refuse, 0);
}

// S4.3
TEST_F(RunOrderTest, TwoSessionsHaveAnAllocatorEach) {
  {
    const auto a = make_session(external_options<first>()), b = make_session(external_options<second>());
    void* const of_a = a->device_memory()->allocate(100).value();
    void* const of_b = b->device_memory()->allocate(100).value();
    EXPECT_TRUE(first.live.contains(of_a));
    EXPECT_TRUE(second.live.contains(of_b));
    first.refuse = 2;
    EXPECT_THAT(a->device_memory()->allocate(100), has_status(StatusCode::kResourceExhausted));
    EXPECT_EQ(first.emptied, 1);
    EXPECT_EQ(second.emptied, 0);
    b->device_memory()->free(of_b);
    a->device_memory()->free(of_a);
  }
  EXPECT_EQ(first.freed, first.taken);
  EXPECT_EQ(second.freed, second.taken);
}

}  // namespace
}  // namespace tenon::cuda
