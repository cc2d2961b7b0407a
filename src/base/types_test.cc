#include <tenon/types.h>

#include <gtest/gtest.h>

#include <vector>

#include "base/checked.h"

namespace tenon {
namespace {

TEST(Shape, CountsElementsOfScalarsAndEmptyTensors) {
  EXPECT_EQ(Shape{}.element_count(), 1);
  EXPECT_EQ((Shape{2, 0, 3}).checked_element_count().value(), 0);
  EXPECT_EQ((Shape{2, 3, 4}).to_string(), "[2,3,4]");
}

TEST(Shape, RefusesNegativeDimensionsAndOverflow) {
  EXPECT_EQ((Shape{2, -1}).checked_element_count().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((Shape{INT64_MAX, 3}).checked_element_count().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((Shape{INT64_MAX, 3, 0}).checked_element_count().value(), 0);
}

// Sizes beside a zero may be larger than their product could be.
TEST(Shape, CountsNoElementsWhereOneDimensionIsZero) {
  EXPECT_EQ((Shape{int64_t{1} << 40, int64_t{1} << 40, 0}).element_count(), 0);
  EXPECT_EQ((Shape{INT64_MAX, INT64_MAX, 0}).checked_element_count().value(), 0);
  EXPECT_EQ(checked_product(std::vector<int64_t>{INT64_MAX, 3, 0}), 0);
  EXPECT_EQ(checked_product(std::vector<int64_t>{INT64_MAX, 3}), std::nullopt);
  EXPECT_EQ(checked_product(std::vector<int64_t>{6, 7}), 42);
  EXPECT_EQ(checked_product(std::vector<uint64_t>{}), 1u);
}

TEST(TensorSizeBytes, RoundsPackedTypesUpAndChecksOverflow) {
  EXPECT_EQ(tensor_size_bytes(DataType::kFloat, {2, 3}).value(), 24u);
  EXPECT_EQ(tensor_size_bytes(DataType::kInt4, {3}).value(), 2u);
  EXPECT_FALSE(tensor_size_bytes(DataType::kDouble, {INT64_MAX / 4}).ok());
  EXPECT_FALSE(tensor_size_bytes(DataType::kUndefined, {1}).ok());
  EXPECT_EQ(*tensor_size_bytes(DataType::kString, {3}), 3 * sizeof(void*));
}

}  // namespace
}  // namespace tenon
