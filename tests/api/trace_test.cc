// The trace of sessions: its spans, what they name, how they nest, and how they add up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/plan_report.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/trace.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using nlohmann::json;
using ::testing::Contains;

// Two products with weights to pack, each with something to fuse; names that JSON has to escape.
OnnxModel model(const std::string& middle) {
  OnnxModel made;
  made.input("x", DataType::kFloat, {"n", 64}).output("y", DataType::kFloat, {"n", 64});
  made.initializer("v", DataType::kFloat, {64, 64}, std::vector<float>(64 * 64, 0.5F));
  made.initializer("w", DataType::kFloat, {64, 64}, std::vector<float>(64 * 64, 0.25F));
  made.node(OnnxNode("MatMul", {"x", "v"}, {"a"}));
  made.node(OnnxNode("Relu", {"a"}, {middle}));
  made.node(OnnxNode("MatMul", {middle, "w"}, {"c"}));
  made.node(OnnxNode("Sin", {"c"}, {"y"}));
  return made;
}

struct Event {
  std::string category, name;
  double begin_us = 0, end_us = 0;
  int thread = 0;
  json args;
};

class Trace : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(open_trace_file(path_), is_ok()); }
  void TearDown() override {
    close_trace_file();
    EXPECT_EQ(std::remove(path_.c_str()), 0);
  }

  std::vector<Event> spans() const {
    close_trace_file();
    std::ifstream file(path_);
    std::vector<Event> found;
    for (const json& event : json::parse(file)) {
      if (event.at("ph") != "X") continue;
      EXPECT_EQ(event.at("pid"), ::getpid());
      const double begin_us = event.at("ts");
      found.push_back({event.at("cat"), event.at("name"), begin_us, begin_us + event.at("dur").get<double>(),
                       event.at("tid"), event.at("args")});
    }
    return found;
  }

  static std::vector<Event> of(const std::vector<Event>& all, std::string_view category, int session = 0) {
    std::vector<Event> found;
    for (const Event& event : all) {
      if (event.category == category && (session == 0 || event.args.value("session", 0) == session))
        found.push_back(event);
    }
    return found;
  }

  static Status run(Session& session, int64_t rows) {
    std::vector<std::pair<std::string, Tensor>> inputs;
    inputs.emplace_back("x", floats({rows, 64}, std::vector<float>(static_cast<size_t>(rows) * 64, 1.0F)));
    return session.run(inputs).status();
  }

 private:
  const std::string path_ = ::testing::TempDir() + tenon::format("tenon_session_trace_{}.json", ::getpid());
};

bool within(const Event& inner, const Event& outer) {
  constexpr double kRounding = 0.002;  // the file has nanoseconds as thousandths, and a double has 53 bits
  return inner.thread == outer.thread && inner.begin_us >= outer.begin_us - kRounding &&
         inner.end_us <= outer.end_us + kRounding;
}

TEST_F(Trace, ALoadAndAPlanHaveASpanForEachPart) {
  const auto session = model("b").load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  ASSERT_THAT(run(**session, 3), is_ok());
  const std::vector<Event> all = spans();
  const int number = all.at(0).args.at("session");

  std::map<std::string, Event> loads;
  for (const Event& event : of(all, "load", number)) loads.emplace(event.name, event);
  for (const char* part : {"read", "prepare", "infer shapes", "check nodes", "start threads"}) {
    ASSERT_TRUE(loads.contains(part)) << part;
    EXPECT_TRUE(within(loads.at(part), loads.at("load"))) << part;
  }
  EXPECT_EQ(loads.at("read").args.at("nodes"), 4);

  // Every pass, and whether it changed something.
  std::map<std::string, bool> changed;
  for (const Event& event : of(all, "pass", number)) {
    const std::string phase = event.args.at("phase");
    EXPECT_TRUE(phase == "load" || phase == "plan");
    EXPECT_GE(event.args.at("nodes_before"), event.args.at("nodes"));
    changed[phase + " " + event.name] = event.args.at("changed");
  }
  EXPECT_TRUE(changed.at("load fuse_activations"));
  EXPECT_FALSE(changed.at("load pack_qkv"));
  EXPECT_FALSE(changed.at("plan attention"));

  std::map<std::string, std::vector<Event>> plans;
  for (const Event& event : of(all, "plan", number)) plans[event.name].push_back(event);
  ASSERT_EQ(plans["plan"].size(), 1u);
  const Event& plan = plans["plan"][0];
  EXPECT_EQ(plan.args.at("inputs"), json({{"x", "float32[3,64]"}}));
  EXPECT_EQ(plan.args.at("steps"), 3);
  EXPECT_EQ(plans["kernel"].size(), 3u);
  for (const char* part : {"layouts", "kernel", "memory"})
    for (const Event& event : plans[part]) EXPECT_TRUE(within(event, plan)) << part;

  // Packing is in the making of the kernel that it names.
  const std::vector<Event> packed = of(all, "pack", number);
  ASSERT_EQ(packed.size(), 2u);
  for (const Event& event : packed) {
    EXPECT_EQ(event.args.at("shape"), "[64,64]");
    EXPECT_EQ(event.args.at("from_bytes"), 64 * 64 * 4);
    EXPECT_TRUE(std::any_of(plans["kernel"].begin(), plans["kernel"].end(), [&](const Event& kernel) {
      return within(event, kernel) && kernel.args.at("node") == event.args.at("node");
    }));
  }
  ASSERT_EQ(of(all, "allocate", number).size(), 1u);
  EXPECT_EQ(of(all, "allocate", number)[0].args.at("bytes"), plan.args.at("arena_bytes"));
}

TEST_F(Trace, ARunsKernelsNameNodeOperatorKernelShapesStepAndStream) {
  const std::string odd = "b\"\\\n\xc3\xa9";
  const auto session = model(odd).load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  for (int i = 0; i < 2; ++i) ASSERT_THAT(run(**session, 2), is_ok());
  const Result<PlanReport> plan = (*session)->plan_report({{"x", {2, 64}}}, {});
  ASSERT_THAT(plan, is_ok());

  const std::vector<Event> all = spans();
  const int number = all.at(0).args.at("session");
  const std::vector<Event> runs = of(all, "run", number);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_NE(runs[0].args.at("run"), runs[1].args.at("run"));
  for (const Event& whole : runs) {
    size_t steps = 0;
    double busy_us = 0;
    for (const Event& kernel : of(all, "kernel", number)) {
      if (!within(kernel, whole)) continue;
      const PlanReport::Step& step = plan->steps.at(steps);
      EXPECT_EQ(kernel.args.at("step"), steps);
      EXPECT_EQ(kernel.args.at("stream"), step.stream);
      EXPECT_EQ(kernel.args.at("kernel"), step.kernel);
      EXPECT_EQ(kernel.args.at("op_name"), step.op_type);
      EXPECT_EQ(kernel.args.at("provider"), "CPUExecutionProvider");
      EXPECT_EQ(kernel.args.at("node_index"), std::to_string(step.node));
      EXPECT_EQ(kernel.args.at("output_type_shape"), json::parse(R"([{"float":[2,64]}])"));
      EXPECT_EQ(kernel.args.at("input_type_shape").at(0), json::parse(R"({"float":[2,64]})"));
      busy_us += kernel.end_us - kernel.begin_us;
      ++steps;
    }
    EXPECT_EQ(steps, 3u);
    EXPECT_LE(busy_us, whole.end_us - whole.begin_us);
  }
  // The fused Relu is in the list of its step.
  const Event first = of(all, "kernel", number).at(0);
  EXPECT_THAT(first.args.at("model_nodes").get<std::vector<std::string>>(), Contains("MatMul_of_a"));
  EXPECT_THAT(first.args.at("model_nodes").get<std::vector<std::string>>(), Contains("Relu_of_" + odd));
}

// Two sessions, each run by two threads on a pool of three: each thread's spans nest, and each span has its session.
TEST_F(Trace, SpansNestInEachThreadAndNameTheirSession) {
  constexpr int kRuns = 20;
  const auto one = model("b").load({.threads = 3}), two = model("b").load({.threads = 3});
  ASSERT_THAT(one, is_ok());
  ASSERT_THAT(two, is_ok());
  std::vector<std::thread> threads;
  for (Session* session : {one->get(), one->get(), two->get(), two->get()}) {
    threads.emplace_back([session] {
      for (int i = 0; i < kRuns; ++i) EXPECT_THAT(run(*session, 256), is_ok());
    });
  }
  for (std::thread& thread : threads) thread.join();

  const std::vector<Event> all = spans();
  std::map<int, std::vector<Event>> by_thread;
  std::map<int, int> runs;
  for (const Event& event : all) {
    by_thread[event.thread].push_back(event);
    ASSERT_GT(event.args.at("session"), 0) << event.category << " " << event.name;
    if (event.category == "run") ++runs[event.args.at("session")];
  }
  ASSERT_EQ(runs.size(), 2u);
  for (const auto& [session, count] : runs) EXPECT_EQ(count, 2 * kRuns);
  // The parts of kernels: on workers too, named after their node.
  const std::vector<Event> parts = of(all, "part");
  ASSERT_FALSE(parts.empty());
  EXPECT_GT(by_thread.size(), 5u) << "four callers and the loading thread have spans, and no worker has";
  for (const Event& part : parts) EXPECT_LT(part.args.at("begin"), part.args.at("end"));
  for (auto& [thread, events] : by_thread) {
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.begin_us != b.begin_us ? a.begin_us < b.begin_us : a.end_us > b.end_us;
    });
    std::vector<Event> open;
    for (const Event& event : events) {
      while (!open.empty() && open.back().end_us <= event.begin_us + 0.002) open.pop_back();
      if (!open.empty()) {
        EXPECT_TRUE(within(event, open.back())) << event.category << " " << event.name << " in " << open.back().name;
        EXPECT_EQ(event.args.at("session"), open.back().args.at("session"));
      }
      open.push_back(event);
    }
  }
}

}  // namespace
}  // namespace tenon
