#include "ep/host/graph_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "ep/host/ep_support_info.h"
#include "ep/host/node_order.h"
#include "graph/model_writer.h"
#include "ops/shape_inference.h"

namespace tenon::abi {
namespace {

namespace w = model_writer;
using testing::ElementsAre;
using testing::HasSubstr;

Model read(const std::string& bytes) {
  auto model = read_model_bytes(std::as_bytes(std::span(bytes.data(), bytes.size())), "");
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(infer_shapes(model->graph).ok());
  return *std::move(model);
}

// x -> Add(c) -> Relu, LeakyRelu -> Add -> y; "a" is an output too.
Model chain() {
  return read(w::model(w::graph(
      {.nodes = {w::node({.op_type = "Add", .inputs = {"x", "c"}, .outputs = {"a"}, .name = "add"}),
                 w::node({.op_type = "Relu", .inputs = {"a"}, .outputs = {"r"}, .name = "relu"}),
                 w::node({.op_type = "LeakyRelu", .inputs = {"a"}, .outputs = {"l"}, .name = "leaky"}),
                 w::node({.op_type = "Mul", .inputs = {"l", "l"}, .outputs = {"m"}, .name = "square"}),
                 w::node({.op_type = "Add", .inputs = {"r", "m"}, .outputs = {"y"}, .name = "sum"})},
       .inputs = {w::float_info("x", {"n", int64_t{2}})},
       .outputs = {w::float_info("y", {"n", int64_t{2}}), w::float_info("a", {"n", int64_t{2}})},
       .initializers = {w::raw_tensor<float>("c", 1, {2}, {1, 2}), w::raw_tensor<float>("unused", 1, {1}, {9})}})));
}

std::unique_ptr<OrtGraph> view_of(const Graph& graph) {
  auto view = make_graph_view(graph, std::make_shared<GraphOrigin>());
  EXPECT_TRUE(view.ok()) << view.status().to_string();
  return *std::move(view);
}

std::vector<std::string> names(const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const OrtValueInfo* value : values) texts.push_back(value != nullptr ? value->name : "(absent)");
  return texts;
}
std::vector<std::string> names(const std::vector<std::unique_ptr<OrtNode>>& nodes) {
  std::vector<std::string> texts;
  texts.reserve(nodes.size());
  for (const auto& node : nodes) texts.push_back(node->name);
  return texts;
}

const OrtNode* find(const OrtGraph& graph, std::string_view name) {
  for (const auto& node : graph.nodes)
    if (node->name == name) return node.get();
  ADD_FAILURE() << "no node " << name;
  return nullptr;
}

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = status->message;
  release_status(status);
  return text;
}

TEST(GraphView, ListsNodesInTheReferencesOrder) {
  const Model model = chain();
  // Depth first from the end, the latest producer first: seen in ONNX Runtime 1.31.1 with tests/abi/probe.
  EXPECT_THAT(names(view_of(model.graph)->nodes), ElementsAre("add", "leaky", "square", "relu", "sum"));
}

TEST(GraphView, LeavesOutAnInitializerThatNobodyReads) {
  const Model model = chain();
  EXPECT_THAT(names(view_of(model.graph)->initializers), ElementsAre("c"));
}

TEST(GraphView, GivesAttributesTheDefaultsOfTheSchema) {
  const Model model = chain();
  const auto view = view_of(model.graph);
  const OrtOpAttr* alpha = nullptr;
  ASSERT_EQ(ort_api::Node_GetAttributeByName(find(*view, "leaky"), "alpha", &alpha), nullptr);
  float value = 0;
  size_t size = 0;
  ASSERT_EQ(ort_api::ReadOpAttr(alpha, ORT_OP_ATTR_FLOAT, &value, sizeof(value), &size), nullptr);
  EXPECT_FLOAT_EQ(value, 0.01f);
}

TEST(GraphView, CountsEachUseOfAValue) {
  const Model model = chain();
  const auto view = view_of(model.graph);
  const OrtValueInfo* l = find(*view, "leaky")->outputs[0];
  ASSERT_EQ(l->uses.size(), 2u);  // square reads it twice
  EXPECT_EQ(l->uses[0].node, l->uses[1].node);
  EXPECT_EQ(l->producer, find(*view, "leaky"));
}

TEST(GraphView, ShowsAConstantWhereItLies) {
  const Model model = chain();
  const auto view = view_of(model.graph);
  const OrtValue* value = nullptr;
  ASSERT_EQ(ort_api::ValueInfo_GetInitializerValue(view->initializers[0], &value), nullptr);
  EXPECT_EQ(value->tensor.data(), model.graph.value(view->initializers[0]->core).constant->data);
  EXPECT_TRUE(value->tensor.read_only());
}

TEST(GraphView, TellsDimensionsWithTheirNames) {
  const Model model = chain();
  const auto view = view_of(model.graph);
  const OrtTypeInfo* type = nullptr;
  ASSERT_EQ(ort_api::GetValueInfoTypeInfo(view->inputs[0], &type), nullptr);
  EXPECT_THAT(type->tensor.dims, ElementsAre(-1, 2));
  EXPECT_THAT(type->tensor.dim_names, ElementsAre("n", ""));
}

TEST(GraphView, OfAPartHasTheBoundaryOfThatPart) {
  const Model model = chain();
  const std::vector<NodeId> nodes = {NodeId(1), NodeId(2), NodeId(3)};
  auto part = make_part_view(model.graph, nodes, nullptr);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ((*part)->name, "sub_graph");
  EXPECT_THAT(names((*part)->inputs), ElementsAre("a"));
  EXPECT_THAT(names((*part)->outputs), ElementsAre("r", "m"));
  EXPECT_EQ(find(**part, "square")->id, 3u);
  EXPECT_EQ(find(**part, "leaky")->inputs[0]->producer, nullptr);  // "add" is outside
}

TEST(GraphView, OfARegionHasConstantsAsOptionalInputs) {
  Model model = chain();
  const ValueId c = model.graph.nodes[NodeId(0)].inputs[1];
  model.graph.inputs.push_back(c);
  const PerNode<NodeId> ids = {NodeId(10), NodeId(11), NodeId(12), NodeId(13), NodeId(14)};
  auto region = make_region_view(model.graph, "Ep_1_0", nullptr, ids);
  ASSERT_TRUE(region.ok());
  EXPECT_THAT(names((*region)->inputs), ElementsAre("x", "c"));
  bool required = true, optional = false;
  ASSERT_EQ(ort_api::ValueInfo_IsRequiredGraphInput((*region)->inputs[1], &required), nullptr);
  ASSERT_EQ(ort_api::ValueInfo_IsOptionalGraphInput((*region)->inputs[1], &optional), nullptr);
  EXPECT_FALSE(required);
  EXPECT_TRUE(optional);
  EXPECT_EQ(find(**region, "sum")->id, 14u);
  const auto node = make_region_node(**region, "Ep_Ep_1_0_0", "Ep", 20);
  EXPECT_EQ(node->op_type, "Ep_1_0");
  EXPECT_EQ(node->domain, "Ep");
  EXPECT_THAT(names(node->inputs), ElementsAre("x", "c"));
  EXPECT_THAT(names(node->outputs), ElementsAre("y", "a"));
}

TEST(GraphView, OfSubgraphsKnowsWhatTheyReadFromOutside) {
  const std::string body = w::graph({.nodes = {w::node({.op_type = "Add", .inputs = {"x", "k"}, .outputs = {"t"}})},
                                     .inputs = {},
                                     .outputs = {w::float_info("t")},
                                     .initializers = {w::raw_tensor<float>("k", 1, {2}, {3, 4})}},
                                    "then");
  const std::string other = w::graph({.nodes = {w::node({.op_type = "Relu", .inputs = {"h"}, .outputs = {"e"}})},
                                      .inputs = {},
                                      .outputs = {w::float_info("e")}},
                                     "else");
  const Model model =
      read(w::model(w::graph({.nodes = {w::node({.op_type = "Neg", .inputs = {"x"}, .outputs = {"h"}}),
                                        w::node({.op_type = "If",
                                                 .inputs = {"flag"},
                                                 .outputs = {"y"},
                                                 .attributes = {w::graph_attribute("then_branch", body),
                                                                w::graph_attribute("else_branch", other)},
                                                 .name = "if"})},
                              .inputs = {w::float_info("x"), w::value_info("flag", w::tensor_type(9, {}))},
                              .outputs = {w::float_info("y")}})));
  const auto view = view_of(model.graph);
  const OrtNode* node = find(*view, "if");
  EXPECT_THAT(names(node->implicit_inputs), testing::UnorderedElementsAre("x", "h"));
  const OrtGraph* graphs[2];
  const char* attributes[2];
  ASSERT_EQ(ort_api::Node_GetSubgraphs(node, graphs, 2, attributes), nullptr);
  EXPECT_STREQ(attributes[0], "then_branch");
  EXPECT_EQ(graphs[0]->parent, node);
  EXPECT_THAT(names(graphs[0]->initializers), ElementsAre("k"));
  const OrtValueInfo* x = graphs[0]->nodes[0]->inputs[0];
  EXPECT_TRUE(x->from_outer_scope);
  EXPECT_EQ(x->producer, nullptr);
  EXPECT_THAT(message_of(ort_api::Node_GetSubgraphs(node, graphs, 1, attributes)), HasSubstr("at least 2 elements"));
}

TEST(GraphView, RefusesNodesOfAnotherGraph) {
  const Model model = chain(), other = chain();
  const auto view = view_of(model.graph), others = view_of(other.graph);
  const OrtNode* nodes[] = {others->nodes[0].get()};
  OrtGraph* part = nullptr;
  EXPECT_THAT(message_of(ort_api::Graph_GetGraphView(view.get(), nodes, 1, &part)), HasSubstr("is not of the graph"));
  EXPECT_EQ(part, nullptr);
  OrtEpGraphSupportInfo info(*view, "Ep");
  EXPECT_THAT(message_of(ep_api::EpGraphSupportInfo_AddSingleNode(&info, nodes[0])), HasSubstr("is not of the graph"));
  EXPECT_TRUE(info.claims.empty());
}

TEST(SupportInfo, RefusesANodeThatIsGivenTwice) {
  const Model model = chain();
  const auto view = view_of(model.graph);
  OrtEpGraphSupportInfo info(*view, "Ep");
  const OrtNode* nodes[] = {view->nodes[1].get(), view->nodes[0].get(), view->nodes[1].get()};
  EXPECT_THAT(message_of(ep_api::EpGraphSupportInfo_AddNodesToFuse(&info, nodes, 3, nullptr)), HasSubstr("twice"));
  EXPECT_TRUE(info.claims.empty());
  const OrtNodeFusionOptions options = {ORT_API_VERSION, true};
  EXPECT_EQ(message_of(ep_api::EpGraphSupportInfo_AddNodesToFuse(&info, nodes, 2, &options)), "ok");
  ASSERT_EQ(info.claims.size(), 1u);
  EXPECT_THAT(info.claims[0].nodes, ElementsAre(NodeId(0), NodeId(2)));
  EXPECT_TRUE(info.claims[0].drop_constants);
  // A struct of before the member: its bytes are not read.
  const OrtNodeFusionOptions old = {22, true};
  EXPECT_EQ(message_of(ep_api::EpGraphSupportInfo_AddNodesToFuse(&info, nodes, 2, &old)), "ok");
  EXPECT_FALSE(info.claims[1].drop_constants);
}

OrtKernelRegistry registry_of(const char* op, int start, int end, const char* constraint,
                              ONNXTensorElementDataType element) {
  auto def = std::make_unique<OrtKernelDef>();
  def->op_type = op;
  def->since_start = start;
  def->since_end = end;
  const OrtDataType* type = nullptr;
  EXPECT_EQ(ep_api::GetTensorDataType(element, &type), nullptr);
  def->constraints[constraint] = {type};
  OrtKernelRegistry registry;
  registry.entries.push_back({std::move(def), nullptr, nullptr});
  return registry;
}

TEST(KernelRegistry, FindsByVersionAndType) {
  const Model model = chain();
  const Node& relu = model.graph.nodes[NodeId(1)];  // Relu-14
  constexpr auto kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  constexpr int kOpen = 2147483647;
  EXPECT_NE(registry_of("Relu", 6, 30, "T", kFloat).find(model.graph, relu), nullptr);
  EXPECT_NE(registry_of("Relu", 14, kOpen, "T", kFloat).find(model.graph, relu), nullptr);
  EXPECT_NE(registry_of("Relu", 14, 14, "X", kFloat).find(model.graph, relu), nullptr);  // by the parameter's name
  EXPECT_EQ(registry_of("Relu", 13, kOpen, "T", kFloat).find(model.graph, relu), nullptr);
  EXPECT_EQ(registry_of("Relu", 6, 13, "T", kFloat).find(model.graph, relu), nullptr);
  std::string why;
  const auto wrong = registry_of("Relu", 6, 30, "T", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
  EXPECT_EQ(wrong.find(model.graph, relu, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("float32"));
}

}  // namespace
}  // namespace tenon::abi
