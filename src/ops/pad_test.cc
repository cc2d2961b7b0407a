#include "ops/pad.h"

#include <array>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Result<PadDesc> resolve(PadMode mode, const Shape& x, std::vector<int64_t> pads) {
  return resolve_pad(mode, x, pads, std::nullopt);
}

TEST(ResolvePad, NegativePadsCropFirst) {
  const PadDesc pad = resolve(PadMode::kReflect, {5}, {-2, 3}).value();
  EXPECT_EQ(pad.output, (Shape{6}));
  EXPECT_EQ(pad.axes[0].crop, 2);
  EXPECT_EQ(pad.axes[0].kept, 3);
  EXPECT_EQ(pad.axes[0].begin, 0);
}

TEST(ResolvePad, CropsOfMoreThanThereIs) {
  const PadDesc pad = resolve(PadMode::kConstant, {2}, {-5, 6}).value();
  EXPECT_EQ(pad.output, (Shape{3}));
  EXPECT_EQ(pad.axes[0].kept, 0);
  EXPECT_THAT(resolve(PadMode::kEdge, {2}, {-5, 6}).status().message(), HasSubstr("nothing to repeat"));
  EXPECT_THAT(resolve(PadMode::kConstant, {2}, {-2, -1}).status().message(), HasSubstr("do not fit axis 0"));
  EXPECT_FALSE(resolve(PadMode::kConstant, {2}, {INT64_MAX, 1}).ok());
  // Neither pad can be negated or added to an index.
  EXPECT_EQ(resolve(PadMode::kConstant, {2}, {INT64_MIN, INT64_MAX}).value().output, (Shape{1}));
}

TEST(ResolvePad, AxesNameTheirPads) {
  const std::array<int64_t, 2> pads = {1, 2};
  const std::array<int64_t, 1> axes = {-1};
  EXPECT_EQ(resolve_pad(PadMode::kConstant, {3, 4}, pads, axes).value().output, (Shape{3, 7}));
  // As in ONNX Runtime, an empty list pads nothing.
  EXPECT_EQ(resolve_pad(PadMode::kConstant, {3, 4}, {}, std::span<const int64_t>()).value().output, (Shape{3, 4}));
  EXPECT_FALSE(resolve_pad(PadMode::kConstant, {3, 4}, pads, std::span<const int64_t>()).ok());
  const std::array<int64_t, 4> four = {1, 2, 3, 4};
  const std::array<int64_t, 2> same = {1, -1};
  EXPECT_THAT(resolve_pad(PadMode::kConstant, {3, 4}, four, same).status().message(), HasSubstr("repeated"));
}

TEST(ReadPad, AttributesOfVersion2AndModes) {
  Node node;
  node.op_type = "Pad";
  node.since_version = 2;
  node.inputs = {ValueId(0)};
  node.set_ints("pads", {1, 0, 0, 2});
  const auto no_input = [](size_t) -> Result<std::vector<int64_t>> { return internal_error("An input is read."); };
  const PadDesc pad = read_pad(node, {2, 3}, no_input).value();
  EXPECT_EQ(pad.output, (Shape{3, 5}));
  EXPECT_EQ(pad.mode, PadMode::kConstant);
  EXPECT_EQ(pad_value_attribute(node), 0);
  node.set_string("mode", "wrap");
  EXPECT_EQ(read_pad_mode(node).value(), PadMode::kWrap);
  node.set_string("mode", "mirror");
  EXPECT_THAT(read_pad(node, {2, 3}, no_input).status().message(), HasSubstr("\"mirror\""));
}

}  // namespace
}  // namespace tenon
