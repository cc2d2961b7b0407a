#include "ops/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Node make(std::string op_type, int version) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = version;
  return node;
}

TEST(Reduce, DefaultsAreThoseOfTheSchema) {
  const ReduceDesc desc = read_reduce(make("ReduceMean", 13));
  EXPECT_THAT(desc.axes, IsEmpty());
  EXPECT_TRUE(desc.keepdims);
  EXPECT_FALSE(desc.noop_with_empty_axes);
}

TEST(Reduce, AxesComeFromTheAttributeOrTheConstant) {
  Node old = make("ReduceMax", 13);
  old.set_ints("axes", {-1});
  EXPECT_THAT(read_reduce(old, false, nullptr)->axes, ElementsAre(-1));
  const Node now = make("ReduceMax", 18);
  const std::vector<int64_t> axes = {0, 2};
  EXPECT_THAT(read_reduce(now, true, make_int64_constant(axes))->axes, ElementsAre(0, 2));
  EXPECT_FALSE(read_reduce(now, true, nullptr).has_value());
}

TEST(Reduce, AxesAreCountedFromTheEndAndChecked) {
  EXPECT_EQ(*reduced_axes(std::vector<int64_t>{-1, 0}, false, 3), AxisSet(0b101));
  EXPECT_EQ(*reduced_axes({}, false, 3), AxisSet(0b111));
  EXPECT_EQ(*reduced_axes({}, true, 3), AxisSet());
  EXPECT_THAT(reduced_axes(std::vector<int64_t>{3}, false, 3).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Axis 3 is out of range for rank 3")));
  EXPECT_THAT(reduced_axes(std::vector<int64_t>{1, -2}, false, 3).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Axis 1 is repeated")));
}

TEST(Reduce, TheResultKeepsItsDimensionsOrDropsThem) {
  EXPECT_EQ(reduced_shape({2, 3, 4}, AxisSet(0b010), true), (Shape{2, 1, 4}));
  EXPECT_EQ(reduced_shape({2, 3, 4}, AxisSet(0b010), false), (Shape{2, 4}));
}

TEST(ArgReduce, SplitsTheShapeAtItsAxis) {
  Node node = make("ArgMin", 13);
  node.set_int("axis", -2);
  node.set_int("keepdims", 0);
  node.set_int("select_last_index", 1);
  const Result<ArgReduceDesc> desc = read_arg_reduce(node, {2, 3, 4});
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->axis, 1);
  EXPECT_EQ(desc->outer, 2);
  EXPECT_EQ(desc->length, 3);
  EXPECT_EQ(desc->inner, 4);
  EXPECT_EQ(desc->output, (Shape{2, 4}));
  EXPECT_FALSE(desc->largest);
  EXPECT_TRUE(desc->select_last_index);
}

TEST(ArgReduce, RefusesAnAxisOfNothing) {
  EXPECT_THAT(read_arg_reduce(make("ArgMax", 13), {0, 4}).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("ArgMax over axis 0 of [0,4]")));
  EXPECT_TRUE(read_arg_reduce(make("ArgMax", 13), {0, 0}).ok());
  EXPECT_FALSE(read_arg_reduce(make("ArgMax", 13), {}).ok());
}

}  // namespace
}  // namespace tenon
