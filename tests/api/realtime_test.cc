// A run on the caller's thread alone (threads = 1) whose tensors are bound allocates nothing, takes no lock and makes
// no system call, so that it can stand in a loop that must not miss its time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "counted_calls.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::allocations;
using api_testing::floats;
using api_testing::locks;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::system_calls;

constexpr int kWarmRuns = 4;
constexpr int kRuns = 100;

Tensor zeros(const Shape& shape) {
  Tensor made = *Tensor::allocate(DataType::kFloat, shape);
  std::fill_n(made.data_as<float>(), shape.element_count(), 0.0f);
  return made;
}

// `run(frame)` is one frame of the loop.
template <typename Run>
void expect_real_time(const Run& run) {
  bool ok = true;
  for (int frame = 0; frame < kWarmRuns; ++frame) ok = run(frame) && ok;
  ASSERT_TRUE(ok);
  const int allocated = allocations(), locked = locks();
  for (int frame = kWarmRuns; frame < kWarmRuns + kRuns; ++frame) ok = run(frame) && ok;
  const int more_allocated = allocations() - allocated, more_locked = locks() - locked;
  EXPECT_TRUE(ok);
  EXPECT_EQ(more_allocated, 0);
  EXPECT_EQ(more_locked, 0);
  const auto called = system_calls([&] {
    bool all = true;
    for (int frame = 0; frame < kRuns; ++frame) all = run(frame) && all;
    return all;
  });
  if (!called) GTEST_SKIP() << "allocations and locks were counted, but no process may watch another one here";
  EXPECT_THAT(*called, ::testing::IsEmpty());
}

TEST(CountedCalls, AreSeen) {
  const int before = locks();
  std::mutex mutex;
  mutex.lock();
  mutex.unlock();
  EXPECT_EQ(locks() - before, 1);
  const auto called = system_calls([] { return syscall(SYS_getuid) >= 0; });
  if (!called) GTEST_SKIP() << "no process may watch another one here";
  EXPECT_EQ(*called, std::vector<int>{SYS_getuid});
}

TEST(RealTime, AChainOfNodes) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n", 64}).output("y", DataType::kFloat, {"n", 64});
  model.initializer("w", DataType::kFloat, {64, 64}, std::vector<float>(64 * 64, 0.01f));
  model.node(OnnxNode("MatMul", {"x", "w"}, {"m"})).node(OnnxNode("Relu", {"m"}, {"r"}));
  model.node(OnnxNode("Softmax", {"r"}, {"p"}).attribute("axis", -1)).node(OnnxNode("Add", {"p", "x"}, {"y"}));
  const auto session = model.load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  ASSERT_THAT(binding.bind_input("x", floats({256, 64}, std::vector<float>(256 * 64, 0.25f))), is_ok());
  ASSERT_THAT(binding.bind_output("y", zeros({256, 64})), is_ok());
  expect_real_time([&](int) { return (*session)->run(binding).ok(); });
}

// The plans of both branches are kept by the node.
TEST(RealTime, ABranchThatChanges) {
  OnnxModel then_branch, else_branch, choice;
  then_branch.output("a", DataType::kFloat, {"n"}).node(OnnxNode("Add", {"x", "x"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {"n"}).node(OnnxNode("Neg", {"x"}, {"b"}));
  choice.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  choice.node(OnnxNode("If", {"c"}, {"y"})
                  .attribute("then_branch", then_branch.graph_bytes())
                  .attribute("else_branch", else_branch.graph_bytes()));
  const auto session = choice.load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  Tensor taken = *Tensor::allocate(DataType::kBool, Shape());
  ASSERT_THAT(binding.bind_input("c", taken), is_ok());
  ASSERT_THAT(binding.bind_input("x", floats({8}, std::vector<float>(8, 2.0f))), is_ok());
  expect_real_time([&](int frame) {
    *taken.data_as<uint8_t>() = static_cast<uint8_t>(frame % 2);
    return (*session)->run(binding).ok() && binding.output("y").data_as<float>()[7] == (frame % 2 == 1 ? 4.0f : -2.0f);
  });
}

// Two bindings take turns, as two frames in flight do.
TEST(RealTime, TwoBindingsOfOneSession) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("Exp", {"x"}, {"e"})).node(OnnxNode("Neg", {"e"}, {"y"}));
  const auto session = model.load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  std::vector<Binding> bindings;
  for (const int64_t size : {8, 24}) {
    Binding& binding = bindings.emplace_back(*(*session)->make_binding());
    ASSERT_THAT(binding.bind_input("x", zeros({size})), is_ok());
    ASSERT_THAT(binding.bind_output("y", zeros({size})), is_ok());
  }
  expect_real_time([&](int frame) { return (*session)->run(bindings[frame % 2]).ok(); });
}

Result<std::shared_ptr<Session>> real_model(const std::string& id) {
  return Session::load(test_variable("TENON_MODELS") + "/" + id + ".onnx", {.threads = 1});
}
bool has_model(const std::string& id) {
  const std::string folder = test_variable("TENON_MODELS");
  return !folder.empty() && std::filesystem::exists(folder + "/" + id + ".onnx");
}

// A voice detector by chunks of 32 ms: the state of one run is the input of the next, in two tensors by turns.
TEST(RealTime, VoiceDetectionByChunks) {
  if (!has_model("silero_vad")) GTEST_SKIP() << "TENON_MODELS has no silero_vad.onnx";
  const auto session = real_model("silero_vad");
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  const std::array<Tensor, 2> states = {zeros({2, 1, 128}), zeros({2, 1, 128})};
  Tensor rate = *Tensor::allocate(DataType::kInt64, Shape());
  *rate.data_as<int64_t>() = 16000;
  ASSERT_THAT(binding.bind_input("input", zeros({1, 576})), is_ok());
  ASSERT_THAT(binding.bind_input("sr", rate), is_ok());
  ASSERT_THAT(binding.bind_output("output", zeros({1, 1})), is_ok());
  expect_real_time([&](int frame) {
    return binding.bind_input("state", states[frame % 2]).ok() &&
           binding.bind_output("stateN", states[(frame + 1) % 2]).ok() && (*session)->run(binding).ok();
  });
}

TEST(RealTime, NoiseSuppressionFrameByFrame) {
  if (!has_model("nsnet2")) GTEST_SKIP() << "TENON_MODELS has no nsnet2.onnx";
  const auto session = real_model("nsnet2");
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  ASSERT_THAT(binding.bind_input("input", zeros({1, 1, 161})), is_ok());
  ASSERT_THAT(binding.bind_output("output", zeros({1, 1, 161})), is_ok());
  expect_real_time([&](int) { return (*session)->run(binding).ok(); });
}

}  // namespace
}  // namespace tenon
