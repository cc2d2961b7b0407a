#include "ep/sim/sim_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

namespace tenon::sim {
namespace {

using testing::HasSubstr;

class SimDeviceTest : public testing::Test {
 protected:
  std::shared_ptr<SimDevice> device_ = SimDevice::create(0, 1 << 22);

  void* device_memory(size_t size_bytes) {
    auto memory = device_->allocate(size_bytes, SimMemory::Kind::kDefault);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return memory.ok() ? *memory : nullptr;
  }
  float first_float(void* address) {
    float value = 0;
    EXPECT_TRUE(
        device_->copy({.src = address, .src_on_device = true, .dst = &value, .size_bytes = sizeof(value)}, nullptr)
            .ok());
    return value;
  }
};

using SimDeviceDeathTest = SimDeviceTest;

TEST_F(SimDeviceDeathTest, TheHostCannotReadDefaultMemory) {
  void* memory = device_memory(64);
  EXPECT_DEATH((void)*static_cast<volatile char*>(memory), "");
  device_->free(memory);
}

TEST_F(SimDeviceTest, FreshMemoryIsPoison) {
  void* memory = device_memory(64);
  EXPECT_TRUE(std::isnan(first_float(memory)));
  device_->free(memory);
}

TEST_F(SimDeviceTest, HostAccessibleMemoryIsReadByBoth) {
  auto memory = device_->allocate(64, SimMemory::Kind::kHostAccessible);
  ASSERT_TRUE(memory.ok());
  *static_cast<float*>(*memory) = 3;
  EXPECT_EQ(first_float(*memory), 3);
  device_->free(*memory);
}

TEST_F(SimDeviceTest, AddressesOutsideOfBlocksAreRefused) {
  int on_the_host = 0;
  void* memory = device_memory(64);
  EXPECT_TRUE(device_->memory().resolve(static_cast<char*>(memory) + 60, 4).ok());
  EXPECT_EQ(device_->memory().resolve(static_cast<char*>(memory) + 60, 5).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->memory().resolve(&on_the_host, 4).status().code(), StatusCode::kInvalidArgument);
  device_->free(memory);
  EXPECT_EQ(device_->memory().resolve(memory, 4).status().code(), StatusCode::kInvalidArgument) << "freed";
}

TEST_F(SimDeviceTest, TheDevicesMemoryEnds) {
  void* most = device_memory(3 << 20);
  EXPECT_EQ(device_->allocate(2 << 20, SimMemory::Kind::kDefault).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->allocate(SIZE_MAX, SimMemory::Kind::kDefault).status().code(), StatusCode::kResourceExhausted);
  device_->free(most);
  void* again = device_memory(3 << 20);
  device_->free(again);
}

TEST_F(SimDeviceTest, AStreamDoesNothingUntilSomethingWaits) {
  auto stream = device_->create_stream("lazy");
  std::atomic<bool> ran{false};
  stream->enqueue("work", [&] { return ran = true, Status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ran);
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST_F(SimDeviceTest, AWaitRunsTheOtherStreamOnlyUpToItsPoint) {
  auto producer = device_->create_stream("producer");
  auto consumer = device_->create_stream("consumer");
  std::vector<std::string> order;
  producer->enqueue("first", [&] { return order.push_back("first"), Status(); });
  const uint64_t point = producer->queued();
  producer->enqueue("second", [&] { return order.push_back("second"), Status(); });
  consumer->wait_for(producer, point);
  consumer->enqueue("reader", [&] { return order.push_back("reader"), Status(); });
  EXPECT_TRUE(consumer->synchronize().ok());
  EXPECT_THAT(order, testing::ElementsAre("first", "reader"));
  EXPECT_TRUE(producer->synchronize().ok());
  EXPECT_THAT(order, testing::ElementsAre("first", "reader", "second"));
}

// S1.5: somebody outside may wait for the timeline, so a signal starts the stream by itself.
TEST_F(SimDeviceTest, ASignalIsCarriedOutWithoutAWait) {
  auto timeline = make_host_timeline("t");
  auto stream = device_->create_stream("signals");
  stream->signal({*timeline, 5});
  EXPECT_TRUE((*timeline)->wait(5, 5'000'000'000).ok());
}

TEST_F(SimDeviceTest, AFailureSkipsWorkPoisonsSignalsAndIsReportedOnce) {
  auto timeline = make_host_timeline("t");
  auto stream = device_->create_stream("fails");
  bool skipped = true, cleaned = false;
  stream->enqueue("bad", [] { return device_error("It fails."); });
  stream->enqueue("later", [&] { return skipped = false, Status(); });
  stream->enqueue_cleanup("cleanup", [&] { return cleaned = true, Status(); });
  stream->signal({*timeline, 1});
  EXPECT_EQ((*timeline)->wait(1, 5'000'000'000).code(), StatusCode::kDeviceError);
  EXPECT_THAT(stream->synchronize().message(), HasSubstr("It fails. - while the simulated stream \"fails\" runs bad"));
  EXPECT_TRUE(skipped);
  EXPECT_TRUE(cleaned);
  EXPECT_TRUE(stream->synchronize().ok());
}

TEST_F(SimDeviceTest, AStreamThatIsDestroyedWaitsForNoForeignFence) {
  auto never = make_host_timeline("never");
  auto after = make_host_timeline("after");
  auto stream = device_->create_stream("waits");
  stream->wait({*never, 1});
  stream->signal({*after, 1});
  stream = nullptr;
  EXPECT_EQ((*after)->wait(1, 0).code(), StatusCode::kCancelled);
  EXPECT_TRUE((*after)->value().value() == 1u);
}

TEST_F(SimDeviceTest, MemoryThatQueuedWorkUsesIsFreedWhenThatIsDone) {
  auto stream = device_->create_stream("uses");
  void* memory = device_memory(64);
  Status seen = internal_error("It has not run.");
  stream->enqueue("use", [&] { return seen = device_->memory().resolve(memory, 64).status(), Status(); });
  device_->free(memory);
  const int64_t blocks = counters().device_blocks;
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(seen.ok()) << seen.message();
  device_->collect();
  EXPECT_EQ(counters().device_blocks, blocks - 1);
}

TEST_F(SimDeviceTest, ACopyToTheHostIsPoisonUntilItsStreamIsWaitedFor) {
  auto stream = device_->create_stream("copies");
  void* memory = device_memory(sizeof(float));
  float source = 7, result = 0;
  ASSERT_TRUE(device_->copy({.src = &source, .dst = memory, .dst_on_device = true, .size_bytes = 4}, stream).ok());
  source = 8;  // read when the copy was queued
  ASSERT_TRUE(device_->copy({.src = memory, .src_on_device = true, .dst = &result, .size_bytes = 4}, stream).ok());
  EXPECT_TRUE(std::isnan(result));
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(result, 7);
  device_->free(memory);
}

// One use of scratch memory: fill it, and later read what was filled in.
struct ScratchUser {
  std::shared_ptr<SimDevice> device;
  std::shared_ptr<SimStream> stream;
  float value;
  float read = 0;

  void use(void* block, uint64_t number) {
    stream->enqueue("begin", [=, this] { return device->begin_scratch(block, 64, number, stream->name()); });
    stream->enqueue("fill", [=, this]() -> Status {
      TENON_TRY_ASSIGN(std::byte * bytes, device->memory().resolve(block, 64));
      std::memcpy(bytes, &value, sizeof(value));
      return Status();
    });
  }
  void finish(void* block, uint64_t number) {
    stream->enqueue("read", [=, this]() -> Status {
      TENON_TRY_ASSIGN(std::byte * bytes, device->memory().resolve(block, 64));
      std::memcpy(&read, bytes, sizeof(read));
      return device->check_scratch(block, number);
    });
    stream->enqueue_cleanup("end", [=, this] { return device->end_scratch(block, 64, number); });
  }
};

// S5.2, the proof that the device finds it: a pool that hands A's block to B too early.
TEST_F(SimDeviceTest, AWronglyReusedScratchBlockIsPoisonedAndFound) {
  ScratchUser a{device_, device_->create_stream("a"), 1}, b{device_, device_->create_stream("b"), 2};
  void* block = device_memory(64);
  const uint64_t use_a = device_->next_scratch_use(), use_b = device_->next_scratch_use();
  const int64_t violations = counters().total_order_violations;
  a.use(block, use_a);
  const uint64_t half = a.stream->queued();
  a.finish(block, use_a);
  b.use(block, use_b);  // B takes it although A has not passed the end of its use
  b.finish(block, use_b);
  ASSERT_TRUE(a.stream->run_until(half).ok());
  const Status found_by_b = b.stream->run_until(b.stream->queued());
  EXPECT_THAT(found_by_b.message(), HasSubstr("is handed to stream \"b\""));
  const Status found_by_a = a.stream->synchronize();
  EXPECT_FALSE(found_by_a.ok());
  EXPECT_TRUE(std::isnan(a.read)) << "A computes with poison";
  EXPECT_GT(counters().total_order_violations, violations);
  (void)b.stream->synchronize();
  device_->free(block);
}

// S5.2: the SDK's pool over the same device, with streams that interleave as badly as they can.
TEST_F(SimDeviceTest, ThePoolOfTheKitNeverReusesABlockTooEarly) {
  const int64_t violations = counters().total_order_violations;
  {
    plugin::ScratchPool pool(device_->scratch_source(), 1 << 20);
    std::vector<ScratchUser> users;
    users.reserve(64);
    std::vector<std::shared_ptr<SimStream>> streams = {device_->create_stream("a"), device_->create_stream("b"),
                                                       device_->create_stream("c")};
    for (int i = 0; i < 64; ++i) {
      const auto& stream = streams[i % 3];
      users.push_back({device_, stream, static_cast<float>(i)});
      auto block = pool.take(64, stream->progress());
      ASSERT_TRUE(block.ok());
      const uint64_t use = device_->next_scratch_use();
      users.back().use(block->data(), use);
      // Runs one stream half way now and then, so that blocks are in every state when they are asked for.
      if (i % 5 == 0) {
        ASSERT_TRUE(streams[i / 5 % 3]->run_until(stream->queued() / 2).ok());
      }
      users.back().finish(block->data(), use);
    }
    for (const auto& stream : streams) EXPECT_TRUE(stream->synchronize().ok());
    for (size_t i = 0; i < users.size(); ++i) EXPECT_EQ(users[i].read, static_cast<float>(i));
    EXPECT_GT(pool.stats().reused, 0u);
    EXPECT_GT(pool.stats().kept_waiting, 0u);
  }
  EXPECT_EQ(counters().total_order_violations, violations);
}

// S5.3: threads with streams of their own share the device, its scratch memory and one more stream.
TEST_F(SimDeviceTest, ManyThreadsShareADevice) {
  const int64_t violations = counters().total_order_violations;
  std::atomic<int> wrong{0};
  {
    plugin::ScratchPool pool(device_->scratch_source(), 1 << 16);
    const auto shared = device_->create_stream("shared");
    const auto work = [&](int number) {
      const auto stream = device_->create_stream("thread " + std::to_string(number));
      for (int turn = 0; turn < 100; ++turn) {
        auto block = pool.take(64, stream->progress());
        auto memory = device_->allocate(64, SimMemory::Kind::kDefault);
        if (!block.ok() || !memory.ok()) {
          ++wrong;
          continue;
        }
        ScratchUser user{device_, stream, static_cast<float>(number * 1000 + turn)};
        const uint64_t use = device_->next_scratch_use();
        user.use(block->data(), use);
        user.finish(block->data(), use);
        block->reset();
        float result = 0;
        const SimDevice::Copy in{.src = &user.value, .dst = *memory, .dst_on_device = true, .size_bytes = 4};
        const SimDevice::Copy out{.src = *memory, .src_on_device = true, .dst = &result, .size_bytes = 4};
        if (!device_->copy(in, stream).ok() || !device_->copy(out, stream).ok()) ++wrong;
        device_->free(*memory);
        if (turn % 7 == 0) shared->wait_for(stream);
        if (turn % 11 == 0 && !shared->run_until(shared->queued()).ok()) ++wrong;
        if (!stream->synchronize().ok() || result != user.value || user.read != user.value) ++wrong;
      }
    };
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; ++number) threads.emplace_back(work, number);
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(shared->synchronize().ok());
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(counters().total_order_violations, violations);
}

TEST(SimFaults, TheNthVisitFailsOnce) {
  SimFaults faults;
  faults.arm(find_step("copy"), 2);
  EXPECT_TRUE(faults.hit(SimStep::copy).ok());
  EXPECT_TRUE(faults.hit(SimStep::compute).ok());
  EXPECT_FALSE(faults.fired());
  EXPECT_THAT(faults.hit(SimStep::copy).message(), HasSubstr("step copy"));
  EXPECT_TRUE(faults.fired());
  EXPECT_TRUE(faults.hit(SimStep::copy).ok());
  faults.arm(nullptr, 1);
  EXPECT_FALSE(faults.hit(SimStep::flush).ok());
  EXPECT_EQ(find_step("lunch"), nullptr);
}

TEST(SimCounters, EveryNameIsKnown) {
  EXPECT_EQ(counters().value("lunch"), -1);
  EXPECT_GE(counters().value("streams"), 0);
}

}  // namespace
}  // namespace tenon::sim
