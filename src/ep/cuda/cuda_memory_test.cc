#include "ep/cuda/cuda_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/testing.h"
#include "ep/cuda/cuda_session.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/gate_testing.h"
#include "ep/cuda/run_settings.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaMemoryTest : public ::testing::Test {
 protected:
  CudaMemoryTest() {
    fake::configure({});
    (void)fake::take_violations();
    memory_ = CudaMemory::of(fake::driver(), 0).value();
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
  void copy(void* dst, const void* src, size_t size_bytes, const CudaStream& stream) {
    const auto scope = ContextScope::enter(*memory_->device());
    ASSERT_EQ(fake::driver().MemcpyAsync(reinterpret_cast<CUdeviceptr>(dst), reinterpret_cast<CUdeviceptr>(src),
                                         size_bytes, stream.native()),
              CUDA_SUCCESS);
  }

  static CudaMemory::Awaited timeline_at(uint64_t value) {
    return {std::make_shared<const std::string>("timeline of a test"), value};
  }

  std::shared_ptr<CudaMemory> memory_;
};

TEST_F(CudaMemoryTest, OneDeviceIsSharedByWhoeverOpensIt) {
  EXPECT_EQ(CudaMemory::of(fake::driver(), 0).value(), memory_);
  EXPECT_THAT(CudaMemory::of(fake::driver(), 7), has_status(StatusCode::kDeviceError, HasSubstr("cuDeviceGet")));
}

std::atomic<bool> opening{false}, may_open{false};

// The driver's function, which takes a while on the second device.
CUresult CUDAAPI slow_retain(CUcontext* context, CUdevice device) {
  for (opening = device == 1; device == 1 && !may_open;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return fake::driver().DevicePrimaryCtxRetain(context, device);
}

// A context takes a fraction of a second, in which sessions on other devices go on.
TEST_F(CudaMemoryTest, OpeningADeviceHoldsUpNoOther) {
  fake::configure({.devices = 2});
  static CudaDriver slow = fake::driver();
  slow.DevicePrimaryCtxRetain = &slow_retain;
  const auto first = CudaMemory::of(slow, 0).value();
  std::shared_ptr<CudaMemory> second;
  std::thread other([&] { second = CudaMemory::of(slow, 1).value(); });
  while (!opening) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(CudaMemory::of(slow, 0).value(), first);
  EXPECT_EQ(second, nullptr);
  may_open = true;
  other.join();
  EXPECT_EQ(CudaMemory::of(slow, 1).value(), second);
}

// The event between them is of the device that records it.
TEST_F(CudaMemoryTest, AStreamWaitsForAnotherDevicesStream) {
  fake::configure({.devices = 2});
  const auto other = CudaMemory::of(fake::driver(), 1).value();
  const auto here = make_stream(), there = CudaStream::create(other->device()).value();
  EXPECT_THAT(here->wait_for(*there), is_ok());
  EXPECT_THAT(there->wait_for(*here), is_ok());
  EXPECT_THAT(here->synchronize(), is_ok());
  EXPECT_THAT(there->synchronize(), is_ok());
}

// A device whose last user goes is closed, also when that user has just queued something.
TEST_F(CudaMemoryTest, TheEndWaitsForWorkThatEndsByItself) {
  const int64_t closed = fake::calls("cuMemPoolDestroy");
  int64_t closed_now = closed;
  for (int attempt = 0; attempt < 20 && closed_now == closed; ++attempt) {  // a loaded machine may exceed the 200 ms
    if (memory_ == nullptr) memory_ = CudaMemory::of(fake::driver(), 0).value();
    {
      const auto scope = ContextScope::enter(*memory_->device());
      const auto nap = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
      ASSERT_EQ(fake::driver().LaunchHostFunc(memory_->service_stream()->native(), nap, nullptr), CUDA_SUCCESS);
    }
    memory_ = nullptr;
    closed_now = fake::calls("cuMemPoolDestroy");
  }
  EXPECT_EQ(closed_now, closed + 1);
}

TEST_F(CudaMemoryTest, ExhaustionSaysHowMuchIsFree) {
  EXPECT_THAT(memory_->allocate(size_t{2} << 30, nullptr),
              has_status(StatusCode::kResourceExhausted, HasSubstr("of 1073741824 bytes are free")));
  EXPECT_EQ(memory_->stats().live, 0);
}

// The host frees memory while work that it has queued still uses it: the fake driver faults on a use after the free.
TEST_F(CudaMemoryTest, FreedMemoryOutlivesTheWorkThatIsQueued) {
  const auto stream = make_stream(), other = make_stream();
  for (const auto& owner : {stream, std::shared_ptr<CudaStream>()}) {
    void* const block = memory_->allocate(1024, owner).value();
    void* const result = memory_->allocate_pinned(1024).value();
    std::memset(result, 0, 1024);
    fake::Gate gate(*other);
    const float value = 7;
    copy(block, &value, sizeof(value), *stream);
    ASSERT_THAT(stream->synchronize(), is_ok());
    copy(result, block, sizeof(value), *other);
    memory_->free(block);
    gate.open();
    EXPECT_THAT(other->synchronize(), is_ok());
    EXPECT_EQ(*static_cast<float*>(result), 7);
    memory_->free_pinned(result);
  }
  EXPECT_EQ(memory_->stats().live, 0);
  EXPECT_EQ(memory_->pinned_stats().live, 0);
}

TEST_F(CudaMemoryTest, WhatIsNotAllocatedIsNotFreed) {
  void* const block = memory_->allocate(1024, nullptr).value();
  memory_->free(block);
  const int64_t frees = fake::calls("cuMemFreeAsync");
  memory_->free(block);
  memory_->free(nullptr);
  EXPECT_EQ(fake::calls("cuMemFreeAsync"), frees);
  EXPECT_EQ(memory_->stats().live, 0);
  EXPECT_EQ(memory_->stats().live_bytes, 0);
}

// Memory that is freed while a stream waits keeps only itself back.
TEST_F(CudaMemoryTest, AFreeThatHasToWaitHoldsUpNoOtherWork) {
  const auto stream = make_stream();
  fake::Gate gate(*stream);
  memory_->free(memory_->allocate(1024, nullptr).value());
  EXPECT_FALSE(stream->idle());
  EXPECT_THAT(memory_->service_stream()->synchronize(), is_ok());
  void* const other = memory_->allocate(1024, nullptr).value();
  gate.open();
  ASSERT_THAT(stream->synchronize(), is_ok());
  memory_->free(other);
}

TEST_F(CudaMemoryTest, PinnedMemoryIsNotHandedOutWhileAStreamMayUseIt) {
  const auto stream = make_stream();
  void* const first = memory_->allocate_pinned(4096).value();
  fake::Gate gate(*stream);
  memory_->free_pinned(first);
  void* const second = memory_->allocate_pinned(4096).value();
  EXPECT_NE(second, first);
  gate.open();
  ASSERT_THAT(stream->synchronize(), is_ok());
  void* third = nullptr;
  // The points are events of their own, and pass a moment after the gate.
  for (int i = 0; i < 1000 && third != first; ++i) {
    if (third != nullptr) memory_->free_pinned(third);
    third = memory_->allocate_pinned(4096).value();
  }
  EXPECT_EQ(third, first);
  memory_->free_pinned(second);
  memory_->free_pinned(third);
}

// S5.2
TEST_F(CudaMemoryTest, ScratchFreedOnOneStreamReachesAnotherOnlyAfterThatPoint) {
  const auto session = make_session({});
  const auto a = session->make_stream().value(), b = session->make_stream().value();
  fake::Gate gate(*a);
  auto block = session->scratch().take(1000, a).value();
  void* const address = block.data();
  block.reset();
  auto on_b = session->scratch().take(1000, b).value();
  EXPECT_NE(on_b.data(), address);
  auto on_a = session->scratch().take(1000, a).value();
  EXPECT_EQ(on_a.data(), address);
  gate.open();
  on_a.reset();
  ASSERT_THAT(a->synchronize(), is_ok());
  auto again = session->scratch().take(1000, b).value();
  EXPECT_EQ(again.data(), address);
}

// S5.2: nothing grows with the number of uses.
TEST_F(CudaMemoryTest, ScratchLeavesNothingBehindForEachUse) {
  const auto session = make_session({});
  const auto stream = session->make_stream().value();
  const auto use = [&](int times) {
    for (int i = 0; i < times; ++i) {
      (void)session->scratch().take(1000, stream).value();
      if (i % 10 == 9) (void)stream->synchronize();
    }
  };
  use(100);
  const int64_t before = fake::live_objects();
  use(1000);
  EXPECT_LE(fake::live_objects(), before + 20);
}

// S4.1
TEST_F(CudaMemoryTest, TheUsersStreamIsNeverDestroyedOrSynchronized) {
  const auto users = make_stream();
  const int64_t destroyed = fake::calls("cuStreamDestroy"), synchronized = fake::calls("cuStreamSynchronize");
  {
    CudaOptions options;
    options.user_stream = reinterpret_cast<uintptr_t>(users->native());
    options.unified_stream = true;
    const auto session = make_session(options);
    const CallStream call = session->stream_of(nullptr).value();
    EXPECT_EQ(call.stream->native(), users->native());
    EXPECT_FALSE(call.synchronous);
    EXPECT_EQ(session->make_stream().value()->native(), users->native());
    session->runs().start();
    (void)session->stream_of(nullptr).value();
    EXPECT_THAT(session->runs().end(true), is_ok());
    EXPECT_THAT(session->synchronize(), is_ok());
  }
  EXPECT_EQ(fake::calls("cuStreamDestroy"), destroyed);
  EXPECT_EQ(fake::calls("cuStreamSynchronize"), synchronized);
}

// S4.1: the program destroys its stream when the session is gone; tensors of that session go later.
TEST_F(CudaMemoryTest, TheUsersStreamMayGoBeforeItsTensors) {
  CUstream native = nullptr;
  const auto scope = ContextScope::enter(*memory_->device());
  ASSERT_EQ(fake::driver().StreamCreateWithPriority(&native, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  CudaOptions options;
  options.user_stream = reinterpret_cast<uintptr_t>(native);
  options.unified_stream = true;
  auto session = make_session(options);
  const auto stream = session->stream_of(nullptr).value().stream;
  void* const tagged = session->device_memory()->allocate(1024, stream).value();
  void* const pinned = memory_->allocate_pinned(1024).value();
  const auto memory = session->device_memory();
  auto* const gate = new fake::Gate(*stream);
  const float value = 7;
  ASSERT_THAT(memory_->queue_wait(*stream, timeline_at(1), [] { return Status(); }), is_ok());
  copy(tagged, &value, sizeof(value), *stream);
  session = nullptr;
  ASSERT_EQ(fake::driver().StreamDestroy(native), CUDA_SUCCESS);
  EXPECT_FALSE(stream->idle());
  EXPECT_EQ(memory_->streams().find(native), nullptr);
  EXPECT_THAT(stream->queue([](CUstream) { return Status(); }), has_status(StatusCode::kCancelled));
  // The copy that was queued there still writes to `tagged`: a free that came before would fault.
  memory->free(tagged);
  memory_->free_pinned(pinned);
  bool released = false;
  memory_->when_unused([&](const CudaDriver&) { released = true; });
  EXPECT_FALSE(released);
  gate->open();
  EXPECT_THAT(stream->synchronize(), is_ok());
  for (int i = 0; i < 1000 && !released; ++i) memory_->collect();
  EXPECT_TRUE(released);
  EXPECT_THAT(memory_->service_stream()->synchronize(), is_ok());
  EXPECT_TRUE(stream->idle());
  delete gate;
}

TEST_F(CudaMemoryTest, AStreamOfTheHostThatIsNotOursIsRefused) {
  const auto session = make_session({});
  EXPECT_THAT(session->stream_of(reinterpret_cast<void*>(0x1234)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("0x1234")));
}

TEST_F(CudaMemoryTest, ARunEndsWithTheFailureOfItsStream) {
  const auto session = make_session({});
  const auto stream = session->make_stream().value();
  session->runs().start();
  ASSERT_THAT(session->stream_of(stream->native()), is_ok());
  fake::fail("cuStreamSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(session->runs().end(true),
              has_status(StatusCode::kDeviceLost, HasSubstr("cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)")));
  EXPECT_EQ(session->runs().size(), 0U);
}

// A session's external allocator counts on plain functions, so its counters are the file's.
std::map<void*, int> handed_out;
int times_freed = 0;
bool refuse = false;
int emptied = 0;
void* counting_alloc(size_t size_bytes) {
  if (refuse) return nullptr;
  void* memory = std::malloc(size_bytes);
  ++handed_out[memory];
  return memory;
}
void counting_free(void* memory) {
  ++times_freed;
  if (--handed_out[memory] == 0) handed_out.erase(memory);
  std::free(memory);
}
void counting_empty() { ++emptied; }

CudaOptions external_options() {
  handed_out.clear();
  times_freed = emptied = 0;
  refuse = false;
  CudaOptions options;
  options.external_allocator = {&counting_alloc, &counting_free, &counting_empty};
  options.unified_stream = true;
  return options;
}

// S4.3
TEST_F(CudaMemoryTest, EveryBlockGoesBackToTheExternalAllocatorOnce) {
  {
    const auto session = make_session(external_options());
    const auto memory = session->device_memory();
    void* const first = memory->allocate(100).value();
    void* const second = memory->allocate(200).value();
    (void)session->scratch().take(300, session->stream_of(nullptr).value().stream).value();
    EXPECT_EQ(handed_out.size(), 3U);
    memory->free(first);
    memory->free(first);  // not ours any more: nothing happens
    memory->free(second);
  }
  EXPECT_TRUE(handed_out.empty());
  EXPECT_EQ(times_freed, 3);
}

// S4.3: the program's allocator does not know the session's stream, and would hand the block out at once.
TEST_F(CudaMemoryTest, TheExternalAllocatorGetsABlockAfterItsLastUse) {
  const auto session = make_session(external_options());
  const auto stream = session->stream_of(nullptr).value().stream;
  void* const block = session->device_memory()->allocate(100).value();
  fake::Gate gate(*stream);
  session->device_memory()->free(block);
  EXPECT_EQ(times_freed, 0);
  gate.open();
  ASSERT_THAT(stream->synchronize(), is_ok());
  session->device_memory()->collect();
  EXPECT_EQ(times_freed, 1);
}

// S4.3
TEST_F(CudaMemoryTest, ANullOfTheExternalAllocatorIsOutOfMemory) {
  const auto session = make_session(external_options());
  refuse = true;
  EXPECT_THAT(session->device_memory()->allocate(100),
              has_status(StatusCode::kResourceExhausted, HasSubstr("gpu_external_alloc")));
  EXPECT_EQ(emptied, 1);
  refuse = false;
  const Result<void*> block = session->device_memory()->allocate(100);
  ASSERT_THAT(block, is_ok());
  session->device_memory()->free(*block);
}

// S4.3: sessions side by side, each with its own allocator or none.
TEST_F(CudaMemoryTest, ASessionWithoutAnExternalAllocatorNeverUsesAnothersOne) {
  const auto with = make_session(external_options());
  const auto without = make_session({});
  void* const block = without->device_memory()->allocate(100).value();
  EXPECT_TRUE(handed_out.empty());
  without->device_memory()->free(block);
  EXPECT_EQ(times_freed, 0);
}

TEST_F(CudaMemoryTest, ASessionStaysBelowItsLimit) {
  CudaOptions options;
  options.memory_limit_bytes = 1000;
  const auto session = make_session(options);
  void* const block = session->device_memory()->allocate(600).value();
  EXPECT_THAT(session->device_memory()->allocate(600),
              has_status(StatusCode::kResourceExhausted, HasSubstr("gpu_mem_limit 1000")));
  session->device_memory()->free(block);
  EXPECT_THAT(session->device_memory()->allocate(600), is_ok());
}

// Nor does what it could not have count.
TEST_F(CudaMemoryTest, AnAllocationThatFailsDoesNotCountForTheLimit) {
  CudaOptions options = external_options();
  options.memory_limit_bytes = 1000;
  const auto session = make_session(options);
  refuse = true;
  EXPECT_THAT(session->device_memory()->allocate(600), has_status(StatusCode::kResourceExhausted));
  refuse = false;
  const Result<void*> block = session->device_memory()->allocate(600);
  ASSERT_THAT(block, is_ok());
  session->device_memory()->free(*block);
}

// S4.2: copies on a stream of their own come after what was queued before them, and before what is queued next.
TEST_F(CudaMemoryTest, TheCopyStreamIsOrderedWithTheComputation) {
  CudaOptions options;
  options.copy_in_compute_stream = false;
  const auto session = make_session(options);
  const auto stream = session->make_stream().value();
  auto* const device = static_cast<float*>(session->device_memory()->allocate(sizeof(float)).value());
  auto* const host = static_cast<float*>(memory_->allocate_pinned(2 * sizeof(float)).value());
  host[0] = 7, host[1] = 0;
  const auto space = [](void* data, MemoryKind kind) {
    return plugin::TensorArgument{.type = DataType::kFloat,
                                  .shape = Shape{1},
                                  .data = data,
                                  .space = {.device_type = DeviceType::kGpu, .kind = kind}};
  };
  fake::Gate before(*stream);
  copy(device, &host[0], sizeof(float), *stream);
  std::vector<std::pair<std::shared_ptr<CudaStream>, std::unique_ptr<fake::Gate>>> others;
  for (const auto& other : memory_->streams().all())
    if (other != stream) others.emplace_back(other, std::make_unique<fake::Gate>(*other));
  ASSERT_THAT(session->copy(space(device, MemoryKind::kDefault), space(&host[1], MemoryKind::kHostAccessible),
                            stream->native()),
              is_ok());
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  before.open();
  pause();
  EXPECT_FALSE(stream->idle()) << "What is queued after the copy does not wait for it.";
  for (const auto& [other, gate] : others) gate->open();
  EXPECT_THAT(stream->synchronize(), is_ok());
  EXPECT_EQ(host[1], 7);
  // The other way round: the copy stream is free, and what the copy reads is not there yet.
  host[0] = 9;
  fake::Gate again(*stream);
  copy(device, &host[0], sizeof(float), *stream);
  ASSERT_THAT(session->copy(space(device, MemoryKind::kDefault), space(&host[1], MemoryKind::kHostAccessible),
                            stream->native()),
              is_ok());
  pause();
  again.open();
  EXPECT_THAT(stream->synchronize(), is_ok());
  EXPECT_EQ(host[1], 9) << "The copy has come before what it reads.";
  for (const auto& [other, gate] : others) EXPECT_THAT(other->synchronize(), is_ok());
  session->device_memory()->free(device);
  memory_->free_pinned(host);
}

RunSettings deadline_in(int64_t timeout_ms) {
  return {.timeout_ms = timeout_ms, .deadline = Deadline::after(timeout_ms * 1'000'000)};
}

// A fence that nobody signals: the run ends at its deadline, and nobody waits for the stream again until it is done.
TEST_F(CudaMemoryTest, AStreamIsGivenUpAtTheRunsDeadline) {
  const auto session = make_session({});
  const auto stream = session->make_stream().value(), other = session->make_stream().value();
  fake::Gate gate(*stream);
  begin_run(session.get(), deadline_in(5));
  EXPECT_THAT(stream->synchronize(), has_status(StatusCode::kTimeout, HasSubstr("after 5 ms (tenon.timeout_ms)")));
  end_run(session.get());
  EXPECT_THAT(stream->synchronize(), has_status(StatusCode::kTimeout, HasSubstr("a run before")));
  EXPECT_THAT(session->stream_of(stream->native()), has_status(StatusCode::kTimeout, HasSubstr("a run before")));
  EXPECT_THAT(session->stream_of(other->native()), is_ok());
  EXPECT_THAT(other->synchronize(), is_ok());
  gate.open();
  while (!stream->idle()) std::this_thread::yield();
  EXPECT_THAT(session->stream_of(stream->native()), is_ok());
  EXPECT_THAT(stream->synchronize(), is_ok());
}

// A run inside of another session's has its own deadline, and gives the outer one back.
TEST_F(CudaMemoryTest, RunsOfSeveralSessionsLieInsideEachOther) {
  begin_run(this, deadline_in(1000));
  begin_run(&memory_, {.graphs = false});
  EXPECT_TRUE(this_run().deadline.never());
  EXPECT_FALSE(this_run().graphs);
  end_run(&memory_);
  EXPECT_EQ(this_run().timeout_ms, 1000);
  end_run(this);
  EXPECT_TRUE(this_run().deadline.never());
}

// S4.3: what a stream that is given up may still write to is not handed to the program, which would use it, before the
// stream goes on after all.
TEST_F(CudaMemoryTest, ABlockOfAStreamThatIsGivenUpStaysAway) {
  auto session = make_session(external_options());
  const auto stream = session->stream_of(nullptr).value().stream;
  void* const block = session->device_memory()->allocate(100).value();
  fake::Gate gate(*stream);
  begin_run(session.get(), deadline_in(5));
  EXPECT_THAT(stream->synchronize(), has_status(StatusCode::kTimeout, HasSubstr("tenon.timeout_ms")));
  end_run(session.get());
  session->device_memory()->free(block);
  session = nullptr;
  EXPECT_EQ(times_freed, 0);
  gate.open();
  while (!stream->idle()) std::this_thread::yield();
  const auto later = make_session({});
  for (int i = 0; i < 1000 && times_freed == 0; ++i) later->device_memory()->collect();
  EXPECT_EQ(times_freed, 1);
  EXPECT_TRUE(handed_out.empty());
}

// An object whose release the driver would hold up waits until no stream waits for another API; it may hold the next.
TEST_F(CudaMemoryTest, WhatTheDriverWouldHoldUpIsReleasedWhenNobodyWaits) {
  struct Holder {
    std::shared_ptr<CudaMemory> memory;
    std::shared_ptr<void> inner;
    int* released;
    ~Holder() {
      ++*released;
      if (inner != nullptr) memory->release_when_nobody_waits(std::move(inner));
    }
  };
  int released = 0;
  const auto make = [&] {
    auto inner = std::make_shared<Holder>(memory_, nullptr, &released);
    return std::make_shared<Holder>(memory_, std::move(inner), &released);
  };
  memory_->release_when_nobody_waits(make());
  EXPECT_EQ(released, 2);
  const auto stream = make_stream();
  fake::Gate gate(*stream);
  ASSERT_THAT(memory_->queue_wait(*stream, timeline_at(1), [] { return Status(); }), is_ok());
  memory_->release_when_nobody_waits(make());
  memory_->collect();
  EXPECT_EQ(released, 2);
  gate.open();
  ASSERT_THAT(stream->synchronize(), is_ok());
  for (int i = 0; i < 1000 && released < 4; ++i) memory_->collect();
  EXPECT_EQ(released, 4);
}

// until_nobody_waits() ends at its deadline: the message names the latest value that a stream waits for.
TEST_F(CudaMemoryTest, WaitingForOthersWaitsEndsAtTheDeadline) {
  const Deadline soon = Deadline::after(20'000'000);
  EXPECT_THAT(memory_->until_nobody_waits(soon), is_ok());
  const auto stream = make_stream();
  fake::Gate gate(*stream);
  for (uint64_t value : {6, 7})
    ASSERT_THAT(memory_->queue_wait(*stream, timeline_at(value), [] { return Status(); }), is_ok());
  EXPECT_THAT(memory_->until_nobody_waits(Deadline::after(20'000'000)),
              has_status(StatusCode::kTimeout, HasSubstr("waits for value 7 of the timeline of a test")));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  EXPECT_THAT(memory_->until_nobody_waits(Deadline::after(-1)), is_ok());
  opener.join();
  EXPECT_TRUE(stream->idle());
}

// Frames whose waits overlap, so that there is never a moment without one: they are held back until there is.
TEST_F(CudaMemoryTest, FramesThatLeaveNoGapLetALoaderThrough) {
  std::vector<std::shared_ptr<CudaStream>> streams;
  streams.reserve(4);
  for (int i = 0; i < 4; ++i) streams.push_back(make_stream());
  std::atomic<bool> done = false;
  std::atomic<int> frames = 0;
  std::thread program([&] {
    for (uint64_t frame = 1; !done; ++frame) {
      const CudaStream& stream = *streams[frame % streams.size()];
      EXPECT_THAT(memory_->queue_wait(
                      stream, timeline_at(frame),
                      [&]() -> Status {
                        const auto scope = ContextScope::enter(*memory_->device());
                        const auto nap = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(15)); };
                        EXPECT_EQ(fake::driver().LaunchHostFunc(stream.native(), nap, nullptr), CUDA_SUCCESS);
                        return Status();
                      }),
                  is_ok());
      ++frames;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  while (frames < 4) std::this_thread::yield();
  EXPECT_THAT(memory_->until_nobody_waits(Deadline::after(60'000'000'000)), is_ok());
  const int until_now = frames;
  while (frames < until_now + 8) std::this_thread::yield();  // and they go on
  done = true;
  program.join();
  for (const auto& stream : streams) EXPECT_THAT(stream->synchronize(), is_ok());
}

// A stream that is released while it waits for what never comes keeps neither the release nor the device's end waiting.
TEST_F(CudaMemoryTest, AStreamThatNeverEndsHangsNobody) {
  auto other_device = [] {
    fake::configure({.devices = 2});
    return CudaMemory::of(fake::driver(), 1).value();
  }();
  auto stream = CudaStream::create(other_device->device()).value();
  other_device->streams().add(stream);
  auto* const never = new fake::Gate(*stream);  // never opened
  ASSERT_NE(never, nullptr);
  stream = nullptr;
  EXPECT_EQ(other_device->streams().all().size(), 2U);  // it and the service stream
  other_device = nullptr;
}

}  // namespace
}  // namespace tenon::cuda
