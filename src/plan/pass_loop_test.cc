#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/passes.h"

namespace tenon {
namespace {

ValueId add(Graph& graph, const std::string& name, DataType type, const Shape& shape) {
  Value value;
  value.name = name;
  value.type = type;
  value.set_shape(shape);
  return graph.add_value(std::move(value));
}

ValueId add_node(Graph& graph, const char* op_type, std::vector<ValueId> inputs, const Shape& shape) {
  const ValueId output =
      add(graph, std::string(op_type) + std::to_string(graph.values.size()), DataType::kFloat, shape);
  graph.nodes.push_back(
      Node{.op_type = op_type, .since_version = 13, .inputs = std::move(inputs), .outputs = {output}});
  return output;
}

// A Loop over three carried values: a weight that the body hands on, a runtime value that it hands on through an
// Identity, and a sum that changes. The body multiplies the first two in every iteration.
struct InvariantLoop {
  Graph graph;
  ValueId trips, weight, factor, sum, kept;

  InvariantLoop() {
    graph.opsets = {{"", 17}};
    trips = add(graph, "trips", DataType::kInt64, Shape{});
    factor = add(graph, "factor", DataType::kFloat, Shape{2, 3});
    sum = add(graph, "sum", DataType::kFloat, Shape{2, 4});
    graph.inputs = {trips, factor, sum};
    std::byte* data = nullptr;
    weight = graph.add_constant("weight", *make_constant(DataType::kFloat, Shape{3, 4}, &data));

    auto body = std::make_shared<Graph>();
    body->opsets = graph.opsets;
    const ValueId iteration = add(*body, "i", DataType::kInt64, Shape{});
    const ValueId going = add(*body, "going", DataType::kBool, Shape{});
    const ValueId w = add(*body, "w", DataType::kFloat, Shape{3, 4});
    const ValueId f = add(*body, "f", DataType::kFloat, Shape{2, 3});
    const ValueId s = add(*body, "s", DataType::kFloat, Shape{2, 4});
    body->inputs = {iteration, going, w, f, s};
    const ValueId handed_on = add_node(*body, "Identity", {f}, Shape{2, 3});
    const ValueId product = add_node(*body, "MatMul", {handed_on, w}, Shape{2, 4});
    body->outputs = {going, w, handed_on, add_node(*body, "Add", {s, product}, Shape{2, 4})};

    Node loop{.op_type = "Loop", .since_version = 16, .inputs = {trips, kNoValue, weight, factor, sum}};
    kept = add(graph, "kept", DataType::kFloat, Shape{2, 3});
    loop.outputs = {add(graph, "weight_after", DataType::kFloat, Shape{3, 4}), kept,
                    add(graph, "sum_after", DataType::kFloat, Shape{2, 4})};
    Attribute attribute{.name = "body", .kind = AttributeKind::kGraph};
    attribute.graph = std::move(body);
    loop.attributes.edit().push_back(std::move(attribute));
    graph.outputs = {kept, loop.outputs[2]};
    graph.nodes.push_back(std::move(loop));
  }
};

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.op_type);
  return names;
}

TEST(LoopInvariants, WhatNoIterationChangesLeavesTheLoop) {
  InvariantLoop made;
  ASSERT_TRUE(pass_loop_invariants(made.graph, {}).ok());
  // The output that is a value from before the loop is a copy of it, and the product is made once.
  EXPECT_THAT(operators(made.graph), testing::ElementsAre("Identity", "MatMul", "Identity", "Loop"));
  const Node& loop = made.graph.nodes.back();
  EXPECT_EQ(loop.inputs, (std::vector<ValueId>{made.trips, kNoValue, made.sum}));
  EXPECT_EQ(loop.outputs.size(), 1u);
  const Graph& body = *loop.attributes[0].graph;
  EXPECT_THAT(operators(body), testing::ElementsAre("Add"));
  EXPECT_EQ(body.inputs.size(), 3u);
  EXPECT_EQ(body.outputs.size(), 2u);
}

TEST(LoopInvariants, ABodyThatChangesEverythingStaysAsItIs) {
  InvariantLoop made;
  Graph& body = *made.graph.nodes.back().attributes[0].graph;
  // Another value is handed on, so that neither the product nor its operands are the same in each iteration.
  body.outputs[1] = add_node(body, "Neg", {body.inputs[2]}, Shape{3, 4});
  body.outputs[2] = add_node(body, "Neg", {body.inputs[3]}, Shape{2, 3});
  const std::string before = made.graph.to_text();
  ASSERT_TRUE(pass_loop_invariants(made.graph, {}).ok());
  EXPECT_EQ(made.graph.to_text(), before);
  EXPECT_EQ(made.graph.nodes.back().inputs.size(), 5u);
}

}  // namespace
}  // namespace tenon
