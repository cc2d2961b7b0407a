#include "ops/attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Node make(std::string op_type, int version, std::string domain = "") {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.since_version = version;
  return node;
}

TEST(Attributes, StatedValuesWinOverDefaults) {
  Node node = make("HardSigmoid", 22);
  node.set_float("alpha", 0.25f);
  const Attributes attributes(node);
  EXPECT_EQ(attributes.number("alpha"), 0.25f);
  EXPECT_EQ(attributes.number("beta"), 0.5f);
  EXPECT_TRUE(attributes.has("alpha"));
  EXPECT_FALSE(attributes.has("beta"));
}

TEST(Attributes, DefaultsAreThoseOfTheVersionInForce) {
  EXPECT_EQ(Attributes(make("Softmax", 11)).integer("axis"), 1);
  EXPECT_EQ(Attributes(make("Softmax", 13)).integer("axis"), -1);
  EXPECT_EQ(Attributes(make("Clip", 6)).number("min"), std::numeric_limits<float>::lowest());
}

TEST(Attributes, AnAttributeOfALaterVersionHasItsDefault) {
  // Resize 13 has no antialias: it never does what the attribute asks for.
  EXPECT_FALSE(Attributes(make("Resize", 13)).flag("antialias"));
  EXPECT_EQ(Attributes(make("ScatterND", 11)).text("reduction"), "none");
}

// A model of an opset that has no DFT yet is refused after its shapes were inferred; the newest version has no "axis".
TEST(Attributes, AnOperatorThatTheOpsetLacksHasTheDefaultsOfAnyVersion) {
  EXPECT_EQ(Attributes(make("DFT", 0)).integer("axis"), 1);
}

TEST(Attributes, WhatHasNoDefaultIsAbsent) {
  const Node node = make("Split", 18);
  EXPECT_EQ(Attributes(node).find_integer("num_outputs"), std::nullopt);
  EXPECT_THAT(Attributes(make("Transpose", 13)).integers("perm"), IsEmpty());
  Node turned = make("Transpose", 13);
  turned.set_ints("perm", {1, 0});
  EXPECT_THAT(Attributes(turned).integers("perm"), ElementsAre(1, 0));
}

TEST(Attributes, AnotherKindCountsAsLeftOut) {
  Node node = make("Concat", 13);
  node.set_string("axis", "1");
  EXPECT_EQ(Attributes(node).find_integer("axis"), std::nullopt);
}

TEST(Attributes, InternalOperatorsHaveTheirOwnAndThoseOfTheirOnnxOperator) {
  const Node conv = make("Conv", 1, "tenon");
  EXPECT_EQ(Attributes(conv).integer("group"), 1);
  EXPECT_EQ(Attributes(conv).text("activation"), "none");
  EXPECT_EQ(Attributes(conv).find_number("activation_alpha"), std::nullopt);
  EXPECT_EQ(Attributes(make("LayerNorm", 1, "tenon")).integer("axis"), -1);
  EXPECT_EQ(Attributes(make("MatMul", 1, "tenon")).number("alpha"), 1.0f);
  EXPECT_FALSE(find_schema_attribute(make("MatMul", 1, "tenon"), "group"));
}

TEST(AttributesDeathTest, AnAttributeThatNoVersionHasIsADefectOfTheCaller) {
  const Node node = make("Relu", 14);
  EXPECT_DEATH(Attributes(node).integer("axis"), "default_value");
}

}  // namespace
}  // namespace tenon
