#include "ops/recurrent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node make(std::string op_type) {
  Node node;
  node.op_type = std::move(op_type);
  node.since_version = 14;
  return node;
}

InputShapes shapes(std::initializer_list<std::optional<Shape>> all) {
  InputShapes made;
  for (const std::optional<Shape>& shape : all) made.push_back(shape);
  return made;
}

std::vector<Unary> functions_of(const RecurrentDesc& desc) {
  std::vector<Unary> functions;
  for (const UnaryDesc& function : desc.gate_functions) functions.push_back(function.function);
  return functions;
}

TEST(Recurrent, SizesFollowFromTheInputs) {
  const Result<RecurrentDesc> desc =
      read_recurrent(make("LSTM"), shapes({Shape{7, 2, 3}, Shape{1, 20, 3}, Shape{1, 20, 5}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->cell, RecurrentDesc::Cell::kLstm);
  EXPECT_EQ(desc->length, 7);
  EXPECT_EQ(desc->batch, 2);
  EXPECT_EQ(desc->input, 3);
  EXPECT_EQ(desc->hidden, 5);
  EXPECT_EQ(desc->width(), 20);
  EXPECT_THAT(functions_of(*desc), ElementsAre(Unary::kSigmoid, Unary::kTanh, Unary::kTanh));
  EXPECT_EQ(desc->y(), (Shape{7, 1, 2, 5}));
  EXPECT_EQ(desc->state(), (Shape{1, 2, 5}));
  EXPECT_EQ(desc->clip, 0);
}

TEST(Recurrent, LayoutAndDirectionShapeTheResults) {
  Node node = make("GRU");
  node.set_int("layout", 1);
  node.set_int("linear_before_reset", 1);
  node.set_string("direction", "bidirectional");
  node.set_float("clip", 3);
  const Result<RecurrentDesc> desc = read_recurrent(
      node, shapes({Shape{2, 7, 3}, Shape{2, 15, 3}, Shape{2, 15, 5}, Shape{2, 30}, {}, Shape{2, 2, 5}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->directions, 2);
  EXPECT_FALSE(desc->reverse);
  EXPECT_TRUE(desc->linear_before_reset);
  EXPECT_EQ(desc->clip, 3);
  EXPECT_THAT(functions_of(*desc), ElementsAre(Unary::kSigmoid, Unary::kTanh, Unary::kSigmoid, Unary::kTanh));
  EXPECT_EQ(desc->y(), (Shape{2, 7, 2, 5}));
  EXPECT_EQ(desc->state(), (Shape{2, 2, 5}));
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const Shape x{7, 2, 3}, w{1, 5, 3}, r{1, 5, 5};
  const auto message = [](const Node& node, std::initializer_list<std::optional<Shape>> all) {
    return read_recurrent(node, shapes(all)).status().message();
  };
  Node node = make("RNN");
  EXPECT_THAT(message(node, {x, w}), HasSubstr("lacks input 2"));
  EXPECT_THAT(message(node, {Shape{7, 2}, w, r}), HasSubstr("3 dimensions"));
  EXPECT_THAT(message(node, {x, Shape{1, 6, 3}, r}), HasSubstr("input 1 of shape [1,6,3]; it needs [1,5,3]"));
  EXPECT_THAT(message(node, {x, w, r, Shape{1, 5}}), HasSubstr("needs [1,10]"));
  EXPECT_THAT(message(node, {x, w, r, {}, Shape{3}}), HasSubstr("needs [2]"));
  EXPECT_THAT(message(node, {x, w, r, {}, {}, Shape{1, 1, 5}}), HasSubstr("needs [1,2,5]"));
  EXPECT_THAT(message(make("LSTM"), {x, Shape{1, 20, 3}, Shape{1, 20, 5}, {}, {}, {}, {}, Shape{1, 5}}),
              HasSubstr("needs [1,15]"));
  node.set_int("hidden_size", 0);
  EXPECT_THAT(message(node, {x, w, r}), HasSubstr("\"hidden_size\" (0)"));
  node.set_int("hidden_size", 5);
  node.set_string("direction", "sideways");
  EXPECT_THAT(message(node, {x, w, r}), HasSubstr("sideways"));
  Node named = make("LSTM");
  named.attributes.edit().push_back({.name = "activations", .kind = AttributeKind::kStrings, .strings = {"Tanh"}});
  EXPECT_THAT(message(named, {x, Shape{1, 20, 3}, Shape{1, 20, 5}}), HasSubstr("1 activations"));
}

// A list of alphas has values for the functions that take one, as far as it goes.
TEST(Recurrent, FunctionsTakeTheirParametersInOrder) {
  Node node = make("LSTM");
  node.attributes.edit().push_back(
      {.name = "activations", .kind = AttributeKind::kStrings, .strings = {"hardsigmoid", "Tanh", "LeakyRelu"}});
  node.attributes.edit().push_back({.name = "activation_alpha", .kind = AttributeKind::kFloats, .floats = {0.25f}});
  node.attributes.edit().push_back({.name = "activation_beta", .kind = AttributeKind::kFloats, .floats = {0.75f}});
  const Result<RecurrentDesc> desc = read_recurrent(node, shapes({Shape{7, 2, 3}, Shape{1, 20, 3}, Shape{1, 20, 5}}));
  ASSERT_TRUE(desc.ok()) << desc.status().to_string();
  EXPECT_THAT(functions_of(*desc), ElementsAre(Unary::kHardSigmoid, Unary::kTanh, Unary::kLeakyRelu));
  EXPECT_EQ(desc->gate_functions[0].alpha, 0.25);
  EXPECT_EQ(desc->gate_functions[0].beta, 0.75);
  EXPECT_EQ(desc->gate_functions[2].alpha, static_cast<double>(0.01f));
}

}  // namespace
}  // namespace tenon
