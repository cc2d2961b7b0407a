#include "ops/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node make(std::string op_type, int64_t heads) {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = "tenon";
  node.since_version = 1;
  node.set_int("num_heads", heads);
  node.set_float("scale", 0.5f);
  return node;
}

InputShapes shapes(std::initializer_list<Shape> all) {
  InputShapes made;
  for (const Shape& shape : all) made.push_back(shape);
  return made;
}

TEST(Attention, HeadsLieSideBySide) {
  const Result<AttentionDesc> desc =
      read_attention(make("Attention", 2), shapes({Shape{3, 4, 10}, Shape{3, 7, 10}, Shape{3, 7, 6}, Shape{4, 1}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->depth, 5);
  EXPECT_EQ(desc->value_depth, 3);
  EXPECT_EQ(desc->keys, 7);
  EXPECT_EQ(desc->v_at.row, 6);
  EXPECT_EQ(desc->scale, 0.5f);
  EXPECT_EQ(desc->mask, 3u);
  EXPECT_THAT(desc->mask_strides, ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(desc->y, (Shape{3, 4, 6}));
}

TEST(Attention, HeadsMayComeBeforePositions) {
  const Result<AttentionDesc> desc = read_attention(
      make("Attention", 2), shapes({Shape{3, 2, 4, 5}, Shape{3, 2, 7, 5}, Shape{3, 2, 7, 6}, Shape{2, 1, 7}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->queries, 4);
  EXPECT_EQ(desc->keys, 7);
  EXPECT_EQ(desc->depth, 5);
  EXPECT_EQ(desc->value_depth, 6);
  EXPECT_EQ(desc->k_at.batch, 70);
  EXPECT_EQ(desc->v_at.head, 42);
  EXPECT_EQ(desc->q_at.row, 5);
  EXPECT_THAT(desc->mask_strides, ElementsAre(0, 7, 0, 1));
  EXPECT_EQ(desc->y, (Shape{3, 2, 4, 6}));
}

TEST(Attention, PackedOperandsAreThirdsOfARow) {
  const Result<AttentionDesc> desc =
      read_attention(make("PackedAttention", 2), shapes({Shape{3, 4, 30}, Shape{3, 1, 1, 4}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->v, 0u);
  EXPECT_EQ(desc->k_offset, 10);
  EXPECT_EQ(desc->v_offset, 20);
  EXPECT_EQ(desc->k_at.row, 30);
  EXPECT_EQ(desc->mask, 1u);
  EXPECT_THAT(desc->mask_strides, ElementsAre(4, 0, 0, 1));
  EXPECT_EQ(desc->y, (Shape{3, 4, 10}));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const auto message = [](const Node& node, std::initializer_list<Shape> all) {
    return read_attention(node, shapes(all)).status().message();
  };
  const Shape q{1, 4, 10};
  EXPECT_THAT(message(make("Attention", 3), {q, q, q}), HasSubstr("3 heads"));
  EXPECT_THAT(message(make("Attention", 0), {q, q, q}), HasSubstr("num_heads"));
  EXPECT_THAT(message(make("Attention", 2), {q, q}), HasSubstr("lacks input 2"));
  EXPECT_THAT(message(make("Attention", 2), {q, q, Shape{1, 5, 10}}), HasSubstr("do not fit together"));
  EXPECT_THAT(message(make("Attention", 2), {q, q, q, Shape{3, 4}}), HasSubstr("does not broadcast"));
  const Shape heads{1, 2, 4, 5};
  EXPECT_THAT(message(make("Attention", 3), {heads, heads, heads}), HasSubstr("do not have 3 heads"));
  EXPECT_THAT(message(make("Attention", 2), {heads, Shape{1, 2, 4, 6}, heads}), HasSubstr("do not fit together"));
  EXPECT_THAT(message(make("Attention", 2), {heads, heads, Shape{1, 2, 4, 5, 1}}), HasSubstr("3 dimensions, or of 4"));
  Node node = make("Attention", 2);
  std::erase_if(node.attributes.edit(), [](const Attribute& attribute) { return attribute.name == "scale"; });
  EXPECT_THAT(message(node, {q, q, q}), HasSubstr("\"scale\""));
}

}  // namespace
}  // namespace tenon
