// Graphs: names, order, subgraphs, functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/model_writer.h"
#include "graph/reader.h"

namespace tenon {
namespace {

using namespace model_writer;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kOpsets = {opset("", 17), opset("local", 1)};

Result<Model> read(const GraphText& text, const Texts& functions = {}, const ReaderLimits& limits = {}) {
  const std::string data = model(graph(text), {.opsets = kOpsets, .functions = functions});
  return read_model_bytes(bytes(data), "", limits);
}

void expect_error(const Result<Model>& model, StatusCode code, const ::testing::Matcher<std::string>& message) {
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), code) << model.status().message();
  EXPECT_THAT(model.status().message(), message);
}

std::string relu(const std::string& in, const std::string& out, const std::string& name = "") {
  return node({.op_type = "Relu", .inputs = {in}, .outputs = {out}, .name = name});
}
std::string call(const std::string& function_name, const Texts& inputs, const Texts& outputs,
                 const Texts& attributes = {}, const std::string& name = "") {
  return node({.op_type = function_name,
               .inputs = inputs,
               .outputs = outputs,
               .attributes = attributes,
               .name = name,
               .domain = "local"});
}
GraphText xy(Texts nodes) {
  return {.nodes = std::move(nodes), .inputs = {float_info("x")}, .outputs = {float_info("y")}};
}

// If(c) with these branches, reading "x" and making "y".
GraphText if_graph(const std::string& then_branch, const std::string& else_branch, Texts before = {}) {
  GraphText text = xy(std::move(before));
  text.inputs.push_back(value_info("c", tensor_type(9, {})));
  text.nodes.push_back(
      node({.op_type = "If",
            .inputs = {"c"},
            .outputs = {"y"},
            .attributes = {graph_attribute("then_branch", then_branch), graph_attribute("else_branch", else_branch)},
            .name = "choice"}));
  return text;
}
std::string branch(Texts nodes, const std::string& output, Texts initializers = {}) {
  return graph({.nodes = std::move(nodes),
                .inputs = {},
                .outputs = {float_info(output)},
                .initializers = std::move(initializers)},
               "branch");
}

TEST(ReadGraph, DuplicateNamesAreRefused) {
  GraphText text = xy({relu("x", "y"), relu("x", "y")});
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("\"y\""));
  text = xy({relu("x", "x")});
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("\"x\""));
  text = xy({relu("x", "y")});
  text.inputs.push_back(float_info("x"));
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("two inputs \"x\""));
  text = xy({relu("x", "y")});
  text.initializers = {raw_tensor<float>("w", 1, {1}, {1}), raw_tensor<float>("w", 1, {2}, {1, 2})};
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("two initializers \"w\" that differ"));
  text = xy({relu("x", "y")});
  text.initializers = {raw_tensor<float>("y", 1, {1}, {1})};
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("\"y\""));
}

// onnxruntime takes such models, and the later one counts.
TEST(ReadGraph, TheLaterOfTwoInitializersOfOneNameCounts) {
  GraphText text = xy({relu("w", "y")});
  text.initializers = {raw_tensor<float>("w", 1, {1}, {1}), raw_tensor<float>("w", 1, {1}, {7})};
  const auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ConstantRef& w = model->graph.value(model->graph.nodes[NodeId(0)].inputs[0]).constant;
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->as<float>()[0], 7);
}

std::string constant_node(const std::string& name, const std::vector<float>& values) {
  const std::string value = raw_tensor<float>("", 1, {static_cast<int64_t>(values.size())}, values);
  return node({.op_type = "Constant", .outputs = {name}, .attributes = {tensor_attribute("value", value)}});
}

// onnxruntime takes such models: it reads Constant nodes as initializers that follow the listed ones.
TEST(ReadGraph, AConstantNodeReplacesTheInitializerOfItsName) {
  GraphText text = xy({constant_node("w", {7}), relu("w", "y")});
  text.initializers = {raw_tensor<float>("w", 1, {1}, {1})};
  const auto value_read = [&]() -> float {
    const auto model = read(text);
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return 0;
    const ConstantRef& w = model->graph.value(model->graph.nodes[NodeId(0)].inputs[0]).constant;
    return w == nullptr ? 0 : w->as<float>()[0];
  };
  EXPECT_EQ(value_read(), 7);
  text.nodes = {relu("w", "y"), constant_node("w", {7}), constant_node("w", {8})};
  EXPECT_EQ(value_read(), 8);
  text.initializers.clear();
  EXPECT_EQ(value_read(), 8);
}

TEST(ReadGraph, AConstantNodeWithTheNameOfAnInputIsItsDefault) {
  GraphText text = xy({constant_node("w", {7}), node({.op_type = "Add", .inputs = {"x", "w"}, .outputs = {"y"}})});
  text.inputs.push_back(float_info("w", {int64_t{1}}));
  const auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.inputs.size(), 1u);
  EXPECT_EQ(model->notes.overridable.size(), 1u);
  EXPECT_THAT(model->graph.value(model->graph.nodes[NodeId(0)].inputs[1]).constant->as<float>(), ElementsAre(7));

  const std::string data = ::tenon::model_writer::model(graph(text), {.opsets = kOpsets});
  const auto open = read_model_bytes(bytes(data), "", {}, {.initializers_as_inputs = true});
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(open->graph.inputs.size(), 2u);
  EXPECT_EQ(open->graph.value(open->graph.inputs[1]).constant, nullptr);
}

TEST(ReadGraph, AConstantNodeThatContradictsItsNameIsRefused) {
  GraphText text = xy({constant_node("w", {7}), relu("w", "y")});
  text.initializers = {raw_tensor<float>("w", 1, {2}, {1, 2})};
  expect_error(read(text), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("two constants \"w\" that differ"), HasSubstr("[2]"), HasSubstr("[1]")));
  text.initializers.clear();
  text.inputs.push_back(value_info("w", tensor_type(6, {int64_t{1}})));
  expect_error(read(text), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"w\""), HasSubstr("int32"), HasSubstr("float32")));
  // The result of another node is no constant, and bodies keep to single assignment.
  expect_error(read(xy({relu("x", "w"), constant_node("w", {7}), relu("w", "y")})), StatusCode::kInvalidArgument,
               HasSubstr("\"w\""));
  const std::string other = branch({relu("x", "e")}, "e");
  const std::string twice =
      branch({constant_node("w", {7}), relu("w", "t")}, "t", {raw_tensor<float>("w", 1, {1}, {1})});
  expect_error(read(if_graph(twice, other)), StatusCode::kInvalidArgument, HasSubstr("\"w\""));
}

// onnxruntime takes such models; each listing is an output with memory of its own.
TEST(ReadGraph, AnOutputThatIsListedTwiceIsTwoValues) {
  GraphText text = xy({relu("x", "y")});
  text.outputs.push_back(float_info("y"));
  const auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Graph& graph = model->graph;
  ASSERT_EQ(graph.outputs.size(), 2u);
  EXPECT_NE(graph.outputs[0], graph.outputs[1]);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  EXPECT_EQ(graph.value(graph.outputs[1]).name, "y_1");
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[NodeId(1)].op_type, "Identity");
  EXPECT_EQ(graph.nodes[NodeId(1)].inputs[0], graph.outputs[0]);
  EXPECT_EQ(graph.nodes[NodeId(1)].outputs[0], graph.outputs[1]);
}

// The time grows with the number of listings, not with its cube.
TEST(ReadGraph, AnOutputMayBeListedManyTimes) {
  GraphText text = xy({relu("x", "y"), relu("x", "y_2")});
  for (int i = 0; i < 20000; ++i) text.outputs.push_back(float_info("y"));
  const auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::set<std::string> names;
  for (ValueId id : model->graph.outputs) names.insert(model->graph.value(id).name);
  EXPECT_EQ(names.size(), 20001u);
  EXPECT_FALSE(names.contains("y_2"));  // a node's output
}

TEST(ReadGraph, AnInputThatNobodyMakesNamesItsReader) {
  expect_error(read(xy({relu("ghost", "y", "r")})), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Relu \"r\""), HasSubstr("\"ghost\"")));
  expect_error(read(xy({relu("x", "z")})), StatusCode::kInvalidArgument, HasSubstr("Output \"y\""));
}

TEST(ReadGraph, ACycleNamesItsNodes) {
  expect_error(read(xy({relu("b", "a", "first"), relu("a", "b", "second"), relu("x", "y", "other")})),
               StatusCode::kInvalidArgument,
               AllOf(HasSubstr("cycle"), HasSubstr("\"first\""), HasSubstr("\"second\""), Not(HasSubstr("\"other\""))));
}

TEST(ReadGraph, NodesAreSorted) {
  auto model = read(xy({relu("a", "y", "last"), relu("x", "a", "first")}));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.nodes[NodeId(0)].name, "first");
}

TEST(ReadGraph, InputsWithInitializersAreConstants) {
  GraphText text = xy({node({.op_type = "Add", .inputs = {"x", "w"}, .outputs = {"y"}})});
  text.inputs.push_back(float_info("w", {int64_t{1}}));
  text.initializers = {raw_tensor<float>("w", 1, {1}, {4})};
  auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.inputs.size(), 1u);
  EXPECT_THAT(model->graph.value(model->graph.nodes[NodeId(0)].inputs[1]).constant->as<float>(), ElementsAre(4));
  text.initializers = {raw_tensor<int32_t>("w", 6, {1}, {4})};
  expect_error(read(text), StatusCode::kInvalidArgument, AllOf(HasSubstr("float32"), HasSubstr("int32")));
}

TEST(ReadGraph, SchemasAreChecked) {
  expect_error(read(xy({node({.op_type = "Relu", .inputs = {"x", "x"}, .outputs = {"y"}})})),
               StatusCode::kInvalidArgument, HasSubstr("2 inputs"));
  expect_error(
      read(xy({node({.op_type = "Relu", .inputs = {"x"}, .outputs = {"y"}, .attributes = {int_attribute("k", 1)}})})),
      StatusCode::kInvalidArgument, HasSubstr("\"k\""));
  const std::string twice = node({.op_type = "Concat",
                                  .inputs = {"x"},
                                  .outputs = {"y"},
                                  .attributes = {int_attribute("axis", 0), int_attribute("axis", 1)}});
  expect_error(read(xy({twice})), StatusCode::kInvalidArgument, HasSubstr("two attributes \"axis\""));
}

// Kernels write what is not optional, named or not.
TEST(ReadGraph, OutputsWithoutANameAreThereUnlessOptional) {
  GraphText text = xy({node({.op_type = "LayerNormalization", .inputs = {"x", "x"}, .outputs = {"", "", "y"}})});
  auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Node& norm = model->graph.nodes[NodeId(0)];
  EXPECT_NE(norm.outputs[0], kNoValue);
  EXPECT_EQ(norm.outputs[1], kNoValue);
}

TEST(ReadGraph, InputsNeedAnElementType) {
  GraphText text = xy({relu("x", "y")});
  text.inputs = {value_info("x", "")};
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("no element type"));
  text.inputs = {float_info("x", {int64_t{-5}})};
  expect_error(read(text), StatusCode::kInvalidArgument, HasSubstr("-5"));
  text.inputs = {float_info("x", std::vector<DimText>(13, int64_t{1}))};
  expect_error(read(text), StatusCode::kUnsupported, HasSubstr("12 dimensions"));
}

TEST(ReadGraph, ConstantNodesBecomeConstants) {
  const auto value_of = [](const std::string& attribute) -> Result<ConstantRef> {
    GraphText text = xy({relu("x", "y"), node({.op_type = "Constant", .outputs = {"k"}, .attributes = {attribute}})});
    text.outputs.push_back(value_info("k", ""));
    TENON_TRY_ASSIGN(const Model model, read(text));
    EXPECT_EQ(model.graph.nodes.size(), 1u);
    return model.graph.value(model.graph.outputs[1]).constant;
  };
  EXPECT_THAT((*value_of(float_attribute("value_float", 2.5f)))->as<float>(), ElementsAre(2.5f));
  EXPECT_EQ((*value_of(int_attribute("value_int", -3)))->shape, Shape{});
  EXPECT_THAT((*value_of(ints_attribute("value_ints", {1, 2})))->as<int64_t>(), ElementsAre(1, 2));
  EXPECT_THAT((*value_of(floats_attribute("value_floats", {1, 2})))->as<float>(), ElementsAre(1, 2));
  EXPECT_THAT((*value_of(string_attribute("value_string", "s")))->strings, ElementsAre("s"));
  EXPECT_THAT((*value_of(strings_attribute("value_strings", {"a", "b"})))->strings, ElementsAre("a", "b"));
  EXPECT_THAT((*value_of(tensor_attribute("value", raw_tensor<float>("", 1, {1}, {9}))))->as<float>(), ElementsAre(9));
  const std::string sparse =
      sparse_tensor(raw_tensor<float>("", 1, {2}, {3, 4}), raw_tensor<int64_t>("", 7, {2}, {0, 2}), {3});
  EXPECT_THAT((*value_of(attribute("sparse_value", 11,
                                   [&](auto& to) { to.add_message(proto::AttributeProto::kSparseTensor, sparse); })))
                  ->as<float>(),
              ElementsAre(3, 0, 4));
  EXPECT_THAT(value_of(int_attribute("value_float", 1)).status().message(), HasSubstr("value_float"));
}

TEST(ReadSubgraph, CapturesThroughEveryLevel) {
  const std::string inner = graph_attribute("then_branch", branch({relu("a", "deep")}, "deep"));
  const std::string middle =
      branch({node({.op_type = "If",
                    .inputs = {"c"},
                    .outputs = {"m"},
                    .attributes = {inner, graph_attribute("else_branch", branch({relu("w", "e")}, "e"))}})},
             "m");
  GraphText text = if_graph(middle, branch({relu("x", "other")}, "other"), {relu("x", "a")});
  text.initializers = {raw_tensor<float>("w", 1, {2}, {1, 2})};
  auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Graph& root = model->graph;
  const Graph& outer = *root.nodes[NodeId(1)].find("then_branch")->graph;
  const Graph& deep = *outer.nodes[NodeId(0)].find("then_branch")->graph;
  ASSERT_EQ(deep.captures.size(), 1u);
  EXPECT_EQ(outer.value(deep.captures[0].first).name, "a");
  EXPECT_EQ(deep.value(deep.captures[0].second).name, "a");
  // Two captures: the condition, and "a" on its way down. A constant is shared instead of captured.
  EXPECT_EQ(outer.captures.size(), 2u);
  for (const auto& [from, to] : outer.captures) EXPECT_EQ(root.value(from).name, outer.value(to).name);
  EXPECT_THAT(outer.nodes[NodeId(0)].find("else_branch")->graph->captures, IsEmpty());
  EXPECT_EQ(deep.opset(""), 17);
}

TEST(ReadSubgraph, CapturesWhatALaterNodeMakes) {
  GraphText text = if_graph(branch({relu("late", "t")}, "t"), branch({relu("x", "e")}, "e"));
  text.nodes.push_back(relu("x", "late", "late"));
  auto model = read(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.nodes[NodeId(0)].name, "late");
}

TEST(ReadSubgraph, MayNotHideAnOuterValueWithANodesOutput) {
  expect_error(
      read(if_graph(branch({relu("x", "a"), relu("a", "t")}, "t"), branch({relu("x", "e")}, "e"), {relu("x", "a")})),
      StatusCode::kInvalidArgument, AllOf(HasSubstr("\"a\""), HasSubstr("hides"), HasSubstr("If \"choice\"")));
  // Siblings, initializers and the node's own outputs hide nothing that could be read.
  EXPECT_TRUE(read(if_graph(branch({relu("x", "t")}, "t"), branch({relu("x", "t")}, "t"))).ok());
  EXPECT_TRUE(read(if_graph(branch({relu("x", "y")}, "y"), branch({relu("x", "e")}, "e"))).ok());
  EXPECT_TRUE(read(if_graph(branch({relu("a", "t")}, "t", {raw_tensor<float>("a", 1, {2}, {1, 2})}),
                            branch({relu("x", "e")}, "e"), {relu("x", "a")}))
                  .ok());
}

TEST(ReadSubgraph, MayNotReturnAnOuterValueOrReadAnUnknownOne) {
  expect_error(read(if_graph(branch({relu("x", "t")}, "x"), branch({relu("x", "e")}, "e"))),
               StatusCode::kInvalidArgument, HasSubstr("enclosing graph"));
  expect_error(read(if_graph(branch({relu("ghost", "t")}, "t"), branch({relu("x", "e")}, "e"))),
               StatusCode::kInvalidArgument, AllOf(HasSubstr("ghost"), HasSubstr("then_branch")));
}

// `levels` times If in If, written from the outside in: fields come in any order, so that only lengths must be known.
std::string nested_branches(int levels) {
  const std::string innermost = branch({relu("x", "t")}, "t");
  const std::string end = graph_attribute("else_branch", branch({relu("x", "e")}, "e"));
  std::vector<std::string> heads;
  size_t length = innermost.size();
  const auto wrap = [&](std::string fields, uint32_t field) {
    fields.push_back(static_cast<char>(proto::bytes(field)));
    protozero::write_varint(std::back_inserter(fields), length);
    length += fields.size();
    heads.push_back(std::move(fields));
  };
  for (int i = 1; i < levels; ++i) {
    const std::string out = i + 1 < levels ? format("y{}", i) : "t";
    wrap(attribute("then_branch", 5, [](auto&) {}), proto::AttributeProto::kG);
    wrap(node({.op_type = "If", .inputs = {"c"}, .outputs = {out}, .attributes = {end}}), proto::NodeProto::kAttribute);
    wrap(graph({.nodes = {}, .inputs = {}, .outputs = {float_info(out)}}), proto::GraphProto::kNode);
  }
  std::string text;
  text.reserve(length);
  for (size_t i = heads.size(); i-- > 0;) text += heads[i];
  return text + innermost;
}

// A reader that recursed without a bound would overflow its stack here.
TEST(ReadSubgraph, TenThousandLevelsAreRefused) {
  const auto nested = [](int levels) { return read(if_graph(nested_branches(levels), branch({relu("x", "e")}, "e"))); };
  EXPECT_TRUE(nested(64).ok()) << nested(64).status().message();
  expect_error(nested(65), StatusCode::kResourceExhausted, HasSubstr("64"));
  expect_error(nested(10'000), StatusCode::kResourceExhausted, HasSubstr("64"));
}

const std::string kScale = function({.name = "Scale",
                                     .domain = "local",
                                     .inputs = {"in", "bias"},
                                     .outputs = {"out", "extra"},
                                     .nodes = {node({.op_type = "Elu",
                                                     .inputs = {"in"},
                                                     .outputs = {"h"},
                                                     .attributes = {reference_attribute("alpha", 1, "a")},
                                                     .name = "elu"}),
                                               node({.op_type = "Relu", .inputs = {"h"}, .outputs = {"out"}}),
                                               node({.op_type = "Neg", .inputs = {"h"}, .outputs = {"extra"}})},
                                     .attributes = {"unused"},
                                     .defaults = {float_attribute("a", 0.25f)}});

TEST(ReadFunction, IsInlinedWithUniqueNames) {
  GraphText text =
      xy({call("Scale", {"x"}, {"Scale/h"}), call("Scale", {"Scale/h"}, {"y", "z"}, {float_attribute("a", 2)}, "s")});
  auto model = read(text, {kScale});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.to_text(),
            "graph \"g\"(%x:float32[2]) ai.onnx@17 local@1\n"
            "%Scale/h_2:undefined[...] = Elu@6(%x) {alpha=0.25}\n"
            "%Scale/h:undefined[...] = Relu@14(%Scale/h_2)\n"
            "%Scale/extra:undefined[...] = Neg@13(%Scale/h_2)\n"
            "%s/h:undefined[...] = Elu@6(%Scale/h) {alpha=2}\n"
            "%y:float32[2] = Relu@14(%s/h)\n"
            "%z:undefined[...] = Neg@13(%s/h)\n"
            "return %y:float32[2]\n");
  EXPECT_EQ(model->graph.nodes[NodeId(3)].name, "s/elu");
}

TEST(ReadFunction, UsesItsOwnOpsets) {
  const std::string old = function({.name = "Old",
                                    .domain = "local",
                                    .inputs = {"in"},
                                    .outputs = {"out"},
                                    .nodes = {node({.op_type = "Softmax", .inputs = {"in"}, .outputs = {"out"}})},
                                    .opsets = {opset("", 11)}});
  auto model =
      read(xy({call("Old", {"x"}, {"a"}), node({.op_type = "Softmax", .inputs = {"a"}, .outputs = {"y"}})}), {old});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.nodes[NodeId(0)].since_version, 11);
  EXPECT_EQ(model->graph.nodes[NodeId(1)].since_version, 13);
  const std::string none = function({.name = "None",
                                     .domain = "local",
                                     .inputs = {"in"},
                                     .outputs = {"out"},
                                     .nodes = {relu("in", "out")},
                                     .opsets = {opset("com.example", 1)}});
  expect_error(read(xy({call("None", {"x"}, {"y"})}), {none}), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("no opset"), HasSubstr("local.None")));
}

TEST(ReadFunction, IsFoundByItsOverload) {
  const auto overload = [](const std::string& name, const std::string& op_type) {
    return function({.name = "F",
                     .domain = "local",
                     .inputs = {"in"},
                     .outputs = {"out"},
                     .nodes = {node({.op_type = op_type, .inputs = {"in"}, .outputs = {"out"}})},
                     .overload = name});
  };
  const std::string use =
      node({.op_type = "F", .inputs = {"x"}, .outputs = {"y"}, .domain = "local", .overload = "two"});
  auto model = read(xy({use}), {overload("one", "Relu"), overload("two", "Neg")});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.nodes[NodeId(0)].op_type, "Neg");
  expect_error(read(xy({use}), {overload("two", "Relu"), overload("two", "Neg")}), StatusCode::kInvalidArgument,
               HasSubstr("two functions"));
}

TEST(ReadFunction, MayNotCallItself) {
  const auto calls = [](const std::string& name, const std::string& callee) {
    return function({.name = name,
                     .domain = "local",
                     .inputs = {"in"},
                     .outputs = {"out"},
                     .nodes = {call(callee, {"in"}, {"out"})},
                     .opsets = {opset("", 17), opset("local", 1)}});
  };
  expect_error(read(xy({call("A", {"x"}, {"y"})}), {calls("A", "A")}), StatusCode::kInvalidArgument,
               HasSubstr("calls itself"));
  expect_error(read(xy({call("A", {"x"}, {"y"})}), {calls("A", "B"), calls("B", "A")}), StatusCode::kInvalidArgument,
               HasSubstr("calls itself"));
}

// 2^60 nodes from a file of some kilobytes.
TEST(ReadFunction, DoublingAtEveryLevelIsRefused) {
  Texts functions;
  for (int i = 0; i < 60; ++i) {
    const std::string next = format("F{}", i + 1);
    functions.push_back(function({.name = format("F{}", i),
                                  .domain = "local",
                                  .inputs = {"in"},
                                  .outputs = {"out"},
                                  .nodes = {call(next, {"in"}, {"h"}), call(next, {"h"}, {"out"})},
                                  .opsets = {opset("", 17), opset("local", 1)}}));
  }
  functions.push_back(
      function({.name = "F60", .domain = "local", .inputs = {"in"}, .outputs = {"out"}, .nodes = {relu("in", "out")}}));
  expect_error(read(xy({call("F0", {"x"}, {"y"})}), functions), StatusCode::kResourceExhausted, HasSubstr("inlined"));
}

TEST(ReadFunction, NestedTooDeeplyIsRefused) {
  Texts functions;
  for (int i = 0; i < 200; ++i) {
    functions.push_back(function({.name = format("F{}", i),
                                  .domain = "local",
                                  .inputs = {"in"},
                                  .outputs = {"out"},
                                  .nodes = {call(format("F{}", i + 1), {"in"}, {"out"})},
                                  .opsets = {opset("local", 1)}}));
  }
  expect_error(read(xy({call("F0", {"x"}, {"y"})}), functions), StatusCode::kResourceExhausted, HasSubstr("64"));
}

TEST(ReadFunction, SubgraphsOfItsBodyCaptureAndReferToItsAttributes) {
  const std::string then_branch = branch({node({.op_type = "Elu",
                                                .inputs = {"in"},
                                                .outputs = {"t"},
                                                .attributes = {reference_attribute("alpha", 1, "a")}})},
                                         "t");
  const std::string choose = function({.name = "Choose",
                                       .domain = "local",
                                       .inputs = {"flag", "in"},
                                       .outputs = {"out"},
                                       .nodes = {node({.op_type = "If",
                                                       .inputs = {"flag"},
                                                       .outputs = {"out"},
                                                       .attributes = {graph_attribute("then_branch", then_branch),
                                                                      reference_attribute("else_branch", 5, "g")}})},
                                       .attributes = {"a", "g"}});
  // The graph that the call passes reads a name of the caller.
  GraphText text = xy({relu("x", "outside"),
                       call("Choose", {"c", "x"}, {"y"},
                            {float_attribute("a", 3), graph_attribute("g", branch({relu("outside", "e")}, "e"))})});
  text.inputs.push_back(value_info("c", tensor_type(9, {})));
  auto model = read(text, {choose});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Node& choice = model->graph.nodes[NodeId(1)];
  EXPECT_EQ(choice.op_type, "If");
  EXPECT_EQ(choice.find("then_branch")->graph->nodes[NodeId(0)].find("alpha")->f, 3);
  const Graph& else_branch = *choice.find("else_branch")->graph;
  ASSERT_EQ(else_branch.captures.size(), 1u);
  EXPECT_EQ(model->graph.value(else_branch.captures[0].first).name, "outside");
}

TEST(ReadFunction, LeftOutInputsAreAbsentAndPassedThroughOnesAreCopied) {
  const std::string clip =
      function({.name = "Clamp",
                .domain = "local",
                .inputs = {"in", "low", "high"},
                .outputs = {"out", "in"},
                .nodes = {node({.op_type = "Clip", .inputs = {"in", "low", "high"}, .outputs = {"out"}})}});
  auto model = read(xy({call("Clamp", {"x"}, {"y", "same"})}), {clip});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->graph.nodes[NodeId(0)].inputs, ElementsAre(model->graph.inputs[0], kNoValue, kNoValue));
  EXPECT_EQ(model->graph.nodes[NodeId(1)].op_type, "Identity");
}

TEST(ReadFunction, MistakesInCallsAndBodiesAreRefused) {
  expect_error(read(xy({call("Scale", {"x", "x", "x"}, {"y"})}), {kScale}), StatusCode::kInvalidArgument,
               HasSubstr("3 inputs"));
  const auto body = [](Texts nodes) {
    return function({.name = "F", .domain = "local", .inputs = {"in"}, .outputs = {"out"}, .nodes = std::move(nodes)});
  };
  const GraphText use = xy({call("F", {"x"}, {"y"})});
  expect_error(read(use, {body({relu("in", "other")})}), StatusCode::kInvalidArgument, HasSubstr("output \"out\""));
  expect_error(read(use, {body({relu("x", "out")})}), StatusCode::kInvalidArgument, HasSubstr("of its function"));
  expect_error(read(use, {body({relu("in", "in")})}), StatusCode::kInvalidArgument, HasSubstr("\"in\""));
  expect_error(read(use, {body({relu("in", "out"), relu("in", "out")})}), StatusCode::kInvalidArgument,
               HasSubstr("\"out\""));
  const std::string bad_reference = node(
      {.op_type = "Elu", .inputs = {"in"}, .outputs = {"out"}, .attributes = {reference_attribute("alpha", 1, "b")}});
  expect_error(read(use, {body({bad_reference})}), StatusCode::kInvalidArgument, HasSubstr("\"b\""));
  const std::string outside =
      node({.op_type = "Elu", .inputs = {"x"}, .outputs = {"y"}, .attributes = {reference_attribute("alpha", 1, "b")}});
  expect_error(read(xy({outside})), StatusCode::kInvalidArgument, HasSubstr("of a function"));
  expect_error(read(xy({call("Scale", {"x"}, {"y"}, {int_attribute("a", 2)})}), {kScale}), StatusCode::kInvalidArgument,
               HasSubstr("another kind"));
}

}  // namespace
}  // namespace tenon
