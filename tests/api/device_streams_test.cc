// Runs on the caller's stream, runs that return before their work is done, and the waits of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing.h"
#include "fake_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::done;
using api_testing::enqueue;
using api_testing::FakeDevice;
using api_testing::floats;
using api_testing::in_place;
using api_testing::on_host;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::queued;
using api_testing::values_of;
using api_testing::work;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x -> Neg -> Neg -> ... y, `count` of them.
OnnxModel chain(int count, const api_testing::OnnxDim& dim = 3) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {dim}).output("y", DataType::kFloat, {dim});
  std::string value = "x";
  for (int i = 0; i < count; ++i) {
    const std::string next = i + 1 < count ? "v" + std::to_string(i) : "y";
    model.node(OnnxNode("Neg", {value}, {next}));
    value = next;
  }
  return model;
}

// A session with x and y bound in the device's memory.
struct OnDevice {
  OnDevice(std::shared_ptr<Session> made, const FakeDevice& device, std::vector<float> values)
      : session(std::move(made)), binding(session->make_binding().value()) {
    const auto count = static_cast<int64_t>(values.size());
    x = in_place(*session, floats({count}, values), device.space());
    y = session->allocate(DataType::kFloat, {count}, device.space()).value();
    EXPECT_THAT(binding.bind_input("x", x), is_ok());
    EXPECT_THAT(binding.bind_output("y", y), is_ok());
  }
  Status run(DeviceStream* stream) { return session->run(binding, {.stream = stream, .synchronize = false}); }

  std::shared_ptr<Session> session;
  Binding binding;
  Tensor x, y;
};

// A copy to a device reads host memory when it is enqueued (CUDA's do, with pageable memory): what another stream
// still writes there has to be done by then, and nothing else has.
TEST(HostCopies, WaitForTheStreamThatWritesTheirSource) {
  FakeDevice first({.name = "FirstEP", .ops = {"Neg"}});
  FakeDevice second({.name = "SecondEP", .device_id = 1, .ops = {"Mul"}, .stages_copies = true});
  SessionOptions options = first.session_options();
  options.eps.push_back({.ep_name = "SecondEP"});
  OnnxModel model;  // Mul wants both results of Neg, through the host
  model.input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Mul", {"a", "a"}, {"y"}));
  const auto session = model.load(options).value();
  EXPECT_THAT(session->explain({}).value(), HasSubstr("of stream 1, on the host"));
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", floats({3}, {1, 2, 3})), is_ok());
  for (int i = 1; i <= 3; ++i) {
    ASSERT_THAT(session->run(binding), is_ok());
    EXPECT_THAT(values_of(on_host(binding.output("y"))), ElementsAre(1, 4, 9));
    // The first EP's stream: once for the copy, once at the end. The second's: at the end only.
    EXPECT_EQ(first.counts().waits_on_host, 2 * i);
    EXPECT_EQ(second.counts().waits_on_host, i);
  }
}

// S1.5: the run is queued behind what the caller's stream has, and returns.
TEST(CallersStream, ARunReturnsBeforeItsWork) {
  FakeDevice device({});
  OnDevice runs(chain(1).load(device.session_options()).value(), device, {1, 2, 3});
  const auto stream = device.make_stream();
  bool written = false;
  enqueue(*stream, [&] {
    written = true;
    return Status();
  });
  ASSERT_THAT(runs.run(stream.get()), is_ok());
  EXPECT_FALSE(written);
  EXPECT_EQ(done(*stream), 0u);
  EXPECT_GT(queued(*stream), 1u);
  EXPECT_EQ(device.counts().waits_on_host, 0);
  ASSERT_THAT(work(*stream), is_ok());
  EXPECT_THAT(values_of(on_host(runs.y)), ElementsAre(-1, -2, -3));
  EXPECT_THAT(runs.session->synchronize(), is_ok());
}

TEST(CallersStream, ARunThatSynchronizesWaitsForTheStreamAlone) {
  FakeDevice device({});
  OnDevice runs(chain(1).load(device.session_options()).value(), device, {1, 2, 3});
  const auto stream = device.make_stream();
  bool written = false;
  enqueue(*stream, [&] {
    written = true;
    return Status();
  });
  const int streams = device.counts().streams_made;
  ASSERT_THAT(runs.session->run(runs.binding, {.stream = stream.get()}), is_ok());
  EXPECT_TRUE(written);
  EXPECT_EQ(done(*stream), queued(*stream));
  EXPECT_EQ(device.counts().streams_made, streams);
  EXPECT_THAT(values_of(on_host(runs.y)), ElementsAre(-1, -2, -3));
}

// Where the host takes part, it has to see what the stream has before the run.
TEST(CallersStream, WhatTheHostReadsIsWaitedForFirst) {
  for (const char* op : {"Abs", "Neg"}) {  // on the CPU EP; on the device, from host memory
    FakeDevice device({.stages_copies = true});
    OnnxModel model;
    model.input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2}).node(OnnxNode(op, {"x"}, {"y"}));
    model.output("z", DataType::kFloat, {2}).node(OnnxNode("Neg", {"x"}, {"z"}));
    const auto session = model.load(device.session_options()).value();
    Binding binding = session->make_binding().value();
    const Tensor x = floats({2}, {0, 0});
    ASSERT_THAT(binding.bind_input("x", x), is_ok());
    const auto stream = device.make_stream();
    enqueue(*stream, [&] {
      x.data_as<float>()[0] = 7;
      return Status();
    });
    ASSERT_THAT(session->run(binding, {.stream = stream.get(), .synchronize = false}), is_ok());
    ASSERT_THAT(session->synchronize(), is_ok());
    ASSERT_THAT(work(*stream), is_ok());
    EXPECT_THAT(values_of(on_host(binding.output("z"))), ElementsAre(-7, 0)) << op;
  }
}

// Fences of the C++ API are signalled by the host: such a run is waited for.
TEST(CallersStream, ARunWithSignalsIsDoneWhenItReturns) {
  FakeDevice device({});
  OnDevice runs(chain(1).load(device.session_options()).value(), device, {1, 2, 3});
  const auto stream = device.make_stream();
  const auto timeline = make_host_timeline("done").value();
  const Fence fence{timeline, 1};
  ASSERT_THAT(runs.session->run(runs.binding, {.signals = {&fence, 1}, .stream = stream.get(), .synchronize = false}),
              is_ok());
  EXPECT_EQ(timeline->value().value(), 1u);
  EXPECT_EQ(done(*stream), queued(*stream));
}

// Two streams at different points of their runs never work in the same memory; runs of one stream may.
TEST(UnfinishedRuns, HaveMemoryOfTheirOwnByStream) {
  FakeDevice device({.fuse = false});
  const auto session = chain(5).load(device.session_options()).value();
  OnDevice a(session, device, {1, 2, 3}), b(session, device, {4, 5, 6}), c(session, device, {7, 8, 9});
  const auto one = device.make_stream(), other = device.make_stream();
  for (int turn = 0; turn < 3; ++turn) {
    const int blocks = device.counts().blocks;
    ASSERT_THAT(a.run(one.get()), is_ok());
    ASSERT_THAT(b.run(other.get()), is_ok());
    ASSERT_THAT(c.run(one.get()), is_ok());
    if (turn > 0) {
      EXPECT_EQ(device.counts().blocks, blocks) << "nothing grows";
    }
    ASSERT_THAT(work(*one, 2), is_ok());
    ASSERT_THAT(work(*other, 3), is_ok());
    ASSERT_THAT(work(*one), is_ok());
    ASSERT_THAT(work(*other), is_ok());
    EXPECT_THAT(values_of(on_host(a.y)), ElementsAre(-1, -2, -3));
    EXPECT_THAT(values_of(on_host(b.y)), ElementsAre(-4, -5, -6));
    EXPECT_THAT(values_of(on_host(c.y)), ElementsAre(-7, -8, -9));
  }
}

// S3.2: a kernel that says that it runs in place does, though it is queued; one that does not say so is not trusted,
// and its result copied.
TEST(BoundOverEachOther, TheKernelDecidesIfAnOutputMayBeItsInput) {
  for (const bool in_place_kernel : {true, false}) {
    FakeDevice device({.in_place = in_place_kernel});
    OnDevice runs(chain(1).load(device.session_options()).value(), device, {1, 2, 3});
    ASSERT_THAT(runs.binding.bind_output("y", runs.x), is_ok());
    RunReport report;
    ASSERT_THAT(runs.session->run(runs.binding, {.report = &report}), is_ok());
    EXPECT_THAT(values_of(on_host(runs.x)), ElementsAre(-1, -2, -3));
    ASSERT_EQ(report.copies.records.size(), in_place_kernel ? 0u : 1u);
    if (!in_place_kernel) {
      EXPECT_EQ(report.copies.records[0].reason, CopyReason::kOverlap);
    }
  }
}

// A part of the input is no place for any kernel's output.
TEST(BoundOverEachOther, APartialOverlapIsCopied) {
  FakeDevice device({.in_place = true});
  OnDevice runs(chain(1).load(device.session_options()).value(), device, {1, 2, 3});
  const Tensor whole = in_place(*runs.session, floats({4}, {1, 2, 3, 4}), device.space());
  const auto part = [&](int from) {
    return Tensor::view(DataType::kFloat, {3}, static_cast<float*>(whole.data()) + from, 12, whole.owner(),
                        whole.space())
        .value();
  };
  ASSERT_THAT(runs.binding.bind_input("x", part(0)), is_ok());
  ASSERT_THAT(runs.binding.bind_output("y", part(1)), is_ok());
  RunReport report;
  ASSERT_THAT(runs.session->run(runs.binding, {.report = &report}), is_ok());
  EXPECT_THAT(values_of(on_host(whole)), ElementsAre(1, -1, -2, -3));
  ASSERT_EQ(report.copies.records.size(), 1u);
  EXPECT_EQ(report.copies.records[0].reason, CopyReason::kOverlap);
}

// The kernel that reads the input comes before the last one, which writes the output, in the order of the one stream.
TEST(BoundOverEachOther, AnEarlierKernelsInputMayBeWrittenByALaterOne) {
  FakeDevice device({.fuse = false});
  SessionOptions options = device.session_options();
  options.disallow_copies = true;
  OnDevice runs(chain(3).load(options).value(), device, {1, 2, 3});
  ASSERT_THAT(runs.binding.bind_output("y", runs.x), is_ok());
  ASSERT_THAT(runs.session->run(runs.binding), is_ok());
  EXPECT_THAT(values_of(on_host(runs.x)), ElementsAre(-1, -2, -3));
}

// Two streams know no order: the input is read on one, and the output copied over it by the other.
TEST(BoundOverEachOther, StreamsOfTwoEpsAreNotOrdered) {
  FakeDevice first({.name = "FirstEP", .ops = {"Neg"}});
  FakeDevice second({.name = "SecondEP", .device_id = 1, .ops = {"Mul"}});
  SessionOptions options = first.session_options();
  options.eps.push_back({.ep_name = "SecondEP"});
  OnnxModel model;
  model.input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Mul", {"a", "a"}, {"y"}));
  const auto session = model.load(options).value();
  Binding binding = session->make_binding().value();
  const Tensor x = floats({3}, {1, 2, 3});
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(binding.bind_output("y", x), is_ok());
  RunReport report;
  ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(values_of(x), ElementsAre(1, 4, 9));
  EXPECT_TRUE(std::any_of(report.copies.records.begin(), report.copies.records.end(),
                          [](const CopyRecord& copy) { return copy.reason == CopyReason::kOverlap; }));
}

// The same with the EP's own stream: later runs are queued behind, and a run that waits waits for all of them.
TEST(UnfinishedRuns, AreOrderedOnTheEpsOwnStream) {
  FakeDevice device({.fuse = false});
  const auto session = chain(3).load(device.session_options()).value();
  OnDevice a(session, device, {1, 2, 3}), b(session, device, {4, 5, 6});
  ASSERT_THAT(a.run(nullptr), is_ok());
  ASSERT_THAT(b.run(nullptr), is_ok());
  EXPECT_EQ(device.counts().waits_on_host, 0);
  EXPECT_THAT(values_of(on_host(a.y)), Each(::testing::Not(-1)));
  ASSERT_THAT(session->synchronize(), is_ok());
  EXPECT_THAT(values_of(on_host(a.y)), ElementsAre(-1, -2, -3));
  EXPECT_THAT(values_of(on_host(b.y)), ElementsAre(-4, -5, -6));
}

// Plans of growing size on one stream: memory that was outgrown is not given away while the stream may use it.
TEST(UnfinishedRuns, GrowOnOneStream) {
  FakeDevice device({.fuse = false});
  const auto session = chain(4, "n").load(device.session_options()).value();
  const auto stream = device.make_stream();
  std::vector<std::unique_ptr<OnDevice>> all;
  for (int size = 1; size <= 20; ++size) {
    all.push_back(std::make_unique<OnDevice>(session, device, std::vector<float>(static_cast<size_t>(size * 1024), 2)));
    ASSERT_THAT(all.back()->run(stream.get()), is_ok());
  }
  ASSERT_THAT(session->synchronize(), is_ok());
  for (const auto& runs : all) EXPECT_THAT(values_of(on_host(runs->y)), Each(2));
}

TEST(UnfinishedRuns, EndWithTheirSession) {
  FakeDevice device({.fuse = false});
  const auto stream = device.make_stream();
  Tensor x, y;
  {
    OnDevice runs(chain(3).load(device.session_options()).value(), device, {1, 2, 3});
    x = runs.x;
    y = runs.y;
    ASSERT_THAT(runs.run(stream.get()), is_ok());
    EXPECT_EQ(done(*stream), 0u);
  }
  EXPECT_EQ(done(*stream), queued(*stream));
  EXPECT_THAT(values_of(on_host(y)), ElementsAre(-1, -2, -3));
  EXPECT_EQ(device.counts().blocks, 2) << "x and y";
}

// A failure after the run has returned is the stream's failure, and synchronize() tells it once.
TEST(UnfinishedRuns, ThatFailAreReportedBySynchronize) {
  FakeDevice device({.fuse = false});
  OnDevice runs(chain(3).load(device.session_options()).value(), device, {1, 2, 3});
  const auto stream = device.make_stream();
  ASSERT_THAT(runs.run(stream.get()), is_ok());
  enqueue(*stream, [] { return device_lost("The device has gone."); });
  ASSERT_THAT(runs.run(stream.get()), is_ok());
  EXPECT_THAT(runs.session->synchronize(), has_status(StatusCode::kDeviceLost, HasSubstr("has gone")));
  EXPECT_THAT(runs.session->synchronize(), is_ok());
  ASSERT_THAT(runs.session->run(runs.binding), is_ok());
  EXPECT_THAT(values_of(on_host(runs.y)), ElementsAre(-1, -2, -3));
}

}  // namespace
}  // namespace tenon
