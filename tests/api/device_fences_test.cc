// Fences of a run that an EP takes from the host, and those that stay the host's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/testing.h"
#include "fake_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::FakeDevice;
using api_testing::floats;
using api_testing::in_place;
using api_testing::on_host;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FencesOfARun : public ::testing::Test {
 protected:
  FencesOfARun()
      : ours_(make_host_timeline("ours").value()),
        other_(make_host_timeline("other").value()),
        device_({.takes_fence = [ours = ours_](const Fence& fence) { return fence.timeline == ours; }}) {
    OnnxModel model;
    model.input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3});
    model.node(OnnxNode("Neg", {"x"}, {"y"}));
    session_ = model.load(device_.session_options()).value();
    binding_.emplace(session_->make_binding().value());
    x_ = in_place(*session_, floats({3}, {1, 2, 3}), device_.space());
    y_ = session_->allocate(DataType::kFloat, {3}, device_.space()).value();
    EXPECT_THAT(binding_->bind_input("x", x_), is_ok());
    EXPECT_THAT(binding_->bind_output("y", y_), is_ok());
    EXPECT_THAT(ours_->signal(1), is_ok());
    EXPECT_THAT(other_->signal(1), is_ok());
  }

  Status run(std::vector<Fence> waits, std::vector<Fence> signals, int64_t timeout_ns = kWaitForever) {
    return session_->run(*binding_, {.waits = waits, .signals = signals, .timeout_ns = timeout_ns});
  }
  int waits_taken() { return device_.counts().waits_taken; }
  int signals_taken() { return device_.counts().signals_taken; }

  const std::shared_ptr<Timeline> ours_, other_;
  FakeDevice device_;
  std::shared_ptr<Session> session_;
  std::optional<Binding> binding_;
  Tensor x_, y_;
};

TEST_F(FencesOfARun, AreTakenByTheEpThatRunsAllOfIt) {
  ASSERT_THAT(run({{ours_, 1}}, {{ours_, 2}}), is_ok());
  EXPECT_EQ(waits_taken(), 1);
  EXPECT_EQ(signals_taken(), 1);
  EXPECT_EQ(ours_->value().value(), 2U);
  EXPECT_THAT(values_of(on_host(y_)), ElementsAre(-1, -2, -3));
}

// All waits or none, all signals or none.
TEST_F(FencesOfARun, StayTheHostsWhereTheEpTakesNotAll) {
  ASSERT_THAT(run({{ours_, 1}, {other_, 1}}, {{ours_, 2}}), is_ok());
  EXPECT_EQ(waits_taken(), 0);
  EXPECT_EQ(signals_taken(), 1);
  ASSERT_THAT(run({{ours_, 2}}, {{ours_, 3}, {other_, 2}}), is_ok());
  EXPECT_EQ(waits_taken(), 1);
  EXPECT_EQ(signals_taken(), 1);
  EXPECT_EQ(ours_->value().value(), 3U);
  EXPECT_EQ(other_->value().value(), 2U);
}

// A device has no deadline.
TEST_F(FencesOfARun, WithADeadlineAreWaitedForByTheHost) {
  ASSERT_THAT(run({{ours_, 1}}, {{ours_, 2}}, 1'000'000'000), is_ok());
  EXPECT_EQ(waits_taken(), 0);
  EXPECT_EQ(signals_taken(), 1);
  EXPECT_THAT(run({{ours_, 5}}, {}, 1'000'000), has_status(StatusCode::kTimeout, HasSubstr("ours")));
}

// The host keeps the fences of a run that it makes a copy for.
TEST_F(FencesOfARun, StayTheHostsWhereItTakesPart) {
  ASSERT_THAT(binding_->bind_input("x", floats({3}, {4, 5, 6})), is_ok());
  ASSERT_THAT(run({{ours_, 1}}, {{ours_, 2}}), is_ok());
  ASSERT_THAT(binding_->bind_input("x", x_), is_ok());
  ASSERT_THAT(binding_->bind_output_auto("y", MemorySpace()), is_ok());
  ASSERT_THAT(run({{ours_, 2}}, {{ours_, 3}}), is_ok());
  EXPECT_EQ(waits_taken() + signals_taken(), 0);
  EXPECT_EQ(ours_->value().value(), 3U);
  EXPECT_THAT(values_of(on_host(binding_->output("y"))), ElementsAre(-1, -2, -3));
}

// An output that is written elsewhere first, because it lies over the input, is copied by the host.
TEST_F(FencesOfARun, StayTheHostsWhereAnOutputLiesOverItsInput) {
  ASSERT_THAT(binding_->bind_output("y", x_), is_ok());
  ASSERT_THAT(run({{ours_, 1}}, {{ours_, 2}}), is_ok());
  EXPECT_EQ(waits_taken() + signals_taken(), 0);
  EXPECT_THAT(values_of(on_host(x_)), ElementsAre(-1, -2, -3));
}

}  // namespace
}  // namespace tenon
