// Loading of models, and the getters of a session. Misuse first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::floats;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using ::testing::HasSubstr;

OnnxModel relu_model() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {"batch", 4}).output("y", DataType::kFloat, {"batch", 4});
  model.node(OnnxNode("Relu", {"x"}, {"y"}));
  return model;
}

TEST(SessionLoad, AFileThatIsNotThereIsNotFound) {
  EXPECT_THAT(Session::load("no/such/model.onnx"), has_status(StatusCode::kNotFound, HasSubstr("no/such/model.onnx")));
}

TEST(SessionLoad, BytesThatAreNoModelAreRefused) {
  const std::string bytes = "this is not a model";
  EXPECT_FALSE(Session::load_from_bytes(std::as_bytes(std::span(bytes))).ok());
  EXPECT_FALSE(Session::load_from_bytes({}).ok());
}

// The message names node, operator, domain, opset, and what is known.
TEST(SessionLoad, AnUnknownOperatorIsRefusedWithItsName) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {4});
  model.node(OnnxNode("Rleu", {"x"}, {"y"}));
  const auto session = model.load();
  EXPECT_THAT(session, has_status(StatusCode::kUnsupported, HasSubstr("Rleu_of_y")));
  EXPECT_THAT(session.status().message(), HasSubstr("17"));
  EXPECT_THAT(session.status().message(), HasSubstr("Relu"));
}

TEST(SessionLoad, OptionsOutOfRangeAreRefused) {
  EXPECT_THAT(relu_model().load({.threads = -1}), has_status(StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(relu_model().load({.plan_cache_size = 0}), has_status(StatusCode::kInvalidArgument, HasSubstr("0")));
  EXPECT_THAT(relu_model().load({.dims = {{"batch", -3}}}), has_status(StatusCode::kInvalidArgument, HasSubstr("-3")));
}

TEST(SessionLoad, InputsAndOutputsAreDescribed) {
  const auto session = relu_model().load();
  ASSERT_THAT(session, is_ok());
  ASSERT_EQ((*session)->inputs().size(), 1u);
  EXPECT_EQ((*session)->inputs()[0].name, "x");
  EXPECT_EQ((*session)->inputs()[0].to_string(), "float32[batch,4]");
  EXPECT_EQ((*session)->outputs()[0].to_string(), "float32[batch,4]");
}

TEST(SessionLoad, DimensionsCanBeFixedByName) {
  const auto session = relu_model().load({.threads = 1, .dims = {{"batch", 3}}});
  ASSERT_THAT(session, is_ok());
  EXPECT_EQ((*session)->inputs()[0].to_string(), "float32[3,4]");
  auto binding = (*session)->make_binding();
  ASSERT_THAT(binding, is_ok());
  ASSERT_THAT(binding->bind_input("x", floats({2, 4}, std::vector<float>(8))), is_ok());
  EXPECT_THAT((*session)->run(*binding), has_status(StatusCode::kInvalidArgument, HasSubstr("declares 3")));
}

TEST(SessionExplain, ShapesThatAreOpenMustBeGiven) {
  const auto session = relu_model().load();
  ASSERT_THAT(session, is_ok());
  EXPECT_THAT((*session)->explain({}), has_status(StatusCode::kInvalidArgument, HasSubstr("\"x\"")));
  EXPECT_THAT((*session)->explain({{"z", Shape{1, 4}}}), has_status(StatusCode::kNotFound, HasSubstr("\"z\"")));
  EXPECT_THAT((*session)->explain({{"x", Shape{1, 5}}}), has_status(StatusCode::kInvalidArgument));
  const auto text = (*session)->explain({{"x", Shape{2, 4}}});
  ASSERT_THAT(text, is_ok());
  EXPECT_THAT(*text, HasSubstr("input x: float32[2,4]"));
  EXPECT_THAT(*text, HasSubstr("-> output y"));
}

}  // namespace
}  // namespace tenon
