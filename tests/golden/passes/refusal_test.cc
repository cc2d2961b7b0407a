// Patterns that look right and are not: fusing them would change a result or lose an output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph_maker.h"
#include "interpreter.h"
#include "ops/shape_inference.h"

namespace tenon {
namespace {

TEST(Refusal, AValueThatIsReadTwiceStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "3", "H", "W"});
  ValueId y = m.node("Conv", {x, m.weights("w", {3, 3, 1, 1})});
  ValueId z = m.node("Relu", {y});
  m.output(m.node("Sub", {z, y}));
  EXPECT_EQ(operators_after(m), "tenon.Conv tenon.Activation:relu Sub");
}

TEST(Refusal, AGraphOutputStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "3", "H", "W"});
  ValueId y = m.node("Conv", {x, m.weights("w", {3, 3, 1, 1})});
  m.output(y);
  m.output(m.node("Relu", {y}));
  EXPECT_EQ(operators_after(m), "tenon.Conv tenon.Activation:relu");
}

// Of ones, of channels, as large as the window, in front of an average that leaves its own padding out, and of a
// maximum of numbers below zero.
TEST(Refusal, PadsThatAreNoPaddingOfAWindowStay) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "4", "8", "9"}), w = m.weights("w", {4, 4, 3, 3});
  const std::vector<int64_t> around = {0, 0, 1, 1, 0, 0, 1, 1};
  m.output(m.node("Conv", {m.node("Pad", {x, m.ints(around), m.number(1)}), w}));
  m.output(m.node("Conv", {m.node("Pad", {x, m.ints({0, 1, 0, 0, 0, 0, 0, 0})}), m.weights("v", {4, 5, 3, 3})}));
  m.output(m.node("Conv", {m.node("Pad", {x, m.ints({0, 0, 3, 0, 0, 0, 0, 0})}), w}));
  m.output(m.node("AveragePool", {m.node("Pad", {x, m.ints(around)})}));
  m.set("kernel_shape", {3, 3}).set("pads", {1, 1, 1, 1});
  m.output(m.node("MaxPool", {m.node("Pad", {x, m.ints({0, 0, 1, 0, 0, 0, 0, 1})})}));
  m.set("kernel_shape", {3, 3});
  EXPECT_EQ(operators_after(m), "Pad tenon.Conv Pad tenon.Conv Pad tenon.Conv Pad AveragePool Pad MaxPool");
}

TEST(Refusal, AnEinsumWithADiagonalOrARepeatedDimensionStays) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "N", "4"});
  m.output(m.node("Einsum", {x, m.weights("w", {4, 5})}));
  m.set("equation", "aab,bc->ac");
  m.output(m.node("Einsum", {x, m.weights("v", {1, 5})}));
  m.set("equation", "abd,dc->abc");
  const ValueId whole = m.input("i", {"2", "3"}, DataType::kInt32);
  m.output(m.node("Einsum", {whole}));
  m.set("equation", "ab->a");
  EXPECT_EQ(operators_after(m), "Einsum Einsum Einsum");
}

TEST(Refusal, ABiasAlongAnotherDimensionIsNone) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "3", "4", "4"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 3, 1, 1})});
  m.output(m.node("Add", {y, m.weights("b", {4})}));  // adds along W
  EXPECT_EQ(operators_after(m), "tenon.Conv Add");
}

TEST(Refusal, ABiasThatEnlargesTheRankIsNone) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "3", "4"});
  ValueId y = m.node("Conv", {x, m.weights("w", {1, 3, 1})});
  m.output(m.node("Add", {y, m.weights("b", {1, 1, 1, 1})}));
  EXPECT_EQ(operators_after(m), "tenon.Conv Add");
}

TEST(Refusal, AResidualThatBroadcastsStaysAnAddition) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "3", "4", "4"});
  ValueId r = m.input("r", {"1", "4", "1", "1"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 3, 1, 1})});
  m.output(m.node("Add", {y, r}));
  EXPECT_EQ(operators_after(m), "tenon.Conv Add");
}

TEST(Refusal, AProductAddedToItselfKeepsOneCopy) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "3", "4", "4"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 3, 1, 1})});
  m.output(m.node("Add", {y, y}));
  EXPECT_EQ(operators_after(m), "tenon.Conv Add");
}

// Taps that lie between those of the other, and groups and taps of which neither convolution has all.
TEST(Refusal, ConvolutionsOfOneInputWithOtherTapsStay) {
  for (const bool dilated : {true, false}) {
    GraphMaker m;
    ValueId x = m.input("x", {"1", "4", "6", "6"});
    ValueId y = m.node("Conv", {x, m.weights("w", {4, dilated ? 4 : 1, 3, 3})});
    m.set("pads", {1, 1, 1, 1}).set("group", int64_t{dilated ? 1 : 4});
    ValueId z = m.node("Conv", {x, m.weights("w2", dilated ? Shape{4, 4, 3, 3} : Shape{4, 4, 1, 1})});
    if (dilated) m.set("pads", {2, 2, 2, 2}).set("dilations", {2, 2});
    m.output(m.node("Add", {y, z}));
    EXPECT_EQ(operators_after(m), "tenon.Conv tenon.Conv+residual") << dilated;
  }
}

// The larger window drops the border, and a single row is added to all.
TEST(Refusal, ConvolutionsOfOneInputWithOtherSizesStay) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "4", "3", "3"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 4, 3, 3})});
  ValueId z = m.node("Conv", {x, m.weights("w2", {4, 4, 1, 1})});
  m.output(m.node("Add", {y, z}));
  EXPECT_EQ(operators_after(m), "tenon.Conv tenon.Conv Add");
}

TEST(Refusal, TwoResidualsDoNotFitOneProduct) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "4", "4", "4"});
  ValueId r = m.input("r", {"1", "4", "4", "4"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 4, 1, 1})});
  y = m.node("Add", {y, x});
  m.output(m.node("Add", {y, r}));
  EXPECT_EQ(operators_after(m), "tenon.Conv+residual Add");
}

TEST(Refusal, ASecondActivationStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "3", "4", "4"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 3, 1, 1})});
  m.output(m.node("Sigmoid", {m.node("Relu", {y})}));
  EXPECT_EQ(operators_after(m), "tenon.Conv:relu tenon.Activation:sigmoid");
}

TEST(Refusal, GeluWithAWrongConstantStaysInPieces) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"});
  ValueId f = m.node("Add", {m.node("Erf", {m.node("Div", {x, m.number(1.5f)})}), m.number(1)});
  m.output(m.node("Mul", {m.node("Mul", {x, f}), m.number(0.5f)}));
  EXPECT_EQ(operators_after(m), "Div Erf Add Mul Mul");
}

TEST(Refusal, MishOfTwoDifferentValuesAndSlopesOfColumnsStay) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "5"}), z = m.input("z", {"N", "5"});
  m.output(m.node("Mul", {x, m.node("Tanh", {m.node("Softplus", {z})})}));
  m.output(m.node("Mul", {x, m.node("Sigmoid", {m.node("Mul", {z, m.number(1.702f)})})}));
  m.output(m.node("PRelu", {x, m.weights("slopes", {5})}));
  EXPECT_EQ(operators_after(m), "Softplus tenon.Activation:tanh Mul Mul tenon.Activation:sigmoid Mul PRelu");
}

TEST(Refusal, GeluOfTwoDifferentValuesStaysInPieces) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"}), z = m.input("z", {"N", "8"});
  ValueId f = m.node("Add", {m.node("Erf", {m.node("Div", {x, m.number(1.4142135f)})}), m.number(1)});
  m.output(m.node("Mul", {m.node("Mul", {z, f}), m.number(0.5f)}));
  EXPECT_EQ(operators_after(m), "Div Erf Add Mul Mul");
}

TEST(Refusal, AConstantThatRaisesTheRankIsNoScalar) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"});
  ValueId f = m.node("Add", {m.node("Erf", {m.node("Div", {x, m.number(1.4142135f)})}), m.number(1, {1, 1, 1})});
  m.output(m.node("Mul", {m.node("Mul", {x, f}), m.number(0.5f)}));
  EXPECT_EQ(operators_after(m), "Div Erf Add Mul Mul");
}

TEST(Refusal, ClipWithLowAboveHighStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"});
  m.output(m.node("Clip", {x, m.number(3), m.number(-3)}));
  EXPECT_EQ(operators_after(m), "Clip");
}

TEST(Refusal, IntegersAreNotFused) {
  GraphMaker m;
  ValueId x = m.input("x", {"2", "3"}, DataType::kInt64);
  m.output(m.node("Relu", {x}));
  Graph graph = m.graph();
  ASSERT_TRUE(run_named(graph, PassPhase::kLoad, {}).ok());
  EXPECT_EQ(graph.nodes[NodeId(0)].domain, "");
}

TEST(Refusal, AMatMulBiasOfAnotherShapeStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"4", "8"});
  ValueId y = m.node("MatMul", {x, m.weights("w", {8, 4})});
  m.output(m.node("Add", {y, m.weights("b", {4, 1})}));
  EXPECT_EQ(operators_after(m), "tenon.MatMul Add");
}

TEST(Refusal, AVectorTimesAMatrixStaysAMatMul) {
  GraphMaker m;
  ValueId x = m.input("x", {"8"});
  m.output(m.node("MatMul", {x, m.weights("w", {8, 4})}));
  EXPECT_EQ(operators_after(m), "MatMul");
}

TEST(Refusal, LayerNormalizationThatReturnsItsMeanStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"});
  m.output(m.node("LayerNormalization", {x, m.weights("s", {8})}, 2));
  m.output(m.output_of_last(1));
  Graph graph = m.graph();
  ASSERT_TRUE(run_named(graph, PassPhase::kLoad, {}).ok());
  EXPECT_EQ(graph.nodes[NodeId(0)].op_type, "LayerNormalization");
}

// Only Where(IsNaN(p), 0, p) of a softmax that nothing else reads gives zeros where that softmax is NaN.
TEST(Refusal, AnotherAnswerToNanStays) {
  struct Case {
    float number = 0;
    bool tests_x = false, reads_p = false, swaps = false;
    const char* left = "Softmax IsNaN Where";
  };
  for (const Case& one : {Case{.left = "tenon.GuardedSoftmax"}, Case{.number = 1}, Case{.tests_x = true},
                          Case{.reads_p = true}, Case{.swaps = true}}) {
    GraphMaker m;
    const ValueId x = m.input("x", {"N", "4"});
    const ValueId p = m.node("Softmax", {x});
    m.set("axis", int64_t{-1});
    const ValueId test = m.node("IsNaN", {one.tests_x ? x : p});
    const ValueId number = m.number(one.number);
    m.output(m.node("Where", one.swaps ? std::vector{test, p, number} : std::vector{test, number, p}));
    if (one.reads_p) m.output(p);
    // Nodes that do not depend on each other may change their order.
    EXPECT_THAT(operators_after(m), testing::AnyOf(one.left, "IsNaN Softmax Where"));
  }
}

TEST(Refusal, AFactorOfAProductWithWeightsStays) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "4"});
  m.output(m.node("MatMul", {m.node("Mul", {x, m.number(0.5F)}), m.weights("w", {4, 4})}));
  EXPECT_EQ(operators_after(m), "Mul tenon.MatMul");
}

TEST(Refusal, OneHotOfOtherNumbersStays) {
  GraphMaker m;
  ValueId indices = m.input("indices", {"N", "4"}, DataType::kInt64);
  ValueId column = m.node("Unsqueeze", {indices, m.ints({2})});
  ValueId y = m.node("Cast", {m.node("Equal", {column, m.ints({0, 1, 3})})});
  m.set("to", int64_t{1});
  m.output(m.node("MatMul", {y, m.weights("table", {3, 5})}));
  EXPECT_EQ(operators_after(m), "Reshape Equal Cast tenon.MatMul");
}

TEST(Refusal, SubtractingTheConvolutionFromAConstantIsNoBias) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "3", "4", "4"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 3, 1, 1})});
  m.output(m.node("Sub", {m.weights("b", {4, 1, 1}), y}));
  EXPECT_EQ(operators_after(m), "tenon.Conv Sub");
}

TEST(Refusal, RandomNodesAreNotShared) {
  GraphMaker m;
  ValueId x = m.input("x", {"2", "3"});
  ValueId a = m.node("RandomNormalLike", {x}), b = m.node("RandomNormalLike", {x});
  m.output(m.node("Sub", {a, b}));
  Graph graph = m.graph();
  ASSERT_TRUE(run_named(graph, PassPhase::kLoad, {}).ok());
  EXPECT_EQ(graph.nodes.size(), 3u);
}

TEST(Refusal, ABackwardSliceOfEverythingIsNotNothing) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4"});
  m.output(m.node("Slice", {x, m.ints({-1}), m.ints({INT64_MIN}), m.ints({1}), m.ints({-1})}));
  EXPECT_EQ(operators_after(m), "Slice");
}

TEST(Refusal, AnAdditionOfZeroThatBroadcastsStays) {
  GraphMaker m;
  ValueId x = m.input("x", {"1", "4"});
  m.output(m.node("Add", {x, m.number(0, {3, 1})}));
  EXPECT_EQ(operators_after(m), "Add");
}

// piper_vits adds a tensor of zeros in each of 16 layers, made anew for each size.
TEST(Refusal, AnAdditionStaysIfOneOfManyNumbersIsNotZero) {
  for (const bool all : {true, false}) {
    GraphMaker m;
    std::vector<float> numbers(8192, 0.0f);
    if (!all) numbers.back() = 1;
    ValueId x = m.input("x", {"2", "4096"});
    m.output(m.node("Neg", {m.node("Add", {x, m.floats("c", {2, 4096}, numbers)})}));
    EXPECT_EQ(operators_after(m), all ? "Neg" : "Add Neg");
  }
}

}  // namespace
}  // namespace tenon
