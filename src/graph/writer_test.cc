#include "graph/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/testing.h"
#include "graph/reader.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Graph small_graph() {
  Graph graph;
  graph.name = "g";
  graph.opsets = {{"", 17}, {"com.example", 1}};
  Value x{.name = "x", .type = DataType::kFloat, .has_rank = true, .dims = {{-1, "n"}, {3, ""}}};
  Value y = x;
  y.name = "y";
  const ValueId in = graph.add_value(x);
  std::byte* data = nullptr;
  const ConstantRef weight = *make_constant(DataType::kFloat, Shape{3}, &data);
  reinterpret_cast<float*>(data)[1] = 2.5f;
  const ValueId w = graph.add_constant("w", weight);
  const ValueId out = graph.add_value(y);
  Node node;
  node.name = "mine";
  node.op_type = "Thing";
  node.domain = "com.example";
  node.inputs = {in, kNoValue, w};
  node.outputs = {out};
  node.set_int("i", -4);
  node.set_float("f", 0.5f);
  node.set_string("s", std::string("a\0b", 3));
  node.set_ints("is", {1, 2, 3});
  graph.nodes.push_back(node);
  graph.inputs = {in};
  graph.outputs = {out};
  return graph;
}

TEST(WriteModel, WhatIsWrittenReadsBackTheSame) {
  const Graph graph = small_graph();
  const Result<std::string> bytes = write_model(graph);
  ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
  const auto model = read_model_bytes(std::as_bytes(std::span(bytes->data(), bytes->size())), "");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->graph.to_text(), graph.to_text());
  ASSERT_EQ(model->graph.nodes.size(), 1u);
  EXPECT_EQ(model->graph.nodes[NodeId(0)].find("s")->s, std::string_view("a\0b", 3));
}

TEST(WriteModel, InternalOperatorsAreRefused) {
  Graph graph = small_graph();
  graph.nodes[NodeId(0)].domain = "tenon";
  EXPECT_THAT(write_model(graph), has_status(StatusCode::kUnsupported, HasSubstr("internal operator")));
}

TEST(WriteModel, BodiesThatCaptureAreRefused) {
  Graph graph = small_graph();
  const ValueId outer = graph.add_value(Value{.type = DataType::kFloat});
  graph.captures.emplace_back(outer, outer);
  EXPECT_THAT(write_model(graph), has_status(StatusCode::kInvalidArgument, HasSubstr("captures 1 values")));
}

}  // namespace
}  // namespace tenon
