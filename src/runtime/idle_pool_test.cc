#include "runtime/idle_pool.h"

#include "base/testing.h"

namespace tenon {
namespace {

TEST(IdlePool, AnObjectServesTheNextUserWithWhatItHolds) {
  IdlePool<std::vector<int>> pool;
  const std::vector<int>* first = nullptr;
  {
    const auto values = pool.take();
    values->push_back(7);
    first = &*values;
  }
  const auto again = pool.take();
  EXPECT_EQ(&*again, first);
  EXPECT_EQ(again->size(), 1u);
}

TEST(IdlePool, TwoUsersAtOnceHaveAnObjectEach) {
  IdlePool<int> pool;
  const auto one = pool.take();
  const auto other = pool.take();
  EXPECT_NE(&*one, &*other);
}

}  // namespace
}  // namespace tenon
