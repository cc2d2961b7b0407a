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
    EXPECT_EQ(large.size_bytes, size);
    pool.release(std::move(small));
    pool.release(std::move(large));
    EXPECT_EQ(pool.idle_bytes(), size + size / 64);
  }
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
