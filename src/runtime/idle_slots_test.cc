#include "runtime/idle_slots.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "runtime/idle_pool.h"

namespace tenon {
namespace {

TEST(IdleSlots, AnObjectIsFoundByItsKey) {
  IdleSlots<std::unique_ptr<int>> slots;
  auto one = std::make_unique<int>(1), other = std::make_unique<int>(2);
  const int* const key = one.get();
  const int* const other_key = other.get();
  ASSERT_TRUE(slots.give(key, one));
  ASSERT_TRUE(slots.give(other_key, other));
  EXPECT_EQ(slots.size(), 2u);
  std::unique_ptr<int> found;
  EXPECT_TRUE(slots.take(other_key, found));
  EXPECT_EQ(*found, 2);
  EXPECT_FALSE(slots.take(other_key, found));
  EXPECT_EQ(*found, 2);  // unchanged
  EXPECT_TRUE(slots.take_any(found));
  EXPECT_EQ(*found, 1);
  EXPECT_EQ(slots.size(), 0u);
}

TEST(IdleSlots, FullSlotsLeaveTheObjectWithTheGiver) {
  IdleSlots<std::unique_ptr<int>, 1> slots;
  auto one = std::make_unique<int>(1), other = std::make_unique<int>(2);
  ASSERT_TRUE(slots.give(one.get(), one));
  EXPECT_FALSE(slots.give(other.get(), other));
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(*other, 2);
}

TEST(IdleObjects, MoreObjectsThanSlotsAreKept) {
  IdleObjects<int> idle;
  for (int i = 0; i < 20; ++i) idle.give(std::make_unique<int>(i));
  EXPECT_EQ(idle.size(), 20u);
  std::vector<bool> seen(20, false);
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<int> one = idle.take();
    ASSERT_NE(one, nullptr);
    EXPECT_FALSE(seen[*one]);
    seen[*one] = true;
  }
  EXPECT_EQ(idle.take(), nullptr);
}

// No object is given to two users at once, and none is lost.
TEST(IdleObjects, ThreadsShareThem) {
  constexpr int kThreads = 4, kObjects = 3, kRounds = 20000;
  struct Object {
    std::atomic<int> users{0};
  };
  IdleObjects<Object> idle;
  for (int i = 0; i < kObjects; ++i) idle.give(std::make_unique<Object>());
  std::atomic<int> shared{0}, taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const Object* last = nullptr;
      for (int round = 0; round < kRounds; ++round) {
        std::unique_ptr<Object> object = idle.take(last);
        if (object == nullptr) continue;
        last = object.get();
        if (object->users.fetch_add(1) != 0) ++shared;
        ++taken;
        object->users.fetch_sub(1);
        idle.give(std::move(object));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, 0);
  EXPECT_GT(taken, kRounds);
  EXPECT_EQ(idle.size(), static_cast<size_t>(kObjects));
}

}  // namespace
}  // namespace tenon
