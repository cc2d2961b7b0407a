#include "ep/sdk/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>

namespace tenon::plugin {
namespace {

// A stream whose progress the test moves.
struct FakeStream final : StreamProgress {
  uint64_t queued() const override { return queue; }
  bool passed(uint64_t point) const override { return done >= point; }
  uint64_t queue = 0;
  uint64_t done = 0;
};

struct FakeSource final : ScratchSource {
  Result<void*> allocate(size_t size_bytes) override {
    if (fails) return resource_exhausted("{} bytes are not to be had.", size_bytes);
    void* memory = std::malloc(size_bytes);
    live.insert(memory);
    return memory;
  }
  void free(void* memory) override {
    EXPECT_EQ(live.erase(memory), 1u);
    std::free(memory);
  }
  std::set<void*> live;
  bool fails = false;
};

class ScratchPoolTest : public testing::Test {
 protected:
  std::shared_ptr<FakeSource> source_ = std::make_shared<FakeSource>();
  std::shared_ptr<FakeStream> a_ = std::make_shared<FakeStream>();
  std::shared_ptr<FakeStream> b_ = std::make_shared<FakeStream>();
};

// The source may be the program's allocator, which waits for a thread that asks the pool.
TEST_F(ScratchPoolTest, TheSourceIsCalledWithNoLockHeld) {
  struct AskingSource final : ScratchSource {
    Result<void*> allocate(size_t size_bytes) override { return std::malloc(size_bytes); }
    void free(void* memory) override {
      auto asked = std::make_shared<std::promise<void>>();
      std::future<void> answer = asked->get_future();
      std::thread([pool = pool, asked] {
        (void)pool->stats();
        asked->set_value();
      }).detach();
      answered += answer.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
      std::free(memory);
    }
    ScratchPool* pool = nullptr;
    int answered = 0;
  };
  const auto source = std::make_shared<AskingSource>();
  ScratchPool pool(source, 0);
  source->pool = &pool;
  pool.take(1000, nullptr)->reset();
  EXPECT_EQ(source->answered, 1);
  EXPECT_EQ(pool.stats().free_blocks, 0U);
}

// S5.2: not before A has passed the point at which it was freed.
TEST_F(ScratchPoolTest, BlockFreedOnOneStreamWaitsForItBeforeAnotherGetsIt) {
  ScratchPool pool(source_, 1 << 20);
  a_->queue = 7;
  void* freed = nullptr;
  {
    auto block = pool.take(1000, a_);
    ASSERT_TRUE(block.ok());
    freed = block->data();
  }
  auto early = pool.take(1000, b_);
  ASSERT_TRUE(early.ok());
  EXPECT_NE(early->data(), freed);
  EXPECT_EQ(pool.stats().kept_waiting, 1u);

  a_->done = 6;
  auto still_early = pool.take(1000, b_);
  EXPECT_NE(still_early->data(), freed);
  a_->done = 7;
  auto in_time = pool.take(1000, b_);
  EXPECT_EQ(in_time->data(), freed);
}

// Its work runs in order, so nothing has to be waited for.
TEST_F(ScratchPoolTest, TheSameStreamGetsABlockBackAtOnce) {
  ScratchPool pool(source_, 1 << 20);
  a_->queue = 7;
  void* freed = pool.take(1000, a_)->data();
  EXPECT_EQ(pool.take(900, a_)->data(), freed);
  EXPECT_EQ(pool.stats().reused, 1u);
  EXPECT_EQ(pool.stats().blocks, 1u);
}

TEST_F(ScratchPoolTest, ABlockOfSynchronousWorkIsFreeForAll) {
  ScratchPool pool(source_, 1 << 20);
  void* freed = pool.take(1000, nullptr)->data();
  EXPECT_EQ(pool.take(1000, b_)->data(), freed);
}

// The point is that of the free, not that of the take.
TEST_F(ScratchPoolTest, WorkThatIsQueuedWhileABlockIsHeldCounts) {
  ScratchPool pool(source_, 1 << 20);
  auto block = pool.take(1000, a_);
  void* freed = block->data();
  a_->queue = 5;
  block->reset();
  a_->done = 4;
  EXPECT_NE(pool.take(1000, b_)->data(), freed);
}

TEST_F(ScratchPoolTest, ASmallRequestDoesNotTakeALargeBlock) {
  ScratchPool pool(source_, 1 << 20);
  void* large = pool.take(100'000, a_)->data();
  EXPECT_NE(pool.take(1000, a_)->data(), large);
}

TEST_F(ScratchPoolTest, WhatIsAboveTheLimitGoesBackOnceItsStreamHasPassed) {
  ScratchPool pool(source_, 0);
  a_->queue = 1;
  (void)pool.take(1000, a_);
  EXPECT_EQ(source_->live.size(), 1u) << "A has not passed it";
  a_->done = 1;
  (void)pool.take(100'000, a_);
  EXPECT_EQ(source_->live.size(), 0u);
  EXPECT_EQ(pool.stats().blocks, 0u);
}

TEST_F(ScratchPoolTest, NothingIsLeftWhenThePoolGoes) {
  {
    ScratchPool pool(source_, 1 << 20);
    for (size_t size = 1; size < 5000; size += 700) (void)pool.take(size, a_);
  }
  EXPECT_EQ(source_->live.size(), 0u);
}

TEST_F(ScratchPoolTest, SizesThatAreNoneOrTooLarge) {
  ScratchPool pool(source_, 1 << 20);
  auto none = pool.take(0, a_);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->data(), nullptr);
  EXPECT_EQ(pool.take(SIZE_MAX, a_).status().code(), StatusCode::kOutOfRange);
  source_->fails = true;
  EXPECT_EQ(pool.take(10, a_).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.stats().blocks, 0u);
}

}  // namespace
}  // namespace tenon::plugin
