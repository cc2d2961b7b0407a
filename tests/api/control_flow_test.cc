// If, Loop and Scan: allocations and plans of their runs, early ends, and refusals when a model is loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::ints;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor flag(bool value) {
  Tensor tensor = *Tensor::allocate(DataType::kBool, Shape());
  *tensor.data_as<uint8_t>() = value ? 1 : 0;
  return tensor;
}

// y = c ? x + x : -x
OnnxModel if_model() {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("Add", {"x", "x"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {"n"}).node(OnnxNode("Neg", {"x"}, {"b"}));
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("If", {"c"}, {"y"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  return model;
}

// A loop that adds x to its value and gives the value of each iteration; `m` is the trip count.
OnnxModel loop_model(const OnnxNode& next = OnnxNode("Add", {"v", "x"}, {"r"})) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"k"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"j"}).output("s", DataType::kFloat, {"k"});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(next).node(OnnxNode("Neg", {"v"}, {"s"}));
  model.input("m", DataType::kInt64, {}).input("x", DataType::kFloat, {"n"});
  model.output("y", DataType::kFloat, {"p"}).output("all", DataType::kFloat, {"q", "k"});
  model.node(OnnxNode("Loop", {"m", "", "x"}, {"y", "all"}).attribute("body", body.graph_bytes()));
  return model;
}

std::shared_ptr<Session> loaded(const OnnxModel& model) {
  auto session = model.load();
  EXPECT_THAT(session, is_ok());
  return session.ok() ? *session : nullptr;
}

// A branch writes straight into the caller's tensor: strict mode has nothing to refuse, and the ledger stays empty.
TEST(ControlFlow, ABranchWritesIntoTheBoundOutput) {
  const auto session = if_model().load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  const Tensor y = floats({3}, {0, 0, 0});
  ASSERT_THAT(binding.bind_input("x", floats({3}, {1, 2, 3})), is_ok());
  ASSERT_THAT(binding.bind_output("y", y), is_ok());
  RunReport report;
  for (const bool taken : {true, false, true}) {
    ASSERT_THAT(binding.bind_input("c", flag(taken)), is_ok());
    ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
    EXPECT_THAT(values_of(y), taken ? ElementsAre(2, 4, 6) : ElementsAre(-1, -2, -3));
    EXPECT_TRUE(report.copies.records.empty());
  }
}

// An output whose size only the loop knows is copied to a bound tensor: strict mode says so before anything runs.
TEST(ControlFlow, StrictModeRefusesAnOutputOfUnknownSize) {
  const auto session = loop_model(OnnxNode("Concat", {"v", "x"}, {"r"}).attribute("axis", 0))
                           .load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(session, is_ok());
  EXPECT_THAT(
      (*session)->run(std::vector<std::pair<std::string, Tensor>>{{"m", ints({}, {2})}, {"x", floats({1}, {1})}}),
      has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.disallow_copies")));
}

OnnxModel endless_loop() {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"n"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"n"});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Neg", {"v"}, {"r"}));
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  return model.node(OnnxNode("Loop", {"", "", "x"}, {"y"}).attribute("body", body.graph_bytes()));
}

// tenon.timeout_ms: a run that takes too long ends between two steps, and the session works on.
TEST(ControlFlow, TheTimeOfARunEndsAnEndlessLoop) {
  const auto session = loaded(endless_loop());
  ASSERT_NE(session, nullptr);
  Binding binding = *session->make_binding();
  ASSERT_THAT(binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(session->run(binding, {.run_timeout_ns = 20'000'000}),
                has_status(StatusCode::kTimeout,
                           AllOf(HasSubstr("tenon.timeout_ms"), HasSubstr("was over"), HasSubstr("Loop"))));
  }
}

TEST(ControlFlow, TerminatingARunEndsAnEndlessLoop) {
  const auto session = loaded(endless_loop());
  ASSERT_NE(session, nullptr);
  Binding binding = *session->make_binding();
  ASSERT_THAT(binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  std::atomic<bool> cancel = false;
  std::thread terminator([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel = true;
  });
  EXPECT_THAT(session->run(binding, {.cancel = &cancel}), has_status(StatusCode::kCancelled, HasSubstr("cancelled")));
  terminator.join();
}

TEST(ControlFlow, SixteenThreadsRunOneSession) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"k"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"j"}).output("s", DataType::kInt64, {});
  body.node(OnnxNode("Identity", {"c"}, {"d"}));
  body.node(OnnxNode("Concat", {"v", "x"}, {"r"}).attribute("axis", 0)).node(OnnxNode("Size", {"v"}, {"s"}));
  model.input("m", DataType::kInt64, {}).input("x", DataType::kFloat, {"n"});
  model.output("y", DataType::kFloat, {"p"}).output("sizes", DataType::kInt64, {"q"});
  model.node(OnnxNode("Loop", {"m", "", "x"}, {"y", "sizes"}).attribute("body", body.graph_bytes()));
  const auto growing = loaded(model);
  ASSERT_NE(growing, nullptr);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int run = 0; run < 20; ++run) {
        const int64_t m = (t + run) % 7;
        const auto results = growing->run(std::vector<std::pair<std::string, Tensor>>{
            {"m", ints({}, {m})}, {"x", floats({2}, {1.0f * static_cast<float>(t), 2})}});
        bool right = results.ok() && (*results)[0].shape() == Shape{2 * (m + 1)} && (*results)[1].shape() == Shape{m};
        for (int64_t i = 0; right && i <= m; ++i) {
          right = (*results)[0].data_as<float>()[2 * i] == static_cast<float>(t);
        }
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ControlFlow, AScanOutputThatChangesItsShapeIsAnError) {
  const auto session = loaded(loop_model(OnnxNode("Concat", {"v", "x"}, {"r"}).attribute("axis", 0)));
  ASSERT_NE(session, nullptr);
  EXPECT_THAT(
      (*session).run(std::vector<std::pair<std::string, Tensor>>{{"m", ints({}, {3})}, {"x", floats({1}, {1})}}),
      has_status(StatusCode::kInvalidArgument,
                 HasSubstr("A scan output is float32[2] in iteration 1, but float32[1] in the first one")));
}

TEST(ControlFlow, ManyIterationsAreStackedInOrder) {
  const auto session = loaded(loop_model());
  ASSERT_NE(session, nullptr);
  const auto results =
      session->run(std::vector<std::pair<std::string, Tensor>>{{"m", ints({}, {100'000})}, {"x", floats({1}, {1})}});
  ASSERT_THAT(results, is_ok());
  EXPECT_THAT(values_of((*results)[0]), ElementsAre(100'001));
  ASSERT_EQ((*results)[1].shape(), (Shape{100'000, 1}));
  const std::vector<float> all = values_of((*results)[1]);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], -static_cast<float>(i + 1));
}

// ONNX Runtime 1.31.1 fails here; the operator's text has no such exception.
TEST(ControlFlow, AScanOfNothingGivesItsStates) {
  OnnxModel body, model;
  body.input("a", DataType::kFloat, {3}).input("v", DataType::kFloat, {3});
  body.output("r", DataType::kFloat, {3}).output("o", DataType::kFloat, {3});
  body.node(OnnxNode("Add", {"a", "v"}, {"r"})).node(OnnxNode("Neg", {"r"}, {"o"}));
  model.input("s", DataType::kFloat, {3}).input("x", DataType::kFloat, {"n", 3});
  model.output("y", DataType::kFloat, {3}).output("all", DataType::kFloat, {"n", 3});
  model.node(
      OnnxNode("Scan", {"s", "x"}, {"y", "all"}).attribute("num_scan_inputs", 1).attribute("body", body.graph_bytes()));
  const auto session = loaded(model);
  ASSERT_NE(session, nullptr);
  const auto results = session->run(
      std::vector<std::pair<std::string, Tensor>>{{"s", floats({3}, {1, 2, 3})}, {"x", floats({0, 3}, {})}});
  ASSERT_THAT(results, is_ok());
  EXPECT_THAT(values_of((*results)[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ((*results)[1].shape(), (Shape{0, 3}));
}

// The branch that a constant chooses takes the node's place; what stands in the other one never counts.
TEST(ControlFlow, AnIfOfAConstantIsItsBranch) {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("Neg", {"x"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {"n"}).node(OnnxNode("SequenceEmpty", {}, {"b"}));
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.initializer<uint8_t>("one", DataType::kBool, {1}, {1});
  model.node(OnnxNode("If", {"one"}, {"y"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  const auto session = loaded(model);
  ASSERT_NE(session, nullptr);
  const auto plan = session->explain({{"x", Shape{2}}});
  ASSERT_THAT(plan, is_ok());
  EXPECT_THAT(*plan, Not(HasSubstr("[if]")));
  const auto results = session->run(std::vector<std::pair<std::string, Tensor>>{{"x", floats({2}, {1, 2})}});
  ASSERT_THAT(results, is_ok());
  EXPECT_THAT(values_of((*results)[0]), ElementsAre(-1, -2));
}

// As deep as the reader allows: neither the stack nor the time runs out.
TEST(ControlFlow, DeepNestingRuns) {
  std::string inner;
  for (int depth = 0; depth < 60; ++depth) {
    OnnxModel branch;
    branch.output(format("y{}", depth), DataType::kFloat, {"n"});
    if (depth == 0) {
      branch.node(OnnxNode("Neg", {"x"}, {"y0"}));
    } else {
      branch.node(
          OnnxNode("If", {"c"}, {format("y{}", depth)}).attribute("then_branch", inner).attribute("else_branch", [&] {
            OnnxModel other;
            other.output("z", DataType::kFloat, {"n"}).node(OnnxNode("Abs", {"x"}, {"z"}));
            return other.graph_bytes();
          }()));
    }
    inner = branch.graph_bytes();
  }
  OnnxModel model;
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("If", {"c"}, {"y"}).attribute("then_branch", inner).attribute("else_branch", inner));
  const auto session = loaded(model);
  ASSERT_NE(session, nullptr);
  const auto results =
      session->run(std::vector<std::pair<std::string, Tensor>>{{"c", flag(true)}, {"x", floats({2}, {1, 2})}});
  ASSERT_THAT(results, is_ok());
  EXPECT_THAT(values_of((*results)[0]), ElementsAre(-1, -2));
}

// --- refused at load ---

// The sequence counts, not the tensor that the body declares.
TEST(ControlFlow, ALoopThatCarriesASequenceIntoArithmeticIsRefusedAtLoad) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"n"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"n"});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Neg", {"v"}, {"r"}));
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("SequenceEmpty", {}, {"s"}));
  model.node(OnnxNode("Loop", {"", "", "s"}, {"y"}).attribute("body", body.graph_bytes()));
  EXPECT_THAT(model.load(), has_status(StatusCode::kUnsupported, HasSubstr("Neg is not computed on object")));
}

TEST(ControlFlow, AnOperatorWithoutAKernelInABranchIsRefusedAtLoadWithItsPlace) {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("ImageDecoder", {"file"}, {"image"}));
  then_branch.node(OnnxNode("Cast", {"image"}, {"a"}).attribute("to", int64_t{1}));
  else_branch.output("b", DataType::kFloat, {"n"}).node(OnnxNode("Neg", {"x"}, {"b"}));
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.input("file", DataType::kUint8, {"m"});
  model.node(OnnxNode("If", {"c"}, {"y"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  const auto session = model.load();
  EXPECT_THAT(session, has_status(StatusCode::kUnsupported, HasSubstr("ImageDecoder")));
  EXPECT_THAT(session, has_status(StatusCode::kUnsupported, HasSubstr("in the subgraph \"then_branch\"")));
}

TEST(ControlFlow, ABranchOfAnotherTypeIsRefusedAtLoad) {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("Neg", {"x"}, {"a"}));
  else_branch.output("b", DataType::kInt64, {"n"}).node(OnnxNode("Shape", {"x"}, {"b"}));
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("If", {"c"}, {"y"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  EXPECT_THAT(model.load(), has_status(StatusCode::kInvalidArgument, HasSubstr("int64")));
}

TEST(ControlFlow, ABodyWithTooFewOutputsIsRefusedAtLoad) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"n"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"n"});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Neg", {"v"}, {"r"}));
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"}).output("z", DataType::kFloat, {"k"});
  model.node(OnnxNode("Loop", {"", "", "x"}, {"y", "z"}).attribute("body", body.graph_bytes()));
  EXPECT_THAT(model.load(), has_status(StatusCode::kInvalidArgument, HasSubstr("has 2 outputs, not 3")));
}

}  // namespace
}  // namespace tenon
