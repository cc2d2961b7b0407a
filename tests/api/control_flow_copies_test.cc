// S6.1: what If, Loop and Scan copy is in the ledger, with names and reasons, and strict mode refuses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::IsEmpty;

using Feeds = std::vector<std::pair<std::string, Tensor>>;

Tensor flag(bool value) {
  Tensor tensor = *Tensor::allocate(DataType::kBool, Shape());
  *tensor.data_as<uint8_t>() = value ? 1 : 0;
  return tensor;
}

struct Ran {
  std::vector<Tensor> outputs;
  std::vector<std::string> copies;
};

Ran run(const OnnxModel& model, const Feeds& feeds) {
  Ran ran;
  const auto session = model.load();
  EXPECT_THAT(session, is_ok());
  if (!session.ok()) return ran;
  RunReport report;
  auto outputs = (*session)->run(feeds, {.report = &report});
  EXPECT_THAT(outputs, is_ok());
  if (outputs.ok()) ran.outputs = *std::move(outputs);
  for (const CopyRecord& copy : report.copies.records) {
    EXPECT_EQ(copy.source.to_string() + copy.target.to_string(), "cpucpu");
    ran.copies.push_back(format("{} {} {}", copy.what, copy.bytes, copy_reason_name(copy.reason)));
  }
  return ran;
}

// The same in strict mode.
Status refused(const OnnxModel& model, const Feeds& feeds) {
  const auto session = model.load({.threads = 1, .disallow_copies = true});
  EXPECT_THAT(session, is_ok());
  if (!session.ok()) return Status();
  const auto strict = (*session)->run(feeds);
  return strict.ok() ? Status() : strict.status();
}

constexpr int64_t kTrips = 11;  // more than a stack has room for at first

// y = x + ... + x, and all of the states on the way.
OnnxModel counting_loop(bool trips_known, const OnnxNode& next_condition = OnnxNode("Identity", {"c"}, {"d"})) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {3});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {3}).output("s", DataType::kFloat, {3});
  body.initializer<float>("most", DataType::kFloat, {}, {1e6F});
  body.node(OnnxNode("Add", {"v", "x"}, {"r"})).node(OnnxNode("ReduceMax", {"r"}, {"m"}).attribute("keepdims", 0));
  body.node(OnnxNode("Less", {"m", "most"}, {"small"})).node(next_condition).node(OnnxNode("Neg", {"r"}, {"s"}));
  if (trips_known) {
    model.initializer<int64_t>("n", DataType::kInt64, {}, {kTrips});
  } else {
    model.input("n", DataType::kInt64, {});
  }
  model.input("x", DataType::kFloat, {3});
  model.output("y", DataType::kFloat, {3}).output("all", DataType::kFloat, {"n", 3});
  model.node(OnnxNode("Loop", {"n", "", "x"}, {"y", "states"}).attribute("body", body.graph_bytes()));
  return model.node(OnnxNode("Neg", {"states"}, {"all"}));
}

void expect_counted(const Ran& ran) {
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(12, 24, 36));
  ASSERT_EQ(ran.outputs[1].shape().element_count(), kTrips * 3);
  for (int64_t i = 0; i < kTrips * 3; ++i)
    EXPECT_EQ(ran.outputs[1].data_as<float>()[i], static_cast<float>((i / 3 + 2) * (i % 3 + 1)));
}

// The last iteration writes into the node's output, and the stack is the node's output.
TEST(ControlFlowCopies, ALoopThatCountsCopiesNothing) {
  const Feeds feeds = {{"x", floats({3}, {1, 2, 3})}};
  const Ran ran = run(counting_loop(true), feeds);
  expect_counted(ran);
  EXPECT_THAT(ran.copies, IsEmpty());
  EXPECT_THAT(refused(counting_loop(true), feeds), is_ok());
}

// Where the body decides, nobody knows which iteration is the last.
TEST(ControlFlowCopies, ALoopThatItsBodyEndsCopiesItsLastState) {
  const Feeds feeds = {{"x", floats({3}, {1, 2, 3})}};
  const OnnxModel model = counting_loop(true, OnnxNode("Identity", {"small"}, {"d"}));
  const Ran ran = run(model, feeds);
  expect_counted(ran);
  EXPECT_THAT(ran.copies, ElementsAre("y 12 carried_state"));
  EXPECT_THAT(refused(model, feeds),
              has_status(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"y\" would have to be copied from cpu to cpu (carried_state)"),
                               HasSubstr("tenon.disallow_copies"))));
}

TEST(ControlFlowCopies, AStackThatNobodyAnnouncedIsCopiedWhenItGrows) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {2});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {2}).output("s", DataType::kFloat, {2});
  body.initializer<float>("most", DataType::kFloat, {}, {10});
  body.node(OnnxNode("Add", {"v", "x"}, {"r"})).node(OnnxNode("ReduceMax", {"r"}, {"m"}).attribute("keepdims", 0));
  body.node(OnnxNode("Less", {"m", "most"}, {"d"})).node(OnnxNode("Neg", {"r"}, {"s"}));
  model.input("x", DataType::kFloat, {2}).output("k", DataType::kFloat, {});
  model.node(OnnxNode("Loop", {"", "", "x"}, {"", "states"}).attribute("body", body.graph_bytes()));
  model.node(OnnxNode("ReduceSum", {"states"}, {"k"}).attribute("keepdims", 0));
  const Feeds feeds = {{"x", floats({2}, {1, 1})}};
  const Ran ran = run(model, feeds);
  ASSERT_EQ(ran.outputs.size(), 1u);
  EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(-108));  // 2 (2 + 3 + ... + 10)
  EXPECT_THAT(ran.copies, ElementsAre("states 64 scan_slices"));
  EXPECT_THAT(refused(model, feeds),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"states\" would have to be")));
}

TEST(ControlFlowCopies, ALoopWithoutIterationsCopiesItsInitialState) {
  OnnxModel model = counting_loop(false);
  const Feeds feeds = {{"n", ints({}, {0})}, {"x", floats({3}, {1, 2, 3})}};
  const Ran ran = run(model, feeds);
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ(ran.outputs[1].shape().element_count(), 0);
  EXPECT_EQ(ran.copies[0], "y 12 carried_state");
  EXPECT_THAT(refused(model, feeds), has_status(StatusCode::kInvalidArgument, HasSubstr("carried_state")));
}

// `v` is stacked as it comes in, and the number of the iteration as it is.
TEST(ControlFlowCopies, WhatABodyHandsThroughIsCopiedIntoAStack) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {2});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {2}).output("s", DataType::kFloat, {2});
  body.output("j", DataType::kInt64, {});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Add", {"v", "v"}, {"r"}));
  body.node(OnnxNode("Identity", {"v"}, {"s"})).node(OnnxNode("Identity", {"i"}, {"j"}));
  model.initializer<int64_t>("n", DataType::kInt64, {}, {3}).input("x", DataType::kFloat, {2});
  model.output("y", DataType::kFloat, {2}).output("all", DataType::kFloat, {3, 2}).output("is", DataType::kInt64, {3});
  model.node(OnnxNode("Loop", {"n", "", "x"}, {"y", "all", "is"}).attribute("body", body.graph_bytes()));
  const Feeds feeds = {{"x", floats({2}, {1, 2})}};
  const Ran ran = run(model, feeds);
  ASSERT_EQ(ran.outputs.size(), 3u);
  EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(8, 16));
  EXPECT_THAT(values_of(ran.outputs[1]), ElementsAre(1, 2, 2, 4, 4, 8));
  EXPECT_THAT(values_of<int64_t>(ran.outputs[2]), ElementsAre(0, 1, 2));
  EXPECT_THAT(ran.copies, ElementsAre("s 8 output_is_input", "j 8 output_is_input", "s 8 output_is_input",
                                      "j 8 output_is_input", "s 8 output_is_input", "j 8 output_is_input"));
  EXPECT_THAT(refused(model, feeds), has_status(StatusCode::kInvalidArgument, HasSubstr("output_is_input")));
}

// y is x doubled `trips` times, and `all` every state on the way, as an output of the model.
OnnxModel stacking_loop(int64_t trips, const OnnxNode& next_condition) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {2});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {2}).output("s", DataType::kFloat, {2});
  body.node(next_condition).node(OnnxNode("Add", {"v", "v"}, {"r"})).node(OnnxNode("Neg", {"r"}, {"s"}));
  model.initializer<int64_t>("n", DataType::kInt64, {}, {trips}).input("x", DataType::kFloat, {2});
  model.output("y", DataType::kFloat, {2}).output("all", DataType::kFloat, {"n", 2});
  return model.node(OnnxNode("Loop", {"n", "", "x"}, {"y", "all"}).attribute("body", body.graph_bytes()));
}

// The trip count is a constant, so the size of the stack is known, and the iterations write into the model's output.
TEST(ControlFlowCopies, AStackOfKnownLengthIsWrittenWhereTheCallerWantsIt) {
  const OnnxModel model = stacking_loop(3, OnnxNode("Identity", {"c"}, {"d"}));
  const Feeds feeds = {{"x", floats({2}, {1, 2})}};
  const Ran ran = run(model, feeds);
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_THAT(values_of(ran.outputs[1]), ElementsAre(-2, -4, -4, -8, -8, -16));
  EXPECT_THAT(ran.copies, IsEmpty());
  EXPECT_THAT(refused(model, feeds), is_ok());

  const auto session = model.load({.disallow_copies = true});
  ASSERT_THAT(session, is_ok());
  auto binding = (*session)->make_binding();
  ASSERT_THAT(binding, is_ok());
  Tensor x = floats({2}, {1, 2}), all = *Tensor::allocate(DataType::kFloat, Shape{3, 2});
  ASSERT_THAT(binding->bind_input("x", x), is_ok());
  ASSERT_THAT(binding->bind_output("all", all), is_ok());
  ASSERT_THAT((*session)->run(*binding), is_ok());
  EXPECT_THAT(values_of(all), ElementsAre(-2, -4, -4, -8, -8, -16));
}

TEST(ControlFlowCopies, AStackOfALoopThatItsBodyEndsHasAnUnknownSize) {
  const OnnxModel model = stacking_loop(3, OnnxNode("Not", {"c"}, {"d"}));
  const Feeds feeds = {{"x", floats({2}, {1, 2})}};
  const Ran ran = run(model, feeds);
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_THAT(values_of(ran.outputs[1]), ElementsAre(-2, -4));
  EXPECT_THAT(refused(model, feeds), has_status(StatusCode::kInvalidArgument, HasSubstr("output_unknown_size")));
}

TEST(ControlFlowCopies, AStackWithoutIterationsHasTheDimensionsOfItsParts) {
  for (const int64_t trips : {int64_t{0}, int64_t{-3}}) {
    const Ran ran = run(stacking_loop(trips, OnnxNode("Identity", {"c"}, {"d"})), {{"x", floats({2}, {1, 2})}});
    ASSERT_EQ(ran.outputs.size(), 2u);
    EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(1, 2));
    EXPECT_EQ(ran.outputs[1].shape().to_string(), "[0,2]");
  }
}

TEST(ControlFlowCopies, ABranchThatHandsAValueThroughCopiesItWhenItIsTaken) {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {3}).node(OnnxNode("Identity", {"h"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {3}).node(OnnxNode("Neg", {"h"}, {"b"}));
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3});
  model.node(OnnxNode("Add", {"x", "x"}, {"h"}));
  model.node(OnnxNode("If", {"c"}, {"y"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  for (const bool taken : {true, false}) {
    const Feeds feeds = {{"c", flag(taken)}, {"x", floats({3}, {1, 2, 3})}};
    const Ran ran = run(model, feeds);
    ASSERT_EQ(ran.outputs.size(), 1u);
    EXPECT_EQ(values_of(ran.outputs[0])[2], taken ? 6 : -6);
    if (taken) {
      ASSERT_EQ(ran.copies.size(), 1u);
      EXPECT_THAT(ran.copies[0], HasSubstr(" 12 output_is_input"));
      EXPECT_THAT(refused(model, feeds), has_status(StatusCode::kInvalidArgument, HasSubstr("in the then branch")));
    } else {
      EXPECT_THAT(ran.copies, IsEmpty());
      EXPECT_THAT(refused(model, feeds), is_ok());
    }
  }
}

// y is the sum of the slices of x along `axis`, and all of the sums stand along it.
OnnxModel scan_model(int64_t axis) {
  OnnxModel body, model;
  body.input("a", DataType::kFloat, {2}).input("v", DataType::kFloat, {2});
  body.output("r", DataType::kFloat, {2}).output("o", DataType::kFloat, {2});
  body.node(OnnxNode("Add", {"a", "v"}, {"r"})).node(OnnxNode("Neg", {"r"}, {"o"}));
  model.input("s", DataType::kFloat, {2}).input("x", DataType::kFloat, {2, 2});
  model.output("y", DataType::kFloat, {2}).output("all", DataType::kFloat, {2, 2});
  return model.node(OnnxNode("Scan", {"s", "x"}, {"y", "all"})
                        .attribute("num_scan_inputs", 1)
                        .attribute("scan_input_axes", std::vector<int64_t>{axis})
                        .attribute("scan_output_axes", std::vector<int64_t>{axis})
                        .attribute("body", body.graph_bytes()));
}

TEST(ControlFlowCopies, AScanCopiesSlicesOnlyOfOtherAxesThanTheFirst) {
  const Feeds feeds = {{"s", floats({2}, {10, 20})}, {"x", floats({2, 2}, {1, 2, 3, 4})}};
  const Ran first = run(scan_model(0), feeds);
  ASSERT_EQ(first.outputs.size(), 2u);
  EXPECT_THAT(values_of(first.outputs[0]), ElementsAre(14, 26));
  EXPECT_THAT(values_of(first.outputs[1]), ElementsAre(-11, -22, -14, -26));
  EXPECT_THAT(first.copies, IsEmpty());
  EXPECT_THAT(refused(scan_model(0), feeds), is_ok());

  const Ran second = run(scan_model(1), feeds);
  ASSERT_EQ(second.outputs.size(), 2u);
  EXPECT_THAT(values_of(second.outputs[0]), ElementsAre(13, 27));
  EXPECT_THAT(values_of(second.outputs[1]), ElementsAre(-11, -13, -23, -27));
  EXPECT_THAT(second.copies, ElementsAre("x 16 scan_slices", "all 16 scan_slices"));
  EXPECT_THAT(refused(scan_model(1), feeds),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"x\" would have to be copied")));
}

// A body that hands its state through leaves it where it is, and only the end copies it.
TEST(ControlFlowCopies, AStateThatIsHandedThroughIsCopiedOnce) {
  OnnxModel body, model;
  body.input("a", DataType::kFloat, {2}).input("v", DataType::kFloat, {2});
  body.output("r", DataType::kFloat, {2}).output("o", DataType::kFloat, {2});
  body.node(OnnxNode("Identity", {"a"}, {"r"})).node(OnnxNode("Add", {"a", "v"}, {"o"}));
  model.input("s", DataType::kFloat, {2}).input("x", DataType::kFloat, {3, 2});
  model.output("y", DataType::kFloat, {2}).output("all", DataType::kFloat, {3, 2});
  model.node(
      OnnxNode("Scan", {"s", "x"}, {"y", "all"}).attribute("num_scan_inputs", 1).attribute("body", body.graph_bytes()));
  const Ran ran = run(model, {{"s", floats({2}, {1, 2})}, {"x", floats({3, 2}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(1, 2));
  EXPECT_THAT(values_of(ran.outputs[1]), ElementsAre(2, 4, 4, 6, 6, 8));
  EXPECT_THAT(ran.copies, ElementsAre("y 8 carried_state"));
}

// Each state is the positive part of the one before: its size is known when it is there, so it has memory of its own.
TEST(ControlFlowCopies, AStateWithMemoryOfItsOwnBecomesTheOutput) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {"k"});
  body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {"m"});
  body.initializer<float>("zero", DataType::kFloat, {}, {0}).node(OnnxNode("Identity", {"c"}, {"d"}));
  body.node(OnnxNode("Sub", {"v", "one"}, {"l"})).node(OnnxNode("Greater", {"l", "zero"}, {"keep"}));
  body.node(OnnxNode("Compress", {"l", "keep"}, {"r"}).attribute("axis", 0));
  model.initializer<float>("one", DataType::kFloat, {}, {1}).initializer<int64_t>("n", DataType::kInt64, {}, {2});
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {"m"});
  model.node(OnnxNode("Loop", {"n", "", "x"}, {"z"}).attribute("body", body.graph_bytes()));
  model.node(OnnxNode("Neg", {"z"}, {"y"}));
  const Feeds feeds = {{"x", floats({4}, {1, 4, 2, 5})}};
  const Ran ran = run(model, feeds);
  ASSERT_EQ(ran.outputs.size(), 1u);
  EXPECT_THAT(values_of(ran.outputs[0]), ElementsAre(-2, -3));
  EXPECT_THAT(ran.copies, IsEmpty());
  EXPECT_THAT(refused(model, feeds), is_ok());
}

// Later states are earlier ones handed on: memory that is still another state's is not used again, and two outputs
// never lie in the same memory.
TEST(ControlFlowCopies, StatesThatAreHandedOnKeepTheirValues) {
  for (const bool sizes_known : {true, false}) {
    const api_testing::OnnxDim dim = sizes_known ? api_testing::OnnxDim(2) : api_testing::OnnxDim("k");
    for (int64_t n = 0; n < 7; ++n) {
      OnnxModel body, model;
      body.input("i", DataType::kInt64, {}).input("t", DataType::kBool, {});
      for (const char* name : {"a", "b", "c", "d"}) body.input(name, DataType::kFloat, {dim});
      body.output("u", DataType::kBool, {}).output("e", DataType::kFloat, {dim});
      for (const char* name : {"f", "g", "h"}) body.output(name, DataType::kFloat, {dim});
      body.node(OnnxNode("Identity", {"t"}, {"u"})).node(OnnxNode("Add", {"a", "a"}, {"s"}));
      if (sizes_known) {
        body.node(OnnxNode("Abs", {"s"}, {"e"}));
      } else {
        body.node(OnnxNode("Greater", {"s", "x"}, {"keep"}));
        body.node(OnnxNode("Compress", {"s", "keep"}, {"e"}).attribute("axis", 0));
      }
      body.node(OnnxNode("Identity", {"a"}, {"f"})).node(OnnxNode("Identity", {"b"}, {"g"}));
      body.node(OnnxNode("Identity", {"b"}, {"h"}));
      model.initializer<int64_t>("n", DataType::kInt64, {}, {n}).input("x", DataType::kFloat, {2});
      for (const char* name : {"y0", "y1", "y2", "y3"}) model.output(name, DataType::kFloat, {dim});
      model.node(OnnxNode("Loop", {"n", "", "x", "x", "x", "x"}, {"y0", "y1", "y2", "y3"})
                     .attribute("body", body.graph_bytes()));
      const auto session = model.load().value();
      std::vector<std::vector<Tensor>> runs;
      for (int again = 0; again < 2; ++again) runs.push_back(session->run(Feeds{{"x", floats({2}, {1, 3})}}).value());
      for (const std::vector<Tensor>& outputs : runs) {
        const int64_t delays[] = {0, 1, 2, 2};
        for (size_t k = 0; k < 4; ++k) {
          const auto factor = static_cast<float>(int64_t{1} << std::max<int64_t>(n - delays[k], 0));
          EXPECT_THAT(values_of(outputs[k]), ElementsAre(factor, 3 * factor)) << n << " " << k << " " << sizes_known;
        }
        EXPECT_NE(outputs[2].data(), outputs[3].data());
      }
    }
  }
}

// A body that declares one shape and computes another gets no room beyond what was planned.
TEST(ControlFlowCopies, ABodyThatGivesMoreThanItDeclaresIsRefused) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {});
  body.output("d", DataType::kBool, {}).output("s", DataType::kFloat, {3});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Expand", {"x", "shape"}, {"s"}));
  model.initializer<int64_t>("n", DataType::kInt64, {}, {4}).input("x", DataType::kFloat, {1});
  model.input("shape", DataType::kInt64, {1}).output("y", DataType::kFloat, {4, 3});
  model.node(OnnxNode("Loop", {"n", ""}, {"all"}).attribute("body", body.graph_bytes()));
  model.node(OnnxNode("Neg", {"all"}, {"y"}));
  const auto session = model.load().value();
  for (const int64_t size : {int64_t{3}, int64_t{1} << 20, int64_t{3}}) {
    const auto outputs = session->run(Feeds{{"x", floats({1}, {2})}, {"shape", ints({1}, {size})}});
    if (outputs.ok()) {
      EXPECT_EQ((*outputs)[0].shape(), (Shape{4, size}));
    } else {
      EXPECT_NE(size, 3) << outputs.status().message();
    }
  }
}

// Values without elements.
TEST(ControlFlowCopies, StatesOfNoBytesAreNoCopies) {
  OnnxModel body, model;
  body.input("i", DataType::kInt64, {}).input("c", DataType::kBool, {}).input("v", DataType::kFloat, {int64_t{0}});
  body.output("d", DataType::kBool, {})
      .output("r", DataType::kFloat, {int64_t{0}})
      .output("s", DataType::kFloat, {int64_t{0}});
  body.node(OnnxNode("Identity", {"c"}, {"d"})).node(OnnxNode("Add", {"v", "x"}, {"r"}));
  body.node(OnnxNode("Neg", {"r"}, {"s"}));
  model.initializer<int64_t>("n", DataType::kInt64, {}, {3}).input("x", DataType::kFloat, {int64_t{0}});
  model.output("y", DataType::kFloat, {int64_t{0}}).output("all", DataType::kFloat, {3, int64_t{0}});
  model.node(OnnxNode("Loop", {"n", "", "x"}, {"z", "t"}).attribute("body", body.graph_bytes()));
  model.node(OnnxNode("Neg", {"z"}, {"y"})).node(OnnxNode("Neg", {"t"}, {"all"}));
  const Ran ran = run(model, {{"x", floats({0}, {})}});
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_EQ(ran.outputs[1].shape().to_string(), "[3,0]");
  EXPECT_THAT(ran.copies, IsEmpty());
}

// Runs of one session after another: memory that became an output is not the next run's.
TEST(ControlFlowCopies, OutputsOfEarlierRunsStayAsTheyAre) {
  const auto session = counting_loop(false).load();
  ASSERT_THAT(session, is_ok());
  std::vector<std::vector<Tensor>> kept;
  for (int64_t n : {3, 20, 1, 7}) {
    auto outputs = (*session)->run(Feeds{{"n", ints({}, {n})}, {"x", floats({3}, {1, 2, 3})}});
    ASSERT_THAT(outputs, is_ok());
    kept.push_back(*outputs);
  }
  const std::vector<int64_t> counts = {3, 20, 1, 7};
  for (size_t k = 0; k < counts.size(); ++k) {
    EXPECT_EQ(values_of(kept[k][0])[0], static_cast<float>(counts[k] + 1));
    ASSERT_EQ(kept[k][1].shape()[0], counts[k]);
    for (int64_t i = 0; i < counts[k]; ++i)
      EXPECT_EQ(kept[k][1].data_as<float>()[i * 3], static_cast<float>(i + 2)) << counts[k];
  }
}

}  // namespace
}  // namespace tenon
