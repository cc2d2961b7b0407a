#include "graph/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

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

TEST(WriteModel, KeepsAttributesThatAreTypes) {
  Graph graph = small_graph();
  const ObjectTypeRef list = ObjectType::sequence(ObjectType::tensor(DataType::kInt64));
  graph.nodes[NodeId(0)].attributes.push_back({.name = "type", .kind = AttributeKind::kOther, .type = list});
  const Result<std::string> bytes = write_model(graph);
  ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
  const auto model = read_model_bytes(std::as_bytes(std::span(*bytes)), "");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const Attribute* read = model->graph.nodes[NodeId(0)].find("type");
  ASSERT_TRUE(read != nullptr && read->type != nullptr);
  EXPECT_EQ(read->type->to_string(), list->to_string());
}

// The writer keeps the model's metadata and the places of its initializers.
TEST(WriteModel, KeepsTheModelsOwnWords) {
  const ModelInfo info{.ir_version = 8,
                       .producer_name = "somebody",
                       .producer_version = "7",
                       .domain = "d",
                       .model_version = 5,
                       .has_model_version = true,
                       .doc_string = "of the model",
                       .metadata = {{"k", "v"}}};
  const GraphNotes notes{.doc_string = "of the graph"};
  const Graph graph = small_graph();
  std::string bytes = *write_model(graph, {.info = &info, .notes = &notes});
  append_metadata(bytes, "last", "");
  const auto model = read_model_bytes(std::as_bytes(std::span(bytes)), "");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->info.ir_version, 8);
  EXPECT_EQ(model->info.producer_version, "7");
  EXPECT_EQ(model->info.model_version, 5);
  EXPECT_EQ(model->info.doc_string, "of the model");
  EXPECT_EQ(model->notes.doc_string, "of the graph");
  EXPECT_EQ(model->info.metadata, (std::vector<std::pair<std::string, std::string>>{{"k", "v"}, {"last", ""}}));
}

TEST(WriteModel, NamesThePlacesOfInitializers) {
  const Graph graph = small_graph();
  const std::string bytes =
      *write_model(graph, {.place = [](const std::string& name, const ConstantRef&) {
                     return Result<std::optional<ExternalPlace>>(ExternalPlace{name + ".bin", 4, 12});
                   }});
  EXPECT_THAT(read_model_bytes(std::as_bytes(std::span(bytes)), ""),
              has_status(StatusCode::kInvalidArgument, HasSubstr("w.bin")));
  std::vector<std::byte> file(16);
  const float value = 2.5f;
  std::memcpy(file.data() + 8, &value, sizeof value);
  const auto model = read_model_bytes(std::as_bytes(std::span(bytes)), "", {}, {.files = {{"w.bin", file}}});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->graph.to_text(), graph.to_text());
  EXPECT_THAT(write_model(graph, {.place =
                                      [](const std::string&, const ConstantRef&) {
                                        return Result<std::optional<ExternalPlace>>(not_found("no room"));
                                      }}),
              has_status(StatusCode::kNotFound, HasSubstr("no room")));
}

TEST(WriteModel, ListsInitializersThatAreInputsToo) {
  Graph graph = small_graph();
  const GraphNotes notes{.overridable = {ValueId(1)}};
  const std::string bytes = *write_model(graph, {.notes = &notes});
  const auto model = read_model_bytes(std::as_bytes(std::span(bytes)), "");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  ASSERT_EQ(model->notes.overridable.size(), 1u);
  EXPECT_EQ(model->graph.value(model->notes.overridable[0]).name, "w");
}

}  // namespace
}  // namespace tenon
