// S6.1: the copies that explain lists before a run are those that the run's ledger has after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/testing.h"
#include "fake_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::FakeDevice;
using api_testing::FakeOptions;
using api_testing::floats;
using api_testing::in_place;
using api_testing::on_host;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kCount = 8;

std::vector<std::string> texts(const CopyLedger& ledger) {
  std::vector<std::string> made;
  for (const CopyRecord& copy : ledger.records) {
    made.push_back(format("{} {} {} -> {}: {}{}", copy.what, copy.bytes, copy.source.to_string(),
                          copy.target.to_string(), copy_reason_name(copy.reason), copy.once ? ", once" : ""));
  }
  return made;
}

// In `space`; with an alignment, at an address that has that one and no more.
Tensor tensor_in(Session& session, MemorySpace space, const std::vector<float>& values) {
  const uint32_t offset = space.alignment;
  space.alignment = 0;
  const auto count = static_cast<int64_t>(values.size());
  const Tensor room = session.allocate(DataType::kFloat, {count + 64}, space).value();
  const Tensor made = Tensor::view(DataType::kFloat, {count}, room.data_as<std::byte>() + offset, values.size() * 4,
                                   room.owner(), space)
                          .value();
  EXPECT_THAT(copy(made, floats({count}, values)), is_ok());
  return made;
}

// Some operators of two inputs and outputs; what the model computes, for the values of its inputs.
struct RandomModel {
  OnnxModel model;
  std::vector<std::string> outputs;
  std::vector<std::vector<float>> wanted;
};

RandomModel make_model(std::mt19937& random, const std::vector<std::vector<float>>& inputs) {
  RandomModel made;
  std::vector<std::pair<std::string, std::vector<float>>> values = {{"x0", inputs[0]}, {"x1", inputs[1]}};
  made.model.input("x0", DataType::kFloat, {kCount}).input("x1", DataType::kFloat, {kCount});
  made.model.initializer<float>("w", DataType::kFloat, {1}, {10});
  const size_t nodes = 2 + random() % 5;
  for (size_t n = 0; n < nodes; ++n) {
    const auto& [name, value] = values[random() % values.size()];
    const auto& [second_name, second] = values[random() % values.size()];
    const std::string output = format("v{}", n);
    std::vector<float> result = value;
    switch (random() % 5) {
      case 0:
        made.model.node(OnnxNode("Neg", {name}, {output}));
        for (float& v : result) v = -v;
        break;
      case 1:
        made.model.node(OnnxNode("Abs", {name}, {output}));
        for (float& v : result) v = std::abs(v);
        break;
      case 2:
        made.model.node(OnnxNode("Add", {name, "w"}, {output}));
        for (float& v : result) v += 10;
        break;
      case 3:
        made.model.node(OnnxNode("Identity", {name}, {output}));
        break;
      default:
        made.model.node(OnnxNode("Mul", {name, second_name}, {output}));
        for (size_t i = 0; i < result.size(); ++i) result[i] *= second[i];
    }
    values.emplace_back(output, result);
  }
  for (size_t n = 0; n < 2; ++n) {
    const auto& [name, value] = values[values.size() - 1 - n];
    made.model.output(name, DataType::kFloat, {kCount});
    made.outputs.push_back(name);
    made.wanted.push_back(value);
  }
  return made;
}

TEST(ExplainCopies, EqualThoseOfARunForRandomPlacements) {
  std::mt19937 random(20261122);
  size_t copies = 0, alignments = 0, constants = 0;
  for (int turn = 0; turn < 400; ++turn) {
    FakeOptions options;
    options.ops = {"Neg"};
    for (const char* op : {"Abs", "Add", "Mul"})
      if (random() % 2 == 0) options.ops.emplace_back(op);
    options.fuse = random() % 2 == 0;
    options.host_accessible = random() % 2 == 0;
    options.streams = random() % 2 == 0;
    options.binding_alignment = random() % 2 == 0 ? 16 : 0;
    options.drop_constants = random() % 4 == 0;
    FakeDevice device(options);
    const std::vector<std::vector<float>> inputs = {{1, -2, 3, -4, 5, -6, 7, -8}, {2, 2, -2, -2, 1, 1, -1, -1}};
    const RandomModel made = make_model(random, inputs);
    const auto session = made.model.load(device.session_options()).value();
    std::vector<MemorySpace> all = {MemorySpace(), device.space()};
    if (options.host_accessible) all.push_back(device.host_accessible_space());
    for (size_t i = 0, count = all.size(); i < count; ++i) {
      all.push_back(all[i]);
      all.back().alignment = 4;
    }
    std::map<std::string, MemorySpace> spaces;
    for (const std::string& name : {std::string("x0"), std::string("x1"), made.outputs[0], made.outputs[1]})
      if (random() % 4 != 0) spaces[name] = all[random() % all.size()];

    const auto explained = session->explain_copies({}, spaces);
    ASSERT_THAT(explained, is_ok());
    EXPECT_THAT(explained->open, IsEmpty());
    Binding binding = session->make_binding().value();
    const auto place_of = [&](const std::string& name) {
      const auto found = spaces.find(name);
      return found != spaces.end() ? found->second : MemorySpace();
    };
    for (size_t i = 0; i < 2; ++i) {
      const std::string name = format("x{}", i);
      ASSERT_THAT(binding.bind_input(name, tensor_in(*session, place_of(name), inputs[i])), is_ok());
    }
    for (const std::string& name : made.outputs) {
      if (spaces.contains(name)) {
        ASSERT_THAT(binding.bind_output(name, tensor_in(*session, place_of(name), inputs[0])), is_ok());
      } else {
        ASSERT_THAT(binding.bind_output_auto(name, MemorySpace()), is_ok());
      }
    }
    RunReport report;
    for (const bool first : {true, false}) {
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      CopyLedger wanted = explained->ledger;
      if (!first) std::erase_if(wanted.records, [](const CopyRecord& copy) { return copy.once; });
      ASSERT_EQ(texts(report.copies), texts(wanted)) << "turn " << turn << "\n" << *session->explain({}, spaces);
      EXPECT_TRUE(report.copies.records == wanted.records);
      for (const CopyRecord& copy : wanted.records) {
        alignments += copy.reason == CopyReason::kAlignment ? 1 : 0;
        constants += copy.once ? 1 : 0;
      }
      copies += wanted.records.size();
    }
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(values_of(on_host(binding.output(made.outputs[i]))), made.wanted[i]) << turn;
  }
  // The test would see nothing where nothing is copied.
  EXPECT_GT(copies, 1000u);
  EXPECT_GT(alignments, 50u);
  EXPECT_GT(constants, 50u);
}

OnnxModel negation() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {kCount}).output("y", DataType::kFloat, {kCount});
  model.node(OnnxNode("Neg", {"x"}, {"y"}));
  return model;
}

// S6.1: what a device's kernels cannot take is copied by the host, which says so.
TEST(BindingAlignment, StrictModeNamesTheBindingItsAddressAndTheAlignment) {
  FakeDevice device({.binding_alignment = 16});
  SessionOptions options = device.session_options();
  options.disallow_copies = true;
  const auto session = negation().load(options).value();
  MemorySpace off = device.space();
  off.alignment = 4;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor good = tensor_in(*session, device.space(), values), bad = tensor_in(*session, off, values);
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", bad), is_ok());
  ASSERT_THAT(binding.bind_output("y", good), is_ok());
  EXPECT_THAT(session->run(binding),
              has_status(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"x\" would have to be copied"), HasSubstr("(alignment)"),
                               HasSubstr(format("Input \"x\" begins at {}", bad.data())), HasSubstr("16 bytes"))));
  ASSERT_THAT(binding.bind_input("x", good), is_ok());
  ASSERT_THAT(binding.bind_output("y", bad), is_ok());
  EXPECT_THAT(session->run(binding),
              has_status(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(format("Output \"y\" begins at {}", bad.data())), HasSubstr("16 bytes"))));
  ASSERT_THAT(binding.bind_output("y", tensor_in(*session, device.space(), values)), is_ok());
  EXPECT_THAT(session->run(binding), is_ok());
}

// The device's spaces promise nothing that a tensor in the middle of other memory would break.
TEST(BindingAlignment, IsNoPromiseOfThePlace) {
  FakeDevice device({.host_accessible = true, .binding_alignment = 16});
  const auto session = negation().load(device.session_options()).value();
  EXPECT_EQ(session->input_spaces()[0].space, device.host_accessible_space());
  EXPECT_EQ(session->allocate(DataType::kFloat, {4}, device.space())->space(), device.space());
  // Plain host memory is copied for what it is, not for how it begins.
  const auto explained = session->explain_copies({}, {});
  ASSERT_THAT(explained, is_ok());
  for (const CopyRecord& record : explained->ledger.records)
    EXPECT_EQ(record.reason, CopyReason::kNotCompatible) << record.what;
}

// A part of an input that begins where a kernel cannot read is no view of it.
TEST(BindingAlignment, PartsOfAnInputThatBeginElsewhereAreMade) {
  for (const uint32_t offset : {0U, 4U, 16U}) {
    FakeDevice device({.ops = {"Neg"}, .host_accessible = true, .binding_alignment = 16});
    OnnxModel model;
    model.input("x", DataType::kFloat, {kCount});
    model.output("y", DataType::kFloat, {4}).output("z", DataType::kFloat, {4});
    model.initializer<int64_t>("sizes", DataType::kInt64, {2}, {4, 4});
    model.node(OnnxNode("Split", {"x", "sizes"}, {"a", "b"}));
    model.node(OnnxNode("Neg", {"a"}, {"y"})).node(OnnxNode("Neg", {"b"}, {"z"}));
    device.counts().misaligned = 0;
    const auto session = model.load(device.session_options()).value();
    MemorySpace space = device.host_accessible_space();
    space.alignment = offset;
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", tensor_in(*session, space, {1, 2, 3, 4, 5, 6, 7, 8})), is_ok());
    ASSERT_THAT(session->run(binding), is_ok());
    EXPECT_THAT(values_of(on_host(binding.output("y"))), ElementsAre(-1, -2, -3, -4));
    EXPECT_THAT(values_of(on_host(binding.output("z"))), ElementsAre(-5, -6, -7, -8));
    EXPECT_EQ(device.counts().misaligned, 0) << offset;
  }
}

// After a cut, an input is still where the caller has it.
TEST(BindingAlignment, HoldsAfterACut) {
  FakeDevice device({.ops = {"Mul"}, .binding_alignment = 16});
  OnnxModel model;
  model.input("x", DataType::kFloat, {kCount}).input("c", DataType::kFloat, {kCount});
  model.output("y", DataType::kFloat, {"k"}).output("n", DataType::kInt64, {1, "m"});
  model.node(OnnxNode("NonZero", {"c"}, {"n"})).node(OnnxNode("Shape", {"n"}, {"s"}));
  model.initializer<int64_t>("one", DataType::kInt64, {1}, {1}).initializer<int64_t>("two", DataType::kInt64, {1}, {2});
  model.node(OnnxNode("Slice", {"s", "one", "two"}, {"k"})).node(OnnxNode("Expand", {"w", "k"}, {"e"}));
  model.initializer<float>("w", DataType::kFloat, {1}, {5});
  model.node(OnnxNode("Mul", {"x", "e"}, {"y"}));
  const auto session = model.load(device.session_options()).value();
  MemorySpace off = device.space();
  off.alignment = 4;
  for (const MemorySpace& space : {device.space(), off}) {
    device.counts().misaligned = 0;
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", tensor_in(*session, space, {1, 2, 3, 4, 5, 6, 7, 8})), is_ok());
    ASSERT_THAT(binding.bind_input("c", floats({kCount}, {0, 1, 0, 0, 0, 0, 0, 0})), is_ok());
    RunReport report;
    ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
    EXPECT_THAT(values_of(on_host(binding.output("y"))), ElementsAre(5, 10, 15, 20, 25, 30, 35, 40));
    EXPECT_EQ(device.counts().misaligned, 0);
  }
}

// Constants are copied once for the session: the first ledger after that has them, whoever planned first.
TEST(ExplainCopies, CopyNothingThemselves) {
  FakeDevice device({.ops = {"Add"}});
  OnnxModel model;
  model.input("x", DataType::kFloat, {kCount}).output("y", DataType::kFloat, {kCount});
  model.initializer<float>("w", DataType::kFloat, {1}, {10}).node(OnnxNode("Add", {"x", "w"}, {"y"}));
  const auto session = model.load(device.session_options()).value();
  const int before = device.counts().copies;
  const auto explained = session->explain_copies({}, {{"x", device.space()}, {"y", device.space()}});
  ASSERT_THAT(explained, is_ok());
  EXPECT_THAT(texts(explained->ledger), ElementsAre("w 4 cpu -> gpu:0 (vendor 0x7e50): not_compatible, once"));
  EXPECT_EQ(device.counts().copies, before);
  Binding binding = session->make_binding().value();
  const Tensor x = tensor_in(*session, device.space(), {1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(session->run(binding), is_ok());  // nobody asks for its ledger
  RunReport report;
  ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
  EXPECT_EQ(texts(report.copies), texts(explained->ledger));
  ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(report.copies.records, IsEmpty());

  SessionOptions strict = device.session_options();
  strict.disallow_copies = true;
  const auto refusing = model.load(strict).value();
  Binding refused = refusing->make_binding().value();
  ASSERT_THAT(refused.bind_input("x", x), is_ok());
  EXPECT_THAT(refusing->run(refused),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"w\" would have to be copied")));
  EXPECT_THAT(refusing->explain_copies({}, {{"x", device.space()}}), is_ok());
}

TEST(ExplainCopies, AnAlignmentThatIsNoPowerOfTwoIsAnError) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {kCount}).output("y", DataType::kFloat, {kCount});
  model.node(OnnxNode("Neg", {"x"}, {"y"}));
  FakeDevice device({.ops = {"Neg"}});
  const auto session = model.load(device.session_options()).value();
  for (const uint32_t alignment : {3U, 48U, UINT32_MAX}) {
    MemorySpace space = device.space();
    space.alignment = alignment;
    EXPECT_THAT(session->explain_copies({}, {{"x", space}}),
                has_status(StatusCode::kInvalidArgument,
                           HasSubstr(format("The alignment of \"x\" is {}, which is no power of two.", alignment))));
  }
}

// In strict mode explain is the error that a run would be, whichever kind of copy comes first.
TEST(ExplainCopies, StrictModeRefusesAsARunWould) {
  FakeDevice device({.ops = {"Add"}});
  OnnxModel model;
  model.input("x", DataType::kFloat, {kCount}).output("y", DataType::kFloat, {kCount});
  model.initializer<float>("w", DataType::kFloat, {1}, {10}).node(OnnxNode("Add", {"x", "w"}, {"y"}));
  SessionOptions strict = device.session_options();
  strict.disallow_copies = true;
  const auto session = model.load(strict).value();
  const std::map<std::string, MemorySpace> there = {{"x", device.space()}, {"y", device.space()}};
  EXPECT_THAT(session->explain({}, there),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"w\" would have to be copied")));
  EXPECT_THAT(session->explain({}, {{"y", device.space()}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"x\" would have to be copied")));
  // A session that is not strict, and a run that is: the plan that the run makes places no constant.
  const auto lax = model.load(device.session_options()).value();
  Binding binding = lax->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", tensor_in(*lax, device.space(), {1, 2, 3, 4, 5, 6, 7, 8})), is_ok());
  ASSERT_THAT(binding.bind_output_auto("y", device.space()), is_ok());
  const int before = device.counts().copies;
  EXPECT_THAT(lax->run(binding, {.disallow_copies = true}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"w\" would have to be copied")));
  EXPECT_EQ(device.counts().copies, before);
  ASSERT_THAT(lax->run(binding), is_ok());
  EXPECT_THAT(lax->run(binding, {.disallow_copies = true}), is_ok());  // the constant is there now
}

// The length of a Range is computed on the device: the host reads it, and plans the rest, which wants a constant there.
TEST(ExplainCopies, WhatTheRestOfAPlanCopiesIsInTheRunsLedger) {
  FakeDevice device({.ops = {"Neg", "Add"}});
  OnnxModel model;
  model.input("x", DataType::kFloat, {}).output("y", DataType::kFloat, {"n"});
  model.initializer<float>("zero", DataType::kFloat, {}, {0}).initializer<float>("one", DataType::kFloat, {}, {1});
  model.initializer<float>("w", DataType::kFloat, {1}, {10}).node(OnnxNode("Neg", {"x"}, {"limit"}));
  model.node(OnnxNode("Range", {"zero", "limit", "one"}, {"r"})).node(OnnxNode("Add", {"r", "w"}, {"y"}));
  const auto session = model.load(device.session_options()).value();
  const Tensor there = in_place(*session, floats({}, {-3}), device.space());
  const auto run = [&](const RunOptions& options) {
    Binding binding = session->make_binding().value();
    EXPECT_THAT(binding.bind_input("x", there), is_ok());
    return session->run(binding, options);
  };
  EXPECT_THAT(run({.disallow_copies = true}),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("\"limit\" would have to be copied from gpu:0"),
                                                             HasSubstr("while the host reads a value"))));
  RunReport report;
  ASSERT_THAT(run({.report = &report}), is_ok());
  const std::vector<std::string> made = texts(report.copies);
  EXPECT_THAT(made, Contains("limit 4 gpu:0 (vendor 0x7e50) -> cpu: not_compatible"));
  EXPECT_THAT(made, Contains("w 4 cpu -> gpu:0 (vendor 0x7e50): not_compatible, once"));
  ASSERT_THAT(run({.report = &report}), is_ok());
  EXPECT_THAT(texts(report.copies), Not(Contains(HasSubstr("once"))));
}

// An empty batch: no tensor of it has a byte that could be copied, so strict mode has nothing to refuse.
TEST(ExplainCopies, TensorsWithoutBytesAreNoCopies) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n", 4}).output("y", DataType::kFloat, {"n", 4});
  model.output("z", DataType::kFloat, {"n", 4}).output("w", DataType::kFloat, {"n", 4});
  model.node(OnnxNode("Neg", {"x"}, {"y"})).node(OnnxNode("Identity", {"y"}, {"z"}));
  model.node(OnnxNode("Identity", {"x"}, {"w"}));
  FakeDevice device({.ops = {"Neg"}});
  SessionOptions strict = device.session_options();
  strict.disallow_copies = true;
  const auto session = model.load(strict).value();
  const std::map<std::string, Shape> none = {{"x", {0, 4}}}, two = {{"x", {2, 4}}};
  EXPECT_THAT(session->explain(two), has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.disallow_copies")));
  EXPECT_THAT(session->explain(none), is_ok());
  EXPECT_THAT(session->explain_copies(none, {})->ledger.records, IsEmpty());
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", *Tensor::allocate(DataType::kFloat, {0, 4})), is_ok());
  RunReport report;
  EXPECT_THAT(session->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(report.copies.records, IsEmpty());
  ASSERT_THAT(binding.bind_input("x", *Tensor::allocate(DataType::kFloat, {2, 4})), is_ok());
  EXPECT_THAT(session->run(binding, {.report = &report}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.disallow_copies")));
}

TEST(ExplainCopies, SayWhatOnlyARunKnows) {
  FakeDevice device({.ops = {"Neg"}});
  OnnxModel model;
  model.input("x", DataType::kFloat, {kCount}).output("y", DataType::kInt64, {1, "m"});
  model.node(OnnxNode("NonZero", {"x"}, {"y"}));
  const auto session = model.load(device.session_options()).value();
  const auto explained = session->explain_copies({}, {});
  ASSERT_THAT(explained, is_ok());
  EXPECT_THAT(explained->open, ElementsAre(HasSubstr("Output \"y\"")));
  EXPECT_THAT(*session->explain({}), HasSubstr("not known before a run: Output \"y\""));
}

}  // namespace
}  // namespace tenon
