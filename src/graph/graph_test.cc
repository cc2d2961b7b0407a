#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/unused_values.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ValueId add(Graph& graph, const char* name) {
  Value value;
  value.name = name;
  value.type = DataType::kFloat;
  value.set_shape({1, 8});
  return graph.add_value(std::move(value));
}

Node make_node(const char* name, const char* type, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node;
  node.name = name;
  node.op_type = type;
  node.since_version = 13;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

std::vector<std::string> node_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

TEST(NodeLabel, ANodeWithoutANameIsKnownByItsFirstOutputThatHasOne) {
  Graph graph;
  const ValueId omitted = add(graph, ""), y = add(graph, "y");
  EXPECT_EQ(make_node("n", "LSTM", {}, {omitted, y}).label(graph), "LSTM \"n\"");
  EXPECT_EQ(make_node("", "LSTM", {}, {omitted, y}).label(graph), "LSTM (output \"y\")");
  EXPECT_EQ(make_node("", "LSTM", {}, {kNoValue, y}).label(graph), "LSTM (output \"y\")");
  EXPECT_EQ(make_node("", "LSTM", {}, {omitted, kNoValue}).label(graph), "LSTM");
}

TEST(SortTopologically, NamesTheNodesOfACycleAndNoOthers) {
  Graph graph;
  const ValueId x = add(graph, "x"), a = add(graph, "a"), b = add(graph, "b"), c = add(graph, "c");
  graph.name = "g";
  graph.inputs = {x};
  graph.outputs = {c};
  graph.nodes = {make_node("after", "Relu", {b}, {c}), make_node("first", "Add", {x, b}, {a}),
                 make_node("", "Relu", {a}, {b})};
  const Status status = graph.sort_topologically();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("cycle"));
  EXPECT_THAT(status.message(), HasSubstr("Add \"first\""));
  EXPECT_THAT(status.message(), HasSubstr("Relu (output \"b\")"));
  EXPECT_THAT(status.message(), Not(HasSubstr("after")));
}

TEST(SortTopologically, ANodeThatReadsItselfIsACycle) {
  Graph graph;
  const ValueId a = add(graph, "a");
  graph.nodes = {make_node("self", "Relu", {a}, {a})};
  EXPECT_THAT(graph.sort_topologically().message(), HasSubstr("Relu \"self\""));
}

TEST(SortTopologically, MovesOnlyWhatMustMove) {
  Graph graph;
  const ValueId x = add(graph, "x"), a = add(graph, "a"), b = add(graph, "b"), c = add(graph, "c");
  graph.nodes = {make_node("c", "Relu", {b}, {c}), make_node("a", "Relu", {x}, {a}), make_node("b", "Relu", {a}, {b})};
  ASSERT_TRUE(graph.sort_topologically().ok());
  EXPECT_THAT(node_names(graph), ElementsAre("a", "b", "c"));
}

// A capture is a read like any other: the producer of a captured value must come first.
TEST(SortTopologically, CountsCapturesOfSubgraphs) {
  Graph graph;
  const ValueId condition = add(graph, "condition"), a = add(graph, "a"), y = add(graph, "y"), x = add(graph, "x");
  auto branch = std::make_shared<Graph>();
  const ValueId inner = add(*branch, "a");
  branch->outputs = {inner};
  branch->captures = {{a, inner}};
  Node choice = make_node("if", "If", {condition}, {y});
  choice.attributes.edit().push_back(Attribute{.name = "then_branch", .kind = AttributeKind::kGraph, .graph = branch});
  graph.outputs = {y};
  graph.nodes = {choice, make_node("a", "Relu", {x}, {a})};
  EXPECT_EQ(graph.use_counts()[a], 1);
  ASSERT_TRUE(graph.sort_topologically().ok());
  EXPECT_THAT(node_names(graph), ElementsAre("a", "if"));
  graph.remove_dead_nodes();
  EXPECT_THAT(node_names(graph), ElementsAre("a", "if"));
}

TEST(RemoveDeadNodes, KeepsWhatAnOutputNeeds) {
  Graph graph;
  const ValueId x = add(graph, "x"), a = add(graph, "a"), b = add(graph, "b"), c = add(graph, "c");
  graph.outputs = {b};
  graph.nodes = {make_node("dead", "Relu", {x}, {c}), make_node("a", "Relu", {x}, {a}),
                 make_node("b", "Add", {a, kNoValue}, {kNoValue, b}),
                 make_node("dead2", "Relu", {c}, {add(graph, "d")})};
  graph.remove_dead_nodes();
  EXPECT_THAT(node_names(graph), ElementsAre("a", "b"));
  EXPECT_THAT(graph.producers(), ElementsAre(kNoNode, NodeId(0), NodeId(1), kNoNode, kNoNode));
  EXPECT_THAT(graph.use_counts(), ElementsAre(1, 1, 1, 0, 0));
}

// Plans of many sizes would keep what was folded away for each.
TEST(DropUnusedValues, NumbersTheOthersAnew) {
  Graph graph;
  std::byte* data = nullptr;
  const ConstantRef weight = make_constant(DataType::kFloat, {2048}, &data).value();
  graph.add_constant("w", weight);
  const ValueId x = add(graph, "x");
  add(graph, "gone");
  const ValueId y = add(graph, "y");
  graph.inputs = {x};
  graph.outputs = {y};
  graph.nodes = {make_node("y", "Add", {x, kNoValue}, {y})};
  EXPECT_THAT(drop_unused_values(graph), ElementsAre(kNoValue, ValueId(0), kNoValue, ValueId(1)));
  EXPECT_EQ(weight.use_count(), 1);
  EXPECT_EQ(graph.values.size(), 2u);
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.value(graph.nodes[NodeId(0)].outputs[0]).name, "y");
  EXPECT_THAT(graph.nodes[NodeId(0)].inputs, ElementsAre(ValueId(0), kNoValue));
}

// Whoever looks for a wrong value sees what passes have computed (tenon/node_values.h).
TEST(DropUnusedValues, KeepsSmallConstantsThatHaveNames) {
  Graph graph;
  graph.add_constant("size", make_int64_constant(std::vector<int64_t>{1, 2}));
  graph.add_constant("", make_int64_constant(std::vector<int64_t>{3}));
  const ValueId x = add(graph, "x");
  graph.inputs = graph.outputs = {x};
  EXPECT_THAT(drop_unused_values(graph), ElementsAre(ValueId(0), kNoValue, ValueId(1)));
  EXPECT_NE(graph.value(ValueId(0)).constant, nullptr);
  EXPECT_THAT(drop_unused_values(graph, FoldedValues::kGo), ElementsAre(kNoValue, ValueId(0)));
}

TEST(AttributeList, CopiesShareAttributesUntilOneChanges) {
  Node node;
  node.set_int("axis", 1);
  node.set_string("mode", "linear");
  Node copy = node;
  EXPECT_EQ(copy.attributes.begin(), node.attributes.begin());
  copy.set_int("axis", 2);
  EXPECT_EQ(node.find("axis")->i, 1);
  EXPECT_EQ(copy.find("axis")->i, 2);
  EXPECT_EQ(copy.find("mode")->s, "linear");
  const Attribute* const own = copy.attributes.begin();
  copy.set_int("axis", 3);
  EXPECT_EQ(copy.attributes.begin(), own) << "nobody shares them now";
}

// The list of a copy is its own before its bodies are looked at: a body that two lists hold counts two owners.
TEST(AttributeList, EditedBodiesCountTheirOwners) {
  Node node;
  node.attributes.edit().push_back({.name = "body", .kind = AttributeKind::kGraph, .graph = std::make_shared<Graph>()});
  Node copy = node;
  EXPECT_EQ(node.attributes[0].graph.use_count(), 1);
  ASSERT_EQ(copy.attributes.edit_bodies().size(), 1u);
  EXPECT_EQ(node.attributes[0].graph.use_count(), 2);
  Node plain;
  plain.set_int("axis", 1);
  const Node other = plain;
  EXPECT_TRUE(plain.attributes.edit_bodies().empty());
  EXPECT_EQ(plain.attributes.begin(), other.attributes.begin());
}

TEST(DropUnusedValues, KeepsTheIdsThatABodyCaptures) {
  Graph graph;
  const ValueId unused = add(graph, "unused"), x = add(graph, "x"), y = add(graph, "y");
  auto body = std::make_shared<Graph>();
  body->captures = {{x, add(*body, "inner")}};
  Node branch = make_node("if", "If", {}, {y});
  branch.attributes = {Attribute{.name = "then_branch", .kind = AttributeKind::kGraph, .graph = body}};
  graph.nodes = {branch};
  graph.outputs = {y};
  EXPECT_THAT(drop_unused_values(graph), ElementsAre(unused, x, y));
  EXPECT_EQ(graph.value(unused).name, "");
  EXPECT_EQ(graph.value(x).name, "x");
}

TEST(ClearUnusedValues, KeepsIdsAndGivesTheSmallConstants) {
  Graph graph;
  std::byte* data = nullptr;
  const ConstantRef weight = make_constant(DataType::kFloat, {2048}, &data).value();
  graph.add_constant("w", weight);
  graph.add_constant("size", make_int64_constant(std::vector<int64_t>{1, 2}));
  const ValueId read = graph.add_constant("read", make_int64_constant(std::vector<int64_t>{3}));
  const ValueId x = add(graph, "x"), y = add(graph, "y");
  graph.inputs = {x};
  graph.outputs = {y};
  graph.nodes = {make_node("y", "Add", {x, read}, {y})};
  const std::vector<Value> shown = clear_unused_values(graph);
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].name, "size");
  EXPECT_EQ(weight.use_count(), 1);
  EXPECT_EQ(graph.value(ValueId(0)).name, "");
  EXPECT_EQ(graph.value(ValueId(1)).constant, nullptr);
  EXPECT_EQ(graph.value(read).name, "read");
  EXPECT_EQ(graph.value(x).name, "x");
}

TEST(ClearUnusedValues, OfABodyKeepsTheSmallConstants) {
  Graph graph;
  graph.add_constant("size", make_int64_constant(std::vector<int64_t>{1, 2}));
  const ValueId gone = add(graph, "gone"), x = add(graph, "x");
  graph.inputs = graph.outputs = {x};
  clear_unused_but_shown_values(graph);
  EXPECT_NE(graph.value(ValueId(0)).constant, nullptr);
  EXPECT_EQ(graph.value(gone).name, "");
  EXPECT_EQ(graph.value(x).name, "x");
}

TEST(MakeConstant, RefusesWhatHasNoSizeOrTooLargeASize) {
  std::byte* data = nullptr;
  EXPECT_EQ(make_constant(DataType::kUndefined, {1}, &data).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(make_constant(DataType::kFloat, {INT64_MAX, 2}, &data).status().code(), StatusCode::kInvalidArgument);
}

TEST(MakeConstant, IsZeroedAndAligned) {
  std::byte* data = nullptr;
  auto constant = make_constant(DataType::kFloat, {3, 5}, &data);
  ASSERT_TRUE(constant.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  EXPECT_EQ((*constant)->size_bytes, 60u);
  for (float value : (*constant)->as<float>()) EXPECT_EQ(value, 0.0f);
  auto empty = make_constant(DataType::kFloat, {0}, &data);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)->data, nullptr);
}

TEST(MakeInt64Constant, IsAVectorOrAScalar) {
  const std::vector<int64_t> values = {4, 5};
  EXPECT_THAT(make_int64_constant(values)->as<int64_t>(), ElementsAre(4, 5));
  EXPECT_EQ(make_int64_constant(values)->shape, (Shape{2}));
  EXPECT_EQ(make_int64_constant(std::vector<int64_t>{7}, true)->shape, Shape{});
}

TEST(Node, SettingAnAttributeAgainReplacesItsKindToo) {
  Node node;
  node.set_string("axis", "1");
  node.set_int("axis", 2);
  EXPECT_EQ(node.find("axis")->kind, AttributeKind::kInt);
  EXPECT_EQ(node.find("axis")->i, 2);
  node.set_ints("pads", {1, 2});
  EXPECT_THAT(node.ints("pads"), ElementsAre(1, 2));
  node.set_float("alpha", 0.5f);
  EXPECT_EQ(node.find("alpha")->f, 0.5f);
  EXPECT_EQ(node.attributes.size(), 3u);
}

TEST(Value, KnowsItsShapeOnlyWhenEveryDimensionIsANumber) {
  Value value;
  value.type = DataType::kFloat;
  EXPECT_FALSE(value.fully_known());
  EXPECT_EQ(value.type_text(), "float32[...]");
  value.has_rank = true;
  value.dims = {Dim{.symbol = "N"}, Dim{.value = 3}, Dim{}};
  EXPECT_FALSE(value.fully_known());
  EXPECT_EQ(value.type_text(), "float32[N,3,?]");
  value.set_shape({2, 3});
  EXPECT_EQ(value.shape(), (Shape{2, 3}));
}

TEST(GraphText, HasOneLineANodeWithSortedAttributes) {
  Graph graph;
  graph.name = "g";
  graph.opsets = {{"", 17}};
  const ValueId x = add(graph, "x"), y = add(graph, "y"), z = add(graph, "x"), unnamed = add(graph, "");
  std::byte* data = nullptr;
  const ValueId w = graph.add_constant("w", *make_constant(DataType::kFloat, {8, 8}, &data));
  graph.inputs = {x};
  graph.outputs = {unnamed};
  Node conv = make_node("conv", "Conv", {x, w, kNoValue}, {y});
  conv.set_ints("strides", {1, 1});
  conv.set_string("auto_pad", "NOT\"SET\n");
  Node fused = make_node("", "Activation", {y}, {z});
  fused.domain = "tenon";
  fused.since_version = 1;
  graph.value(z).layout = Layout::kBlocked8;
  graph.nodes = {conv, fused, make_node("", "Relu", {z}, {unnamed})};
  EXPECT_EQ(graph.to_text(),
            "graph \"g\"(%x#0:float32[1,8]) ai.onnx@17\n"
            "%w:float32[8,8]=const\n"
            "%y:float32[1,8] = Conv@13(%x#0, %w, ) {auto_pad=\"NOT\\\"SET\\n\", strides=[1,1]}\n"
            "%x#2:float32[1,8]@blocked8 = tenon.Activation@1(%y)\n"
            "%#3:float32[1,8] = Relu@13(%x#2)\n"
            "return %#3:float32[1,8]\n");
}

}  // namespace
}  // namespace tenon
