#include "ops/slice.h"

#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLowest = INT64_MIN, kHighest = INT64_MAX;

TEST(SliceRange, EveryElementIsInside) {
  for (int64_t size : {0, 1, 2, 3, 7}) {
    for (int64_t start :
         {kLowest, int64_t{-8}, int64_t{-3}, int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{7}, kHighest}) {
      for (int64_t end : {kLowest, int64_t{-8}, int64_t{-2}, int64_t{0}, int64_t{1}, int64_t{7}, kHighest}) {
        for (int64_t step : {kLowest, int64_t{-3}, int64_t{-1}, int64_t{1}, int64_t{2}, kHighest}) {
          const SliceRange range = slice_range(start, end, step, size).value();
          ASSERT_GE(range.count, 0);
          ASSERT_LE(range.count, size);
          ASSERT_GE(range.start, 0);
          if (range.count == 0) continue;
          ASSERT_LT(range.start, size);
          if (range.count == 1) continue;
          const int64_t last = range.start + (range.count - 1) * range.step;
          ASSERT_GE(last, 0) << start << ":" << end << ":" << step << " of " << size;
          ASSERT_LT(last, size) << start << ":" << end << ":" << step << " of " << size;
        }
      }
    }
  }
}

TEST(SliceRange, ANegativeStepClampsTheStartAndEndsBeforeTheFirst) {
  const SliceRange clamped = slice_range(-5, -9, -1, 3).value();
  EXPECT_EQ(clamped.start, 0);
  EXPECT_EQ(clamped.count, 1);
  for (int64_t end : {int64_t{INT32_MAX}, kHighest}) EXPECT_EQ(slice_range(-1, end, -2, 5).value().count, 3);
  EXPECT_EQ(slice_range(-1, 1, -1, 5).value().count, 3);
  EXPECT_FALSE(slice_range(0, 1, 0, 5).ok());
}

TEST(ReadSlice, BoundsAreAttributesBeforeVersion10) {
  Node node;
  node.op_type = "Slice";
  node.since_version = 1;
  node.inputs = {ValueId(0)};
  node.set_ints("starts", {1, -2});
  node.set_ints("ends", {9, 9});
  const auto no_input = [](size_t) -> Result<std::vector<int64_t>> { return internal_error("An input is read."); };
  EXPECT_EQ(read_slice(node, {4, 5, 6}, no_input).value().output, (Shape{3, 2, 6}));
  node.set_ints("axes", {2, 0});
  EXPECT_EQ(read_slice(node, {4, 5, 6}, no_input).value().output, (Shape{2, 5, 5}));
}

TEST(ReadSlice, InputsThatAreThereHaveOneEntryForEachStart) {
  Node node;
  node.op_type = "Slice";
  node.since_version = 13;
  node.inputs = {ValueId(0), ValueId(1), ValueId(2), ValueId(3), ValueId(4)};
  std::vector<std::vector<int64_t>> inputs = {{}, {1, 0}, {2, 5}, {}, {1, 1}};
  const auto read = [&](size_t input) -> Result<std::vector<int64_t>> { return inputs[input]; };
  // As in ONNX Runtime, an empty list is no missing input.
  EXPECT_THAT(read_slice(node, {4, 5}, read).status().message(), HasSubstr("2 starts, 2 ends, 0 axes and 2 steps"));
  node.inputs[3] = kNoValue;
  EXPECT_EQ(read_slice(node, {4, 5}, read).value().output, (Shape{1, 5}));
  inputs[4] = {1};
  EXPECT_THAT(read_slice(node, {4, 5}, read).status().message(), HasSubstr("1 steps"));
  node.inputs = {ValueId(0), ValueId(1), ValueId(2), ValueId(3)};
  inputs[3] = {1, -1};
  EXPECT_THAT(read_slice(node, {4, 5}, read).status().message(), HasSubstr("Axis 1 is repeated"));
  inputs[3] = {1, 2};
  EXPECT_THAT(read_slice(node, {4, 5}, read).status().message(), HasSubstr("Axis 2 is out of range for rank 2"));
}

}  // namespace
}  // namespace tenon
