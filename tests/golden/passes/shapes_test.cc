// Shapes that a model computes, while its dimensions are open: the operators that the load passes leave, and that the
// results stay the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_maker.h"
#include "interpreter.h"
#include "ops/shape_inference.h"

namespace tenon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// The graph after the load passes. What it gives then and after the plan passes, with 1, 2 and 3 for each symbol, is
// what it gave before.
Graph loaded(GraphMaker& m) {
  Graph graph = m.graph();
  EXPECT_TRUE(infer_shapes(graph).ok());
  Graph made = graph;
  PassOptions options;
  options.evaluate = cpu_evaluate();
  const Status status = run_passes(made, PassPhase::kLoad, options);
  EXPECT_TRUE(status.ok()) << status.message();
  for (const int64_t symbol : {1, 2, 3}) {
    const std::vector<ConstantRef> inputs = make_inputs(graph, symbol);
    const Result<std::vector<ConstantRef>> before = interpret(graph, inputs);
    Graph planned = with_shapes(made, inputs);
    EXPECT_TRUE(run_named(planned, PassPhase::kPlan, {}).ok());
    for (const Graph& after : {made, planned}) {
      const Result<std::vector<ConstantRef>> found = interpret(after, inputs);
      EXPECT_TRUE(before.ok() && found.ok()) << before.status().message() << found.status().message();
      if (!before.ok() || !found.ok()) continue;
      for (size_t i = 0; i < before->size(); ++i) {
        EXPECT_EQ((*found)[i]->shape, (*before)[i]->shape) << "output " << i << " with " << symbol;
        EXPECT_LT(relative_difference(*(*before)[i], *(*found)[i]), 2e-5) << "output " << i << " with " << symbol;
      }
    }
  }
  return made;
}

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> left;
  for (const Node& node : graph.nodes) left.push_back(node.op_type);
  return left;
}

// One dimension of `x`, as a list of one element.
ValueId size_of(GraphMaker& m, ValueId x, int64_t axis) {
  const ValueId dim = m.node("Gather", {m.node("Shape", {x}), m.ints({axis}, true)});
  return m.node("Unsqueeze", {dim, m.ints({0})});
}

ValueId list(GraphMaker& m, const std::vector<ValueId>& parts) {
  const ValueId made = m.node("Concat", parts);
  m.set("axis", int64_t{0});
  return made;
}

TEST(ComputedShapes, OfHeadsAndACacheAreConstants) {
  GraphMaker m;
  const ValueId x = m.input("x", {"B", "S", "12"}), past = m.input("past", {"C", "2", "P", "6"});
  const ValueId four = list(m, {size_of(m, x, 0), size_of(m, x, 1), m.ints({-1}), m.ints({6})});
  ValueId keys = m.node("Transpose", {m.node("Reshape", {x, four})});
  m.set("perm", {0, 2, 1, 3});
  keys = m.node("Concat", {past, keys});
  m.set("axis", int64_t{2});
  m.output(keys);
  // Each head twice, as PyTorch's expand and reshape write it.
  const ValueId wanted =
      list(m, {size_of(m, keys, 0), size_of(m, keys, 1), m.ints({2}), size_of(m, keys, 2), m.ints({-1})});
  const ValueId ones = m.ints({1, 1, 1, 1, 1});
  const ValueId kept = m.node("Equal", {wanted, m.ints({-1, -1, -1, -1, -1})});
  ValueId heads = m.node("Expand", {m.node("Unsqueeze", {keys, m.ints({2})}), m.node("Where", {kept, ones, wanted})});
  const ValueId all = m.node("Mul", {size_of(m, keys, 1), m.ints({2})});
  heads = m.node("Reshape", {heads, list(m, {size_of(m, keys, 0), all, size_of(m, keys, 2), size_of(m, keys, 3)})});
  // The keys that are new, the last S.
  const ValueId back = m.node("Reshape", {m.node("Neg", {x}), list(m, {size_of(m, x, 0), m.ints({-1}), m.ints({4})})});
  m.output(heads);
  m.output(back);
  const Graph graph = loaded(m);
  EXPECT_THAT(operators(graph), Not(Contains("Shape")));
  EXPECT_EQ(graph.value(graph.outputs[1]).dims[1].value, 4);  // heads
  EXPECT_EQ(graph.value(graph.outputs[1]).dims[2].symbol, graph.value(graph.outputs[0]).dims[2].symbol);
}

// The dimension of a Reshape that joins two and one that is not x's cannot both be the -1.
TEST(ComputedShapes, ThatNoConstantSaysAreComputedOnce) {
  GraphMaker m;
  const ValueId x = m.input("x", {"B", "S", "4"});
  ValueId y = x;
  for (int i = 0; i < 3; ++i) {
    const ValueId flat = m.node("Sin", {m.node("Reshape", {y, m.ints({-1, 2})})});
    const ValueId back = m.node("Reshape", {flat, list(m, {size_of(m, y, 1), size_of(m, y, 0), m.ints({4})})});
    const ValueId turned = m.node("Transpose", {back});
    m.set("perm", {1, 0, 2});
    y = m.node("Sin", {turned});
  }
  m.output(y);
  const std::vector<std::string> left = operators(loaded(m));
  EXPECT_LE(std::count(left.begin(), left.end(), "Concat"), 2);
}

TEST(ComputedShapes, GiveTheDimensionsOfWhatTheyMake) {
  GraphMaker m;
  const ValueId x = m.input("x", {"B", "3"});
  const ValueId size = m.node("Squeeze", {size_of(m, x, 0)});
  const ValueId twice = m.node("Mul", {size, m.ints({2}, true)});
  m.output(m.node("Range", {m.ints({0}, true), twice, m.ints({1}, true)}));
  m.output(m.node("Concat", {x, x}));
  m.set("axis", int64_t{0});
  m.output(m.node("Slice", {x, m.ints({0}), size_of(m, x, 0), m.ints({0})}));
  const Graph graph = loaded(m);
  const std::string twice_as_many = graph.value(graph.outputs[0]).dims[0].symbol;
  EXPECT_NE(twice_as_many, "");
  EXPECT_EQ(graph.value(graph.outputs[1]).dims[0].symbol, twice_as_many);
  EXPECT_EQ(graph.value(graph.outputs[2]).dims[0].symbol, "B");
}

// Sizes that do not fit are the run's to find: x has 4 B S elements, and nothing says that T is S.
TEST(ComputedShapes, OfOtherSizesStay) {
  GraphMaker m;
  const ValueId x = m.input("x", {"B", "S", "4"}), other = m.input("other", {"T"});
  m.output(m.node("Reshape", {x, list(m, {size_of(m, x, 0), size_of(m, other, 0), m.ints({4})})}));
  EXPECT_THAT(operators(loaded(m)), Contains("Shape"));
}

TEST(ComputedShapes, OfProductsOfRowsGoWithTheirReshapes) {
  GraphMaker m;
  ValueId y = m.input("x", {"B", "S", "6"});
  for (const int64_t columns : {8, 6}) {
    const ValueId rows = m.node("Reshape", {y, m.ints({-1, columns == 8 ? 6 : 8})});
    const ValueId product =
        m.node("Gemm", {rows, m.weights("w" + std::to_string(columns), {columns == 8 ? 6 : 8, columns}),
                        m.weights("b" + std::to_string(columns), {columns})});
    y = m.node("Reshape", {product, list(m, {size_of(m, y, 0), size_of(m, y, 1), m.ints({columns})})});
    if (columns == 8) y = m.node("Relu", {y});
  }
  m.output(y);
  EXPECT_THAT(operators(loaded(m)), ElementsAre("MatMul", "MatMul"));
}

}  // namespace
}  // namespace tenon
