#include "ops/conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node conv_node(std::string op_type = "Conv") {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = 11;
  return node;
}

std::string error(const Node& node, const Shape& x, const Shape& w) {
  return std::string(read_conv(node, x, w).status().message());
}

TEST(ReadConv, AttributesThatAreLeftOutAreThoseOfAPlainWindow) {
  const ConvDesc conv = read_conv(conv_node(), {2, 3, 5, 7}, {4, 3, 1, 3}).value();
  EXPECT_EQ(conv.output(), (Shape{2, 4, 5, 5}));
  EXPECT_EQ(conv.group, 1);
  EXPECT_EQ(conv.axis(1).stride, 1);
  EXPECT_EQ(conv.axis(1).dilation, 1);
  EXPECT_EQ(conv.axis(1).pad_begin, 0);
}

// As in ONNX Runtime.
TEST(ReadConv, AnEmptyAutoPadIsLeftOut) {
  Node node = conv_node();
  node.set_ints("pads", {1, 0});
  node.set_string("auto_pad", "");
  const ConvDesc conv = read_conv(node, {1, 1, 5}, {1, 1, 3}).value();
  EXPECT_EQ(conv.output(), (Shape{1, 1, 4}));
  EXPECT_EQ(conv.axis(0).pad_begin, 1);
}

TEST(ReadConv, AutoPadBecomesPads) {
  struct Case {
    const char* auto_pad;
    int64_t out, pad_begin, pad_end;
  };
  // 7 elements, windows of 4 every 2: 4 outputs need 3 elements of padding.
  for (const Case& c : {Case{"SAME_UPPER", 4, 1, 2}, Case{"SAME_LOWER", 4, 2, 1}, Case{"VALID", 2, 0, 0}}) {
    Node node = conv_node();
    node.set_ints("strides", {2});
    node.set_ints("pads", {9, 9});
    node.set_string("auto_pad", c.auto_pad);
    const WindowAxis axis = read_conv(node, {1, 1, 7}, {1, 1, 4}).value().axis(0);
    EXPECT_EQ(axis.out, c.out) << c.auto_pad;
    EXPECT_EQ(axis.pad_begin, c.pad_begin) << c.auto_pad;
    EXPECT_EQ(axis.pad_end, c.pad_end) << c.auto_pad;
  }
}

TEST(ReadConv, PadsAreNeverNegative) {
  Node node = conv_node();
  node.set_ints("strides", {5});
  node.set_string("auto_pad", "SAME_UPPER");
  const WindowAxis axis = read_conv(node, {1, 1, 10}, {1, 1, 2}).value().axis(0);
  EXPECT_EQ(axis.out, 2);
  EXPECT_EQ(axis.pad_begin + axis.pad_end, 0);
}

TEST(ReadConv, GroupsDivideChannelsAndOutputs) {
  Node node = conv_node();
  node.set_int("group", 2);
  const ConvDesc conv = read_conv(node, {1, 6, 3}, {4, 3, 1}).value();
  EXPECT_EQ(conv.group_channels(), 3);
  EXPECT_EQ(conv.group_outputs(), 2);
  EXPECT_FALSE(conv.depthwise());
  EXPECT_THAT(error(node, {1, 6, 3}, {5, 3, 1}), HasSubstr("5 output channels of the weights do not divide into 2"));
  EXPECT_THAT(error(node, {1, 5, 3}, {4, 3, 1}), HasSubstr("has 5 channels, but the weights [4,3,1] with 2 groups"));
  node.set_int("group", 0);
  EXPECT_THAT(error(node, {1, 6, 3}, {4, 3, 1}), HasSubstr("\"group\" (0)"));
}

TEST(ReadConv, UnknownSizesStayUnknown) {
  Node node = conv_node();
  node.set_string("auto_pad", "SAME_UPPER");
  const ConvDesc conv = read_conv(node, std::vector<int64_t>{-1, -1, -1, 8}, std::vector<int64_t>{4, 3, -1, 3}).value();
  EXPECT_EQ(conv.axis(0).out, kUnknownSize);
  EXPECT_TRUE(conv.window.keeps_size(0));
  EXPECT_EQ(conv.axis(1).out, 8);
}

TEST(ReadConv, OddWindowsAreErrors) {
  Node node = conv_node();
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 4}), HasSubstr("larger than the padded input (3 + 0 + 0)"));
  EXPECT_THAT(error(node, {1, 1}, {1, 1}), HasSubstr("rank 3 or more"));
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 3, 3}), HasSubstr("differ in rank"));
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 0}), HasSubstr("size 0"));
  node.set_ints("strides", {1, 1});
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 3}), HasSubstr("\"strides\" has 2 values"));
  node.set_ints("strides", {});
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 3}), HasSubstr("\"strides\" has 0 values"));
  node.set_ints("strides", {int64_t{1} << 62});
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 3}), HasSubstr("\"strides\" contains"));
  node.set_ints("strides", {1});
  node.set_ints("pads", {-1, 0});
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 3}), HasSubstr("\"pads\" contains -1"));
  node.set_ints("pads", {0, 0});
  node.set_string("auto_pad", "same");
  EXPECT_THAT(error(node, {1, 1, 3}, {1, 1, 3}), HasSubstr("\"auto_pad\" (\"same\")"));
}

TEST(ReadConvTranspose, OutputsFollowFromWindowsAndPads) {
  Node node = conv_node("ConvTranspose");
  node.set_ints("strides", {2, 3});
  node.set_ints("pads", {1, 0, 1, 0});
  node.set_ints("output_padding", {1, 0});
  node.set_int("group", 2);
  const ConvDesc conv = read_conv(node, {1, 4, 5, 5}, {4, 3, 3, 3}).value();
  EXPECT_EQ(conv.output(), (Shape{1, 6, 10, 15}));
  EXPECT_EQ(conv.group_outputs(), 3);
}

// ONNX Runtime's rule: pads follow from output_shape, and the odd one lies at the beginning unless SAME_UPPER says
// otherwise.
TEST(ReadConvTranspose, AnOutputShapeSetsThePads) {
  struct Case {
    const char* auto_pad;
    std::vector<int64_t> output_shape;
    int64_t out, pad_begin, pad_end;
  };
  for (const Case& c :
       {Case{"NOTSET", {8}, 8, 2, 1}, Case{"SAME_UPPER", {8}, 8, 1, 2}, Case{"NOTSET", {1, 1, 8}, 8, 2, 1},
        Case{"SAME_LOWER", {}, 10, 1, 0}, Case{"VALID", {}, 11, 0, 0}, Case{"NOTSET", {}, 9, 1, 1}}) {
    Node node = conv_node("ConvTranspose");
    node.set_ints("strides", {2});
    node.set_ints("pads", {1, 1});
    if (!c.output_shape.empty()) node.set_ints("output_shape", c.output_shape);
    node.set_string("auto_pad", c.auto_pad);
    const WindowAxis axis = read_conv(node, {1, 1, 5}, {1, 1, 3}).value().axis(0);
    EXPECT_EQ(axis.out, c.out) << c.auto_pad;
    EXPECT_EQ(axis.pad_begin, c.pad_begin) << c.auto_pad;
    EXPECT_EQ(axis.pad_end, c.pad_end) << c.auto_pad;
  }
}

TEST(ReadConvTranspose, PadsThatLeaveNothingAreErrors) {
  Node node = conv_node("ConvTranspose");
  node.set_ints("pads", {2, 2});
  EXPECT_THAT(error(node, {1, 1, 2}, {1, 1, 3}), HasSubstr("leave an output of 0 elements"));
}

}  // namespace
}  // namespace tenon
