// A steady run allocates nothing, on any thread (counted_calls.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/testing.h"
#include "counted_calls.h"
#include "eager_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::allocations;
using api_testing::floats;
using api_testing::OnnxModel;
using api_testing::OnnxNode;

OnnxModel model() {
  OnnxModel model;
  std::mt19937 random(3);
  std::vector<float> weights(64 * 64);
  for (float& weight : weights) weight = static_cast<float>(random() % 100) / 100 - 0.5f;
  model.input("x", DataType::kFloat, {"n", 64}).output("y", DataType::kFloat, {"n", 64});
  model.output("p", DataType::kFloat, {"n", 64}).output("handed_through", DataType::kFloat, {"n", 64});
  model.initializer("w", DataType::kFloat, {64, 64}, weights);
  model.node(OnnxNode("MatMul", {"x", "w"}, {"m"})).node(OnnxNode("Relu", {"m"}, {"r"}));
  model.node(OnnxNode("Softmax", {"r"}, {"p"}).attribute("axis", -1)).node(OnnxNode("Add", {"p", "x"}, {"y"}));
  model.node(OnnxNode("Identity", {"x"}, {"handed_through"}));
  return model;
}

class SteadyRun : public ::testing::TestWithParam<int> {};

TEST(Counter, SeesAllocations) {
  const int before = allocations();
  const auto block = std::make_unique<std::vector<int>>(100);
  EXPECT_GE(allocations() - before, 2);
}

TEST_P(SteadyRun, AllocatesNothingOnAnyThread) {
  const auto session = model().load({.threads = GetParam()});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  const Tensor x = floats({256, 64}, std::vector<float>(256 * 64, 0.25f));
  const Tensor y = floats({256, 64}, std::vector<float>(256 * 64));
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(binding.bind_output("y", y), is_ok());
  const auto ready = *make_host_timeline("ready", 1000);
  const auto done = *make_host_timeline("done");
  RunReport report;
  const auto run = [&](uint64_t frame) {
    const Fence waits[] = {{ready, frame}};
    const Fence signals[] = {{done, frame}};
    return (*session)->run(binding, {.waits = waits, .signals = signals, .report = &report});
  };
  ASSERT_THAT(run(1), is_ok());
  ASSERT_THAT(run(2), is_ok());
  const int before = allocations();
  bool ok = true;
  for (uint64_t frame = 3; frame < 103; ++frame) ok = run(frame).ok() && ok;
  const int counted = allocations() - before;
  EXPECT_EQ(counted, 0);
  EXPECT_TRUE(ok);
}

// A branch whose shapes are known has its plan, and its run its scratch.
TEST_P(SteadyRun, AllocatesNothingInABranch) {
  OnnxModel then_branch, else_branch, choice;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("Add", {"x", "x"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {"n"}).node(OnnxNode("Neg", {"x"}, {"b"}));
  choice.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  choice.node(OnnxNode("If", {"c"}, {"y"})
                  .attribute("then_branch", then_branch.graph_bytes())
                  .attribute("else_branch", else_branch.graph_bytes()));
  const auto session = choice.load({.threads = GetParam()});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  Tensor taken = *Tensor::allocate(DataType::kBool, Shape());
  ASSERT_THAT(binding.bind_input("c", taken), is_ok());
  ASSERT_THAT(binding.bind_input("x", floats({8}, std::vector<float>(8, 2.0f))), is_ok());
  const auto run = [&](int frame) {
    *taken.data_as<uint8_t>() = static_cast<uint8_t>(frame % 2);
    return (*session)->run(binding).ok() && binding.output("y").data_as<float>()[7] == (frame % 2 == 1 ? 4.0f : -2.0f);
  };
  bool ok = true;
  for (int frame = 0; frame < 4; ++frame) ok = run(frame) && ok;
  const int before = allocations();
  for (int frame = 0; frame < 100; ++frame) ok = run(frame) && ok;
  const int counted = allocations() - before;
  EXPECT_EQ(counted, 0);
  EXPECT_TRUE(ok);
}

// Other addresses, the same shapes: pointers are found anew, in memory that is there.
TEST_P(SteadyRun, AllocatesNothingWhenOtherMemoryIsBound) {
  const auto session = model().load({.threads = GetParam()});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  const Tensor x[] = {floats({8, 64}, std::vector<float>(512, 0.25f)), floats({8, 64}, std::vector<float>(512, 1.0f))};
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(binding.bind_input("x", x[i]), is_ok());
    ASSERT_THAT((*session)->run(binding), is_ok());
  }
  const int before = allocations();
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    ok = binding.bind_input("x", x[i % 2]).ok() && (*session)->run(binding).ok() && ok;
  }
  const int counted = allocations() - before;
  EXPECT_EQ(counted, 0);
  EXPECT_TRUE(ok);
}

// With another EP, its streams and copies between the two.
TEST_P(SteadyRun, AllocatesNothingOfItsOwnForOtherEps) {
  ASSERT_THAT(EpRegistry::instance().add("eager", {std::make_shared<api_testing::EagerFactory>()}), is_ok());
  {
    OnnxModel mixed;
    mixed.input("x", DataType::kFloat, {64}).output("y", DataType::kFloat, {64});
    mixed.node(OnnxNode("Abs", {"x"}, {"a"})).node(OnnxNode("Neg", {"a"}, {"b"})).node(OnnxNode("Abs", {"b"}, {"c"}));
    mixed.node(OnnxNode("Neg", {"c"}, {"y"}));
    const auto session = mixed.load({.threads = GetParam(), .eps = {{.ep_name = "EagerEP"}}});
    ASSERT_THAT(session, is_ok());
    Binding binding = *(*session)->make_binding();
    ASSERT_THAT(binding.bind_input("x", floats({64}, std::vector<float>(64, 2.0f))), is_ok());
    ASSERT_THAT(binding.bind_output_auto("y", MemorySpace{}), is_ok());
    RunReport report;
    const auto run = [&] { return (*session)->run(binding, {.report = &report}); };
    ASSERT_THAT(run(), is_ok());
    ASSERT_THAT(run(), is_ok());
    EXPECT_EQ(report.copies.records.size(), 4u);
    const int before = allocations();
    bool ok = true;
    for (int i = 0; i < 100; ++i) ok = run().ok() && ok;
    const int counted = allocations() - before;
    EXPECT_EQ(counted, 0);
    EXPECT_TRUE(ok);
    EXPECT_EQ(binding.output("y").data_as<float>()[63], -2.0f);
  }
  ASSERT_THAT(EpRegistry::instance().remove("eager"), is_ok());
}

INSTANTIATE_TEST_SUITE_P(ThreadCounts, SteadyRun, ::testing::Values(1, 2));

}  // namespace
}  // namespace tenon
