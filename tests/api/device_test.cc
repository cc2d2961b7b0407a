// Sessions over the CPU EP and others: partition of nodes, memory spaces of tensors, and remaining copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/plan_report.h>

#include <thread>

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
using ::testing::IsEmpty;
using ::testing::Not;

// x -> Abs a (cpu) -> Neg b -> Neg c (fake) -> Sqrt y (cpu)
OnnxModel sandwich(const api_testing::OnnxDim& dim = "n") {
  OnnxModel model;
  model.input("x", DataType::kFloat, {dim}).output("y", DataType::kFloat, {dim});
  model.node(OnnxNode("Abs", {"x"}, {"a"})).node(OnnxNode("Neg", {"a"}, {"b"}));
  model.node(OnnxNode("Add", {"b", "b"}, {"c"})).node(OnnxNode("Abs", {"c"}, {"d"}));
  model.node(OnnxNode("Sqrt", {"d"}, {"y"}));
  return model;
}

// x -> Neg y, all of it on the device.
OnnxModel negation(const api_testing::OnnxDim& dim = "n") {
  OnnxModel model;
  model.input("x", DataType::kFloat, {dim}).output("y", DataType::kFloat, {dim});
  model.node(OnnxNode("Neg", {"x"}, {"y"}));
  return model;
}

struct Runs {
  explicit Runs(const OnnxModel& model, const SessionOptions& options)
      : session(model.load(options).value()), binding(session->make_binding().value()) {}
  Status run() { return session->run(binding, {.report = &report}); }

  std::shared_ptr<Session> session;
  Binding binding;
  RunReport report;
};

std::vector<std::string> reasons(const RunReport& report) {
  std::vector<std::string> texts;
  for (const CopyRecord& copy : report.copies.records) {
    texts.push_back(format("{} {} {} -> {}: {}", copy.what, copy.bytes, copy.source.to_string(),
                           copy.target.to_string(), copy_reason_name(copy.reason)));
  }
  return texts;
}

TEST(Device, ASessionSaysWhichEpTookWhichNodes) {
  FakeDevice device({.ops = {"Neg", "Add"}});
  const auto session = sandwich().load(device.session_options()).value();
  const auto assignments = session->assignments();
  ASSERT_EQ(assignments.size(), 4u);
  EXPECT_EQ(assignments[0].ep_name, "FakeEP");
  ASSERT_EQ(assignments[0].nodes.size(), 2u);
  EXPECT_EQ(assignments[0].nodes[0].op_type, "Neg");
  EXPECT_EQ(assignments[0].nodes[1].name, "Add_of_c");
  EXPECT_EQ(assignments[1].ep_name, "CPUExecutionProvider");
  EXPECT_EQ(assignments[3].nodes[0].op_type, "Sqrt");
  EXPECT_EQ(device.counts().regions, 1);
  EXPECT_EQ(device.counts().loaded, 1);
}

TEST(Device, AnEpThatIsNotThereIsNamedWithThoseThatAre) {
  EXPECT_THAT(negation().load({.threads = 1, .eps = {{.ep_name = "NoEP"}}}),
              has_status(StatusCode::kNotFound, HasSubstr("CPUExecutionProvider")));
}

// A node that no EP takes and the CPU EP has no kernel for is kUnsupported, and the message names its operator.
TEST(Device, ANodeThatNobodyTakesIsTheCpuEpsError) {
  FakeDevice device({.ops = {"Neg"}});
  OnnxModel model;
  model.input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2});
  model.node(OnnxNode("NoSuchOperator", {"x"}, {"y"}));
  EXPECT_THAT(model.load(device.session_options()), has_status(StatusCode::kUnsupported, HasSubstr("NoSuchOperator")));
}

TEST(Device, WithoutSharedMemoryTheLedgerSaysWhatIsCopiedAndWhy) {
  FakeDevice device({.ops = {"Neg", "Add"}});
  Runs runs(sandwich(), device.session_options());
  ASSERT_THAT(runs.binding.bind_input("x", floats({3}, {-2, 8, 18})), is_ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(2, 4, 6));
    EXPECT_THAT(reasons(runs.report), ElementsAre("a 12 cpu -> gpu:0 (vendor 0x7e50): not_compatible",
                                                  "c 12 gpu:0 (vendor 0x7e50) -> cpu: not_compatible"));
  }
}

// S3.3: a tensor between the CPU EP and another is allocated once, in memory that both address.
TEST(Device, WithHostAccessibleMemoryNothingIsCopied) {
  FakeDevice device({.ops = {"Neg", "Add"}, .host_accessible = true});
  Runs runs(sandwich(), device.session_options());
  ASSERT_THAT(runs.binding.bind_input("x", floats({3}, {-2, 8, 18})), is_ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(2, 4, 6));
    EXPECT_EQ(runs.report.copies.bytes_copied(), 0u);
    EXPECT_THAT(runs.report.copies.records, IsEmpty());
  }
  EXPECT_EQ(device.counts().copies, 0);
}

// S1.8, S3.2: what is bound in the device's memory is read and written there.
TEST(Device, TensorsInDeviceMemoryAreUsedInPlace) {
  FakeDevice device({});
  Runs runs(negation(), device.session_options());
  EXPECT_EQ(runs.session->input_spaces()[0].space, device.space());
  EXPECT_EQ(runs.session->input_spaces()[0].ep_name, "FakeEP");
  EXPECT_EQ(runs.session->output_spaces()[0].space, device.space());
  const Tensor x = in_place(*runs.session, floats({3}, {1, 2, 3}), device.space());
  const Tensor y = runs.session->allocate(DataType::kFloat, {3}, device.space()).value();
  const int before = device.counts().copies;
  ASSERT_THAT(runs.binding.bind_input("x", x), is_ok());
  ASSERT_THAT(runs.binding.bind_output("y", y), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_THAT(runs.report.copies.records, IsEmpty());
  EXPECT_EQ(device.counts().copies, before);
  EXPECT_EQ(runs.binding.output("y").data(), y.data());
  EXPECT_THAT(values_of(on_host(y)), ElementsAre(-1, -2, -3));
}

TEST(Device, AnUnboundOutputStaysWhereItIsMadeUnlessAskedElsewhere) {
  FakeDevice device({});
  Runs runs(negation(), device.session_options());
  ASSERT_THAT(runs.binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_EQ(runs.binding.output("y").space(), device.space());
  EXPECT_THAT(values_of(on_host(runs.binding.output("y"))), ElementsAre(-1, -2));
  ASSERT_THAT(runs.binding.bind_output_auto("y", MemorySpace{}), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(-1, -2));
  EXPECT_EQ(runs.report.copies.records.size(), 2u);
  ASSERT_THAT(runs.binding.bind_output_auto("y"), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_EQ(runs.binding.output("y").space(), device.space());
}

TEST(Device, TheConvenienceRunGivesHostMemory) {
  FakeDevice device({});
  const auto session = negation().load(device.session_options()).value();
  const std::vector<std::pair<std::string, Tensor>> feeds = {{"x", floats({2}, {1, 2})}};
  EXPECT_THAT(values_of(session->run(feeds).value()[0]), ElementsAre(-1, -2));
}

// The space of a bound tensor is part of the signature.
TEST(Device, PlansDependOnWhereTensorsAreBound) {
  FakeDevice device({.host_accessible = true});
  Runs runs(negation(), device.session_options());
  const MemorySpace plain{};
  for (const MemorySpace& in : {plain, device.space(), device.host_accessible_space()}) {
    for (const MemorySpace& out : {plain, device.space(), device.host_accessible_space()}) {
      ASSERT_THAT(runs.binding.bind_input("x", in_place(*runs.session, floats({2}, {1, 2}), in)), is_ok());
      const Tensor y = runs.session->allocate(DataType::kFloat, {2}, out).value();
      ASSERT_THAT(runs.binding.bind_output("y", y), is_ok());
      ASSERT_THAT(runs.run(), is_ok());
      EXPECT_TRUE(runs.report.planned);
      EXPECT_THAT(values_of(on_host(y)), ElementsAre(-1, -2));
      // S3.1: only memory of the device's own HOST_ACCESSIBLE kind is as good as that.
      const size_t copies =
          (in == device.host_accessible_space() ? 0 : 1) + (out == device.host_accessible_space() ? 0 : 1);
      EXPECT_EQ(runs.report.copies.records.size(), copies) << in.to_string() << " " << out.to_string();
      ASSERT_THAT(runs.run(), is_ok());
      EXPECT_FALSE(runs.report.planned);
    }
  }
}

TEST(Device, ATensorThatIsLessAlignedThanTheDeviceAsksForIsCopied) {
  FakeDevice device({.alignment = 256});
  Runs runs(negation(), device.session_options());
  const Tensor room = runs.session->allocate(DataType::kFloat, {256}, device.space()).value();
  ASSERT_THAT(copy(room, floats({256}, std::vector<float>(256, 3))), is_ok());
  MemorySpace space = device.space();
  space.alignment = 0;
  const Tensor x = Tensor::view(DataType::kFloat, {2}, room.data_as<std::byte>() + 64, 8, room.owner(), space).value();
  ASSERT_THAT(runs.binding.bind_input("x", x), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_THAT(reasons(runs.report), ElementsAre(HasSubstr("alignment")));
  EXPECT_THAT(values_of(on_host(runs.binding.output("y"))), ElementsAre(-3, -3));
}

TEST(Device, StrictModeRefusesPlannedCopiesWithTheirReasons) {
  FakeDevice device({});
  SessionOptions options = device.session_options();
  options.disallow_copies = true;
  Runs runs(negation(), options);
  ASSERT_THAT(runs.binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  EXPECT_THAT(runs.run(), has_status(StatusCode::kInvalidArgument,
                                     HasSubstr("\"x\" would have to be copied from cpu to gpu:0 (vendor 0x7e50) (not_"
                                               "compatible)")));
  ASSERT_THAT(runs.binding.bind_input("x", in_place(*runs.session, floats({2}, {1, 2}), device.space())), is_ok());
  EXPECT_THAT(runs.run(), is_ok());
}

// S6.1: before any run.
TEST(Device, ExplainPrintsSpacesStepsAndCopiesForGivenPlacements) {
  FakeDevice device({.ops = {"Neg", "Add"}});
  const auto session = sandwich().load(device.session_options()).value();
  const std::string text = session->explain({{"x", {3}}}).value();
  EXPECT_THAT(text, HasSubstr("space 1: gpu:0 (vendor 0x7e50), arena 128 bytes"));
  EXPECT_THAT(text, HasSubstr("EP 1: FakeEP"));
  EXPECT_THAT(text, HasSubstr("copy: \"a\", 12 bytes, from cpu to gpu:0 (vendor 0x7e50), because its reader cannot "
                              "use memory of that space"));
  EXPECT_THAT(text, HasSubstr("; EP 1; on stream 1"));
  const auto whole = negation().load(device.session_options()).value();
  EXPECT_THAT(*whole->explain({{"x", {3}}}), HasSubstr("copy: \"x\""));
  EXPECT_THAT(*whole->explain({{"x", {3}}}, {{"x", device.space()}, {"y", device.space()}}), Not(HasSubstr("copy:")));
  EXPECT_THAT(whole->explain({{"x", {3}}}, {{"z", device.space()}}), has_status(StatusCode::kNotFound));
}

// The report has as data whatever the text prints, and its copies are those of explain_copies.
TEST(Device, PlanReportHoldsSpacesStreamsAndTheRecordsOfCopies) {
  FakeDevice device({.ops = {"Neg", "Add"}});
  const auto session = sandwich().load(device.session_options()).value();
  const PlanReport plan = session->plan_report({{"x", {3}}}, {}).value();
  EXPECT_THAT(plan.eps, ElementsAre("cpu", "FakeEP"));
  ASSERT_EQ(plan.spaces.size(), 2U);
  EXPECT_EQ(plan.spaces[1].memory.to_string(), "gpu:0 (vendor 0x7e50)");
  EXPECT_EQ(plan.spaces[1].arena_bytes, 128U);
  const ExplainedCopies copies = session->explain_copies({{"x", {3}}}, {}).value();
  EXPECT_EQ(plan.copies.ledger.records, copies.ledger.records);
  std::vector<int32_t> copied;
  for (const PlanReport::Step& step : plan.steps) {
    if (step.ep == 1 && step.copy < 0) {
      EXPECT_EQ(step.stream, 1);
      for (const PlanReport::Tensor& output : step.outputs) EXPECT_EQ(output.location.space, 1) << step.label;
    }
    if (step.copy < 0) continue;
    copied.push_back(step.copy);
    const CopyRecord& record = plan.copies.ledger.records[static_cast<size_t>(step.copy)];
    EXPECT_EQ(record.bytes, 12U);
    EXPECT_EQ(step.inputs[0].name, record.what);
    EXPECT_EQ(plan.spaces[static_cast<size_t>(step.inputs[0].location.space)].memory.to_string(),
              record.source.to_string());
    EXPECT_EQ(plan.spaces[static_cast<size_t>(step.outputs[0].location.space)].memory.to_string(),
              record.target.to_string());
  }
  EXPECT_EQ(copied.size(), copies.ledger.records.size());
  EXPECT_THAT(session->explain({{"x", {3}}}).value(), plan.to_text());
}

// A view of a whole value moves nothing, also where the host could not.
TEST(Device, ViewsOfDeviceMemoryStayThere) {
  FakeDevice device({});
  OnnxModel model;
  model.input("x", DataType::kFloat, {2, 3}).output("y", DataType::kFloat, {6});
  model.initializer<int64_t>("shape", DataType::kInt64, {1}, {6});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Reshape", {"a", "shape"}, {"b"}));
  model.node(OnnxNode("Neg", {"b"}, {"y"}));
  Runs runs(model, device.session_options());
  ASSERT_THAT(runs.binding.bind_input("x", in_place(*runs.session, floats({2, 3}, {1, 2, 3, 4, 5, 6}), device.space())),
              is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_THAT(runs.report.copies.records, IsEmpty());
  EXPECT_THAT(values_of(on_host(runs.binding.output("y"))), ElementsAre(1, 2, 3, 4, 5, 6));
}

// S3.4: memory that a device shares is CPU memory too, so a CPU node takes it over from its dying input.
// Handles (WebGPU's buffers) are no addresses: a part of one, or one that is aligned, names nothing or another buffer.
TEST(Device, MemoryOfHandlesIsNeverCutIntoParts) {
  FakeDevice device({.ops = {"Neg", "Add"}, .fuse = false, .handles = true});
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"})
      .output("y", DataType::kFloat, {"m", 2})
      .output("z", DataType::kFloat, {"k"});
  model.initializer<float>("one", DataType::kFloat, {1}, {1})
      .initializer<int64_t>("wide", DataType::kInt64, {2}, {-1, 2});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Add", {"a", "one"}, {"b"}));
  model.node(OnnxNode("Split", {"b"}, {"left", "right"}));
  model.node(OnnxNode("Neg", {"left"}, {"c"})).node(OnnxNode("Neg", {"right"}, {"d"}));
  model.node(OnnxNode("Concat", {"d", "c"}, {"e"}).attribute("axis", 0)).node(OnnxNode("Neg", {"e"}, {"z"}));
  model.node(OnnxNode("Reshape", {"z", "wide"}, {"f"})).node(OnnxNode("Neg", {"f"}, {"y"}));
  for (const int64_t size : {4, 64, 8}) {
    std::vector<float> values;
    for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(i + 1));
    Runs runs(model, device.session_options());
    const Tensor x = in_place(*runs.session, floats({size}, values), device.space());
    ASSERT_TRUE(runs.binding.bind_input("x", x).ok());
    for (int run = 0; run < 2; ++run) {
      const Status status = runs.run();
      ASSERT_TRUE(status.ok()) << status.to_string();
      std::vector<float> y, z;  // z = 1 - x with the right half first, y = -z
      for (int64_t i = 0; i < size; ++i) {
        z.push_back(1 - values[static_cast<size_t>((i + size / 2) % size)]);
        y.push_back(-z.back());
      }
      EXPECT_EQ(values_of(on_host(runs.binding.output(0))), y);
      EXPECT_EQ(values_of(on_host(runs.binding.output(1))), z);
    }
  }
  EXPECT_EQ(device.counts().blocks, 0);
}

TEST(Device, InPlacePlanningAsksWhetherMemoryServes) {
  FakeDevice device({.host_accessible = true});
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Sqrt", {"a"}, {"b"})).node(OnnxNode("Exp", {"b"}, {"c"}));
  model.node(OnnxNode("Tanh", {"c"}, {"y"}));
  const auto session = model.load(device.session_options()).value();
  const std::string text = session->explain({}).value();
  EXPECT_THAT(text, HasSubstr("Sqrt \"Sqrt_of_b\" [")) << text;
  EXPECT_THAT(text, HasSubstr("in place of input 0")) << text;
  EXPECT_THAT(text, HasSubstr("arena 0 bytes (")) << text;  // of plain host memory
}

TEST(Device, ConstantsAreCopiedOnceForAllPlans) {
  for (bool drop : {false, true}) {
    FakeDevice device({.ops = {"Add"}, .drop_constants = drop});
    OnnxModel model;
    model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"});
    model.initializer<float>("w", DataType::kFloat, {1}, {10});
    model.node(OnnxNode("Add", {"x", "w"}, {"y"}));
    Runs runs(model, device.session_options());
    size_t placed = 0;
    for (int64_t n : {1, 2, 3}) {
      ASSERT_THAT(
          runs.binding.bind_input(
              "x", in_place(*runs.session, floats({n}, std::vector<float>(static_cast<size_t>(n), 1)), device.space())),
          is_ok());
      ASSERT_THAT(runs.run(), is_ok());
      EXPECT_EQ(values_of(on_host(runs.binding.output("y"))), std::vector<float>(static_cast<size_t>(n), 11));
      placed += runs.report.copies.records.size();
    }
    EXPECT_EQ(placed, drop ? 0u : 1u);
  }
}

// Shapes are inferred through the regions; each signature has its own plan.
TEST(Device, DynamicShapesWork) {
  FakeDevice device({.ops = {"Neg", "Add"}});
  Runs runs(sandwich(), device.session_options());
  EXPECT_EQ(runs.session->outputs()[0].to_string(), "float32[n]");
  for (int64_t n : {1, 7, 1000, 7, 1}) {
    ASSERT_THAT(runs.binding.bind_input("x", floats({n}, std::vector<float>(static_cast<size_t>(n), 8))), is_ok());
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_EQ(values_of(runs.binding.output("y")), std::vector<float>(static_cast<size_t>(n), 4));
  }
}

// A region whose output size depends on data: the rest is planned when it is known.
TEST(Device, ARegionsOutputOfUnknownSizeCutsThePlan) {
  for (bool last : {true, false}) {
    FakeDevice device({.ops = {"NonZero"}, .fuse = false});
    OnnxModel model;
    model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kInt64, {1, "m"});
    if (last) {
      model.node(OnnxNode("NonZero", {"x"}, {"y"}));
    } else {
      model.node(OnnxNode("NonZero", {"x"}, {"i"})).node(OnnxNode("Add", {"i", "i"}, {"y"}));
    }
    Runs runs(model, device.session_options());
    for (int i = 0; i < 2; ++i) {
      ASSERT_THAT(runs.binding.bind_input("x", floats({4}, {0, 5, 0, 7})), is_ok());
      ASSERT_THAT(runs.run(), is_ok());
      const Tensor y = on_host(runs.binding.output("y"));
      EXPECT_EQ(y.shape(), (Shape{1, 2}));
      EXPECT_THAT(values_of<int64_t>(y), last ? ElementsAre(1, 3) : ElementsAre(2, 6));
      ASSERT_THAT(runs.binding.bind_input("x", floats({4}, {1, 0, 0, 0})), is_ok());
      ASSERT_THAT(runs.run(), is_ok());
      EXPECT_THAT(values_of<int64_t>(on_host(runs.binding.output("y"))), ElementsAre(0));
    }
    const Tensor y = Tensor::allocate(DataType::kInt64, {1, 8}).value();
    ASSERT_THAT(runs.binding.bind_output("y", y), is_ok());
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_EQ(runs.binding.output("y").data(), y.data());
    EXPECT_EQ(y.data_as<int64_t>()[0], 0);
  }
}

// Sizes that an EP took over are still found when the plan is made.
TEST(Device, ARegionThatMakesOnlySizesCutsNothing) {
  FakeDevice device({.ops = {"Shape"}, .fuse = false});
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n", 2}).output("y", DataType::kFloat, {"n", 2});
  model.node(OnnxNode("Shape", {"x"}, {"s"})).node(OnnxNode("ConstantOfShape", {"s"}, {"y"}));
  Runs runs(model, device.session_options());
  ASSERT_EQ(device.counts().regions, 1);
  EXPECT_THAT(*runs.session->explain({{"x", {3, 2}}}), Not(HasSubstr("cut:")));
  ASSERT_THAT(runs.binding.bind_input("x", floats({1, 2}, {1, 2})), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(0, 0));
}

TEST(Device, TwoEpsTakeNodesInTheOrderOfPreference) {
  FakeDevice first({.name = "FirstEP", .ops = {"Neg"}});
  FakeDevice second({.name = "SecondEP", .device_id = 1, .ops = {"Neg", "Add"}});
  SessionOptions options = first.session_options();
  options.eps.push_back({.ep_name = "SecondEP"});
  Runs runs(sandwich(), options);
  const auto assignments = runs.session->assignments();
  EXPECT_EQ(assignments[0].ep_name, "FirstEP");
  EXPECT_EQ(assignments[0].nodes[0].op_type, "Neg");
  EXPECT_EQ(assignments[1].ep_name, "SecondEP");
  EXPECT_EQ(assignments[1].nodes[0].op_type, "Add");
  ASSERT_THAT(runs.binding.bind_input("x", floats({3}, {-2, 8, 18})), is_ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(2, 4, 6));
    // Neither can copy to the other's device: through the host.
    EXPECT_EQ(runs.report.copies.records.size(), 4u);
  }
}

// Streams of two EPs that share memory are ordered on the device, and the host waits once, at the end.
TEST(Device, StreamsOfTwoEpsWaitForEachOtherOnTheDevice) {
  FakeDevice first({.name = "FirstEP", .ops = {"Neg"}});
  FakeDevice second({.name = "SecondEP", .ops = {"Add"}});  // the same device
  SessionOptions options = first.session_options();
  options.eps.push_back({.ep_name = "SecondEP"});
  OnnxModel model;
  model.input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Add", {"a", "a"}, {"b"}));
  model.node(OnnxNode("Neg", {"b"}, {"c"})).node(OnnxNode("Add", {"c", "c"}, {"y"}));
  Runs runs(model, options);
  ASSERT_THAT(runs.binding.bind_input("x", in_place(*runs.session, floats({3}, {1, 2, 3}), first.space())), is_ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_THAT(values_of(on_host(runs.binding.output("y"))), ElementsAre(4, 8, 12));
    EXPECT_THAT(runs.report.copies.records, IsEmpty());
  }
  EXPECT_EQ(first.counts().waits_on_device, 6);
  EXPECT_EQ(second.counts().waits_on_device, 3);
  EXPECT_EQ(first.counts().waits_on_host + second.counts().waits_on_host, 6);
}

// Memory that a stream still reads is not written again, by whomever, before it is done. Many short-lived values in
// memory that both sides use: with any missing wait the lazy streams would read what came later.
TEST(Device, MemoryIsNotUsedAgainWhileAStreamMayReadIt) {
  for (bool shared : {true, false}) {
    FakeDevice device({.ops = {"Neg"}, .host_accessible = shared});
    OnnxModel model;
    model.input("x", DataType::kFloat, {16}).output("y", DataType::kFloat, {16});
    std::string sum = "x";
    for (int i = 0; i < 8; ++i) {
      const std::string n = std::to_string(i);
      model.node(OnnxNode("Add", {sum, "x"}, {"a" + n})).node(OnnxNode("Neg", {"a" + n}, {"b" + n}));
      model.node(OnnxNode("Mul", {"a" + n, "x"}, {"m" + n})).node(OnnxNode("Sub", {"m" + n, "b" + n}, {"s" + n}));
      sum = "s" + n;
    }
    model.node(OnnxNode("Add", {sum, "x"}, {"y"}));
    const auto reference = model.load({.threads = 1}).value();
    const Tensor x = floats({16}, {1, 2, 3, 4, -1, -2, -3, -4, 0.5, 0.25, 0.125, 0, 1, 1, 2, 2});
    const std::vector<std::pair<std::string, Tensor>> feeds = {{"x", x}};
    const std::vector<float> expected = values_of(reference->run(feeds).value()[0]);
    Runs runs(model, device.session_options());
    ASSERT_THAT(runs.binding.bind_input("x", x), is_ok());
    for (int i = 0; i < 3; ++i) {
      ASSERT_THAT(runs.run(), is_ok());
      EXPECT_EQ(values_of(runs.binding.output("y")), expected);
    }
  }
}

// A bound output that lies over a bound input is written after the stream has read it.
TEST(Device, AnOutputOverAnInputOfAStreamIsRight) {
  FakeDevice device({.ops = {"Neg"}, .host_accessible = true});
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4}).output("z", DataType::kFloat, {4});
  model.node(OnnxNode("Neg", {"x"}, {"z"})).node(OnnxNode("Sqrt", {"x"}, {"y"}));
  Runs runs(model, device.session_options());
  const Tensor x = in_place(*runs.session, floats({4}, {1, 4, 9, 16}), device.host_accessible_space());
  ASSERT_THAT(runs.binding.bind_input("x", x), is_ok());
  ASSERT_THAT(runs.binding.bind_output("y", x), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_THAT(values_of(x), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of(on_host(runs.binding.output("z"))), ElementsAre(-1, -4, -9, -16));
}

// The EP needs two runs to capture a graph. Each of them writes "a" elsewhere and copies it over "x".
TEST(Device, AnOutputOverAnInputIsRightInEachRunThatCapturesAGraph) {
  FakeDevice device({.ops = {"Neg", "Add"}, .fuse = false, .capture_after = 2});
  OnnxModel model;
  model.input("x", DataType::kFloat, {3}).output("a", DataType::kFloat, {3}).output("b", DataType::kFloat, {3});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Add", {"x", "x"}, {"b"}));
  Runs runs(model, device.session_options());
  const Tensor x = in_place(*runs.session, floats({3}, {1, 2, 3}), device.space());
  ASSERT_THAT(runs.binding.bind_input("x", x), is_ok());
  ASSERT_THAT(runs.binding.bind_output("a", x), is_ok());
  ASSERT_THAT(runs.run(), is_ok());
  EXPECT_EQ(device.counts().run_ends, 2);
  EXPECT_THAT(values_of(on_host(x)), ElementsAre(1, 2, 3));
  EXPECT_THAT(values_of(on_host(runs.binding.output("b"))), ElementsAre(-2, -4, -6));
}

TEST(Device, AnEpWithoutStreamsOrMemoryOfItsOwnWorks) {
  for (bool memory : {false, true}) {
    FakeDevice device({.ops = {"Neg", "Add"}, .device_memory = memory, .streams = false});
    Runs runs(sandwich(), device.session_options());
    ASSERT_THAT(runs.binding.bind_input("x", floats({3}, {-2, 8, 18})), is_ok());
    ASSERT_THAT(runs.run(), is_ok());
    EXPECT_THAT(values_of(runs.binding.output("y")), ElementsAre(2, 4, 6));
    EXPECT_EQ(runs.report.copies.records.size(), memory ? 2u : 0u);
  }
}

// S5.3: 16 threads give what one gives; an EP that supports one run at a time gets one at a time.
TEST(Device, SixteenThreadsShareASession) {
  for (bool concurrent : {true, false}) {
    FakeDevice device({.ops = {"Neg", "Add"}, .host_accessible = true, .concurrent = concurrent});
    const auto session = sandwich().load(device.session_options()).value();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&, t] {
        Binding binding = session->make_binding().value();
        const auto root = static_cast<float>(t + 1);
        const int64_t n = 100 + t % 3;
        const Tensor x = floats({n}, std::vector<float>(static_cast<size_t>(n), root * root / 2));
        if (!binding.bind_input("x", x).ok()) ++wrong;
        for (int i = 0; i < 50; ++i) {
          if (!session->run(binding, {}).ok()) {
            ++wrong;
            continue;
          }
          for (float y : values_of(binding.output("y"))) wrong += y == root ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    if (!concurrent) {
      EXPECT_EQ(device.counts().most_running, 1);
    }
    EXPECT_EQ(device.counts().run_starts, 800);
    EXPECT_EQ(device.counts().run_ends, 800);
  }
}

// The memory of outputs outlives the session and the EP's registration.
TEST(Device, OutputsOutliveTheSession) {
  Tensor y;
  std::shared_ptr<Session> session;
  {
    FakeDevice device({});
    {
      Runs runs(negation(), device.session_options());
      ASSERT_THAT(runs.binding.bind_input("x", floats({2}, {1, 2})), is_ok());
      ASSERT_THAT(runs.run(), is_ok());
      y = runs.binding.output("y");
    }
    EXPECT_EQ(device.counts().streams, 0);
    EXPECT_EQ(device.counts().blocks, 1);
    EXPECT_THAT(values_of(on_host(y)), ElementsAre(-1, -2));
    y = Tensor();
    EXPECT_EQ(device.counts().blocks, 0);
  }
}

}  // namespace
}  // namespace tenon
