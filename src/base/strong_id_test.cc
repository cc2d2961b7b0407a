#include "base/strong_id.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <type_traits>
#include <unordered_set>

namespace tenon {
namespace {

using AppleId = StrongId<struct AppleTag>;
using PearId = StrongId<struct PearTag>;

static_assert(sizeof(AppleId) == sizeof(int32_t) && std::is_trivially_copyable_v<AppleId>);
static_assert(!std::is_convertible_v<int, AppleId> && !std::is_convertible_v<AppleId, int>);
static_assert(!std::is_constructible_v<AppleId, PearId> && !std::is_invocable_v<std::equal_to<>, AppleId, PearId>);
static_assert(AppleId(3).index() == 3 && AppleId(3) < AppleId(4) && AppleId() == AppleId::none());

template <typename Container, typename Index>
concept Indexes = requires(Container container, Index index) { container[index]; };
static_assert(Indexes<IdVector<AppleId, int>, AppleId>);
static_assert(!Indexes<IdVector<AppleId, int>, PearId> && !Indexes<IdVector<AppleId, int>, size_t>);
static_assert(!Indexes<IdSpan<AppleId, int>, PearId> && !Indexes<IdSpan<AppleId, int>, int>);

TEST(StrongId, NoneIsLessThanEveryIdAndNotValid) {
  EXPECT_FALSE(AppleId::none().valid());
  EXPECT_LT(AppleId::none(), AppleId(0));
  EXPECT_TRUE(AppleId(0).valid());
  EXPECT_EQ(AppleId::none().value(), -1);
}

TEST(StrongId, PrintsItsNumber) { EXPECT_EQ(format("{} {} {}", AppleId(7), AppleId(42), AppleId()), "7 42 -1"); }

TEST(StrongId, IsAKeyOfMapsAndSets) {
  const std::unordered_set<AppleId> set = {AppleId(1), AppleId(2), AppleId(1)};
  EXPECT_EQ(set.size(), 2U);
  const std::map<AppleId, int> map = {{AppleId(2), 20}, {AppleId(1), 10}};
  EXPECT_EQ(map.begin()->second, 10);
}

TEST(IdVector, PushBackReturnsTheIdThatFindsTheElement) {
  IdVector<AppleId, std::string> names;
  const AppleId first = names.push_back("a"), second = names.push_back("b");
  EXPECT_EQ(names[first] + names[second], "ab");
  EXPECT_TRUE(names.contains(second));
  EXPECT_FALSE(names.contains(names.end_id()));
  EXPECT_FALSE(names.contains(AppleId::none()));
}

TEST(IdVector, IdsAreThoseOfTheElementsInOrder) {
  const IdVector<AppleId, int> numbers = {5, 6, 7};
  std::vector<int> seen;
  for (AppleId id : numbers.ids()) seen.push_back(numbers[id]);
  EXPECT_EQ(seen, numbers.elements());
  for (AppleId id : IdVector<AppleId, int>().ids()) ADD_FAILURE() << id.value();
}

// EPs are counted from 1 where the CPU EP has no entry.
TEST(IdVector, TheFirstIdMayBeAnother) {
  IdVector<AppleId, int, 1> devices;
  EXPECT_EQ(devices.push_back(10), AppleId(1));
  EXPECT_EQ(devices.push_back(20), AppleId(2));
  EXPECT_EQ(devices[AppleId(2)], 20);
  EXPECT_FALSE(devices.contains(AppleId(0)));
  std::vector<int32_t> seen;
  for (AppleId id : devices.ids()) seen.push_back(id.value());
  for (AppleId id : IdSpan<AppleId, const int, 1>(devices).ids()) seen.push_back(id.value());
  EXPECT_EQ(seen, (std::vector<int32_t>{1, 2, 1, 2}));
}

TEST(IdVector, HoldsBools) {
  IdVector<AppleId, bool> flags(2);
  flags[AppleId(1)] = true;
  EXPECT_FALSE(flags[AppleId(0)]);
  EXPECT_TRUE(flags[AppleId(1)]);
}

TEST(IdSpan, ViewsAVectorAndAnArray) {
  IdVector<AppleId, int> numbers(3, 1);
  const IdSpan<AppleId, const int> view = numbers;
  numbers[AppleId(2)] = 9;
  EXPECT_EQ(view[AppleId(2)], 9);
  std::array<int, 2> array{4, 5};
  const IdSpan<AppleId, int, 1> shifted{std::span<int>(array)};
  shifted[AppleId(1)] = 8;
  EXPECT_EQ(array[0], 8);
  EXPECT_FALSE(shifted.contains(AppleId(0)));
  EXPECT_TRUE(shifted.contains(AppleId(2)));
}

}  // namespace
}  // namespace tenon
