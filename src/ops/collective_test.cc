#include "ops/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "graph/schema.h"
#include "ops/shape_inference.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node collective(std::string op_type) {
  Node node;
  node.domain = std::string(kContribDomain);
  node.op_type = std::move(op_type);
  node.since_version = 1;
  node.inputs = {ValueId(0)};
  node.outputs = {ValueId(1)};
  return node;
}

// The output's dimensions after inference.
Result<std::vector<Dim>> inferred(const Node& node, std::vector<Dim> dims) {
  Graph graph;
  graph.opsets = {{"", 17}, {std::string(kContribDomain), 1}};
  graph.inputs = {graph.add_value({.name = "x", .type = DataType::kInt64, .has_rank = true, .dims = std::move(dims)})};
  graph.outputs = {graph.add_value({.name = "y"})};
  graph.nodes.push_back(node);
  TENON_TRY(infer_shapes(graph));
  const Value& y = graph.value(graph.outputs[0]);
  EXPECT_EQ(y.type, DataType::kInt64);
  EXPECT_TRUE(y.has_rank);
  return y.dims;
}

Dim number(int64_t value) { return {.value = value, .symbol = {}}; }

// Also without the attribute, as ONNX Runtime's schema has it.
TEST(AllGather, MakesItsAxisLonger) {
  Node node = collective("AllGather");
  node.set_int("group_size", 3);
  const auto second = inferred(node, {number(2), number(5)});
  ASSERT_THAT(second, is_ok());
  EXPECT_EQ((*second)[0].value, 2);
  EXPECT_EQ((*second)[1].value, 15);
  node.set_int("axis", -2);
  EXPECT_EQ(inferred(node, {number(2), number(5)}).value()[0].value, 6);
  EXPECT_FALSE(inferred(node, {{.value = -1, .symbol = "N"}, number(5)}).value()[0].known());
  EXPECT_TRUE(inferred(node, {{.value = -1, .symbol = "N"}, number(5)}).value()[0].symbol.empty());
  EXPECT_EQ(read_gathered(read_collective(node).value(), {2, 5}).value().output, (Shape{6, 5}));
}

TEST(AllGather, RefusesWhatHasNoSuchAxis) {
  Node node = collective("AllGather");
  EXPECT_THAT(inferred(node, {number(4)}), has_status(StatusCode::kInvalidArgument, HasSubstr("Axis 1")));
  EXPECT_THAT(inferred(node, {}), has_status(StatusCode::kInvalidArgument, HasSubstr("scalar")));
  node.set_int("axis", 0);
  node.set_int("group_size", INT64_MAX);
  EXPECT_THAT(inferred(node, {number(4)}), has_status(StatusCode::kInvalidArgument, HasSubstr("larger")));
  node.set_int("group_size", 0);
  EXPECT_THAT(inferred(node, {number(4)}), has_status(StatusCode::kInvalidArgument, HasSubstr("group_size\" (0)")));
}

TEST(Collectives, OthersKeepTheShape) {
  for (const char* name : {"AllReduce", "AllToAll"}) {
    const auto dims = inferred(collective(name), {{.value = -1, .symbol = "N"}, number(4)});
    ASSERT_THAT(dims, is_ok());
    EXPECT_EQ((*dims)[0].symbol, "N");
    EXPECT_EQ((*dims)[1].value, 4);
  }
  Node node = collective("AllToAll");
  node.set_int("group_size", 2);
  EXPECT_EQ(read_collective(node).value().group_size, 2);
  EXPECT_EQ(read_collective(collective("AllReduce")).value().group_size, 0);
  Graph graph;
  graph.add_value({.name = "x"});
  graph.add_value({.name = "y"});
  graph.nodes = {collective("AllReduce"), node};
  EXPECT_THAT(give_ranks(graph, 2), is_ok());
  EXPECT_EQ(read_collective(graph.nodes[NodeId(0)]).value().group_size, 2);
  EXPECT_THAT(give_ranks(graph, 3),
              has_status(StatusCode::kInvalidArgument, HasSubstr("has group_size 2, and there are 3 ranks")));
  node.inputs.push_back(ValueId(0));
  EXPECT_THAT(read_collective(node), has_status(StatusCode::kInvalidArgument, HasSubstr("2 inputs and 1 outputs")));
}

}  // namespace
}  // namespace tenon
