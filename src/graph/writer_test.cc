#include "graph/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/testing.h"
#include "graph/model_writer.h"
#include "graph/reader.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace w = model_writer;

// A model as a compilation reads it.
Result<Model> read_for_writing(const std::string& bytes) {
  return read_model_bytes(std::as_bytes(std::span(bytes)), "", {}, {.for_writing = true});
}

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
  graph.nodes[NodeId(0)].attributes.edit().push_back({.name = "type", .kind = AttributeKind::kOther, .type = list});
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

// Documentation and metadata of nodes are somebody's notes on the model: exporters put the source's lines there.
TEST(WriteModel, KeepsTheNotesOfNodes) {
  const auto noted = [](const std::string& output) {
    return w::node({.op_type = "Neg",
                    .inputs = {"x"},
                    .outputs = {output},
                    .name = "of " + output,
                    .doc_string = "makes " + output,
                    .metadata = {{"line", output}, {"", ""}}});
  };
  const std::string body = w::graph({.nodes = {noted("z")}, .outputs = {w::float_info("z")}});
  const std::string bytes =
      w::model(w::graph({.nodes = {noted("y"), w::node({.op_type = "If",
                                                        .inputs = {"c"},
                                                        .outputs = {"r"},
                                                        .attributes = {w::graph_attribute("then_branch", body),
                                                                       w::graph_attribute("else_branch", body)}})},
                         .inputs = {w::float_info("x"), w::value_info("c", w::tensor_type(9, {}))},
                         .outputs = {w::float_info("y"), w::float_info("r")}}));
  const auto model = read_for_writing(bytes);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const auto again = read_for_writing(*write_model(model->graph));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  const PerNode<Node>& nodes = again->graph.nodes;
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[NodeId(1)].notes, nullptr);
  const Node& inner = nodes[NodeId(1)].find("else_branch")->graph->nodes[NodeId(0)];
  for (const auto& [node, output] : {std::pair(&nodes[NodeId(0)], "y"), std::pair(&inner, "z")}) {
    ASSERT_NE(node->notes, nullptr);
    EXPECT_THAT(*node->notes, HasSubstr(std::string("makes ") + output));
    EXPECT_THAT(*node->notes, HasSubstr("line"));
    EXPECT_THAT(noted(output), testing::EndsWith(*node->notes));
  }
  // Other readers do without them.
  EXPECT_EQ(read_model_bytes(std::as_bytes(std::span(bytes)), "")->graph.nodes[NodeId(0)].notes, nullptr);
}

// A Constant node is an initializer in what is written, and its notes are that tensor's: also in bodies of functions.
TEST(WriteModel, KeepsTheNotesOfTensorsAndConstantNodes) {
  const auto noted_tensor = [](const std::string& name) {
    return w::tensor(name, 1, {2}, [&](auto& to) {
      to.add_bytes(proto::TensorProto::kRawData, std::string(8, '\1'));
      if (!name.empty()) to.add_string(proto::TensorProto::kDocString, "tensor " + name);
    });
  };
  const auto constant = [&](const std::string& output, const std::string& tensor = "") {
    return w::node({.op_type = "Constant",
                    .outputs = {output},
                    .attributes = {w::tensor_attribute("value", noted_tensor(tensor))},
                    .doc_string = "node " + output,
                    .metadata = {{"line of", output}}});
  };
  const std::string body =
      w::graph({.nodes = {constant("k"), w::node({.op_type = "Add", .inputs = {"x", "k"}, .outputs = {"z"}})},
                .outputs = {w::float_info("z")}});
  const std::string function =
      w::function({.name = "F",
                   .domain = "f",
                   .inputs = {"a"},
                   .outputs = {"b"},
                   .nodes = {constant("l"), w::node({.op_type = "Add", .inputs = {"a", "l"}, .outputs = {"b"}})},
                   .opsets = {w::opset("", 17)}});
  const std::string bytes = w::model(
      w::graph({.nodes = {constant("c"), constant("d", "t"),
                          w::node({.op_type = "Sum", .inputs = {"x", "w", "c", "d"}, .outputs = {"y"}}),
                          w::node({.op_type = "If",
                                   .inputs = {"if"},
                                   .outputs = {"r"},
                                   .attributes = {w::graph_attribute("then_branch", body),
                                                  w::graph_attribute("else_branch", body)}}),
                          w::node({.op_type = "F", .inputs = {"x"}, .outputs = {"s"}, .name = "one", .domain = "f"}),
                          w::node({.op_type = "F", .inputs = {"s"}, .outputs = {"t"}, .name = "two", .domain = "f"})},
                .inputs = {w::float_info("x"), w::value_info("if", w::tensor_type(9, {}))},
                .outputs = {w::float_info("y"), w::float_info("r"), w::float_info("t")},
                .initializers = {noted_tensor("w")}}),
      {.opsets = {w::opset("", 17), w::opset("f", 1)}, .functions = {function}});
  const auto model = read_for_writing(bytes);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const auto again = read_for_writing(*write_model(model->graph, {.notes = &model->notes}));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  const auto notes_of = [&](const Graph& graph, std::string_view name) {
    for (const Value& value : graph.values)
      if (value.name == name && value.constant != nullptr) return std::string(again->notes.find_notes(value.constant));
    return std::string("no such constant");
  };
  EXPECT_THAT(notes_of(again->graph, "w"), AllOf(HasSubstr("tensor w"), Not(HasSubstr("node"))));
  EXPECT_THAT(notes_of(again->graph, "c"), AllOf(HasSubstr("node c"), HasSubstr("line of")));
  EXPECT_THAT(notes_of(again->graph, "d"), AllOf(HasSubstr("tensor t"), Not(HasSubstr("node")), HasSubstr("line of")));
  const std::string inlined = notes_of(again->graph, "two/l");
  EXPECT_THAT(inlined, HasSubstr("node l"));
  EXPECT_EQ(inlined.find("node l"), inlined.rfind("node l"));
  for (const Node& node : again->graph.nodes) {
    if (node.op_type != "If") continue;
    EXPECT_THAT(notes_of(*node.find("then_branch")->graph, "k"), HasSubstr("node k"));
  }
  // Other readers do without them.
  EXPECT_TRUE(read_model_bytes(std::as_bytes(std::span(bytes)), "")->notes.constants.empty());
}

std::string with_attributes(const w::Texts& attributes) {
  return w::model(w::graph({.nodes = {w::node({.op_type = "Thing",
                                               .inputs = {"x"},
                                               .outputs = {"y"},
                                               .attributes = attributes,
                                               .domain = "com.example"})},
                            .inputs = {w::float_info("x")},
                            .outputs = {w::float_info("y")}}),
                  {.opsets = {w::opset("", 17), w::opset("com.example", 1)}});
}

TEST(WriteModel, KeepsAttributesThatMeanNothingToTenon) {
  const std::string tensor = w::raw_tensor<float>("t", 1, {2}, {1, 2});
  const std::string own = w::graph({.nodes = {w::node({.op_type = "Add", .inputs = {"a", "t"}, .outputs = {"b"}})},
                                    .inputs = {w::float_info("a")},
                                    .outputs = {w::float_info("b")},
                                    .initializers = {tensor}});
  const w::Texts attributes = {w::tensors_attribute("tensors", {tensor, tensor}), w::graphs_attribute("graphs", {own}),
                               w::attribute("types", 14, [](auto& to) {
                                 to.add_message(proto::AttributeProto::kTypeProtos, w::tensor_type(1, {2}));
                               })};
  const std::string bytes = with_attributes(attributes);
  const auto model = read_for_writing(bytes);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const Result<std::string> written = write_model(model->graph);
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  for (const std::string& attribute : attributes) EXPECT_THAT(*written, HasSubstr(attribute));
  EXPECT_TRUE(read_for_writing(*written).ok());
  // Without a reader that keeps them they cannot be written.
  const auto read = read_model_bytes(std::as_bytes(std::span(bytes)), "");
  EXPECT_THAT(write_model(read->graph), has_status(StatusCode::kUnsupported, HasSubstr("\"tensors\"")));
}

// Values of the graph around them may have other names by now, or not be there.
TEST(WriteModel, ListsOfGraphsThatReadOthersValuesAreRefused) {
  const std::string reads = w::node({.op_type = "Neg", .inputs = {"x"}, .outputs = {"b"}});
  const std::string open = w::graph({.nodes = {reads}, .outputs = {w::float_info("b")}});
  const std::string nested = w::graph(
      {.nodes = {w::node({.op_type = "Other", .outputs = {"b"}, .attributes = {w::graph_attribute("g", open)}})},
       .outputs = {w::float_info("b")}});
  const std::string passes = w::graph({.nodes = {}, .outputs = {w::float_info("x")}});
  for (const std::string& graph : {open, nested, passes}) {
    const auto model = read_for_writing(with_attributes({w::graphs_attribute("graphs", {graph})}));
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_THAT(write_model(model->graph),
                has_status(StatusCode::kUnsupported, AllOf(HasSubstr("\"graphs\""), HasSubstr("reads \"x\" of"))));
  }
  const std::string around = w::graph(
      {.nodes = {w::node({.op_type = "Other", .outputs = {"b"}, .attributes = {w::graph_attribute("g", open)}})},
       .inputs = {w::float_info("x")},
       .outputs = {w::float_info("b")}});
  const auto model = read_for_writing(with_attributes({w::graphs_attribute("graphs", {around})}));
  EXPECT_TRUE(write_model(model->graph).ok());
}

// The attribute has the name that the function's body gives it.
TEST(WriteModel, AListThatAFunctionIsCalledWithHasTheBodysName) {
  const std::string tensor = w::raw_tensor<float>("t", 1, {2}, {1, 2});
  const std::string call = w::node({.op_type = "F",
                                    .inputs = {"x"},
                                    .outputs = {"y"},
                                    .attributes = {w::tensors_attribute("given", {tensor})},
                                    .domain = "f"});
  const std::string function =
      w::function({.name = "F",
                   .domain = "f",
                   .inputs = {"a"},
                   .outputs = {"b"},
                   .nodes = {w::node({.op_type = "Thing",
                                      .inputs = {"a"},
                                      .outputs = {"b"},
                                      .attributes = {w::reference_attribute("list", 9, "given")},
                                      .domain = "com.example"})},
                   .attributes = {"given"},
                   .opsets = {w::opset("com.example", 1)}});
  const std::string bytes =
      w::model(w::graph({.nodes = {call}, .inputs = {w::float_info("x")}, .outputs = {w::float_info("y")}}),
               {.opsets = {w::opset("", 17), w::opset("f", 1), w::opset("com.example", 1)}, .functions = {function}});
  const auto model = read_for_writing(bytes);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_THAT(*write_model(model->graph), HasSubstr(w::tensors_attribute("list", {tensor})));
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
