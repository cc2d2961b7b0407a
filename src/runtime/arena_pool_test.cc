// Arenas: which idle one a run gets, and what stays behind.
#include "runtime/arena_pool.h"

#include <gtest/gtest.h>

#include "base/testing.h"

namespace tenon {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A session whose sizes change from run to run would keep an arena for each.
TEST(ArenaPool, SizesThatGrowLeaveNoArenaBehind) {
  ArenaPool pool;
  for (size_t size = 2 * kMiB; size <= 16 * kMiB; size += kMiB) {
    // A run of two plans, as where the sizes of the second depend on values.
    Arena small = pool.acquire(size / 64, nullptr).value(), large = pool.acquire(size, nullptr).value();
    EXPECT_GE(large.size_bytes, size);
    pool.release(std::move(small));
    pool.release(std::move(large));
    EXPECT_LE(pool.idle_bytes(), (size + size / 64) * 9 / 8);
  }
}

// Fresh pages cost more than the run of a small model.
TEST(ArenaPool, SizesThatGrowSlowlyMostlyFindRoom) {
  ArenaPool pool;
  int made = 0;
  const std::byte* last = nullptr;
  for (size_t size = 4 * kMiB; size <= 8 * kMiB; size += kMiB / 16) {
    Arena arena = pool.acquire(size, nullptr).value();
    made += arena.memory.get() != last ? 1 : 0;
    last = arena.memory.get();
    pool.release(std::move(arena));
  }
  EXPECT_LE(made, 8) << "of 65 sizes";
}

TEST(ArenaPool, ALargeArenaIsLeftToTheRunsThatNeedIt) {
  ArenaPool pool;
  pool.release(pool.acquire(32 * kMiB, nullptr).value());
  const Arena small = pool.acquire(2 * kMiB, nullptr).value();
  EXPECT_EQ(small.size_bytes, 2 * kMiB);
  EXPECT_EQ(pool.idle_bytes(), 32 * kMiB);
  EXPECT_EQ(pool.acquire(8 * kMiB, nullptr).value().size_bytes, 32 * kMiB) << "a quarter is enough";
}

TEST(ArenaPool, OneAtTheHintIsTakenWhateverItsSize) {
  ArenaPool pool;
  Arena large = pool.acquire(32 * kMiB, nullptr).value();
  const std::byte* const at = large.memory.get();
  pool.release(std::move(large));
  EXPECT_EQ(pool.acquire(kMiB, at).value().memory.get(), at);
}

}  // namespace
}  // namespace tenon
