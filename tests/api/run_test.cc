// Running: misuse, outputs of every kind, plans by signature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/object.h>

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

// y = relu(x + x), z = x + y
OnnxModel model_with_two_outputs() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"n"}).output("y", DataType::kFloat, {"n"}).output("z", DataType::kFloat, {"n"});
  model.node(OnnxNode("Add", {"x", "x"}, {"s"})).node(OnnxNode("Relu", {"s"}, {"y"}));
  model.node(OnnxNode("Add", {"x", "y"}, {"z"}));
  return model;
}

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto session = model_with_two_outputs().load({.threads = 1, .plan_cache_size = 2});
    ASSERT_THAT(session, is_ok());
    session_ = *session;
    binding_ = std::make_unique<Binding>(*session_->make_binding());
  }
  // The session still works.
  void expect_usable() {
    Binding binding = *session_->make_binding();
    ASSERT_THAT(binding.bind_input("x", floats({2}, {-1, 2})), is_ok());
    ASSERT_THAT(session_->run(binding), is_ok());
    EXPECT_THAT(values_of(binding.output("z")), ElementsAre(-1, 6));
  }
  std::shared_ptr<Session> session_;
  std::unique_ptr<Binding> binding_;
};

// One plan stays, whatever it holds.
TEST(PlanCacheBytes, SizesThatChangeAreRightWithoutMemoryForTheirPlans) {
  const SessionOptions by_field{.threads = 1, .plan_cache_bytes = 0};
  const SessionOptions by_entry{.threads = 1, .config = {{"tenon.plan_cache_mb", "0"}}};
  for (const SessionOptions& options : {by_field, by_entry}) {
    const auto session = model_with_two_outputs().load(options);
    ASSERT_THAT(session, is_ok());
    for (int64_t round = 0; round < 2; ++round) {
      for (int64_t size = 1; size <= 4; ++size) {
        Binding binding = *(*session)->make_binding();
        ASSERT_THAT(binding.bind_input("x", floats({size}, std::vector<float>(static_cast<size_t>(size), 3))), is_ok());
        ASSERT_THAT((*session)->run(binding), is_ok());
        EXPECT_THAT(values_of(binding.output("z")), ::testing::Each(9)) << size;
      }
    }
  }
  EXPECT_THAT(model_with_two_outputs().load({.config = {{"tenon.plan_cache_mb", "much"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.plan_cache_mb")));
}

TEST_F(RunTest, AMissingInputIsNamed) {
  EXPECT_THAT(session_->run(*binding_), has_status(StatusCode::kInvalidArgument, HasSubstr("Input \"x\" float32[")));
  expect_usable();
}

TEST_F(RunTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  const Tensor x = floats({2}, {1, 2});
  EXPECT_THAT(binding_->bind_input("w", x), has_status(StatusCode::kNotFound, HasSubstr("it has \"x\"")));
  EXPECT_THAT(binding_->bind_output("w", x), has_status(StatusCode::kNotFound, HasSubstr("\"y\", \"z\"")));
  EXPECT_THAT(binding_->bind_output_auto("w"), has_status(StatusCode::kNotFound));
  EXPECT_FALSE(binding_->output("w").defined());
  EXPECT_FALSE(binding_->output(7).defined());
  expect_usable();
}

TEST_F(RunTest, WrongTypesRanksAndUndefinedTensorsAreRefusedWhenBound) {
  EXPECT_THAT(binding_->bind_input("x", Tensor()), has_status(StatusCode::kInvalidArgument, HasSubstr("undefined")));
  EXPECT_THAT(binding_->bind_input("x", ints({2}, {1, 2})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("has type int64, but the model declares float32[n]")));
  EXPECT_THAT(binding_->bind_input("x", floats({1, 2}, {1, 2})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("has rank 2 (shape [1,2])")));
  EXPECT_THAT(binding_->bind_output("y", ints({2}, {1, 2})), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(binding_->bind_output("y", floats({2, 1}, {1, 2})), has_status(StatusCode::kInvalidArgument));
  expect_usable();
}

TEST_F(RunTest, AnOutputThatIsTooSmallIsRefusedWithBothSizes) {
  ASSERT_THAT(binding_->bind_input("x", floats({3}, {1, 2, 3})), is_ok());
  ASSERT_THAT(binding_->bind_output("y", floats({2}, {0, 0})), is_ok());
  EXPECT_THAT(
      session_->run(*binding_),
      has_status(StatusCode::kInvalidArgument, HasSubstr("needs 12 bytes, but the tensor bound to it has room for 8")));
  expect_usable();
}

TEST_F(RunTest, ABindingOfAnotherSessionOrMovedFromIsRefused) {
  auto other = model_with_two_outputs().load();
  ASSERT_THAT(other, is_ok());
  EXPECT_THAT((*other)->run(*binding_), has_status(StatusCode::kInvalidArgument, HasSubstr("another session")));
  const Binding taken = std::move(*binding_);
  EXPECT_THAT(session_->run(*binding_), has_status(StatusCode::kInvalidArgument, HasSubstr("moved from")));
  EXPECT_THAT(binding_->bind_input("x", Tensor()), has_status(StatusCode::kInvalidArgument));
  EXPECT_FALSE(binding_->output(0).defined());
}

TEST_F(RunTest, OutputsThatOverlapAreRefused) {
  const Tensor memory = floats({4}, {0, 0, 0, 0});
  const Tensor part = *Tensor::view(DataType::kFloat, Shape{2}, memory.data_as<float>() + 1, 8, memory.owner());
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(binding_->bind_output("y", *memory.reinterpret(DataType::kFloat, Shape{2})), is_ok());
  ASSERT_THAT(binding_->bind_output("z", part), is_ok());
  EXPECT_THAT(session_->run(*binding_), has_status(StatusCode::kInvalidArgument, HasSubstr("overlap")));
}

// What a run has checked it takes for granted the next time, and only then.
TEST_F(RunTest, MemoryThatIsBoundAnewIsCheckedAnew) {
  const Tensor memory = floats({4}, {0, 0, 0, 0});
  const auto part = [&](int64_t first) {
    return *Tensor::view(DataType::kFloat, Shape{2}, memory.data_as<float>() + first, 8, memory.owner());
  };
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(binding_->bind_output("y", part(0)), is_ok());
  ASSERT_THAT(binding_->bind_output("z", part(2)), is_ok());
  for (int run = 0; run < 3; ++run) ASSERT_THAT(session_->run(*binding_), is_ok());
  ASSERT_THAT(binding_->bind_output("z", part(1)), is_ok());
  for (int run = 0; run < 2; ++run)
    EXPECT_THAT(session_->run(*binding_), has_status(StatusCode::kInvalidArgument, HasSubstr("overlap")));
  ASSERT_THAT(binding_->bind_output("z", part(2)), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  // The same memory, for another plan.
  ASSERT_THAT(binding_->bind_input("x", floats({1}, {3})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  EXPECT_THAT(values_of(binding_->output("y")), ElementsAre(6));
}

TEST_F(RunTest, BoundOutputsAreWrittenWhereTheyLie) {
  const Tensor x = floats({3}, {1, -2, 3});
  const Tensor y = floats({3}, {9, 9, 9});
  ASSERT_THAT(binding_->bind_input("x", x), is_ok());
  ASSERT_THAT(binding_->bind_output("y", y), is_ok());
  RunReport report;
  ASSERT_THAT(session_->run(*binding_, {.report = &report}), is_ok());
  EXPECT_THAT(values_of(y), ElementsAre(2, 0, 6));
  EXPECT_EQ(binding_->output("y").data(), y.data());
  EXPECT_THAT(values_of(binding_->output("z")), ElementsAre(3, -2, 9));
  EXPECT_EQ(report.copies.bytes_copied(), 0u);
  EXPECT_TRUE(report.planned);
  ASSERT_THAT(session_->run(*binding_, {.report = &report}), is_ok());
  EXPECT_FALSE(report.planned);
}

TEST_F(RunTest, AnOutputInALargerBufferHasItsRealShape) {
  const Tensor y = floats({5}, {9, 9, 9, 9, 9});
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(binding_->bind_output("y", y), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  EXPECT_EQ(binding_->output("y").shape(), Shape{2});
  EXPECT_THAT(values_of(y), ElementsAre(2, 4, 9, 9, 9));
}

TEST_F(RunTest, AutomaticOutputsAreReusedUnlessSomebodyHoldsThem) {
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  const void* first = binding_->output("y").data();
  ASSERT_THAT(session_->run(*binding_), is_ok());
  EXPECT_EQ(binding_->output("y").data(), first);
  const Tensor held = binding_->output("y");
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {10, 20})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  EXPECT_NE(binding_->output("y").data(), held.data());
  EXPECT_THAT(values_of(held), ElementsAre(2, 4));
  EXPECT_THAT(values_of(binding_->output("y")), ElementsAre(20, 40));
}

TEST_F(RunTest, ClearForgetsTensorsAndResults) {
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  ASSERT_THAT(binding_->clear(), is_ok());
  EXPECT_FALSE(binding_->output("y").defined());
  EXPECT_FALSE(session_->run(*binding_).ok());
}

TEST_F(RunTest, AFailedRunLeavesNoResults) {
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  ASSERT_THAT(binding_->bind_output("z", floats({1}, {0})), is_ok());
  ASSERT_FALSE(session_->run(*binding_).ok());
  EXPECT_FALSE(binding_->output("y").defined());
}

// One plan a signature, the least recently used goes first.
TEST_F(RunTest, PlansAreKeptBySignatureUpToTheLimit) {
  RunReport report;
  const auto planned = [&](int64_t n) {
    EXPECT_TRUE(binding_->bind_input("x", floats({n}, std::vector<float>(static_cast<size_t>(n), 1))).ok());
    EXPECT_TRUE(session_->run(*binding_, {.report = &report}).ok());
    EXPECT_EQ(binding_->output("y").shape(), Shape{n});
    return report.planned;
  };
  EXPECT_TRUE(planned(1));
  EXPECT_TRUE(planned(2));
  EXPECT_FALSE(planned(1));
  EXPECT_TRUE(planned(3));  // 2 goes
  EXPECT_FALSE(planned(1));
  EXPECT_TRUE(planned(2));
}

TEST_F(RunTest, EmptyTensorsAreFine) {
  ASSERT_THAT(binding_->bind_input("x", floats({0}, {})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  EXPECT_EQ(binding_->output("z").shape(), Shape{0});
}

TEST_F(RunTest, TheConvenienceCallGivesOutputsInOrder) {
  const std::vector<std::pair<std::string, Tensor>> inputs = {{"x", floats({2}, {-1, 2})}};
  const auto outputs = session_->run(std::span<const std::pair<std::string, Tensor>>(inputs));
  ASSERT_THAT(outputs, is_ok());
  ASSERT_EQ(outputs->size(), 2u);
  EXPECT_THAT(values_of((*outputs)[0]), ElementsAre(0, 4));
  EXPECT_THAT(values_of((*outputs)[1]), ElementsAre(-1, 6));
}

TEST_F(RunTest, ResultsOutliveTheSession) {
  ASSERT_THAT(binding_->bind_input("x", floats({2}, {1, 2})), is_ok());
  ASSERT_THAT(session_->run(*binding_), is_ok());
  const Tensor y = binding_->output("y");
  session_.reset();
  binding_.reset();
  EXPECT_THAT(values_of(y), ElementsAre(2, 4));
}

// The product of the sizes is 0, whatever the others are and wherever the zero stands.
TEST(EmptyTensors, SizesBesideAZeroMayBeLarge) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  OnnxModel reshape, resize;
  reshape.input("x", DataType::kFloat, {"n"}).input("s", DataType::kInt64, {3});
  reshape.output("y", DataType::kFloat, {"a", "b", "c"});
  reshape.node(OnnxNode("Reshape", {"x", "s"}, {"y"}).attribute("allowzero", 1));
  resize.input("x", DataType::kFloat, {"d", "e", "f"}).input("s", DataType::kInt64, {3});
  resize.output("y", DataType::kFloat, {"a", "b", "c"}).node(OnnxNode("Resize", {"x", "", "", "s"}, {"y"}));
  for (const OnnxModel& model : {reshape, resize}) {
    const auto session = model.load();
    ASSERT_THAT(session, is_ok());
    const Shape empty = (*session)->inputs()[0].dims.size() == 1 ? Shape{0} : Shape{1, 1, 0};
    const Tensor x = *Tensor::allocate(DataType::kFloat, empty);
    const std::vector<std::pair<std::string, Tensor>> feeds = {{"x", x}, {"s", ints({3}, {kLarge, kLarge, 0})}};
    const auto outputs = (*session)->run(feeds);
    ASSERT_THAT(outputs, is_ok());
    EXPECT_EQ(outputs->at(0).shape().to_string(), "[1099511627776,1099511627776,0]");
  }
}

// Strings that the run makes go out as they are, those of the caller as copies: neither changes with a later run, and
// both stay when the session and the input are gone.
TEST(RunStrings, OutputsOutliveTheRunTheInputAndTheSession) {
  const std::string model = OnnxModel()
                                .input("x", DataType::kString, {"n"})
                                .node(OnnxNode("StringConcat", {"x", "x"}, {"y"}))
                                .node(OnnxNode("Identity", {"x"}, {"z"}))
                                .output("y", DataType::kString, {"n"})
                                .output("z", DataType::kString, {"n"})
                                .bytes(/*opset=*/20);
  std::vector<Tensor> kept;
  {
    const auto session = Session::load_from_bytes(std::as_bytes(std::span(model)), {.threads = 1});
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    Binding binding = *(*session)->make_binding();
    for (const char* word : {"a word of some length ", "another, which is longer than the first "}) {
      ASSERT_TRUE(binding.bind_input("x", *string_tensor({word, "", "c"}, Shape{3})).ok());
      ASSERT_TRUE((*session)->run(binding).ok());
      kept.push_back(binding.output("y"));
      kept.push_back(binding.output("z"));
    }
  }
  EXPECT_EQ(text_at(kept[0], 0), "a word of some length a word of some length ");
  EXPECT_EQ(text_at(kept[0], 1), "");
  EXPECT_EQ(text_at(kept[0], 2), "cc");
  EXPECT_EQ(text_at(kept[1], 0), "a word of some length ");
  EXPECT_EQ(text_at(kept[2], 0), "another, which is longer than the first another, which is longer than the first ");
  EXPECT_EQ(text_at(kept[3], 2), "c");
}

}  // namespace
}  // namespace tenon
