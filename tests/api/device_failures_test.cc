// EPs with wrong answers and EPs that fail: each is a clear error, and the session stays usable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/fault.h"
#include "base/testing.h"
#include "fake_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::FakeDevice;
using api_testing::floats;
using api_testing::on_host;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x -> Abs a -> Neg b -> Sqrt-free chain: Abs y.
OnnxModel chain() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3});
  model.node(OnnxNode("Abs", {"x"}, {"a"})).node(OnnxNode("Neg", {"a"}, {"b"})).node(OnnxNode("Abs", {"b"}, {"c"}));
  model.node(OnnxNode("Neg", {"c"}, {"y"}));
  return model;
}

Status run_once(Session& session, std::vector<float>* values = nullptr) {
  TENON_TRY_ASSIGN(Binding binding, session.make_binding());
  TENON_TRY(binding.bind_input("x", floats({3}, {1, -2, 3})));
  TENON_TRY(session.run(binding, {}));
  if (values != nullptr) *values = values_of(on_host(binding.output("y")));
  return {};
}

Result<std::vector<Claim>> claims(std::vector<Claim> made) { return made; }

TEST(LyingEp, DropsClaimsThatCannotHoldAndRunsTheRest) {
  const std::vector<std::vector<Claim>> lies = {
      {{.nodes = {NodeId(99)}, .fused = true}},
      {{.nodes = {NodeId(-1)}, .fused = true}},
      {{.nodes = {}, .fused = true}},
      {{.nodes = {NodeId(1), NodeId(1)}, .fused = true}},
      {{.nodes = {NodeId(1)}, .fused = true}, {.nodes = {NodeId(1)}, .fused = true}},
      {{.nodes = {NodeId(1), NodeId(3)}, .fused = true}},  // Abs lies between
  };
  for (const std::vector<Claim>& lie : lies) {
    FakeDevice device({.claim = [&](const Graph&, std::span<const bool>) { return claims(lie); }});
    const auto session = chain().load(device.session_options());
    ASSERT_THAT(session, is_ok());
    std::vector<float> values;
    ASSERT_THAT(run_once(**session, &values), is_ok());
    EXPECT_THAT(values, ElementsAre(-1, -2, -3));
  }
}

TEST(LyingEp, OneKernelForSeveralNodesIsAnErrorThatNamesTheEp) {
  FakeDevice device(
      {.claim = [](const Graph&, std::span<const bool>) { return claims({{.nodes = {NodeId(0), NodeId(1)}}}); }});
  EXPECT_THAT(chain().load(device.session_options()), has_status(StatusCode::kDeviceError, HasSubstr("\"FakeEP\"")));
}

TEST(FailingEp, AClaimThatFailsLeavesTheModelToTheOthers) {
  FakeDevice device(
      {.claim = [](const Graph&, std::span<const bool>) -> Result<std::vector<Claim>> { return device_error("No."); }});
  const auto session = chain().load(device.session_options());
  ASSERT_THAT(session, is_ok());
  EXPECT_THAT(run_once(**session), is_ok());
}

std::map<std::string, int> nodes_of_eps(const Session& session) {
  std::map<std::string, int> counts;
  for (const EpAssignment& one : session.assignments()) counts[one.ep_name] += static_cast<int>(one.nodes.size());
  return counts;
}

// The Abs that the first EP claims and cannot compile is the second one's; its other regions stay its own.
TEST(FailingEp, WhatItCannotCompileGoesToTheNextEp) {
  FakeDevice first({.name = "FirstEP", .ops = {"Neg", "Abs"}, .refuse = {"Abs"}, .fuse = false});
  FakeDevice second({.name = "SecondEP", .device_id = 1, .ops = {"Abs"}});
  SessionOptions options = first.session_options();
  options.eps.push_back(second.session_options().eps[0]);
  const auto session = chain().load(options);
  ASSERT_THAT(session, is_ok());
  EXPECT_EQ(nodes_of_eps(**session), (std::map<std::string, int>{{"FirstEP", 2}, {"SecondEP", 2}}));
  std::vector<float> values;
  EXPECT_THAT(run_once(**session, &values), is_ok());
  EXPECT_THAT(values, ElementsAre(-1, -2, -3));
}

// Where nobody else wants it, the CPU EP has it: one fused region goes back as a whole.
TEST(FailingEp, WhatNoEpCompilesIsTheCpuEps) {
  FakeDevice device({.ops = {"Neg", "Abs"}, .refuse = {"Neg"}});
  const auto session = chain().load(device.session_options());
  ASSERT_THAT(session, is_ok());
  EXPECT_EQ(nodes_of_eps(**session), (std::map<std::string, int>{{"CPUExecutionProvider", 4}}));
  std::vector<float> values;
  EXPECT_THAT(run_once(**session, &values), is_ok());
  EXPECT_THAT(values, ElementsAre(-1, -2, -3));
  EXPECT_EQ(device.counts().streams, 0);
}

// Every step of loading fails once: a clean status, and nothing is left of the session.
TEST(FailingEp, EveryStepOfLoadingMayFail) {
  FakeDevice device({.ops = {"Neg"}});
  const OnnxModel model = chain();
  int failed = 0;
  for (int n = 1;; ++n) {
    {
      FaultInjection fault(n);
      const auto session = model.load(device.session_options());
      if (!fault.fired()) {
        EXPECT_THAT(session, is_ok());
        break;
      }
      if (!session.ok()) ++failed;
    }
    EXPECT_EQ(device.counts().streams, 0) << n;
    EXPECT_EQ(device.counts().blocks, 0) << n;
    ASSERT_LT(n, 1000);
  }
  EXPECT_GE(failed, 4);  // provider, compile, loaded, stream
}

// Every step of a run fails once: a status, poisoned signals, and the next run of the same session is right.
TEST(FailingEp, EveryStepOfARunMayFail) {
  for (bool shared : {false, true}) {
    for (bool steady : {false, true}) {
      FakeDevice device({.ops = {"Neg"}, .host_accessible = shared});
      const auto session = chain().load(device.session_options()).value();
      if (steady) {
        ASSERT_THAT(run_once(*session), is_ok());
      }
      int walked = 0;
      for (int n = 1;; ++n) {
        bool fired = false;
        std::string where;
        Status status;
        const auto timeline = make_host_timeline("done").value();
        Binding binding = session->make_binding().value();
        const std::vector<Fence> signals = {{timeline, 1}};
        ASSERT_THAT(binding.bind_input("x", floats({3}, {1, -2, 3})), is_ok());
        {
          FaultInjection fault(n);
          status = session->run(binding, {.signals = signals});
          fired = fault.fired();
          where = fault.fired_at();
        }
        if (!fired) {
          EXPECT_THAT(status, is_ok());
          break;
        }
        ++walked;
        EXPECT_FALSE(status.ok()) << where;
        EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << where << ": " << status.to_string();
        EXPECT_FALSE(binding.output("y").defined()) << where;
        EXPECT_EQ(device.counts().running, 0) << where;
        std::vector<float> values;
        ASSERT_THAT(run_once(*session, &values), is_ok()) << "after " << where;
        EXPECT_THAT(values, ElementsAre(-1, -2, -3)) << "after " << where;
        ASSERT_LT(n, 1000);
      }
      EXPECT_GE(walked, 8);
    }
  }
}

// Work that fails on the device after run() enqueued it surfaces as the run's status and in its fences.
TEST(FailingEp, WorkThatFailsLaterIsTheRunsFailure) {
  FakeDevice device({.ops = {"Neg"}});
  const auto session = chain().load(device.session_options()).value();
  ASSERT_THAT(run_once(*session), is_ok());
  for (int n = 1; n < 200; ++n) {
    const auto timeline = make_host_timeline("done").value();
    const std::vector<Fence> signals = {{timeline, 1}};
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", floats({3}, {1, -2, 3})), is_ok());
    FaultInjection fault(n);
    const Status status = session->run(binding, {.signals = signals});
    ASSERT_TRUE(fault.fired());
    if (std::string_view(fault.fired_at()) != "fake kernel on the device") continue;
    EXPECT_THAT(status, has_status(StatusCode::kResourceExhausted, HasSubstr("fake kernel on the device")));
    EXPECT_EQ(timeline->value().value(), 1u);
    EXPECT_FALSE(timeline->status().ok());
    return;
  }
  FAIL() << "No work ran on the device.";
}

}  // namespace
}  // namespace tenon
