// Shapes that depend on data: the plan is cut there and goes on when the values are known.
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Runs {
 public:
  explicit Runs(const OnnxModel& model) {
    auto session = model.load();
    EXPECT_THAT(session, is_ok());
    if (!session.ok()) return;
    session_ = *session;
    binding_ = std::make_unique<Binding>(*session_->make_binding());
  }
  Status run(const std::vector<std::pair<std::string, Tensor>>& inputs) {
    for (const auto& [name, tensor] : inputs) TENON_TRY(binding_->bind_input(name, tensor));
    return session_->run(*binding_, {.report = &report});
  }
  Binding& binding() { return *binding_; }
  Tensor output(size_t index) { return binding_->output(index); }
  RunReport report;

 private:
  std::shared_ptr<Session> session_;
  std::unique_ptr<Binding> binding_;
};

OnnxModel non_zero_model() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"}).output("at", DataType::kInt64, {1, "found"});
  model.node(OnnxNode("NonZero", {"x"}, {"at"}));
  return model;
}

TEST(Cut, AnOutputOfUnknownSizeThatDoesNotFitIsRefusedWithBothSizes) {
  Runs runs(non_zero_model());
  ASSERT_THAT(runs.binding().bind_output("at", ints({1, 1}, {0})), is_ok());
  EXPECT_THAT(runs.run({{"x", floats({4}, {0, 1, 1, 0})}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("needs 16 bytes")));
  EXPECT_THAT(runs.run({{"x", floats({4}, {0, 0, 1, 0})}}), is_ok());
}

TEST(Cut, NonZeroReportsTheRealShapeInALargerBuffer) {
  Runs runs(non_zero_model());
  const Tensor room = ints({1, 8}, std::vector<int64_t>(8, -1));
  ASSERT_THAT(runs.binding().bind_output("at", room), is_ok());
  ASSERT_THAT(runs.run({{"x", floats({5}, {0, 1, 0, 2, 3})}}), is_ok());
  EXPECT_EQ(runs.output(0).shape(), (Shape{1, 3}));
  EXPECT_THAT(values_of<int64_t>(room), ElementsAre(1, 3, 4, -1, -1, -1, -1, -1));
  ASSERT_EQ(runs.report.copies.records.size(), 1u);
  EXPECT_EQ(runs.report.copies.records[0].reason, CopyReason::kOutputUnknownSize);
  ASSERT_THAT(runs.run({{"x", floats({5}, {0, 0, 0, 0, 0})}}), is_ok());
  EXPECT_EQ(runs.output(0).shape(), (Shape{1, 0}));
}

// The kernel's memory becomes the output, and the output's memory is the kernel's in the next run, unless somebody
// still looks at it.
TEST(Cut, AnOutputOfUnknownSizeThatNobodyBindsIsNotCopied) {
  Runs runs(non_zero_model());
  ASSERT_THAT(runs.run({{"x", floats({5}, {0, 1, 0, 2, 3})}}), is_ok());
  EXPECT_TRUE(runs.report.copies.records.empty());
  const Tensor kept = runs.output(0);
  for (int run = 0; run < 3; ++run) {
    ASSERT_THAT(runs.run({{"x", floats({5}, {4, 0, 0, 0, 0})}}), is_ok());
    EXPECT_TRUE(runs.report.copies.records.empty());
    EXPECT_THAT(values_of<int64_t>(runs.output(0)), ElementsAre(0));
    ASSERT_THAT(runs.run({{"x", floats({5}, {4, 0, 5, 0, 0})}}), is_ok());
    EXPECT_THAT(values_of<int64_t>(runs.output(0)), ElementsAre(0, 2));
  }
  EXPECT_THAT(values_of<int64_t>(kept), ElementsAre(1, 3, 4));
}

TEST(Cut, AnOutputOfUnknownSizeIsWrittenWhereTheLastOneLay) {
  Runs runs(non_zero_model());
  ASSERT_THAT(runs.run({{"x", floats({5}, {0, 1, 0, 2, 3})}}), is_ok());
  const void* const first = runs.output(0).data();
  for (int run = 0; run < 3; ++run) {
    ASSERT_THAT(runs.run({{"x", floats({5}, {4, 0, 5, 0, 0})}}), is_ok());
    EXPECT_EQ(runs.output(0).data(), first);
    EXPECT_THAT(values_of<int64_t>(runs.output(0)), ElementsAre(0, 2));
  }
  const Tensor kept = runs.output(0);
  ASSERT_THAT(runs.run({{"x", floats({5}, {1, 1, 1, 0, 0})}}), is_ok());
  EXPECT_NE(runs.output(0).data(), first);
  EXPECT_THAT(values_of<int64_t>(kept), ElementsAre(0, 2));
}

// Also through a view that owns nothing.
TEST(Cut, AnOutputOfUnknownSizeDoesNotOverwriteAnInputThatIsTheLastOutput) {
  OnnxModel model;
  model.input("x", DataType::kInt64, {"n", "m"}).output("at", DataType::kInt64, {2, "found"});
  model.output("y", DataType::kInt64, {"n", "m"});
  model.node(OnnxNode("NonZero", {"x"}, {"at"})).node(OnnxNode("Neg", {"x"}, {"y"}));
  Runs runs(model);
  ASSERT_THAT(runs.run({{"x", ints({5, 1}, {0, 1, 0, 2, 3})}}), is_ok());
  void* const last = runs.output(0).data();  // 1 3 4 0 0 0
  const Tensor view = Tensor::view(DataType::kInt64, {1, 6}, last, 6 * sizeof(int64_t)).value();
  ASSERT_THAT(runs.run({{"x", view}}), is_ok());
  EXPECT_THAT(values_of<int64_t>(runs.output(0)), ElementsAre(0, 0, 0, 0, 1, 2));
  EXPECT_THAT(values_of<int64_t>(runs.output(1)), ElementsAre(-1, -3, -4, 0, 0, 0));
}

TEST(Cut, AFilledOutputIsMadeInTheRunInsteadOfCopiedFromAConstant) {
  OnnxModel model;
  model.input("shape", DataType::kInt64, {1}).output("y", DataType::kFloat, {"n"});
  model.node(OnnxNode("ConstantOfShape", {"shape"}, {"y"}));
  Runs runs(model);
  for (const int64_t n : {4, 3000, 2000}) {
    ASSERT_THAT(runs.run({{"shape", ints({1}, {n})}}), is_ok());
    EXPECT_THAT(values_of<float>(runs.output(0)), testing::AllOf(testing::SizeIs(n), testing::Each(0.0f)));
    EXPECT_EQ(runs.report.copies.records.empty(), n > 4) << n;
  }
}

TEST(Cut, WhatFollowsNonZeroIsPlannedForItsSize) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"})
      .output("y", DataType::kFloat, {"found"})
      .output("z", DataType::kFloat, {"n"});
  model.initializer<int64_t>("axes", DataType::kInt64, {1}, {0});
  model.node(OnnxNode("NonZero", {"x"}, {"at"})).node(OnnxNode("Squeeze", {"at", "axes"}, {"flat"}));
  model.node(OnnxNode("Neg", {"x"}, {"z"}));
  model.node(OnnxNode("Gather", {"z", "flat"}, {"picked"})).node(OnnxNode("Add", {"picked", "picked"}, {"y"}));
  Runs runs(model);
  ASSERT_THAT(runs.run({{"x", floats({4}, {0, 5, 0, 7})}}), is_ok());
  EXPECT_THAT(values_of(runs.output(0)), ElementsAre(-10, -14));
  EXPECT_THAT(values_of(runs.output(1)), ElementsAre(0, -5, 0, -7));
  ASSERT_THAT(runs.run({{"x", floats({4}, {1, 0, 0, 2})}}), is_ok());  // another place, the same size
  EXPECT_THAT(values_of(runs.output(0)), ElementsAre(-2, -4));
  EXPECT_FALSE(runs.report.planned);
  ASSERT_THAT(runs.run({{"x", floats({4}, {1, 2, 3, 0})}}), is_ok());
  EXPECT_THAT(values_of(runs.output(0)), ElementsAre(-2, -4, -6));
  EXPECT_TRUE(runs.report.planned);
}

TEST(Cut, ReshapeWithAComputedShape) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {6})
      .input("rows", DataType::kInt64, {1})
      .output("y", DataType::kFloat, {"r", "c"});
  model.initializer<int64_t>("minus_one", DataType::kInt64, {1}, {-1});
  model.node(OnnxNode("Concat", {"rows", "minus_one"}, {"shape"}).attribute("axis", 0));
  model.node(OnnxNode("Neg", {"x"}, {"n"}));
  model.node(OnnxNode("Reshape", {"n", "shape"}, {"r"})).node(OnnxNode("Relu", {"r"}, {"y"}));
  Runs runs(model);
  const Tensor x = floats({6}, {-1, -2, -3, 4, 5, 6});
  ASSERT_THAT(runs.run({{"x", x}, {"rows", ints({1}, {2})}}), is_ok());
  EXPECT_EQ(runs.output(0).shape(), (Shape{2, 3}));
  EXPECT_THAT(values_of(runs.output(0)), ElementsAre(1, 2, 3, 0, 0, 0));
  ASSERT_THAT(runs.run({{"x", x}, {"rows", ints({1}, {3})}}), is_ok());
  EXPECT_EQ(runs.output(0).shape(), (Shape{3, 2}));
  EXPECT_TRUE(runs.report.planned);
  ASSERT_THAT(runs.run({{"x", x}, {"rows", ints({1}, {2})}}), is_ok());
  EXPECT_FALSE(runs.report.planned);
  EXPECT_THAT(runs.run({{"x", x}, {"rows", ints({1}, {4})}}), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(runs.run({{"x", x}, {"rows", ints({1}, {6})}}), is_ok());
}

TEST(Cut, RangeAndExpandOnData) {
  OnnxModel model;
  model.input("limit", DataType::kInt64, {}).input("shape", DataType::kInt64, {2});
  model.output("y", DataType::kInt64, {"a", "b"});
  model.initializer<int64_t>("zero", DataType::kInt64, {}, {0}).initializer<int64_t>("one", DataType::kInt64, {}, {1});
  model.node(OnnxNode("Range", {"zero", "limit", "one"}, {"r"})).node(OnnxNode("Expand", {"r", "shape"}, {"y"}));
  Runs runs(model);
  ASSERT_THAT(runs.run({{"limit", ints({}, {3})}, {"shape", ints({2}, {2, 1})}}), is_ok());
  EXPECT_EQ(runs.output(0).shape(), (Shape{2, 3}));
  EXPECT_THAT(values_of<int64_t>(runs.output(0)), ElementsAre(0, 1, 2, 0, 1, 2));
  ASSERT_THAT(runs.run({{"limit", ints({}, {1})}, {"shape", ints({2}, {1, 2})}}), is_ok());
  EXPECT_THAT(values_of<int64_t>(runs.output(0)), ElementsAre(0, 0));
}

TEST(Cut, TopKWithAComputedCount) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).input("k", DataType::kInt64, {1});
  model.output("v", DataType::kFloat, {"k"}).output("i", DataType::kInt64, {"k"});
  model.node(OnnxNode("Add", {"k", "k"}, {"twice"})).node(OnnxNode("TopK", {"x", "twice"}, {"v", "i"}));
  Runs runs(model);
  ASSERT_THAT(runs.run({{"x", floats({4}, {3, 1, 4, 2})}, {"k", ints({1}, {1})}}), is_ok());
  EXPECT_THAT(values_of(runs.output(0)), ElementsAre(4, 3));
  EXPECT_THAT(values_of<int64_t>(runs.output(1)), ElementsAre(2, 0));
}

// An input that a plan depends on may also be read as data afterwards.
TEST(Cut, AValueThatGivesAShapeIsStillAValue) {
  OnnxModel model;
  model.input("shape", DataType::kInt64, {1}).output("y", DataType::kFloat, {"n"}).output("s", DataType::kInt64, {1});
  model.node(OnnxNode("ConstantOfShape", {"shape"}, {"y"})).node(OnnxNode("Add", {"shape", "shape"}, {"s"}));
  Runs runs(model);
  ASSERT_THAT(runs.run({{"shape", ints({1}, {3})}}), is_ok());
  EXPECT_THAT(values_of(runs.output(0)), ElementsAre(0, 0, 0));
  EXPECT_THAT(values_of<int64_t>(runs.output(1)), ElementsAre(6));
}

}  // namespace
}  // namespace tenon
