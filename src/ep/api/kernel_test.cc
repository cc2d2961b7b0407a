#include "ep/api/kernel.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(TensorSpec, PlainSizeIsTheElements) {
  TensorSpec spec{.type = DataType::kFloat, .shape = {2, 3, 5}};
  EXPECT_EQ(spec.size_bytes(), 2u * 3 * 5 * 4);
}

TEST(TensorSpec, BlockedSizeHasChannelsPaddedToEight) {
  TensorSpec spec{.type = DataType::kFloat, .shape = {2, 3, 5}, .layout = Layout::kBlocked8};
  EXPECT_EQ(spec.size_bytes(), 2u * 8 * 5 * 4);
  spec.shape = {1, 17, 2, 2};
  EXPECT_EQ(spec.size_bytes(), 24u * 2 * 2 * 4);
}

TEST(TensorSpec, TypesBelowOneByteRoundUp) {
  TensorSpec spec{.type = DataType::kInt4, .shape = {3}};
  EXPECT_EQ(spec.size_bytes(), 2u);
}

TEST(TensorSpec, AnAbsentTensorTakesNothing) {
  TensorSpec spec;
  EXPECT_FALSE(spec.present());
  EXPECT_EQ(spec.size_bytes(), 0u);
}

}  // namespace
}  // namespace tenon
