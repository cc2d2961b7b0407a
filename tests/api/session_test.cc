// Loading of models, and the getters of a session. Misuse first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/plan_report.h>

#include <nlohmann/json.hpp>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using ::testing::HasSubstr;

OnnxModel relu_model() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"batch", 4}).output("y", DataType::kFloat, {"batch", 4});
  model.node(OnnxNode("Relu", {"x"}, {"y"}));
  return model;
}

TEST(SessionLoad, AFileThatIsNotThereIsNotFound) {
  EXPECT_THAT(Session::load("no/such/model.onnx"), has_status(StatusCode::kNotFound, HasSubstr("no/such/model.onnx")));
}

TEST(SessionLoad, BytesThatAreNoModelAreRefused) {
  const std::string bytes = "this is not a model";
  EXPECT_FALSE(Session::load_from_bytes(std::as_bytes(std::span(bytes))).ok());
  EXPECT_FALSE(Session::load_from_bytes({}).ok());
}

// The message names node, operator, domain, opset, and what is known.
TEST(SessionLoad, AnUnknownOperatorIsRefusedWithItsName) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4});
  model.node(OnnxNode("Rleu", {"x"}, {"y"}));
  const auto session = model.load();
  EXPECT_THAT(session, has_status(StatusCode::kUnsupported, HasSubstr("Rleu_of_y")));
  EXPECT_THAT(session.status().message(), HasSubstr("17"));
  EXPECT_THAT(session.status().message(), HasSubstr("Relu"));
}

TEST(SessionLoad, OptionsOutOfRangeAreRefused) {
  EXPECT_THAT(relu_model().load({.threads = -1}), has_status(StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(relu_model().load({.plan_cache_size = 0}), has_status(StatusCode::kInvalidArgument, HasSubstr("0")));
  EXPECT_THAT(relu_model().load({.dims = {{"batch", -3}}}), has_status(StatusCode::kInvalidArgument, HasSubstr("-3")));
}

TEST(SessionLoad, InputsAndOutputsAreDescribed) {
  const auto session = relu_model().load();
  ASSERT_THAT(session, is_ok());
  ASSERT_EQ((*session)->inputs().size(), 1u);
  EXPECT_EQ((*session)->inputs()[0].name, "x");
  EXPECT_EQ((*session)->inputs()[0].to_string(), "float32[batch,4]");
  EXPECT_EQ((*session)->outputs()[0].to_string(), "float32[batch,4]");
}

TEST(SessionLoad, DimensionsCanBeFixedByName) {
  const auto session = relu_model().load({.threads = 1, .dims = {{"batch", 3}}});
  ASSERT_THAT(session, is_ok());
  EXPECT_EQ((*session)->inputs()[0].to_string(), "float32[3,4]");
  auto binding = (*session)->make_binding();
  ASSERT_THAT(binding, is_ok());
  ASSERT_THAT(binding->bind_input("x", floats({2, 4}, std::vector<float>(8))), is_ok());
  EXPECT_THAT((*session)->run(*binding), has_status(StatusCode::kInvalidArgument, HasSubstr("declares 3")));
}

TEST(SessionExplain, ShapesThatAreOpenMustBeGiven) {
  const auto session = relu_model().load();
  ASSERT_THAT(session, is_ok());
  EXPECT_THAT((*session)->explain({}), has_status(StatusCode::kInvalidArgument, HasSubstr("\"x\"")));
  EXPECT_THAT((*session)->explain({{"z", Shape{1, 4}}}), has_status(StatusCode::kNotFound, HasSubstr("\"z\"")));
  EXPECT_THAT((*session)->explain({{"x", Shape{1, 5}}}), has_status(StatusCode::kInvalidArgument));
  const auto text = (*session)->explain({{"x", Shape{2, 4}}});
  ASSERT_THAT(text, is_ok());
  EXPECT_THAT(*text, HasSubstr("input x: float32[2,4]"));
  EXPECT_THAT(*text, HasSubstr("-> output y"));
}

TEST(SessionExplain, ThePlanIsDataAndJson) {
  const auto session = relu_model().load();
  ASSERT_THAT(session, is_ok());
  const auto plan = (*session)->plan_report({{"x", Shape{2, 4}}}, {});
  ASSERT_THAT(plan, is_ok());
  ASSERT_EQ(plan->steps.size(), 1U);
  const PlanReport::Step& step = plan->steps[0];
  EXPECT_THAT(step.label, HasSubstr(step.op_type));
  EXPECT_EQ(step.name, "Relu_of_y");
  EXPECT_EQ(step.inputs[0].location.kind, PlanReport::Location::Kind::kInput);
  EXPECT_EQ(step.outputs[0].location.kind, PlanReport::Location::Kind::kOutput);
  EXPECT_EQ(step.outputs[0].size_bytes, 32U);
  EXPECT_EQ(step.outputs[0].type_text(), "float32[2,4]");
  const auto json = nlohmann::json::parse(plan->to_json(), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["steps"][0]["kernel"], step.kernel);
  EXPECT_EQ(json["steps"][0]["outputs"][0]["shape"], (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(json["steps"][0]["time_ns"], nullptr);
  EXPECT_EQ(json["copies"].size(), 0U);
  EXPECT_EQ(json["cut"], nullptr);
}

// Names are the model's: quotes, markup and bytes that are no text stay names.
TEST(SessionExplain, NamesCannotBreakTheJson) {
  PlanReport plan;
  plan.eps = {"a\"b\\c\n\x01", "\xff\xc3\xa4</script>"};
  plan.spaces.emplace_back();
  const auto json = nlohmann::json::parse(plan.to_json(), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["eps"][0], plan.eps[0]);
  EXPECT_EQ(json["eps"][1], "\xef\xbf\xbd\xc3\xa4</script>");
}

TEST(SessionExplain, AReportOfNothingIsNoCrash) {
  EXPECT_THAT(PlanReport().to_text(), HasSubstr("0 steps"));
  EXPECT_TRUE(nlohmann::json::parse(PlanReport().to_json(), nullptr, false).is_object());
  PlanReport plan;
  EXPECT_EQ(plan.add_times({}), 0U);
}

// The kernels of a run have times, which belong to the steps; a second run's are added.
TEST(SessionExplain, TimesOfRunsBelongToTheSteps) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4});
  model.node(OnnxNode("Sin", {"x"}, {"a"})).node(OnnxNode("Cos", {"a"}, {"y"}));
  const auto session = model.load();
  ASSERT_THAT(session, is_ok());
  Binding binding = (*session)->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", floats({4}, {1, 2, 3, 4})), is_ok());
  std::vector<NodeTime> times;
  for (int run = 0; run < 3; ++run) ASSERT_THAT((*session)->run(binding, {.node_times = &times}), is_ok());
  PlanReport plan = (*session)->plan_report({}, {}).value();
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(times.size(), 6U);
  EXPECT_EQ(plan.add_times(times), 2U);
  for (const PlanReport::Step& step : plan.steps) {
    EXPECT_EQ(step.runs, 3) << step.label;
    EXPECT_GT(step.time_ns, 0) << step.label;
  }
  EXPECT_THAT(plan.to_text(), ::testing::ContainsRegex("; [0-9.]+ (us|ms)\n"));
}

TEST(PlanReportTimes, AreTheMedianOfTheNodesThatAStepComputes) {
  PlanReport plan;
  plan.steps.resize(4);
  plan.steps[0] = {.name = "conv", .op_type = "Conv", .node = 0, .model_nodes = {"conv", "relu"}};
  plan.steps[1] = {.op_type = "Add", .node = 1};
  plan.steps[2] = {.name = "twice", .op_type = "Mul", .node = 2};
  plan.steps[3] = {.name = "twice", .op_type = "Mul", .node = 3};
  const std::vector<NodeTime> times = {
      {.name = "conv", .node = 0, .duration_ns = 30},  {.name = "conv", .node = 0, .duration_ns = 10},
      {.name = "conv", .node = 0, .duration_ns = 20},  {.op_type = "Add", .node = 1, .duration_ns = 5},
      {.op_type = "Add", .node = 9, .duration_ns = 7}, {.name = "twice", .node = 3, .duration_ns = 8},
      {.name = "other", .node = 0, .duration_ns = 9}};
  EXPECT_EQ(plan.add_times(times), 4U);
  EXPECT_EQ(plan.steps[0].time_ns, 20);
  EXPECT_EQ(plan.steps[0].runs, 3);
  EXPECT_EQ(plan.steps[1].time_ns, 5);
  EXPECT_EQ(plan.steps[3].time_ns, 8);
  // Without the index that a plan of Tenon's has, a profile of another runtime is matched by name alone.
  const std::vector<NodeTime> theirs = {{.name = "relu", .node = 77, .duration_ns = 4}};
  EXPECT_EQ(plan.add_times(theirs), 1U);
  EXPECT_EQ(plan.steps[0].time_ns, 4);
}

// An If's kernel runs its branch: that time is in the If's, and no step of the plan has it.
TEST(PlanReportTimes, NodesOfBodiesHaveTheirDepth) {
  std::vector<NodeTime> run;
  add_node_time(run, {.name = "before", .begin_ns = 10, .duration_ns = 5});
  add_node_time(run, {.name = "innermost", .begin_ns = 21, .duration_ns = 2});
  add_node_time(run, {.name = "inside", .begin_ns = 20, .duration_ns = 4});
  add_node_time(run, {.name = "if", .begin_ns = 19, .duration_ns = 9});
  ASSERT_EQ(run.size(), 4U);
  std::vector<int32_t> depths;
  for (const NodeTime& node : run) depths.push_back(node.depth);
  EXPECT_EQ(depths, (std::vector<int32_t>{0, 2, 1, 0}));
  PlanReport plan;
  plan.steps.resize(2);
  plan.steps[0].name = "inside";
  plan.steps[1].name = "if";
  EXPECT_EQ(plan.add_times(run), 1U);
  EXPECT_EQ(plan.steps[1].time_ns, 9);
}

}  // namespace
}  // namespace tenon
