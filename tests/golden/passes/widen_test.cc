// The passes "widen" and "fuse_casts": what computes in float32, what stays in 16 bits, and where the casts are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph_maker.h"
#include "interpreter.h"
#include "plan/widened.h"

namespace tenon {
namespace {

using testing::ElementsAre;

constexpr DataType kF16 = DataType::kFloat16;

ValueId cast(GraphMaker& m, ValueId x, DataType to) {
  const ValueId y = m.node("Cast", {x});
  m.set("to", static_cast<int64_t>(to));
  return y;
}

// A float16 constant.
ValueId narrow_weights(GraphMaker& m, const std::string& name, const Shape& shape) {
  std::byte* data = nullptr;
  ConstantRef constant = make_constant(kF16, shape, &data).value();
  auto* const bits = reinterpret_cast<uint16_t*>(data);
  for (int64_t i = 0; i < shape.element_count(); ++i) bits[i] = static_cast<uint16_t>(0x3000 + i * 37 % 0x0800);
  return m.graph().add_constant(name, std::move(constant));
}

Graph loaded(GraphMaker& m, const std::vector<std::string>& passes = {}) {
  Graph graph = m.graph();
  const Status status = run_named(graph, PassPhase::kLoad, passes);
  EXPECT_TRUE(status.ok()) << status.message();
  return graph;
}

// "Conv float32": each node with the type of its first output.
std::vector<std::string> steps(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes)
    all.push_back(node.op_type + " " + std::string(data_type_name(graph.value(node.outputs[0]).type)));
  return all;
}

TEST(Widen, AConvolutionTakesItsActivationAsInFloat32) {
  GraphMaker m;
  ValueId y = m.input("x", {"N", "3", "8", "8"}, kF16);
  y = m.node("Conv", {y, narrow_weights(m, "w", {8, 3, 3, 3}), narrow_weights(m, "b", {8})});
  y = m.node("Relu", {y});
  m.output(y);
  const Graph graph = loaded(m);
  EXPECT_THAT(steps(graph), ElementsAre("Cast float32", "Conv float32", "Cast float16"));
  EXPECT_EQ(graph.outputs[0], y);
  EXPECT_EQ(graph.value(y).type, kF16);
}

// A float16 is 1e-4 beside the square root of 2, and further from others.
TEST(Widen, RoundedConstantsOfAnActivationAreKnown) {
  GraphMaker m;
  const auto number = [&m](const std::string& name, uint16_t bits) {
    std::byte* data = nullptr;
    ConstantRef constant = make_constant(kF16, Shape(), &data).value();
    *reinterpret_cast<uint16_t*>(data) = bits;
    return m.graph().add_constant(name, std::move(constant));
  };
  const ValueId x = m.input("x", {"N", "8"}, kF16);
  const ValueId e = m.node("Erf", {m.node("Div", {x, number("root", 0x3da8)})});
  const ValueId factor = m.node("Add", {e, number("one", 0x3c00)});
  m.output(m.node("Mul", {m.node("Mul", {x, factor}), number("half", 0x3800)}));
  const Graph graph = loaded(m);
  ASSERT_THAT(steps(graph), ElementsAre("Cast float32", "Activation float32", "Cast float16"));
  EXPECT_EQ(graph.nodes[NodeId(1)].find("activation")->s, "gelu");
}

TEST(Widen, AValueInsideKnowsWhatItIsInTheModel) {
  GraphMaker m;
  ValueId a = m.node("Exp", {m.input("x", {"4"}, kF16)});
  m.output(m.node("Softmax", {a}));
  const Graph graph = loaded(m, {"widen"});
  const Value& value = graph.value(a);
  EXPECT_EQ(value.type, DataType::kFloat);
  const std::optional<ModelValue> model = model_value_of(value);
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->type, kF16);
  EXPECT_EQ(widened_name(model->name, kF16), value.name);
  EXPECT_EQ(model_value_of(graph.value(graph.inputs[0])), std::nullopt);
}

// The model rounds on purpose: its own casts stay, and the result is the same to the bit.
TEST(Widen, ACastOfTheModelRounds) {
  GraphMaker m;
  const ValueId x = m.input("x", {"64"});
  const ValueId rounded = cast(m, cast(m, x, kF16), DataType::kFloat);
  m.output(m.node("Sub", {rounded, x}));
  const std::vector<ConstantRef> inputs = make_inputs(m.graph(), 1);
  const std::vector<ConstantRef> before = interpret(m.graph(), inputs).value();
  const Graph graph = loaded(m);
  EXPECT_THAT(steps(graph), ElementsAre("Cast float16", "Cast float32", "Sub float32"));
  EXPECT_EQ(relative_difference(*before[0], *interpret(graph, inputs).value()[0]), 0);
}

// A float32 island needs no casts at its edges: its neighbours are float32 already.
TEST(Widen, CastsAroundAnIslandGo) {
  GraphMaker m;
  ValueId y = m.node("Exp", {m.input("x", {"4", "8"}, kF16)});
  y = m.node("Tanh", {cast(m, y, DataType::kFloat)});
  m.output(y);
  EXPECT_THAT(steps(loaded(m, {"widen"})), ElementsAre("Cast float32", "Exp float32", "Tanh float32"));
}

TEST(Widen, MovesOfNarrowValuesStayNarrow) {
  GraphMaker m;
  ValueId y = m.node("Transpose", {m.input("x", {"4", "8"}, kF16)});
  m.set("perm", std::vector<int64_t>{1, 0});
  y = m.node("Gather", {narrow_weights(m, "table", {9, 8}), m.node("ArgMax", {y})});
  m.output(y);
  // ArgMax orders elements; the table stays as it is.
  EXPECT_THAT(steps(loaded(m, {"widen"})), ElementsAre("Transpose float16", "ArgMax int64", "Gather float16"));
}

TEST(Widen, PixelsThatAreCopiedStayNarrow) {
  for (const std::string mode : {"nearest", "linear"}) {
    GraphMaker m;
    const ValueId x = m.input("x", {"1", "2", "4", "4"}, kF16);
    ValueId y = m.node("Resize", {x, kNoValue, m.input("scales", {"4"}, DataType::kFloat)});
    m.set("mode", mode.c_str());
    m.output(y);
    if (mode == "nearest") {
      EXPECT_THAT(steps(loaded(m, {"widen"})), ElementsAre("Resize float16"));
    } else {
      EXPECT_THAT(steps(loaded(m, {"widen"})), ElementsAre("Cast float32", "Resize float32", "Cast float16"));
    }
  }
}

TEST(Widen, MovesOfWideValuesAreWide) {
  GraphMaker m;
  ValueId y = m.node("Exp", {m.input("x", {"4", "8"}, kF16)});
  y = m.node("Transpose", {y});
  m.set("perm", std::vector<int64_t>{1, 0});
  m.output(m.node("Tanh", {y}));
  EXPECT_THAT(steps(loaded(m, {"widen"})),
              ElementsAre("Cast float32", "Exp float32", "Transpose float32", "Tanh float32", "Cast float16"));
}

// A few new rows are rounded and appended; the rows of earlier runs are not widened and rounded again.
TEST(Widen, ACacheThatGrowsStaysNarrow) {
  GraphMaker m;
  const ValueId past = m.input("past", {"P", "8"}, kF16);
  const ValueId row = m.node("Exp", {m.input("x", {"1", "8"}, kF16)});
  const ValueId present = m.node("Concat", {past, row});
  m.set("axis", int64_t{0});
  m.output(present);
  m.output(m.node("Tanh", {present}));
  EXPECT_THAT(steps(loaded(m, {"widen"})), ElementsAre("Cast float32", "Exp float32", "Cast float16", "Concat float16",
                                                       "Cast float32", "Tanh float32", "Cast float16"));
}

// Nothing clips an infinity in float32 without a bound.
TEST(Widen, AClipWithoutABoundKeepsTheNumbersOfItsType) {
  GraphMaker m;
  ValueId y = m.node("Clip", {m.input("x", {"4"}, kF16), kNoValue, narrow_weights(m, "high", {})});
  m.output(y);
  const Graph graph = loaded(m, {"widen"});
  const auto clip =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op_type == "Clip"; });
  ASSERT_NE(clip, graph.nodes.end());
  ASSERT_EQ(clip->inputs.size(), 3u);
  EXPECT_EQ(graph.value(clip->inputs[1]).constant->as<float>()[0], -65504.0f);
}

TEST(Widen, AWeightThatTwoNodesReadIsWidenedOnce) {
  GraphMaker m;
  const ValueId x = m.input("x", {"4", "8"}, kF16), w = narrow_weights(m, "w", {8, 8});
  m.output(m.node("MatMul", {m.node("MatMul", {x, w}), w}));
  const Graph graph = loaded(m, {"widen"});
  std::vector<ValueId> read;
  for (const Node& node : graph.nodes)
    if (node.op_type == "MatMul") read.push_back(node.inputs[1]);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0], read[1]);
  EXPECT_EQ(graph.value(read[0]).constant->type, DataType::kFloat);
}

std::vector<std::string> planned(GraphMaker& m, const std::vector<std::string>& passes = {}) {
  Graph graph = loaded(m, passes);
  const Status status = run_named(graph, PassPhase::kPlan, passes);
  EXPECT_TRUE(status.ok()) << status.message();
  return steps(graph);
}

// An operator that memory bounds reads and writes 16 bits, and computes in float32.
TEST(FuseCasts, OperatorsAtTheEdgesReadAndWriteSixteenBits) {
  GraphMaker m;
  m.output(m.node("Relu", {m.input("x", {"4", "8"}, kF16)}));
  EXPECT_THAT(planned(m), ElementsAre("Activation float16"));
  for (const std::string op : {"Softmax", "Hardmax", "LpNormalization"}) {
    GraphMaker row;
    row.output(row.node(op, {row.input("x", {"4", "8"}, kF16)}));
    EXPECT_THAT(planned(row), ElementsAre(op + " float16"));
  }
}

TEST(FuseCasts, HeadsAreTurnedInSixteenBits) {
  GraphMaker m(23);
  const ValueId x = m.input("x", {"1", "2", "3", "8"}, kF16);
  m.output(
      m.node("RotaryEmbedding", {x, m.input("cos", {"1", "3", "4"}, kF16), m.input("sin", {"1", "3", "4"}, kF16)}));
  EXPECT_THAT(planned(m), ElementsAre("Cast float32", "Cast float32", "RotaryEmbedding float16"));
}

TEST(FuseCasts, ARepeatedOperandIsWidenedOnce) {
  GraphMaker m;
  const ValueId x = m.input("x", {"4", "8"}, kF16), row = m.input("row", {"8"}, kF16);
  m.output(m.node("Add", {x, row}));
  EXPECT_THAT(planned(m), ElementsAre("Cast float32", "Add float16"));
}

TEST(FuseCasts, AValueThatIsReadTwiceStaysInFloat32) {
  GraphMaker m;
  const ValueId a = m.node("Exp", {m.input("x", {"4", "8"}, kF16)});
  m.output(a);
  m.output(m.node("Tanh", {a}));
  EXPECT_THAT(planned(m), ElementsAre("Exp float32", "Cast float16", "Activation float16"));
}

// A Cast in front of a convolution stays apart: its input lies in blocks.
TEST(FuseCasts, GraphsWithConvolutionsKeepTheirCasts) {
  GraphMaker m;
  const ValueId x = m.node("Tanh", {m.input("x", {"1", "8", "8", "8"}, kF16)});
  m.output(m.node("Conv", {x, narrow_weights(m, "w", {8, 8, 1, 1})}));
  EXPECT_THAT(planned(m), ElementsAre("Cast float32", "Activation float32", "Conv float32", "Cast float16"));
}

TEST(Widen, AGraphWithoutSixteenBitsStays) {
  GraphMaker m;
  m.output(m.node("Exp", {m.input("x", {"4"})}));
  Graph graph = m.graph();
  ASSERT_TRUE(run_named(graph, PassPhase::kLoad, {"widen"}).ok());
  EXPECT_EQ(graph.nodes.size(), 1u);
}

}  // namespace
}  // namespace tenon
