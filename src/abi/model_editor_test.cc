#include "abi/model_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "abi/edited_model.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "graph/model_writer.h"

namespace tenon::abi {
namespace {

namespace w = model_writer;
using testing::HasSubstr;

OrtValueInfo* value_info(const char* name) {
  const OrtTypeInfo type = make_tensor_type(make_tensor_info(DataType::kFloat, Shape{2}));
  OrtValueInfo* info = nullptr;
  EXPECT_EQ(model_editor_api::CreateValueInfo(name, &type, &info), nullptr);
  return info;
}

// y = op(inputs...) on a model that has the input "x" and the output "y".
std::unique_ptr<OrtModel> model_of(const char* op, std::vector<const char*> inputs, const char* output) {
  OrtModel* model = nullptr;
  OrtGraph* graph = nullptr;
  OrtNode* node = nullptr;
  const char* domains[] = {""};
  const int versions[] = {17};
  OrtValueInfo *x = value_info("x"), *y = value_info("y");
  EXPECT_EQ(model_editor_api::CreateModel(domains, versions, 1, &model), nullptr);
  EXPECT_EQ(model_editor_api::CreateGraph(&graph), nullptr);
  EXPECT_EQ(model_editor_api::SetGraphInputs(graph, &x, 1), nullptr);
  EXPECT_EQ(model_editor_api::SetGraphOutputs(graph, &y, 1), nullptr);
  EXPECT_EQ(model_editor_api::CreateNode(op, "", "n", inputs.data(), inputs.size(), &output, 1, nullptr, 0, &node),
            nullptr);
  EXPECT_EQ(model_editor_api::AddNodeToGraph(graph, node), nullptr);
  EXPECT_EQ(model_editor_api::AddGraphToModel(model, graph), nullptr);
  return std::unique_ptr<OrtModel>(model);
}

std::string error_of(const OrtModel& model) {
  const Result<Model> made = to_core(model);
  return made.ok() ? "ok" : made.status().message();
}

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = status->message;
  release_status(status);
  return text;
}

TEST(ModelEditor, ChecksNamesLikeTheReader) {
  EXPECT_EQ(error_of(*model_of("Relu", {"x"}, "y")), "ok");
  EXPECT_THAT(error_of(*model_of("Relu", {"nothing"}, "y")), HasSubstr("\"nothing\" is read"));
  EXPECT_THAT(error_of(*model_of("Relu", {"x"}, "z")), HasSubstr("Output \"y\" is made by no node"));
  EXPECT_THAT(error_of(*model_of("Relu", {"x"}, "x")), HasSubstr("has the name of another value"));
  EXPECT_THAT(error_of(*model_of("Relu", {"y"}, "y")), testing::Not("ok"));  // a cycle
  EXPECT_THAT(error_of(*model_of("Add", {"x"}, "y")), testing::Not("ok"));   // too few inputs
  EXPECT_THAT(error_of(OrtModel{}), HasSubstr("no graph"));
}

TEST(ModelEditor, TakesAnObjectOnce) {
  OrtGraph *first = nullptr, *second = nullptr;
  ASSERT_EQ(model_editor_api::CreateGraph(&first), nullptr);
  ASSERT_EQ(model_editor_api::CreateGraph(&second), nullptr);
  OrtValueInfo* x = value_info("x");
  OrtValueInfo* both[] = {x, x};
  EXPECT_THAT(message_of(model_editor_api::SetGraphInputs(first, both, 2)), HasSubstr("twice"));
  EXPECT_EQ(message_of(model_editor_api::SetGraphInputs(first, both, 1)), "ok");
  EXPECT_THAT(message_of(model_editor_api::SetGraphInputs(second, both, 1)), HasSubstr("belongs to a graph"));
  ort_api::ReleaseGraph(first);
  ort_api::ReleaseGraph(second);
}

// with_update: y = Relu(x) is the model that is changed.
class Updates : public testing::Test {
 protected:
  Result<Model> changed(const OrtModel& update) const { return with_update(base_, update); }
  const Model base_ = *to_core(*model_of("Relu", {"x"}, "y"));
};

TEST_F(Updates, AddNodesAndReplaceTheBoundary) {
  const std::unique_ptr<OrtModel> update = model_of("Neg", {"y"}, "z");
  update->graph->inputs.clear();
  const_cast<OrtValueInfo*>(update->graph->outputs[0])->name = "z";
  const Result<Model> made = changed(*update);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  ASSERT_EQ(made->graph.nodes.size(), 2u);
  EXPECT_EQ(made->graph.value(made->graph.outputs[0]).name, "z");
  EXPECT_EQ(made->graph.value(made->graph.inputs[0]).name, "x");
  EXPECT_EQ(base_.graph.nodes.size(), 1u);
}

TEST_F(Updates, OfWhatIsThereAreRefused) {
  const auto error = [&](const OrtModel& update) {
    const Result<Model> made = changed(update);
    return made.ok() ? "ok" : made.status().message();
  };
  EXPECT_THAT(error(*model_of("Neg", {"x"}, "y")), HasSubstr("has the name of another value"));
  EXPECT_THAT(error(*model_of("Nonsense", {"x"}, "z")), HasSubstr("no operator"));
  EXPECT_THAT(error(OrtModel{}), HasSubstr("no graph"));
  const std::unique_ptr<OrtModel> older = model_of("Neg", {"x"}, "z");
  older->opsets = {{"", 12}};
  EXPECT_THAT(error(*older), HasSubstr("can not be changed"));
  const std::unique_ptr<OrtModel> nowhere = model_of("Neg", {"x"}, "z");
  const_cast<OrtValueInfo*>(nowhere->graph->outputs[0])->name = "nothing";
  EXPECT_THAT(error(*nowhere), HasSubstr("\"nothing\" is made by no node"));
}

TEST(EditorSession, OfAnOperatorThatThereIsNotIsRefused) {
  OrtEnv* env = nullptr;
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_FATAL, "editor", &env), nullptr);
  for (const auto& [op, domain, opset] : {std::tuple("Nonsense", "", 17), std::tuple("Relu", "example.none", 0)}) {
    const std::string bytes =
        w::model(w::graph({.nodes = {w::node({.op_type = op, .inputs = {"x"}, .outputs = {"y"}, .domain = domain})},
                           .inputs = {w::float_info("x")},
                           .outputs = {w::float_info("y")}}));
    OrtSession* session = nullptr;
    OrtStatus* status =
        model_editor_api::CreateModelEditorSessionFromArray(env, bytes.data(), bytes.size(), nullptr, &session);
    ASSERT_NE(status, nullptr);
    EXPECT_EQ(status->code, ORT_INVALID_GRAPH);
    EXPECT_THAT(message_of(status), HasSubstr(format("has at opset {}", opset)));
  }
  ort_api::ReleaseEnv(env);
}

TEST(EditedModel, AnswersWhatNeedsNoEp) {
  const auto edited = EditedModel::create(*to_core(*model_of("Relu", {"x"}, "y")), {});
  ASSERT_TRUE(edited.ok());
  Session& session = **edited;
  EXPECT_EQ(session.inputs()[0].name, "x");
  EXPECT_EQ(session.outputs()[0].name, "y");
  EXPECT_EQ(session.input_spaces().size(), 1u);
  EXPECT_THAT(session.make_binding().status().message(), HasSubstr("not initialized"));
  EXPECT_THAT(session.allocate(DataType::kFloat, Shape{1}, {}).status().message(), HasSubstr("not initialized"));
  EXPECT_THAT(session.plan_report({}, {}).status().message(), HasSubstr("not initialized"));
  EXPECT_THAT(session.explain_copies({}, {}).status().message(), HasSubstr("not initialized"));
  EXPECT_THAT(session.synchronize().message(), HasSubstr("not initialized"));
  EXPECT_FALSE(session.overridable_default(0).defined());
}

TEST(GraphView, TellsInWhichFileAnInitializerLies) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "tenon_external";
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "weights.bin") << std::string(24, '\0');
  const std::string bytes = w::model(
      w::graph({.nodes = {w::node({.op_type = "Add", .inputs = {"x", "w"}, .outputs = {"y"}})},
                .inputs = {w::float_info("x")},
                .outputs = {w::float_info("y")},
                .initializers = {w::external_tensor("w", 1, {2}, {{"location", "weights.bin"}, {"offset", "16"}})}}));
  std::ofstream(directory / "m.onnx") << bytes;
  auto model = read_model_file((directory / "m.onnx").string());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  auto origin = std::make_shared<GraphOrigin>();
  origin->info = model->info;
  origin->notes = model->notes;
  auto view = make_graph_view(model->graph, origin);
  ASSERT_TRUE(view.ok());
  OrtExternalInitializerInfo* info = nullptr;
  ASSERT_EQ(ort_api::ValueInfo_GetExternalInitializerInfo((*view)->initializers[0], &info), nullptr);
  ASSERT_NE(info, nullptr);
  EXPECT_STREQ(ort_api::ExternalInitializerInfo_GetFilePath(info), "weights.bin");
  EXPECT_EQ(ort_api::ExternalInitializerInfo_GetFileOffset(info), 16);
  EXPECT_EQ(ort_api::ExternalInitializerInfo_GetByteSize(info), 8u);
  ort_api::ReleaseExternalInitializerInfo(info);
  ASSERT_EQ(ort_api::ValueInfo_GetExternalInitializerInfo((*view)->inputs[0], &info), nullptr);
  EXPECT_EQ(info, nullptr);
}

}  // namespace
}  // namespace tenon::abi
