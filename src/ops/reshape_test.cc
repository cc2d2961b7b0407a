#include "ops/reshape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

std::string message(const Result<Shape>& result) { return std::string(result.status().message()); }

TEST(Reshaped, CopiesAndInfersSizes) {
  EXPECT_EQ(reshaped({2, 3, 4}, Ints{0, -1}, false).value(), (Shape{2, 12}));
  EXPECT_EQ(reshaped({2, 0}, Ints{0, 5}, true).value(), (Shape{0, 5}));
  EXPECT_EQ(reshaped({1}, Ints{}, false).value(), Shape());
  EXPECT_THAT(message(reshaped({2, 3}, Ints{-1, -1}, false)), HasSubstr("more than one -1"));
  EXPECT_THAT(message(reshaped({2, 3}, Ints{-2, 3}, false)), HasSubstr("-2"));
  EXPECT_THAT(message(reshaped({2, 3}, Ints{4, -1}, false)), HasSubstr("does not reshape"));
  EXPECT_THAT(message(reshaped({6}, Ints{2, 3, 0}, false)), HasSubstr("copies dimension 2"));
  EXPECT_THAT(message(reshaped({6}, Ints{INT64_MAX, 3}, false)), HasSubstr("too many elements"));
  // A dimension that is copied cancels, whatever its size; any other 0 leaves the -1 open, as in ONNX Runtime.
  EXPECT_EQ(reshaped({0, 4}, Ints{0, -1}, false).value(), (Shape{0, 4}));
  EXPECT_EQ(reshaped({2, 0, 8}, Ints{0, 0, 2, -1}, false).value(), (Shape{2, 0, 2, 4}));
  EXPECT_THAT(message(reshaped({2, 0, 8}, Ints{0, 0, 3, -1}, false)), HasSubstr("does not reshape"));
  EXPECT_THAT(message(reshaped({0, 4}, Ints{-1, 0}, true)), HasSubstr("undefined beside a 0"));
}

TEST(Reshaped, TheWriterMakesAZeroASizeOfZero) {
  Node node;
  node.set_int("axis", 1);
  write_reshape(node, ValueId(3), ValueId(4));
  EXPECT_EQ(node.op_type, "Reshape");
  EXPECT_TRUE(read_allow_zero(node));
  EXPECT_FALSE(node.has("axis"));
}

TEST(Flattened, AxisMayBeTheRank) {
  Node node;
  node.op_type = "Flatten";
  node.since_version = 13;
  EXPECT_EQ(read_flatten_axis(node, 3).value(), 1);
  node.set_int("axis", 3);
  EXPECT_EQ(flattened({2, 3, 4}, read_flatten_axis(node, 3).value()).value(), (Shape{24, 1}));
  node.set_int("axis", -3);
  EXPECT_EQ(flattened({2, 3, 4}, read_flatten_axis(node, 3).value()).value(), (Shape{1, 24}));
  EXPECT_FALSE(read_flatten_axis(node, 2).ok());
  // Each part alone overflows, and the whole has no element.
  EXPECT_FALSE(flattened({int64_t{1} << 40, int64_t{1} << 40, 0}, 2).ok());
}

TEST(Squeezed, DropsOnesOnly) {
  EXPECT_EQ(squeezed({1, 3, 1}, Ints{-1}).value(), (Shape{1, 3}));
  EXPECT_EQ(squeezed({1, 3, 1}, Ints{}).value(), (Shape{3}));
  EXPECT_THAT(message(squeezed({1, 3}, Ints{1})), HasSubstr("cannot be squeezed"));
  EXPECT_THAT(message(squeezed({1, 3}, Ints{0, -2})), HasSubstr("repeated"));
}

TEST(Unsqueezed, AxesAreThoseOfTheResult) {
  EXPECT_EQ(unsqueezed({2, 3}, Ints{0, -1}).value(), (Shape{1, 2, 3, 1}));
  EXPECT_THAT(message(unsqueezed({2, 3}, Ints{3})), HasSubstr("out of range for rank 3"));
  EXPECT_THAT(message(unsqueezed({2}, Ints{2, -1})), HasSubstr("Axis 2 is repeated"));
  EXPECT_THAT(message(unsqueezed({2}, Ints(12, 0))), HasSubstr("rank 13"));
}

TEST(Tiled, OneRepeatForEachDimension) {
  EXPECT_EQ(tiled({2, 3}, Ints{0, 4}).value(), (Shape{0, 12}));
  EXPECT_THAT(message(tiled({2, 3}, Ints{2})), HasSubstr("1 repeats"));
  EXPECT_THAT(message(tiled({2, 3}, Ints{2, -1})), HasSubstr("-1"));
  EXPECT_THAT(message(tiled({2, 3}, Ints{INT64_MAX, 1})), HasSubstr("Dimension 0"));
}

}  // namespace
}  // namespace tenon
