#include "graph/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct OneNode {
  Graph graph;
  Node node;

  OneNode(std::string op_type, int opset) {
    graph.opsets = {{"", opset}};
    node.name = "n";
    node.op_type = std::move(op_type);
  }
  OneNode& input(DataType type) {
    Value value;
    value.name = format("in{}", node.inputs.size());
    value.type = type;
    node.inputs.push_back(graph.add_value(std::move(value)));
    return *this;
  }
  OneNode& no_input() {
    node.inputs.push_back(kNoValue);
    return *this;
  }
  OneNode& output() {
    node.outputs.push_back(graph.add_value(Value{.name = "out"}));
    return *this;
  }
  Status check() {
    const auto schema = find_schema(node.domain, node.op_type, graph.opset(node.domain));
    EXPECT_TRUE(schema);
    return check_node(graph, node, *schema);
  }
  Status check_types() {
    node.since_version = find_schema(node.domain, node.op_type, graph.opset(node.domain))->since_version;
    graph.nodes.push_back(node);
    return check_element_types(graph);
  }
};

TEST(FindSchema, GivesTheNewestVersionAtOrBelowTheOpset) {
  EXPECT_EQ(find_schema("", "Softmax", 7)->since_version, 1);
  EXPECT_EQ(find_schema("", "Softmax", 12)->since_version, 11);
  EXPECT_EQ(find_schema("ai.onnx", "Softmax", 28)->since_version, 13);
  EXPECT_FALSE(find_schema("", "Gelu", 19));
  EXPECT_EQ(find_schema("", "Gelu", 20)->since_version, 20);
  EXPECT_FALSE(find_schema("", "softmax", 20));
  EXPECT_EQ(find_schema("com.microsoft", "Gelu", 20)->since_version, 1);
  EXPECT_EQ(find_schema("com.microsoft", "MultiHeadAttention", 1)->max_inputs, 10);
  EXPECT_EQ(find_schema("", "SimplifiedLayerNormalization", 17)->min_inputs, 2);
  EXPECT_EQ(find_schema("ai.onnx.ml", "Scaler", 3)->since_version, 1);
}

TEST(FindSchema, HasTheWholeRow) {
  const auto conv = find_schema("", "Conv", 21);
  ASSERT_TRUE(conv);
  EXPECT_EQ(conv->min_inputs, 2);
  EXPECT_EQ(conv->max_inputs, 3);
  EXPECT_EQ(conv->input(2)->option, 1);
  EXPECT_FALSE(conv->input(3));
  EXPECT_EQ(conv->find_attribute("strides")->kind, 7);
  EXPECT_FALSE(conv->find_attribute("stride"));  // no prefix
  std::vector<std::string_view> attributes;
  for (const SchemaAttribute& attribute : conv->attributes) attributes.push_back(attribute.name);
  EXPECT_THAT(attributes, ElementsAre("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"));
  EXPECT_NE(conv->find_constraint("T")->tensor_types >> static_cast<int>(DataType::kFloat16) & 1, 0u);
  const auto concat = find_schema("", "Concat", 21);
  EXPECT_EQ(concat->max_inputs, kUnbounded);
  EXPECT_EQ(concat->input(40)->option, 2);
  EXPECT_TRUE(concat->find_attribute("axis")->required);
  EXPECT_TRUE(find_schema("", "Upsample", 10)->deprecated);
  EXPECT_TRUE(find_schema("", "SequenceAt", 11)->find_constraint("S")->allows_other);
}

TEST(NewestOpset, IsZeroForAnUnknownDomain) {
  EXPECT_EQ(newest_opset(""), 28);
  EXPECT_EQ(newest_opset("ai.onnx"), 28);
  EXPECT_EQ(newest_opset("ai.onnx.ml"), 5);
  EXPECT_EQ(newest_opset("com.microsoft"), 1);
  EXPECT_EQ(newest_opset("com.example"), 0);
}

TEST(CloseOperatorNames, AreOrderedByDistance) {
  EXPECT_EQ(close_operator_names("", "Convv").front(), "Conv");
  EXPECT_EQ(close_operator_names("", "softmax").front(), "Softmax");
  EXPECT_LE(close_operator_names("", "Reduce").size(), 3u);
  EXPECT_THAT(close_operator_names("", "FooBarBaz"), ElementsAre());
  EXPECT_THAT(close_operator_names("", std::string(1 << 20, 'a')), ElementsAre());
}

TEST(UnknownOperator, SaysWhatIsKnown) {
  OneNode typo("Covn", 17);
  EXPECT_EQ(unknown_operator(typo.graph, typo.node).code(), StatusCode::kUnsupported);
  EXPECT_THAT(unknown_operator(typo.graph, typo.node).message(),
              testing::AllOf(HasSubstr("Covn \"n\""), HasSubstr("domain \"ai.onnx\" at opset 17"), HasSubstr("Conv")));
  OneNode early("Gelu", 17);
  EXPECT_THAT(unknown_operator(early.graph, early.node).message(), HasSubstr("exists from opset 20 on"));
  OneNode foreign("Gelu", 17);
  foreign.node.domain = "com.example";
  foreign.graph.opsets.emplace_back("com.example", 1);
  EXPECT_THAT(unknown_operator(foreign.graph, foreign.node).message(),
              testing::AllOf(HasSubstr("domain \"com.example\" at opset 1"), HasSubstr("ai.onnx up to opset 28")));
}

TEST(CheckNode, CountsInputsAndOutputs) {
  EXPECT_THAT(OneNode("Conv", 11).input(DataType::kFloat).output().check().message(),
              HasSubstr("has 1 inputs, and Conv@11 has 2 to 3"));
  EXPECT_THAT(OneNode("Relu", 14).input(DataType::kFloat).output().output().check().message(), HasSubstr("2 outputs"));
  EXPECT_THAT(OneNode("Concat", 13).output().check().message(), HasSubstr("1 or more"));
}

TEST(CheckNode, RefusesALeftOutInputThatIsNotOptional) {
  EXPECT_THAT(OneNode("Add", 14).no_input().input(DataType::kFloat).output().check().message(),
              HasSubstr("leaves out its input 0 (\"A\")"));
  EXPECT_THAT(OneNode("Sum", 13).input(DataType::kFloat).no_input().output().check().message(),
              HasSubstr("leaves out its input 1 (\"data_0\")"));
  EXPECT_TRUE(OneNode("Clip", 13).input(DataType::kFloat).no_input().input(DataType::kFloat).output().check().ok());
}

TEST(CheckNode, RefusesAttributesThatAreMissingUnknownOrOfAnotherKind) {
  OneNode concat("Concat", 13);
  concat.input(DataType::kFloat).output();
  EXPECT_THAT(concat.check().message(), HasSubstr("lacks the attribute \"axis\""));
  concat.node.set_float("axis", 1);
  EXPECT_THAT(concat.check().message(), HasSubstr("is of kind float, not int"));
  concat.node.set_int("axis", 1);
  EXPECT_TRUE(concat.check().ok());
  concat.node.set_int("axes", 1);
  EXPECT_THAT(concat.check().message(), HasSubstr("\"axes\""));
}

TEST(CheckNode, RefusesTypesThatTheSchemaDoesNotAllow) {
  const Status status = OneNode("Conv", 11).input(DataType::kInt32).input(DataType::kFloat).output().check();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("is the int32 tensor \"in0\"; allowed are float32, float16, float64"));
  EXPECT_TRUE(OneNode("Conv", 11).input(DataType::kUndefined).input(DataType::kFloat).output().check().ok());
}

TEST(CheckElementTypes, ParametersOfOneConstraintHaveOneType) {
  const Status status = OneNode("Add", 14).input(DataType::kInt32).input(DataType::kFloat).output().check_types();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("\"in0\" (\"A\") and \"in1\" (\"B\") of node Add \"n\" differ in type: int32 and "
                        "float32; Add@14 has one (T) for both"));
  EXPECT_FALSE(OneNode("Max", 13).input(DataType::kFloat).input(DataType::kDouble).output().check_types().ok());
  EXPECT_FALSE(OneNode("Relu", 14).input(DataType::kBool).output().check_types().ok());
  OneNode out("Relu", 14);
  out.input(DataType::kFloat).output();
  out.graph.value(out.node.outputs[0]).type = DataType::kDouble;
  EXPECT_FALSE(out.check_types().ok());
}

TEST(CheckElementTypes, OthersMayDiffer) {
  EXPECT_TRUE(OneNode("Pow", 15).input(DataType::kFloat).input(DataType::kInt32).output().check_types().ok());
  EXPECT_TRUE(OneNode("Add", 14).input(DataType::kUndefined).input(DataType::kFloat).output().check_types().ok());
  OneNode loop("Loop", 16);  // what it carries is a list of any types
  loop.input(DataType::kInt64).input(DataType::kBool).input(DataType::kFloat).input(DataType::kInt32).output();
  EXPECT_TRUE(loop.check_types().ok());
}

TEST(CheckNode, RefusesDeprecatedOperators) {
  EXPECT_THAT(OneNode("Upsample", 10).check().message(), HasSubstr("deprecated since opset 10"));
}

}  // namespace
}  // namespace tenon
