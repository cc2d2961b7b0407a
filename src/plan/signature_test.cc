#include "plan/signature.h"

#include <gtest/gtest.h>

#include <array>

namespace tenon {
namespace {

SignatureKey key_of(std::initializer_list<int64_t> dims) {
  SignatureKey key;
  append_shape(key, Shape(dims));
  return key;
}

TEST(SignatureKey, ShapesThatFlattenToTheSameNumbersDiffer) {
  SignatureKey one, two;
  append_shape(one, Shape{2, 3});
  append_shape(one, Shape{4});
  append_shape(two, Shape{2});
  append_shape(two, Shape{3, 4});
  EXPECT_NE(one, two);
}

TEST(SignatureKey, BytesOfAnyLengthAreKept) {
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  SignatureKey one, two;
  append_bytes(one, bytes);
  append_bytes(two, std::span(bytes).first(2));
  EXPECT_NE(one, two);
  EXPECT_EQ(one.size(), 2u);
}

TEST(SignatureCache, TheLeastRecentlyUsedEntryGoesFirst) {
  SignatureCache<int> cache(2);
  std::shared_ptr<int> dropped;
  cache.insert(key_of({1}), std::make_shared<int>(1), dropped);
  cache.insert(key_of({2}), std::make_shared<int>(2), dropped);
  EXPECT_EQ(dropped, nullptr);
  ASSERT_NE(cache.find(key_of({1})), nullptr);  // 2 is now the older one
  cache.insert(key_of({3}), std::make_shared<int>(3), dropped);
  ASSERT_NE(dropped, nullptr);
  EXPECT_EQ(*dropped, 2);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.find(key_of({2})), nullptr);
  EXPECT_EQ(*cache.find(key_of({1})), 1);
  EXPECT_EQ(*cache.find(key_of({3})), 3);
}

TEST(SignatureCache, TheOldestEntryIsTakenButNotTheLastOne) {
  SignatureCache<int> cache(8);
  std::shared_ptr<int> dropped;
  cache.insert(key_of({1}), std::make_shared<int>(1), dropped);
  cache.insert(key_of({2}), std::make_shared<int>(2), dropped);
  ASSERT_NE(cache.find(key_of({1})), nullptr);  // 2 is now the older one
  EXPECT_EQ(*cache.take_oldest(), 2);
  EXPECT_EQ(cache.take_oldest(), nullptr);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(SignatureCache, TheEntryThatCameFirstStays) {
  SignatureCache<int> cache(2);
  std::shared_ptr<int> dropped;
  const auto first = cache.insert(key_of({1}), std::make_shared<int>(1), dropped);
  EXPECT_EQ(cache.insert(key_of({1}), std::make_shared<int>(2), dropped), first);
  EXPECT_EQ(dropped, nullptr);
}

}  // namespace
}  // namespace tenon
