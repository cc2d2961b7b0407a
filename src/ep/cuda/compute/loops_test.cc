#include "ep/cuda/compute/loops.h"

#include <gtest/gtest.h>

namespace tenon::cuda {
namespace {

TEST(JoinDims, NeighboursOfEveryOperandBecomeOne) {
  const Loops dense = join_dims({2, 3, 4}, {{12, 4, 1}, {12, 4, 1}}, 0);
  EXPECT_EQ(dense.dims, (std::vector<int64_t>{24}));
  EXPECT_EQ(dense.strides, (std::vector<std::vector<int64_t>>{{1}, {1}}));
  // The second operand repeats along the middle, which so stays apart; dimensions of 1 go.
  const Loops repeats = join_dims({2, 3, 1, 4}, {{12, 4, 4, 1}, {4, 0, 4, 1}}, 0);
  EXPECT_EQ(repeats.dims, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(repeats.strides[1], (std::vector<int64_t>{4, 0, 1}));
}

TEST(JoinDims, TheOperandThatOrdersHasItsMemoryInOrder) {
  const Loops loops = join_dims({3, 5}, {{1, 3}, {5, 1}}, 0);
  EXPECT_EQ(loops.dims, (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(loops.strides[1], (std::vector<int64_t>{1, 5}));
}

TEST(NeedsWideIndex, CountsReachAndOffset) {
  EXPECT_FALSE(needs_wide_index({1000, 1000}, {1000, 1}, 0));
  EXPECT_TRUE(needs_wide_index({50000, 50000}, {}, 0));
  EXPECT_TRUE(needs_wide_index({2}, {1}, int64_t{1} << 31));
  EXPECT_TRUE(needs_wide_index({3}, {-(int64_t{1} << 30)}, 0));
  EXPECT_TRUE(needs_wide_index({int64_t{1} << 40, int64_t{1} << 40}, {}, 0));
}

TEST(BlocksOf, MoreThanAGridHasAreRefused) {
  EXPECT_EQ(*blocks_of(257, 256), 2U);
  EXPECT_EQ(blocks_of(int64_t{1} << 31, 1).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tenon::cuda
