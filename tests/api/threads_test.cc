// One session from many threads, one pool for two sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::HasSubstr;

std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> result(count);
  for (float& value : result) value = values(random);
  return result;
}

// Three matrix products with activations between them.
OnnxModel mlp_model() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n", 32}).output("y", DataType::kFloat, {"n", 32});
  std::string from = "x";
  for (const char* layer : {"a", "b", "c"}) {
    const std::string name = layer;
    model.initializer("w" + name, DataType::kFloat, {32, 32}, random_floats(32 * 32, static_cast<unsigned>(name[0])));
    const std::string to = name == "c" ? "y" : "r" + name;
    model.node(OnnxNode("MatMul", {from, "w" + name}, {"m" + name})).node(OnnxNode("Relu", {"m" + name}, {to}));
    from = to;
  }
  return model;
}

int count_threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}

std::vector<float> run_once(Session& session, int64_t n) {
  Binding binding = *session.make_binding();
  EXPECT_THAT(binding.bind_input("x", floats({n, 32}, random_floats(static_cast<size_t>(n) * 32, 1))), is_ok());
  EXPECT_THAT(session.run(binding), is_ok());
  return values_of(binding.output(0));
}

TEST(Threads, SixteenThreadsOnOneSessionGiveEqualBytes) {
  const auto session = mlp_model().load({.threads = 2, .plan_cache_size = 2});
  ASSERT_THAT(session, is_ok());
  std::vector<std::vector<float>> expected;
  for (int64_t n = 1; n <= 4; ++n) expected.push_back(run_once(**mlp_model().load(), n));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      Binding binding = *(*session)->make_binding();
      for (int i = 0; i < 60; ++i) {
        // Four signatures in a cache of two: plans come and go while others run them.
        const int64_t n = (t + i / 10) % 4 + 1;
        const Tensor x = floats({n, 32}, random_floats(static_cast<size_t>(n) * 32, 1));
        if (!binding.bind_input("x", x).ok() || !(*session)->run(binding).ok()) {
          ++wrong;
          continue;
        }
        const Tensor y = binding.output(0);
        const std::vector<float>& want = expected[static_cast<size_t>(n - 1)];
        if (std::memcmp(y.data(), want.data(), want.size() * sizeof(float)) != 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, TwoSessionsShareAPool) {
  const auto pool = ThreadPool::create({.threads = 2});
  ASSERT_THAT(pool, is_ok());
  const int before = count_threads();
  const auto one = mlp_model().load({.pool = *pool});
  const auto two = mlp_model().load({.pool = *pool});
  ASSERT_THAT(one, is_ok());
  ASSERT_THAT(two, is_ok());
  EXPECT_EQ(run_once(**one, 8), run_once(**two, 8));
  EXPECT_EQ(count_threads(), before);
}

TEST(Threads, OneThreadMeansTheCallersOnly) {
  const int before = count_threads();
  const auto session = mlp_model().load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  run_once(**session, 8);
  EXPECT_EQ(count_threads(), before);
}

// A run that waits for its fence has the binding: every call from here is refused, and leaves the run as it is.
TEST(Threads, ABindingInUseRefusesOtherThreads) {
  const auto session = *mlp_model().load({.threads = 1});
  const std::vector<float> expected = run_once(*session, 4);
  Binding binding = *session->make_binding();
  const Tensor x = floats({4, 32}, random_floats(4 * 32, 1));
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(session->run(binding), is_ok());
  const auto timeline = *make_host_timeline("ready");
  const Fence ready{timeline, 1};
  Status ran;
  std::thread other([&] { ran = session->run(binding, {.waits = {ready}}); });
  while (binding.output(0).defined()) std::this_thread::yield();

  const auto refused = has_status(StatusCode::kInvalidArgument, HasSubstr("The binding is in use"));
  EXPECT_THAT(session->run(binding), refused);
  EXPECT_THAT(binding.bind_input("x", floats({1, 32}, random_floats(32, 2))), refused);
  EXPECT_THAT(binding.bind_output("y", floats({4, 32}, random_floats(4 * 32, 2))), refused);
  EXPECT_THAT(binding.bind_output_auto("y"), refused);
  EXPECT_THAT(binding.bind_output_auto("y", MemorySpace()), refused);
  EXPECT_THAT(binding.unbind_input(0), refused);
  EXPECT_THAT(binding.clear(), refused);
  EXPECT_FALSE(binding.output("y").defined());
  ASSERT_THAT(ready.signal(), is_ok());
  other.join();
  EXPECT_THAT(ran, is_ok());
  EXPECT_EQ(values_of(binding.output("y")), expected);
  EXPECT_THAT(session->run(binding), is_ok());
}

// A failed run gives the binding back, too.
TEST(Threads, ABindingIsFreeAfterAFailedRun) {
  const auto session = *mlp_model().load({.threads = 1});
  Binding binding = *session->make_binding();
  EXPECT_THAT(session->run(binding), has_status(StatusCode::kInvalidArgument, HasSubstr("is not bound")));
  EXPECT_THAT(binding.unbind_input(7), has_status(StatusCode::kInvalidArgument, HasSubstr("Input 7 of 1")));
  EXPECT_THAT(binding.bind_input("x", floats({4, 32}, random_floats(4 * 32, 1))), is_ok());
  EXPECT_THAT(session->run(binding), is_ok());
}

// The thread sanitizer sees no race.
TEST(Threads, ManyThreadsOnOneBindingRaceForTurnsAlone) {
  const auto session = *mlp_model().load({.threads = 1});
  const std::vector<float> expected = run_once(*session, 4);
  Binding binding = *session->make_binding();
  const Tensor x = floats({4, 32}, random_floats(4 * 32, 1));
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  std::atomic<int> wrong = 0, done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int call = (t + i) % 4;
        const Status status = call == 0   ? binding.bind_input("x", x)
                              : call == 1 ? binding.bind_output_auto("y")
                                          : session->run(binding);
        if (status.ok() && call > 1) ++done;
        if (!status.ok() && status.code() != StatusCode::kInvalidArgument) ++wrong;
        (void)binding.output(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(done, 0);
  EXPECT_THAT(session->run(binding), is_ok());
  EXPECT_EQ(values_of(binding.output(0)), expected);
}

}  // namespace
}  // namespace tenon
