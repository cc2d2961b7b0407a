// S3.2, S6.1: outputs that are written in place, copies with their reasons, and strict mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using api_testing::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// s = x + x, y = relu(s), z = x + y: x is read after y is written.
OnnxModel model_that_reads_x_late() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"}).output("z", DataType::kFloat, {"n"});
  model.node(OnnxNode("Add", {"x", "x"}, {"s"})).node(OnnxNode("Relu", {"s"}, {"y"}));
  model.node(OnnxNode("Add", {"x", "y"}, {"z"}));
  return model;
}

OnnxModel pass_through_model() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2}).output("c", DataType::kFloat, {2});
  model.initializer<float>("k", DataType::kFloat, {2}, {7, 8});
  model.node(OnnxNode("Identity", {"x"}, {"y"})).node(OnnxNode("Identity", {"k"}, {"c"}));
  return model;
}

TEST(Copies, StrictModeRefusesEachAndNamesTheOutput) {
  const auto strict = pass_through_model().load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(strict, is_ok());
  Binding binding = *(*strict)->make_binding();
  ASSERT_THAT(binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  EXPECT_THAT((*strict)->run(binding),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"y\" would have to be copied")));

  const auto late = model_that_reads_x_late().load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(late, is_ok());
  Binding overlapping = *(*late)->make_binding();
  const Tensor x = floats({2}, {1, 2});
  ASSERT_THAT(overlapping.bind_input("x", x), is_ok());
  ASSERT_THAT(overlapping.bind_output("y", x), is_ok());
  EXPECT_THAT((*late)->run(overlapping), has_status(StatusCode::kInvalidArgument, HasSubstr("overlaps input \"x\"")));
  EXPECT_THAT(values_of(x), ElementsAre(1, 2));  // nothing was run
}

// An output over an input that is read later is made elsewhere and copied, in each run anew.
TEST(Copies, AnOutputOverAnInputIsCopiedInEachRun) {
  const auto session = model_that_reads_x_late().load();
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding(), apart = *(*session)->make_binding();
  const Tensor x = floats({2}, {1, 2});
  ASSERT_THAT(apart.bind_input("x", x), is_ok());
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(binding.bind_output("y", x), is_ok());
  for (int run = 0; run < 3; ++run) {
    ASSERT_THAT((*session)->run(apart), is_ok());
    const std::vector<float> wanted = values_of(apart.output("y"));
    RunReport report;
    ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
    EXPECT_EQ(values_of(x), wanted) << run;
    ASSERT_EQ(report.copies.records.size(), 1u);
    EXPECT_EQ(report.copies.records[0].reason, CopyReason::kOverlap);
  }
}

TEST(Copies, AnInputOrConstantHandedThroughIsWrittenDown) {
  const auto session = pass_through_model().load();
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  ASSERT_THAT(binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  RunReport report;
  ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(values_of(binding.output("y")), ElementsAre(1, 2));
  EXPECT_THAT(values_of(binding.output("c")), ElementsAre(7, 8));
  ASSERT_EQ(report.copies.records.size(), 2u);
  EXPECT_EQ(report.copies.bytes_copied(), 16u);
  EXPECT_EQ(report.copies.records[0].reason, CopyReason::kOutputIsInput);
  EXPECT_STREQ(report.copies.records[0].what, "y");
  ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
  EXPECT_EQ(report.copies.records.size(), 2u);  // a report tells one run
}

TEST(Copies, AnInputHandedThroughInItsOwnMemoryIsNone) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2});
  model.node(OnnxNode("Identity", {"x"}, {"y"}));
  const auto session = model.load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  const Tensor x = floats({2}, {1, 2});
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(binding.bind_output("y", x), is_ok());
  RunReport report;
  ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
  EXPECT_EQ(report.copies.bytes_copied(), 0u);
}

// An output over an input that is read later: computed elsewhere, copied at the end.
TEST(Copies, AnOutputOverAnInputThatIsReadLaterIsRight) {
  const auto session = model_that_reads_x_late().load();
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  const Tensor x = floats({3}, {1, -2, 3});
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  ASSERT_THAT(binding.bind_output("y", x), is_ok());
  RunReport report;
  ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(values_of(binding.output("z")), ElementsAre(3, -2, 9));
  EXPECT_THAT(values_of(x), ElementsAre(2, 0, 6));
  ASSERT_EQ(report.copies.records.size(), 1u);
  EXPECT_EQ(report.copies.records[0].reason, CopyReason::kOverlap);
}

TEST(Copies, OneValueAsTwoOutputsIsCopiedOnce) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2}).output("z", DataType::kFloat, {2});
  model.node(OnnxNode("Neg", {"x"}, {"y"})).node(OnnxNode("Identity", {"y"}, {"z"}));
  const auto session = model.load();
  ASSERT_THAT(session, is_ok());
  Binding binding = *(*session)->make_binding();
  ASSERT_THAT(binding.bind_input("x", floats({2}, {1, 2})), is_ok());
  RunReport report;
  ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(values_of(binding.output("y")), ElementsAre(-1, -2));
  EXPECT_THAT(values_of(binding.output("z")), ElementsAre(-1, -2));
  ASSERT_EQ(report.copies.records.size(), 1u);
  EXPECT_EQ(report.copies.records[0].reason, CopyReason::kOutputShared);
}

// S3.2: the bytes around a bound output stay as they are, and unaligned views are used in place.
TEST(Copies, TensorsAtAnyElementAreUsedInPlace) {
  const auto session = model_that_reads_x_late().load({.threads = 1, .disallow_copies = true});
  ASSERT_THAT(session, is_ok());
  const Tensor memory = floats({64}, std::vector<float>(64, 5));
  float* data = memory.data_as<float>();
  const auto at = [&](int index, int64_t n) {
    return *Tensor::view(DataType::kFloat, Shape{n}, data + index, static_cast<size_t>(n) * 4, memory.owner());
  };
  Binding binding = *(*session)->make_binding();
  ASSERT_THAT(binding.bind_input("x", at(1, 17)), is_ok());
  ASSERT_THAT(binding.bind_output("y", at(19, 17)), is_ok());
  ASSERT_THAT(binding.bind_output("z", at(43, 17)), is_ok());
  RunReport report;
  ASSERT_THAT((*session)->run(binding, {.report = &report}), is_ok());
  EXPECT_EQ(report.copies.bytes_copied(), 0u);
  for (int i = 0; i < 64; ++i) {
    const float expected = i >= 19 && i < 36 ? 10.0f : i >= 43 && i < 60 ? 15.0f : 5.0f;
    EXPECT_EQ(data[i], expected) << i;
  }
}

}  // namespace
}  // namespace tenon
