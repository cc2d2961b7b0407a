// Session and run options: each way of setting one works or is refused, and names of dimensions are hints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/system.h"
#include "base/testing.h"
#include "fake_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::FakeDevice;
using api_testing::floats;
using api_testing::ints;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y is x: a copy, unless both are bound to one tensor.
OnnxModel pass_through() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"batch", 4}).output("y", DataType::kFloat, {"batch", 4});
  model.node(OnnxNode("Identity", {"x"}, {"y"}));
  return model;
}

Status run_once(const std::shared_ptr<Session>& session, const RunOptions& options = {}) {
  Binding binding = *session->make_binding();
  TENON_TRY(binding.bind_input("x", floats({1, 4}, {1, 2, 3, 4})));
  return session->run(binding, options);
}

// S3.2: strict mode is the main promise, so no way of asking for it is without effect.
TEST(StrictMode, EachSpellingInTheConfigRefusesACopy) {
  for (const char* yes : {"1", "true", "True", "yes", "on", "ON"}) {
    const auto session = pass_through().load({.threads = 1, .config = {{"tenon.disallow_copies", yes}}});
    ASSERT_THAT(session, is_ok());
    EXPECT_TRUE((*session)->options().disallow_copies);
    EXPECT_THAT(run_once(*session), has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.disallow_copies")))
        << yes;
  }
  for (const char* no : {"0", "false", "no", "Off"}) {
    const auto session = pass_through().load({.threads = 1, .config = {{"tenon.disallow_copies", no}}});
    ASSERT_THAT(session, is_ok());
    EXPECT_THAT(run_once(*session), is_ok()) << no;
  }
}

TEST(StrictMode, OneRunCanAskForIt) {
  const auto session = pass_through().load();
  ASSERT_THAT(session, is_ok());
  EXPECT_THAT(run_once(*session, {.disallow_copies = true}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.disallow_copies")));
  EXPECT_THAT(run_once(*session), is_ok());
}

TEST(StrictMode, ExplainRefusesThePlanThatARunWouldBeRefusedFor) {
  const auto strict = pass_through().load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(strict, is_ok());
  EXPECT_THAT((*strict)->explain({{"x", {1, 4}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Output \"y\" would have to be copied")));
  const auto lax = pass_through().load();
  ASSERT_THAT(lax, is_ok());
  EXPECT_THAT((*lax)->explain({{"x", {1, 4}}}), is_ok());
}

TEST(SessionConfig, UnknownEntriesBadValuesAndContradictionsAreErrors) {
  const auto refused = [](const SessionOptions& options) { return pass_through().load(options).status(); };
  EXPECT_THAT(refused({.config = {{"tenon.disalow_copies", "1"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("did you mean \"tenon.disallow_copies\"?")));
  EXPECT_THAT(refused({.config = {{"tenon.disallow_copies", "maybe"}}}),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("maybe"), HasSubstr("0, 1, false, true"))));
  EXPECT_THAT(refused({.disallow_copies = true, .config = {{"tenon.disallow_copies", "0"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("SessionOptions::disallow_copies is true")));
  EXPECT_THAT(refused({.winograd = false, .config = {{"tenon.winograd", "1"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("SessionOptions::winograd is false")));
  EXPECT_THAT(refused({.config = {{"tenon.timeout_ms", "5"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("is a run config entry")));
}

TEST(SessionConfig, AFieldAndAnEntryThatAgreeAreOne) {
  const auto session = pass_through().load({.threads = 1,
                                            .disallow_copies = true,
                                            .winograd = false,
                                            .config = {{"tenon.disallow_copies", "on"}, {"tenon.winograd", "off"}}});
  ASSERT_THAT(session, is_ok());
  EXPECT_TRUE((*session)->options().disallow_copies);
  EXPECT_FALSE((*session)->options().winograd);
  const auto by_entry = pass_through().load({.threads = 1, .config = {{"tenon.winograd", "no"}}});
  ASSERT_THAT(by_entry, is_ok());
  EXPECT_FALSE((*by_entry)->options().winograd);
}

TEST(SessionConfig, EntriesForAnEpThatIsNearlyOneOfTheSessionAreErrors) {
  FakeDevice device({.ops = {"Neg"}});
  SessionOptions options = device.session_options();
  options.config["ep.fakep.option"] = "1";
  EXPECT_THAT(pass_through().load(options).status(),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("ep.fakep.option"), HasSubstr("FakeEP"))));
  options = device.session_options();
  options.config["ep.openvinoexecutionprovider.device_type"] = "CPU";  // for an EP of another session
  options.config["ep.context_enable"] = "1";
  EXPECT_THAT(pass_through().load(options), is_ok());
}

// Programs for several EPs give all of them their entries. "ExecutionProvider" at the end of two names says nothing
// about a slip in what is before it.
TEST(SessionConfig, EntriesForAnEpWithAShortNameOfItsOwnAreNoSlips) {
  FakeDevice device({.name = "DMLExecutionProvider", .ops = {"Neg"}});
  SessionOptions options = device.session_options();
  for (const char* name : {"qnn", "cuda", "rocm", "acl", "js", "cpu", "webgpu"})
    options.config[format("ep.{}executionprovider.device_id", name)] = "0";
  EXPECT_THAT(pass_through().load(options), is_ok());
  options.config["ep.dmexecutionprovider.device_id"] = "0";
  EXPECT_THAT(pass_through().load(options).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("did you mean \"DMLExecutionProvider\"?")));
  options = device.session_options();
  options.config["ep.dmlexecutionprovidr.device_id"] = "0";
  EXPECT_THAT(pass_through().load(options).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("did you mean \"DMLExecutionProvider\"?")));
}

TEST(SessionOptions, TheCpuEpHasNoOptions) {
  EXPECT_THAT(pass_through().load({.eps = {{.ep_name = "CPUExecutionProvider", .options = {{"fast", "1"}}}}}).status(),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("fast"), HasSubstr("has no options"))));
}

TEST(SessionOptions, DimensionsThatTheModelDoesNotHaveAreErrorsThatNameWhatIsClose) {
  EXPECT_THAT(
      pass_through().load({.dims = {{"bath", 2}}}).status(),
      has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("\"bath\""), HasSubstr("did you mean \"batch\"?"))));
  EXPECT_THAT(pass_through().load({.dims = {{"sequence", 2}}}).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("it has \"batch\".")));
  EXPECT_THAT(
      pass_through().load({.dims_by_denotation = {{"DATA_BATCH", 2}}}).status(),
      has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("\"DATA_BATCH\" (SessionOptions::dims_by_denotation)"),
                                                     HasSubstr("it has none with a denotation."))));
  const auto ignoring = pass_through().load({.threads = 1, .dims = {{"bath", 2}}, .ignore_unknown_names = true});
  ASSERT_THAT(ignoring, is_ok());
  const auto fixed = pass_through().load({.threads = 1, .dims = {{"batch", 2}}});
  ASSERT_THAT(fixed, is_ok());
  EXPECT_EQ((*fixed)->inputs()[0].dims[0], 2);
}

TEST(SessionOptions, InitializersAndFilesThatTheModelDoesNotHaveAreErrors) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2});
  model.initializer<float>("w", DataType::kFloat, {2}, {1, 2}).node(OnnxNode("Mul", {"x", "w"}, {"y"}));
  EXPECT_THAT(model.load({.threads = 1, .initializers = {{"w", floats({2}, {3, 4})}}}), is_ok());
  EXPECT_THAT(
      model.load({.initializers = {{"v", floats({2}, {3, 4})}}}).status(),
      has_status(StatusCode::kInvalidArgument, HasSubstr("the initializer \"v\", which the model does not have")));
  const std::byte bytes[4] = {};
  EXPECT_THAT(model.load({.external_files = {{"weights.bin", bytes}}}).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"weights.bin\" is given")));
  EXPECT_THAT(model.load({.threads = 1,
                          .ignore_unknown_names = true,
                          .initializers = {{"v", floats({2}, {3, 4})}},
                          .external_files = {{"weights.bin", bytes}}}),
              is_ok());
}

TEST(SessionOptions, ABadEnvironmentVariableIsAnErrorOfTheSession) {
  set_environment_variable("TENON_CPU_ISA", "sse9");
  EXPECT_THAT(pass_through().load().status(),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("TENON_CPU_ISA"), HasSubstr("sse9"))));
  set_environment_variable("TENON_CPU_ISA", nullptr);
  EXPECT_THAT(pass_through().load(), is_ok());
}

// Each of these models declares one name for sizes that differ in the run.
struct Runs {
  explicit Runs(const OnnxModel& model) : session(model.load().value()), binding(session->make_binding().value()) {}
  Status run(const std::vector<std::pair<std::string, Tensor>>& inputs) {
    for (const auto& [name, tensor] : inputs) TENON_TRY(binding.bind_input(name, tensor));
    return session->run(binding);
  }
  std::shared_ptr<Session> session;
  Binding binding;
};

OnnxModel of_two(const OnnxNode& node, const std::vector<api_testing::OnnxDim>& dims) {
  OnnxModel model;
  model.input("x", DataType::kFloat, dims).input("z", DataType::kFloat, dims).output("y", DataType::kFloat, dims);
  model.node(node);
  return model;
}

TEST(DimensionNames, BroadcastingRunsWhereItIsAllowed) {
  Runs runs(of_two(OnnxNode("Add", {"x", "z"}, {"y"}), {"n"}));
  ASSERT_THAT(runs.run({{"x", floats({1}, {1})}, {"z", floats({3}, {1, 2, 3})}}), is_ok());
  EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(2, 3, 4));
  EXPECT_THAT(runs.run({{"x", floats({2}, {1, 2})}, {"z", floats({3}, {1, 2, 3})}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("do not broadcast")));
  ASSERT_THAT(runs.run({{"x", floats({2}, {1, 2})}, {"z", floats({2}, {1, 2})}}), is_ok());
  EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(2, 4));
}

TEST(DimensionNames, ShapesThatAreReadFromAnotherInputAreNotTakenForOnesOwn) {
  for (const char* op : {"Reshape", "Expand"}) {
    OnnxModel model;
    model.input("x", DataType::kFloat, {"?", "?"}).input("z", DataType::kFloat, {"?", "?"});
    model.output("y", DataType::kFloat, {"?", "?"});
    model.node(OnnxNode("Shape", {"z"}, {"s"})).node(OnnxNode(op, {"x", "s"}, {"y"}));
    Runs runs(model);
    const bool expand = std::string(op) == "Expand";
    ASSERT_THAT(runs.run({{"x", expand ? floats({1, 2}, {1, 2}) : floats({1, 4}, {1, 2, 3, 4})},
                          {"z", floats({2, 2}, {0, 0, 0, 0})}}),
                is_ok())
        << op;
    EXPECT_EQ(runs.binding.output("y").shape(), (Shape{2, 2}));
    EXPECT_THAT(values_of(runs.binding.output("y")), expand ? ElementsAre(1, 2, 1, 2) : ElementsAre(1, 2, 3, 4));
  }
}

TEST(DimensionNames, OneInputMayHaveTwoSizesOfOneName) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"N", "N"}).output("y", DataType::kFloat, {"N", "N"});
  model.node(OnnxNode("Shape", {"x"}, {"s"})).node(OnnxNode("Transpose", {"x"}, {"t"}));
  model.node(OnnxNode("Reshape", {"t", "s"}, {"y"}));
  Runs runs(model);
  ASSERT_THAT(runs.run({{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}}), is_ok());
  EXPECT_EQ(runs.binding.output("y").shape(), (Shape{2, 3}));
  EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(DimensionNames, ConcatenatingTwoSizesOfOneNameRuns) {
  Runs runs(of_two(OnnxNode("Concat", {"x", "z"}, {"y"}).attribute("axis", 0), {"None"}));
  ASSERT_THAT(runs.run({{"x", floats({1}, {1})}, {"z", floats({2}, {2, 3})}}), is_ok());
  EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(1, 2, 3));
}

// A body declares names of its own, and reads values of the outer graph that have others.
TEST(DimensionNames, BodiesOfIfAndLoopRunWithTwoSizesOfOneName) {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("Add", {"x", "z"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {"n"}).node(OnnxNode("Sub", {"x", "z"}, {"b"}));
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).input("z", DataType::kFloat, {"n"});
  model.output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("If", {"c"}, {"y"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  Runs branches(model);
  Tensor taken = *Tensor::allocate(DataType::kBool, Shape());
  *taken.data_as<uint8_t>() = 1;
  ASSERT_THAT(branches.run({{"c", taken}, {"x", floats({2}, {1, 2})}, {"z", floats({1}, {10})}}), is_ok());
  EXPECT_THAT(values_of(branches.binding.output("y")), ElementsAre(11, 12));

  OnnxModel body, loop;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"n"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"n"});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Shape", {"z"}, {"s"}));
  body.node(OnnxNode("Expand", {"v", "s"}, {"e"})).node(OnnxNode("Add", {"e", "z"}, {"r"}));
  loop.input("m", DataType::kInt64, {}).input("x", DataType::kFloat, {"n"}).input("z", DataType::kFloat, {"n"});
  loop.output("y", DataType::kFloat, {"n"});
  loop.node(OnnxNode("Loop", {"m", "", "x"}, {"y"}).attribute("body", body.graph_bytes()));
  Runs loops(loop);
  ASSERT_THAT(loops.run({{"m", ints({}, {2})}, {"x", floats({1}, {1})}, {"z", floats({3}, {10, 20, 30})}}), is_ok());
  EXPECT_THAT(values_of(loops.binding.output("y")), ElementsAre(21, 41, 61));
}

TEST(DimensionNames, ProgramsSeeTheNamesThatTheModelDeclares) {
  const auto session = of_two(OnnxNode("Add", {"x", "z"}, {"y"}), {"n", 2}).load();
  ASSERT_THAT(session, is_ok());
  for (const ValueInfo& info : {(*session)->inputs()[0], (*session)->inputs()[1], (*session)->outputs()[0]})
    EXPECT_EQ(info.to_string(), "float32[n,2]") << info.name;
}

TEST(ScalarInputs, OneElementIsTakenForTheScalarWhateverItsRank) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"}).input("s", DataType::kFloat, {}).output("y", DataType::kFloat, {"n"});
  model.output("r", DataType::kInt64, {int64_t{0}})
      .node(OnnxNode("Mul", {"x", "s"}, {"y"}))
      .node(OnnxNode("Shape", {"s"}, {"r"}));
  Runs runs(model);
  for (const Shape& shape : {Shape(), Shape{1}, Shape{1, 1}}) {
    ASSERT_THAT(runs.run({{"x", floats({2}, {1, 2})}, {"s", floats(shape, {3})}}), is_ok()) << shape.to_string();
    EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(3, 6));
    EXPECT_EQ(runs.binding.output("r").shape(), (Shape{0}));
  }
  EXPECT_THAT(runs.run({{"s", floats({2}, {3, 4})}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("declares rank 0")));
  EXPECT_THAT(runs.run({{"s", floats({0}, {})}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("declares rank 0")));
  EXPECT_THAT(runs.session->explain({{"x", {2}}, {"s", {1}}}), is_ok());
}

// As ONNX Runtime: the other way round is an error.
TEST(ScalarInputs, AScalarIsNotTakenForAVectorOfOne) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {1}).output("y", DataType::kFloat, {1}).node(OnnxNode("Neg", {"x"}, {"y"}));
  Runs runs(model);
  EXPECT_THAT(runs.run({{"x", floats({}, {1})}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("declares rank 1")));
}

TEST(DeclaredOutputs, ADeclarationThatTheRunContradictsIsAHint) {
  for (const std::vector<api_testing::OnnxDim>& declared :
       std::vector<std::vector<api_testing::OnnxDim>>{{3}, {4, 1}, {}, {"n", "m"}, {"m"}}) {
    for (const api_testing::OnnxDim& dim : {api_testing::OnnxDim("n"), api_testing::OnnxDim(4)}) {
      OnnxModel model;
      model.input("x", DataType::kFloat, {dim}).output("y", DataType::kFloat, declared);
      model.node(OnnxNode("Neg", {"x"}, {"y"}));
      Runs runs(model);
      ASSERT_THAT(runs.run({{"x", floats({4}, {1, 2, 3, 4})}}), is_ok());
      EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(-1, -2, -3, -4));
    }
  }
}

TEST(Fallback, NodesLeftToTheCpuEpAreRefusedWhenItIsDisabled) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4});
  model.node(OnnxNode("Neg", {"x"}, {"n"})).node(OnnxNode("Sqrt", {"n"}, {"y"}));
  FakeDevice some({.ops = {"Neg"}});
  SessionOptions options = some.session_options();
  options.config["session.disable_cpu_ep_fallback"] = "1";
  EXPECT_THAT(model.load(options).status(),
              has_status(StatusCode::kUnsupported,
                         AllOf(HasSubstr("fallback to CPU EP has been explicitly disabled"), HasSubstr("\"y\""))));
  options.config["session.disable_cpu_ep_fallback"] = "0";
  EXPECT_THAT(model.load(options), is_ok());
}

// An LSTM without its first output is usual.
TEST(Fallback, ANodeThatLeavesOutItsFirstOutputIsRefusedAlike) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2, 1, 3}).output("h", DataType::kFloat, {1, 1, 4});
  model.initializer<float>("w", DataType::kFloat, {1, 16, 3}, std::vector<float>(48, 0.1F));
  model.initializer<float>("r", DataType::kFloat, {1, 16, 4}, std::vector<float>(64, 0.1F));
  model.node(OnnxNode("LSTM", {"x", "w", "r"}, {"", "h"}).attribute("hidden_size", 4));
  EXPECT_THAT(model.load({.config = {{"session.disable_cpu_ep_fallback", "1"}}}).status(),
              has_status(StatusCode::kUnsupported, HasSubstr("The first of them makes \"h\".")));
}

TEST(Fallback, ASessionWithoutAnotherEpOrThatNamesTheCpuEpIsRefused) {
  EXPECT_THAT(pass_through().load({.config = {{"session.disable_cpu_ep_fallback", "1"}}}).status(),
              has_status(StatusCode::kUnsupported, HasSubstr("assigned to the default CPU EP")));
  EXPECT_THAT(
      pass_through()
          .load({.eps = {{.ep_name = "CPUExecutionProvider"}}, .config = {{"session.disable_cpu_ep_fallback", "1"}}})
          .status(),
      has_status(StatusCode::kInvalidArgument, HasSubstr("Conflicting session configuration")));
}

TEST(Fallback, ASessionWhoseEpTakesAllIsMade) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4}).node(OnnxNode("Neg", {"x"}, {"y"}));
  FakeDevice all({.ops = {"Neg"}});
  SessionOptions options = all.session_options();
  options.config["session.disable_cpu_ep_fallback"] = "1";
  EXPECT_THAT(model.load(options), is_ok());
}

}  // namespace
}  // namespace tenon
