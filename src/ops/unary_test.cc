#include "ops/unary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/testing.h"
#include "graph/schema.h"
#include "ops/activation_formula.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node make(std::string op_type, int version, std::string domain = "") {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.since_version = version;
  return node;
}

UnaryDesc read(const Node& node) {
  Result<UnaryDesc> desc = read_unary(node);
  EXPECT_TRUE(desc.ok()) << desc.status().to_string();
  return desc.ok() ? *desc : UnaryDesc{};
}

TEST(UnaryList, EveryOperatorAndAttributeIsInTheSchemaTable) {
  for (const UnaryRow& row : unary_rows()) {
    if (row.operator_name.empty()) continue;
    const auto schema = find_schema("", row.operator_name, row.since);
    ASSERT_TRUE(schema) << row.operator_name;
    EXPECT_EQ(schema->since_version, row.since) << row.operator_name;
    for (const UnaryParameter& parameter : {row.alpha, row.beta}) {
      if (parameter.attribute.empty()) continue;
      const auto attribute = schema->find_attribute(parameter.attribute);
      ASSERT_TRUE(attribute) << row.operator_name << " " << parameter.attribute;
      EXPECT_NE(attribute->default_value.data(), nullptr) << row.operator_name << " " << parameter.attribute;
    }
  }
}

TEST(UnaryList, NamesAreThereOnce) {
  std::set<std::string_view> texts, operators;
  for (const UnaryRow& row : unary_rows()) {
    EXPECT_EQ(&row, &row_of(row.function));
    EXPECT_EQ(row.text.empty(), static_cast<int>(row.function) >= kActivationCount) << row.formula;
    EXPECT_TRUE(row.text.empty() || texts.insert(row.text).second) << row.text;
    EXPECT_TRUE(row.operator_name.empty() || operators.insert(row.operator_name).second) << row.operator_name;
  }
}

struct Point {
  Unary function;
  double x, a, b, want;
};

// By hand from the definitions in the standard.
constexpr Point kPoints[] = {
    {Unary::kRelu, -2, 0, 0, 0},
    {Unary::kRelu, 3, 0, 0, 3},
    {Unary::kClip, -2, -1, 6, -1},
    {Unary::kClip, 7, -1, 6, 6},
    {Unary::kClip, 7, 6, 2, 2},  // crossed bounds: the upper one wins
    {Unary::kLeakyRelu, -2, 0.25, 0, -0.5},
    {Unary::kLeakyRelu, 2, 0.25, 0, 2},
    {Unary::kSigmoid, 0, 0, 0, 0.5},
    {Unary::kSigmoid, 1, 0, 0, 0.7310585786300049},
    {Unary::kHardSigmoid, 1, 0.2, 0.5, 0.7},
    {Unary::kHardSigmoid, 9, 0.2, 0.5, 1},
    {Unary::kHardSigmoid, -9, 0.2, 0.5, 0},
    {Unary::kHardSwish, 1, 1.0 / 6, 0.5, 2.0 / 3},
    {Unary::kHardSwish, -4, 1.0 / 6, 0.5, 0},
    {Unary::kSilu, 1, 0, 0, 0.7310585786300049},
    {Unary::kGelu, 1, 0, 0, 0.8413447460685429},
    {Unary::kGeluTanh, 1, 0, 0, 0.8411919906082768},
    {Unary::kTanh, 0.5, 0, 0, 0.46211715726000975},
    {Unary::kAbs, -2, 0, 0, 2},
    {Unary::kSign, -2, 0, 0, -1},
    {Unary::kSign, 0, 0, 0, 0},
    {Unary::kRound, 2.5, 0, 0, 2},
    {Unary::kSoftplus, 1, 0, 0, 1.3132616875182228},
    {Unary::kSoftplus, 1000, 0, 0, 1000},
    {Unary::kSoftsign, -3, 0, 0, -0.75},
    {Unary::kElu, -1, 2, 0, -1.2642411176571153},
    {Unary::kSelu, -1, 2, 3, -3.792723352971346},
    {Unary::kSelu, 2, 2, 3, 6},
    {Unary::kThresholdedRelu, 1, 1, 0, 0},
    {Unary::kThresholdedRelu, 2, 1, 0, 2},
    {Unary::kMish, 1, 0, 0, 0.8650983882673103},
    {Unary::kCelu, -1, 2, 0, -0.7869386805747332},
    {Unary::kSwish, 1, 2, 0, 0.8807970779778823},
    {Unary::kShrink, -3, 1, 0.5, -2.5},
    {Unary::kShrink, 0.5, 1, 0.5, 0},
    {Unary::kShrink, 3, 1, 0.5, 2.5},
    {Unary::kAffine, 3, 2, 1, 7},
    {Unary::kScaledTanh, 0.25, 3, 2, 1.3863514717800292},
    {Unary::kCube, -2, 0, 0, -8},
};

TEST(UnaryList, FormulasGiveTheNumbersOfTheStandard) {
  for (const Point& p : kPoints)
    EXPECT_NEAR(evaluate(p.function, p.x, p.a, p.b), p.want, 1e-15 * std::max(1.0, std::abs(p.want)))
        << row_of(p.function).formula << " of " << p.x;
}

// docs/reference/operators.md, "NaN and infinity".
TEST(UnaryList, ANanStaysOne) {
  for (const UnaryRow& row : unary_rows()) {
    const bool to_zero = row.function == Unary::kThresholdedRelu || row.function == Unary::kShrink;
    const double y = evaluate(row.function, std::nan(""), 0.25, 0.5);
    EXPECT_EQ(std::isnan(y), !to_zero) << row.formula;
  }
}

TEST(UnaryList, FunctionsOfIntegersWrapAround) {
  EXPECT_EQ(formula::apply<Unary::kAbs>(int8_t{-128}, int8_t{0}, int8_t{0}), -128);
  EXPECT_EQ(formula::apply<Unary::kNeg>(int64_t{5}, int64_t{0}, int64_t{0}), -5);
  EXPECT_EQ(formula::apply<Unary::kSign>(uint8_t{200}, uint8_t{0}, uint8_t{0}), 1);
  EXPECT_EQ(formula::apply<Unary::kRelu>(int32_t{-7}, 0, 0), 0);
}

TEST(ReadUnary, ParametersComeFromTheAttributesOrTheSchema) {
  const UnaryDesc leaky = read(make("LeakyRelu", 16));
  EXPECT_EQ(leaky.function, Unary::kLeakyRelu);
  EXPECT_EQ(leaky.alpha, static_cast<double>(0.01f));
  Node hard = make("HardSigmoid", 6);
  hard.set_float("beta", 0.25f);
  EXPECT_EQ(read(hard).alpha, static_cast<double>(0.2f));
  EXPECT_EQ(read(hard).beta, 0.25);
  EXPECT_EQ(read(make("Selu", 22)).beta, static_cast<double>(1.05070102214813232421875f));
  EXPECT_EQ(read(make("HardSwish", 14)).alpha, 1.0 / 6);
}

TEST(ReadUnary, GeluSaysWhichApproximation) {
  Node gelu = make("Gelu", 20);
  EXPECT_EQ(read(gelu).function, Unary::kGelu);
  gelu.set_string("approximate", "tanh");
  EXPECT_EQ(read(gelu).function, Unary::kGeluTanh);
  gelu.set_string("approximate", "cubic");
  EXPECT_THAT(read_unary(gelu).status(), has_status(StatusCode::kInvalidArgument, HasSubstr("\"cubic\"")));
}

TEST(ReadUnary, ClipWithoutBoundsHasTheRangeOfFloat32) {
  for (int version : {6, 11, 13}) {
    const UnaryDesc clip = read(make("Clip", version));
    EXPECT_EQ(clip.alpha, static_cast<double>(std::numeric_limits<float>::lowest())) << version;
    EXPECT_EQ(clip.beta, static_cast<double>(std::numeric_limits<float>::max())) << version;
  }
}

TEST(ReadUnary, KnowsItsOperators) {
  EXPECT_TRUE(is_unary(make("Relu", 14)));
  EXPECT_TRUE(is_unary(make("Activation", 1, "tenon")));
  EXPECT_FALSE(is_unary(make("Add", 14)));
  EXPECT_FALSE(is_unary(make("Relu", 1, "com.example")));
  EXPECT_FALSE(is_unary(make("", 1)));
}

TEST(Epilogue, EveryActivationIsReadAsItWasWritten) {
  for (int i = 0; i < kActivationCount; ++i) {
    const Epilogue written{.activation = static_cast<Activation>(i), .alpha = 0.125f, .beta = 0.75f};
    Node node = make("Conv", 1, "tenon");
    write_activation(node, written);
    node.set_int("residual_after", 1);
    Result<Epilogue> read = read_epilogue(node);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->activation, written.activation);
    const UnaryRow& row = row_of(written.activation);
    EXPECT_EQ(read->alpha, row.alpha.used ? 0.125f : 0.0f) << row.text;
    EXPECT_EQ(read->beta, row.beta.used ? 0.75f : 0.0f) << row.text;
    EXPECT_EQ(read->residual_after, i != 0);
  }
}

TEST(Epilogue, AParameterThatIsLeftOutHasItsOperatorsDefault) {
  Node node = make("MatMul", 1, "tenon");
  node.set_string("activation", "hardswish");
  Result<Epilogue> read = read_epilogue(node);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->alpha, 1.0f / 6);
  EXPECT_EQ(read->beta, 0.5f);
  node.set_string("activation", "clip");
  EXPECT_EQ(read_epilogue(node)->alpha, std::numeric_limits<float>::lowest());
  node.set_string("activation", "leaky_relu");
  EXPECT_EQ(read_epilogue(node)->alpha, 0.01f);
}

TEST(Epilogue, AnUnknownActivationIsRefused) {
  Node node = make("Conv", 1, "tenon");
  node.set_string("activation", "swoosh");
  EXPECT_THAT(read_epilogue(node).status(), has_status(StatusCode::kInvalidArgument, HasSubstr("\"swoosh\"")));
  EXPECT_EQ(read_epilogue(make("Conv", 11))->activation, Activation::kNone);
}

TEST(Epilogue, TheResidualIsAddedBeforeOrAfter) {
  Epilogue relu{.activation = Activation::kRelu};
  EXPECT_EQ(evaluate(relu, -3, 1), 0);
  relu.residual_after = true;
  EXPECT_EQ(evaluate(relu, -3, 1), 1);
}

TEST(CellFunctions, NamesAreTakenInAnyCaseWithTheOperatorsDefaults) {
  const CellFunctionRow* elu = find_cell_function("eLU");
  ASSERT_NE(elu, nullptr);
  EXPECT_EQ(elu->function.function, Unary::kElu);
  EXPECT_EQ(elu->function.alpha, 1);
  EXPECT_TRUE(elu->takes_alpha);
  EXPECT_FALSE(elu->takes_beta);
  EXPECT_EQ(find_cell_function("ScaledTanh")->function.beta, 1);
  EXPECT_EQ(find_cell_function("HardSigmoid")->function.alpha, static_cast<double>(0.2f));
  EXPECT_EQ(find_cell_function("Gelu"), nullptr);
}

}  // namespace
}  // namespace tenon
