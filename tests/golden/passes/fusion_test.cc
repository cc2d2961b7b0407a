// Each pattern that passes rewrite: the text before and after is a checked-in file, and the results stay the same.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "graph_maker.h"
#include "interpreter.h"
#include "ops/shape_inference.h"

namespace tenon {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Load passes, then, with `symbol` for every symbol, plan passes. Writes what it found beside the golden file's place
// (in the working directory) when they differ.
void expect_golden(const std::string& name, GraphMaker& maker, int64_t symbol = 2) {
  Graph graph = maker.graph();
  ASSERT_TRUE(infer_shapes(graph).ok());
  std::string text = graph.to_text();
  const std::vector<ConstantRef> inputs = make_inputs(graph, symbol);
  Result<std::vector<ConstantRef>> before = interpret(graph, inputs);
  ASSERT_TRUE(before.ok()) << before.status().message();

  Status status = run_named(graph, PassPhase::kLoad, {});
  ASSERT_TRUE(status.ok()) << status.message();
  text += "---- load\n" + graph.to_text();
  Result<std::vector<ConstantRef>> loaded = interpret(graph, inputs);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message() << "\n" << graph.to_text();

  Graph planned = with_shapes(graph, inputs);
  status = run_named(planned, PassPhase::kPlan, {});
  ASSERT_TRUE(status.ok()) << status.message();
  text += "---- plan\n" + planned.to_text();
  Result<std::vector<ConstantRef>> after = interpret(planned, inputs);
  ASSERT_TRUE(after.ok()) << after.status().message() << "\n" << planned.to_text();

  for (size_t i = 0; i < before->size(); ++i) {
    EXPECT_LT(relative_difference(*(*before)[i], *(*loaded)[i]), 2e-5) << "output " << i << " after the load passes";
    EXPECT_LT(relative_difference(*(*before)[i], *(*after)[i]), 2e-5) << "output " << i << " after the plan passes";
  }
  const std::string wanted = read(std::string(TENON_GOLDEN_DIR) + "/" + name + ".txt");
  EXPECT_EQ(text, wanted) << "for " << name << ".txt; found: " << name << ".txt in the working directory";
  if (text != wanted) std::ofstream(name + ".txt") << text;
}

TEST(Fusion, ConvolutionTakesBiasAndActivation) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "3", "H", "W"});
  ValueId y = m.node("Conv", {x, m.weights("w", {8, 3, 3, 3})});
  m.set("pads", {1, 1, 1, 1});
  y = m.node("Add", {y, m.weights("b", {1, 8, 1, 1})});
  y = m.node("Identity", {y});
  y = m.node("Relu", {y});
  y = m.node("Conv", {y, m.weights("w2", {4, 8, 1, 1}), m.weights("b2", {4})});
  y = m.node("Add", {m.weights("b3", {4, 1, 1}), y});
  ValueId s = m.node("Sigmoid", {y});
  y = m.node("Mul", {y, s});
  m.output(y);
  expect_golden("conv_bias_activation", m, 6);
}

TEST(Fusion, EinsumBecomesMatrixProducts) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "S", "12"});
  // A projection to heads, whose weights are merged, scores, their values, and heads joined again.
  const ValueId q = m.node("Einsum", {x, m.weights("wq", {12, 3, 4})});
  m.set("equation", "bid,dhk->bhik");
  const ValueId k = m.node("Einsum", {x, m.weights("wk", {12, 3, 4})});
  m.set("equation", "bid,dhk->bihk");
  const ValueId scores = m.node("Einsum", {q, k});
  m.set("equation", "bhid,bjhd->bhij");
  const ValueId mixed = m.node("Einsum", {scores, k});
  m.set("equation", "bhij,bjhd->bihd");
  const ValueId y = m.node("Einsum", {mixed, m.weights("wo", {3, 4, 12})});
  m.set("equation", "bihd,hdo");
  const ValueId gated = m.node("Einsum", {y, m.weights("gate", {12})});
  m.set("equation", "bio,o->ob");
  m.output(gated);
  expect_golden("einsum", m, 12);
}

TEST(Fusion, BatchNormalizationAndScaleGoIntoTheWeights) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "H", "W"});
  ValueId y = m.node("Conv", {x, m.weights("w", {6, 2, 3, 3}), m.weights("b", {6})});
  m.set("group", int64_t{2});
  std::vector<float> variance{0.5f, 1, 2, 3, 0.1f, 4};
  y = m.node("BatchNormalization", {y, m.weights("scale", {6}), m.weights("shift", {6}), m.weights("mean", {6}),
                                    m.floats("variance", {6}, variance)});
  y = m.node("Mul", {y, m.weights("factor", {1, 6, 1, 1})});
  y = m.node("ConvTranspose", {y, m.weights("w2", {6, 2, 2, 2})});
  m.set("strides", {2, 2}).set("group", int64_t{3});
  y = m.node("Mul", {m.weights("factor2", {6, 1, 1}), y});
  y = m.node("Add", {y, m.number(0.25f)});
  y = m.node("Clip", {y, m.number(0), m.number(6)});
  m.output(y);
  expect_golden("conv_batch_norm_scale", m, 5);
}

// Branches with other windows and groups, and a normalisation of the input itself.
TEST(Fusion, ConvolutionsOfOneInputWhoseResultsAreAddedAreOne) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "H", "W"});
  ValueId wide = m.node("Conv", {x, m.weights("w3", {4, 2, 3, 3}), m.weights("b3", {4})});
  m.set("group", int64_t{2}).set("pads", {1, 1, 1, 1});
  ValueId row = m.node("Conv", {x, m.weights("w1x3", {4, 2, 1, 3})});
  m.set("group", int64_t{2}).set("pads", {0, 1, 0, 1});
  ValueId one = m.node("Conv", {x, m.weights("w1", {4, 1, 1, 1}), m.weights("b1", {4})});
  m.set("group", int64_t{4});
  ValueId norm = m.node("BatchNormalization", {x, m.weights("scale", {4}), m.weights("shift", {4}),
                                               m.weights("mean", {4}), m.floats("variance", {4}, {0.5f, 1, 2, 3})});
  ValueId y = m.node("Add", {m.node("Add", {row, wide}), m.node("Sub", {norm, one})});
  y = m.node("Mul", {y, m.weights("factor", {4, 1, 1})});
  m.output(m.node("Relu", {y}));
  expect_golden("parallel_convolutions", m, 9);
}

// The input itself beside a depthwise convolution of it: one more tap in the middle.
TEST(Fusion, ADepthwiseConvolutionTakesItsInput) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "H", "W"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 1, 3, 3})});
  m.set("group", int64_t{4}).set("pads", {1, 1, 1, 1});
  y = m.node("Add", {x, y});
  m.output(m.node("BatchNormalization", {y, m.weights("scale", {4}), m.weights("shift", {4}), m.weights("mean", {4}),
                                         m.floats("variance", {4}, {0.5f, 1, 2, 3})}));
  expect_golden("depthwise_shortcut", m, 5);
}

// A normalisation that no convolution takes in is a depthwise one, with the activation behind it; one of an input that
// no convolution made stays.
TEST(Fusion, ANormalisationBehindAnActivationIsADepthwiseConvolution) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "H", "W"});
  const auto norm = [&](ValueId v) {
    return m.node("BatchNormalization", {v, m.weights("scale", {4}), m.weights("shift", {4}), m.weights("mean", {4}),
                                         m.floats("variance", {4}, {0.5f, 1, 2, 3})});
  };
  x = norm(x);
  const ValueId y = m.node("Relu", {m.node("Conv", {x, m.weights("w", {4, 4, 1, 1})})});
  m.output(m.node("Add", {m.node("Relu", {norm(y)}), y}));
  expect_golden("normalisation", m, 5);
}

// Sums of two and three, of which convolutions take the others as residuals.
TEST(Fusion, SumsBecomeAdditionsOfTwo) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "4", "5", "6"});
  const auto conv = [&](ValueId v, const char* name) { return m.node("Conv", {v, m.weights(name, {4, 4, 1, 1})}); };
  ValueId y = m.node("Sum", {conv(x, "w0"), x});
  y = m.node("Relu", {m.node("Sum", {conv(y, "w1"), x, conv(y, "w2")})});
  m.output(m.node("Max", {y, x, conv(y, "w3")}));
  expect_golden("sums", m);
}

// Mish and Swish in pieces, and a PRelu of one slope.
TEST(Fusion, MishSwishAndOneSlope) {
  GraphMaker m;
  const ValueId x = m.input("x", {"N", "5"});
  ValueId y = m.node("Mul", {x, m.node("Tanh", {m.node("Softplus", {x})})});
  y = m.node("Mul", {m.node("Sigmoid", {m.node("Mul", {y, m.number(1.702f)})}), y});
  m.output(m.node("PRelu", {y, m.number(0.25f, Shape{1})}));
  expect_golden("mish", m);
}

// As exporters write GroupNormalization for versions without it.
TEST(Fusion, GroupsThatAreCalledChannelsAreANormOfGroups) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8", "5", "6"});
  ValueId y = m.node("Reshape", {x, m.ints({0, 2, -1})});
  y = m.node("InstanceNormalization", {y, m.floats("ones", {2}, {1, 1}), m.floats("zeros", {2}, {0, 0})});
  y = m.node("Reshape", {y, m.ints({-1, 8, 5, 6})});
  y = m.node("Mul", {y, m.weights("scale", {8, 1, 1})});
  m.output(m.node("Relu", {m.node("Add", {m.weights("shift", {1, 8, 1, 1}), y})}));
  expect_golden("group_norm", m);
}

// A Pad of zeros in front of windows that already have some; in front of an average and, after Relu, of a maximum.
TEST(Fusion, PadsBecomeThePaddingOfWindows) {
  GraphMaker m;
  const auto pad = [&](ValueId v) { return m.node("Pad", {v, m.ints({0, 0, 0, 1, 0, 0, 1, 0})}); };
  ValueId x = m.input("x", {"N", "4", "8", "9"});
  x = m.node("Conv", {pad(x), m.weights("w", {4, 1, 3, 3})});
  m.set("group", int64_t{4}).set("strides", {2, 2}).set("pads", {0, 1, 0, 1});
  x = m.node("AveragePool", {pad(x)});
  m.set("kernel_shape", {2, 3}).set("auto_pad", "VALID");
  x = m.node("MaxPool", {pad(m.node("Relu", {x}))});
  m.set("kernel_shape", {2, 2});
  m.output(x);
  expect_golden("window_pads", m);
}

// Channels last around a convolution: an activation, a gate by the mean, a factor for each channel, and a mean at the
// end. What is read in the order of before stays behind a Transpose.
TEST(Fusion, TransposesGoWhereTheOrderDoesNotMatter) {
  GraphMaker m;
  const auto turned = [&](ValueId v, std::vector<int64_t> perm) {
    v = m.node("Transpose", {v});
    m.set("perm", std::move(perm));
    return v;
  };
  const std::vector<int64_t> to_last = {0, 2, 3, 1}, to_first = {0, 3, 1, 2};
  ValueId x = m.input("x", {"N", "H", "W", "4"});
  x = m.node("Conv", {turned(x, to_first), m.weights("w", {8, 4, 1, 1})});
  x = m.node("Relu", {turned(x, to_last)});
  ValueId gate = m.node("ReduceMean", {x});
  m.set("axes", {1, -2});
  x = m.node("Mul", {x, m.node("Sigmoid", {gate})});
  x = m.node("Mul", {x, m.weights("scale", {8})});
  const ValueId both = m.node("Split", {x}, 2);
  m.set("axis", int64_t{3});
  ValueId y = m.node("Conv", {turned(both, to_first), m.weights("v", {8, 4, 1, 1})});
  y = m.node("Tanh", {turned(y, to_last)});
  y = m.node("ReduceMean", {y});
  m.set("axes", {1, 2}).set("keepdims", int64_t{0});
  m.output(y);
  m.output(x);
  expect_golden("transposes", m);
}

// As a body of attention has them: as many Transposes would be left.
TEST(Fusion, TransposesStayWhereNothingIsGained) {
  GraphMaker m;
  ValueId x = m.node("Transpose", {m.input("x", {"N", "5", "4", "3"})});
  m.set("perm", {0, 2, 1, 3});
  m.output(m.node("MatMul", {m.node("Mul", {m.node("Tanh", {x}), m.number(0.5f)}), m.weights("w", {3, 3})}));
  expect_golden("transposes_stay", m);
}

TEST(Fusion, ResidualsJoinBeforeOrAfterTheActivation) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "H", "W"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 4, 1, 1})});
  y = m.node("Add", {x, y});
  y = m.node("Relu", {y});
  ValueId z = m.node("Conv", {y, m.weights("w2", {4, 4, 1, 1})});
  z = m.node("HardSwish", {z});
  z = m.node("Add", {z, y});
  m.output(z);
  expect_golden("residual", m, 3);
}

// Products of x in every order that exporters use.
TEST(Fusion, GeluInPieces) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"});
  auto erf = [&](ValueId v) {
    return m.node("Add", {m.node("Erf", {m.node("Div", {v, m.number(1.4142135f)})}), m.number(1)});
  };
  ValueId factor = erf(x);
  m.output(m.node("Mul", {m.node("Mul", {x, factor}), m.number(0.5f)}));
  ValueId a = m.input("a", {"N", "8"});
  ValueId half = m.node("Mul", {a, m.number(0.5f)});
  ValueId scaled = m.node("Mul", {m.number(0.70710678f), a});
  factor = m.node("Add", {m.number(1), m.node("Erf", {scaled})});
  m.output(m.node("Mul", {half, factor}));
  ValueId b = m.input("b", {"N", "8"});
  factor = erf(b);
  m.output(m.node("Mul", {b, m.node("Mul", {m.number(0.5f), factor})}));
  ValueId c = m.input("c", {"N", "8"});
  factor = erf(c);
  m.output(m.node("Div", {m.node("Mul", {factor, c}), m.number(2)}));
  expect_golden("gelu_erf", m);
}

TEST(Fusion, TanhGeluInPieces) {
  GraphMaker m;
  auto tail = [&](ValueId x, ValueId inner) {
    ValueId t = m.node("Tanh", {m.node("Mul", {m.number(0.7978846f), inner})});
    ValueId half = m.node("Mul", {m.number(0.5f), m.node("Add", {m.number(1), t})});
    return m.node("Mul", {x, half});
  };
  ValueId x = m.input("x", {"N", "8"});
  ValueId cube = m.node("Mul", {x, m.node("Mul", {x, m.node("Mul", {m.number(0.044715f), x})})});
  m.output(tail(x, m.node("Add", {x, cube})));
  ValueId a = m.input("a", {"N", "8"});
  cube = m.node("Mul", {m.node("Pow", {a, m.number(3)}), m.number(0.044715f)});
  m.output(tail(a, m.node("Add", {a, cube})));
  expect_golden("gelu_tanh", m);
}

TEST(Fusion, HardSwishInPieces) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8"});
  auto relu6 = [&](ValueId v) { return m.node("Clip", {m.node("Add", {v, m.number(3)}), m.number(0), m.number(6)}); };
  ValueId gate = relu6(x);
  m.output(m.node("Div", {m.node("Mul", {x, gate}), m.number(6)}));
  ValueId a = m.input("a", {"N", "8"});
  gate = relu6(a);
  m.output(m.node("Mul", {m.node("Div", {gate, m.number(6)}), a}));
  ValueId b = m.input("b", {"N", "8"});
  gate = m.node("HardSigmoid", {b});
  m.set("alpha", 1.0f / 6).set("beta", 0.5f);
  m.output(m.node("Mul", {b, gate}));
  expect_golden("hard_swish", m);
}

TEST(Fusion, MatMulAndGemmTakeBiasScaleAndActivation) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "5", "8"});
  ValueId y = m.node("MatMul", {x, m.weights("w", {8, 6})});
  y = m.node("Div", {y, m.number(2)});
  y = m.node("Add", {m.weights("b", {1, 6}), y});
  y = m.node("Tanh", {y});
  m.output(y);
  ValueId a = m.input("a", {"N", "8"});
  y = m.node("Gemm", {a, m.weights("w2", {6, 8}), m.weights("b2", {6})});
  m.set("transB", int64_t{1}).set("alpha", 0.5f);
  y = m.node("LeakyRelu", {y});
  m.output(y);
  expect_golden("matmul", m);
}

TEST(Fusion, ProductsWithConstantsTakeNormalisationsOfTheirColumns) {
  GraphMaker m;
  int count = 0;
  const auto normalised = [&](ValueId x, int64_t columns) {
    const std::string suffix = std::to_string(count++);
    const std::vector<float> variance(static_cast<size_t>(columns), 0.25f);
    return m.node("BatchNormalization",
                  {x, m.weights("scale" + suffix, {columns}), m.weights("shift" + suffix, {columns}),
                   m.weights("mean" + suffix, {columns}), m.floats("variance" + suffix, {columns}, variance)});
  };
  const ValueId x = m.input("x", {"N", "5", "8"});
  // LeViT
  ValueId y = m.node("Reshape", {m.node("MatMul", {x, m.weights("w", {8, 6})}), m.ints({-1, 6})});
  m.output(m.node("HardSwish", {m.node("Reshape", {normalised(y, 6), m.ints({-1, 5, 6})})}));
  const ValueId a = m.input("a", {"N", "8"});
  y = m.node("Gemm", {a, m.weights("w2", {6, 8}), m.weights("b2", {6})});
  m.set("transB", int64_t{1}).set("alpha", 0.5f);
  m.output(m.node("Relu", {normalised(y, 6)}));
  // Channels that are not columns, and a product that something else reads.
  y = m.node("Reshape", {m.node("MatMul", {a, m.weights("w3", {8, 6})}), m.ints({-1, 2})});
  m.output(normalised(y, 2));
  y = m.node("MatMul", {a, m.weights("w4", {8, 6})});
  m.output(m.node("Add", {y, normalised(y, 6)}));
  expect_golden("matmul_norm", m);
}

TEST(Fusion, LayerNormalizationAndTheAdditionBeforeIt) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "3", "8"});
  ValueId skip = m.input("skip", {"N", "3", "8"});
  ValueId sum = m.node("Add", {x, skip});
  ValueId y = m.node("LayerNormalization", {sum, m.weights("scale", {8}), m.weights("shift", {8})});
  m.output(m.node("Mul", {y, sum}));
  ValueId a = m.input("a", {"N", "3", "8"});
  ValueId mean = m.node("ReduceMean", {a});
  m.set("axes", std::vector<int64_t>{-1});
  ValueId d = m.node("Sub", {a, mean});
  ValueId variance = m.node("ReduceMean", {m.node("Pow", {d, m.number(2)})});
  m.set("axes", std::vector<int64_t>{-1});
  ValueId root = m.node("Sqrt", {m.node("Add", {variance, m.number(1e-5f)})});
  y = m.node("Mul", {m.node("Div", {d, root}), m.weights("scale2", {8})});
  m.output(m.node("Add", {y, m.weights("shift2", {8})}));
  expect_golden("layer_norm", m);
}

// BERT's attention as PyTorch exports it, sizes computed through Shape.
void add_attention(GraphMaker& m, ValueId x, ValueId mask, int64_t width, int64_t heads) {
  auto project = [&](const char* name) {
    ValueId y = m.node("MatMul", {x, m.weights(std::string("w") + name, {width, width})});
    return m.node("Add", {m.weights(std::string("b") + name, {width}), y});
  };
  auto size = [&](ValueId v, int64_t axis) {
    ValueId dim = m.node("Gather", {m.node("Shape", {v}), m.ints({axis}, true)});
    return m.node("Unsqueeze", {dim, m.ints({0})});
  };
  auto split = [&](ValueId v, std::vector<int64_t> perm) {
    ValueId batch = size(v, 0), time = size(v, 1);
    ValueId target = m.node("Concat", {batch, time, m.ints({heads}), m.ints({width / heads})});
    m.set("axis", int64_t{0});
    ValueId y = m.node("Transpose", {m.node("Reshape", {v, target})});
    m.set("perm", std::move(perm));
    return y;
  };
  ValueId q = project("q"), k = project("k"), v = project("v");
  ValueId kt = split(k, {0, 2, 3, 1}), vt = split(v, {0, 2, 1, 3}), qt = split(q, {0, 2, 1, 3});
  ValueId scores = m.node("Div", {m.node("MatMul", {qt, kt}), m.number(2)});
  scores = m.node("Softmax", {m.node("Add", {scores, mask})});
  m.set("axis", int64_t{-1});
  ValueId y = m.node("Transpose", {m.node("MatMul", {scores, vt})});
  m.set("perm", {0, 2, 1, 3});
  ValueId batch = size(y, 0), time = size(y, 1);
  ValueId target = m.node("Concat", {batch, time, m.ints({width})});
  m.set("axis", int64_t{0});
  m.output(m.node("Reshape", {y, target}));
}

TEST(Fusion, AttentionWithOneProductForQueriesKeysAndValues) {
  GraphMaker m;
  ValueId x = m.input("x", {"B", "T", "12"});
  ValueId mask = m.input("mask", {"B", "1", "1", "T"});
  add_attention(m, x, mask, 12, 3);
  expect_golden("attention_packed", m, 5);
}

// As torch.onnx exports scaled_dot_product_attention: queries and keys have the root of the scale each, the keys are
// turned with the heads in the batch, and a query whose keys are all masked gives zeros.
// One part of [parts,B,H,T,D], taken as exporters do: by an index, a slice, or a division into all.
enum class Taken { kByIndex, kBySlice, kBySplit };
std::vector<ValueId> take_parts(GraphMaker& m, ValueId all, int64_t parts, Taken taken) {
  std::vector<ValueId> result;
  if (taken == Taken::kBySplit) {
    m.node("Split", {all, m.ints(std::vector<int64_t>(parts, 1))}, parts);
    m.set("axis", int64_t{0});
    for (int64_t i = 0; i < parts; ++i) result.push_back(m.output_of_last(i));
  }
  for (int64_t i = 0; i < parts; ++i) {
    if (taken == Taken::kByIndex) {
      result.push_back(m.node("Gather", {all, m.ints({i - parts}, true)}));
      continue;
    }
    const ValueId one =
        taken == Taken::kBySplit ? result[i] : m.node("Slice", {all, m.ints({i}), m.ints({i + 1}), m.ints({0})});
    const ValueId part = m.node("Squeeze", {one, m.ints({0})});
    if (taken == Taken::kBySplit)
      result[i] = part;
    else
      result.push_back(part);
  }
  return result;
}

ValueId heads_of_parts(GraphMaker& m, ValueId rows, int64_t batch, int64_t parts) {
  const ValueId apart = m.node("Reshape", {rows, m.ints({batch, -1, parts, 3, 4})});
  const ValueId turned = m.node("Transpose", {apart});
  m.set("perm", {2, 0, 3, 1, 4});
  return turned;
}

// Queries, keys and values are parts of one product over the pixels of windows; a mask for each window.
TEST(Fusion, AttentionInWindowsOverPartsOfOneProduct) {
  for (const Taken taken : {Taken::kByIndex, Taken::kBySlice, Taken::kBySplit}) {
    GraphMaker m;
    const ValueId x = m.input("x", {"4", "2", "2", "8"});
    const ValueId rows = m.node("MatMul", {x, m.weights("w", {8, 36})});
    const std::vector<ValueId> parts = take_parts(m, heads_of_parts(m, rows, 4, 3), 3, taken);
    const ValueId keys = m.node("Transpose", {parts[1]});
    m.set("perm", {0, 1, 3, 2});
    ValueId scores = m.node("MatMul", {m.node("Mul", {parts[0], m.number(0.5f)}), keys});
    scores = m.node("Add", {scores, m.weights("positions", {1, 3, 4, 4})});
    scores = m.node("Reshape", {scores, m.ints({2, 2, 3, 4, 4})});
    scores = m.node("Add", {scores, m.weights("windows", {1, 2, 1, 4, 4})});
    scores = m.node("Reshape", {scores, m.ints({-1, 3, 4, 4})});
    const ValueId weights = m.node("Softmax", {scores});
    m.set("axis", int64_t{-1});
    const ValueId y = m.node("Transpose", {m.node("MatMul", {weights, parts[2]})});
    m.set("perm", {0, 2, 1, 3});
    m.output(m.node("Reshape", {y, m.ints({4, 2, 2, 12})}));
    expect_golden("attention_windows_" + std::to_string(static_cast<int>(taken)), m);
  }
}

// Each head of the product has its query, its key and a longer value: divided before the heads come first, or behind.
TEST(Fusion, AttentionOverColumnsOfEachHead) {
  for (const bool first : {false, true}) {
    GraphMaker m;
    const ValueId x = m.input("x", {"2", "5", "8"});
    const ValueId rows = m.node("MatMul", {x, m.weights("w", {8, 24})});
    ValueId all = m.node("Reshape", {rows, m.ints({2, 5, 3, 8})});
    const auto turned = [&](ValueId value, std::vector<int64_t> perm) {
      const ValueId result = m.node("Transpose", {value});
      m.set("perm", std::move(perm));
      return result;
    };
    if (first) all = turned(all, {0, 2, 1, 3});
    m.node("Split", {all, m.ints({2, 2, 4})}, 3);
    m.set("axis", int64_t{3});
    ValueId q = m.output_of_last(0), k = m.output_of_last(1), v = m.output_of_last(2);
    if (first) {
      k = turned(k, {0, 1, 3, 2});
    } else {
      q = turned(q, {0, 2, 1, 3}), k = turned(k, {0, 2, 3, 1}), v = turned(v, {0, 2, 1, 3});
    }
    ValueId scores = m.node("Mul", {m.node("MatMul", {q, k}), m.number(0.7f)});
    scores = m.node("Add", {scores, m.weights("positions", {3, 5, 5})});
    const ValueId weights = m.node("Softmax", {scores});
    m.set("axis", int64_t{-1});
    const ValueId y = turned(m.node("MatMul", {weights, v}), {0, 2, 1, 3});
    m.output(m.node("Reshape", {y, m.ints({2, 5, 12})}));
    expect_golden("attention_columns_" + std::to_string(static_cast<int>(first)), m);
  }
}

// Keys and values are parts of a product of other rows, and the heads of the keys go through a batch.
TEST(Fusion, AttentionOverPartsOfAnotherProduct) {
  GraphMaker m;
  const ValueId x = m.input("x", {"2", "T", "8"}), other = m.input("other", {"2", "5", "8"});
  const ValueId q = m.node(
      "Transpose", {m.node("Reshape", {m.node("MatMul", {x, m.weights("wq", {8, 12})}), m.ints({2, -1, 3, 4})})});
  m.set("perm", {0, 2, 1, 3});
  const ValueId rows = m.node("MatMul", {other, m.weights("wkv", {8, 24})});
  const std::vector<ValueId> parts = take_parts(m, heads_of_parts(m, rows, 2, 2), 2, Taken::kBySlice);
  ValueId keys = m.node("Transpose", {m.node("Reshape", {parts[0], m.ints({-1, 5, 4})})});
  m.set("perm", {0, 2, 1});
  keys = m.node("Reshape", {keys, m.ints({2, 3, 4, 5})});
  const ValueId weights = m.node("Softmax", {m.node("MatMul", {q, keys})});
  m.set("axis", int64_t{-1});
  const ValueId y = m.node("Transpose", {m.node("MatMul", {weights, parts[1]})});
  m.set("perm", {0, 2, 1, 3});
  m.output(m.node("Reshape", {y, m.ints({2, -1, 12})}));
  expect_golden("attention_parts", m, 7);
}

// Heads that were rotated, or scaled, with keys as they are or turned; of windows, by three dimensions.
TEST(Fusion, AttentionOfHeadsFromAnywhere) {
  GraphMaker m;
  const auto turned = [&](ValueId v, std::vector<int64_t> perm) {
    const ValueId y = m.node("Transpose", {v});
    m.set("perm", std::move(perm));
    return y;
  };
  const auto weights = [&](ValueId scores) {
    const ValueId y = m.node("Softmax", {scores});
    m.set("axis", int64_t{-1});
    return y;
  };
  const ValueId q = m.node("Sin", {m.input("q", {"B", "3", "T", "4"})});
  const ValueId k = m.input("k", {"B", "3", "S", "4"}), v = m.input("v", {"B", "3", "S", "5"});
  const ValueId mask = m.input("mask", {"B", "1", "1", "S"});
  ValueId scores = m.node("MatMul", {q, turned(k, {0, 1, 3, 2})});
  scores = m.node("Mul", {scores, m.weights("each_head", {3, 1, 1})});
  m.output(m.node("MatMul", {weights(m.node("Add", {mask, scores})), v}));
  // The batch and heads are one dimension.
  const ValueId flat = m.input("flat", {"6", "T", "4"});
  scores = m.node("MatMul", {flat, m.input("turned_keys", {"6", "4", "S"})});
  scores = m.node("Add", {m.node("Mul", {scores, m.number(0.5F)}), m.input("bias", {"6", "1", "S"})});
  m.output(m.node("MatMul", {weights(scores), m.input("w", {"6", "S", "5"})}));
  expect_golden("attention_heads", m, 7);
}

// Channels before positions: values times the turned probabilities.
TEST(Fusion, AttentionOfChannelsFirst) {
  GraphMaker m;
  const ValueId q = m.input("q", {"2", "3", "4", "T"}), k = m.input("k", {"2", "3", "4", "T"});
  const ValueId v = m.input("v", {"2", "3", "5", "T"});
  const auto turned = [&](ValueId x) {
    const ValueId y = m.node("Transpose", {x});
    m.set("perm", {0, 1, 3, 2});
    return y;
  };
  const ValueId weights = m.node("Softmax", {m.node("MatMul", {turned(q), k})});
  m.set("axis", int64_t{-1});
  m.output(m.node("Reshape", {m.node("MatMul", {v, turned(weights)}), m.ints({2, 15, -1})}));
  expect_golden("attention_channels", m, 6);
}

TEST(Fusion, AttentionWhoseMaskedQueriesGiveZeros) {
  GraphMaker m;
  const ValueId x = m.input("x", {"B", "T", "12"}), mask = m.input("mask", {"B", "1", "T", "T"});
  const auto split = [&](const char* name) {
    const ValueId heads = m.node("Reshape", {m.node("MatMul", {x, m.weights(name, {12, 12})}), m.ints({0, 0, 3, 4})});
    const ValueId y = m.node("Transpose", {heads});
    m.set("perm", {0, 2, 1, 3});
    return y;
  };
  const ValueId q = m.node("Mul", {split("wq"), m.number(0.5F)});
  const ValueId k = split("wk");
  const ValueId dims = m.node("Shape", {k});
  const auto part = [&](int64_t from, int64_t to) { return m.node("Slice", {dims, m.ints({from}), m.ints({to})}); };
  const ValueId time = part(2, 3), depth = part(3, 4);
  const auto joined = [&](const std::vector<ValueId>& parts) {
    const ValueId shape = m.node("Concat", parts);
    m.set("axis", int64_t{0});
    return shape;
  };
  ValueId turned = m.node("Reshape", {k, joined({m.ints({-1}), time, depth})});
  turned = m.node("Transpose", {turned});
  m.set("perm", {0, 2, 1});
  turned = m.node("Reshape", {turned, joined({part(0, 1), part(1, 2), depth, time})});
  turned = m.node("Mul", {turned, m.number(0.5F)});
  ValueId scores = m.node("MatMul", {q, turned});
  // From -0.5 on a key is masked: most of them, and some queries lose all.
  const ValueId masked = m.node("Less", {mask, m.number(-0.5F)});
  scores = m.node("Add", {scores, m.node("Where", {masked, m.number(0), m.number(-INFINITY)})});
  const ValueId p = m.node("Softmax", {scores});
  m.set("axis", int64_t{-1});
  const ValueId weights = m.node("Where", {m.node("IsNaN", {p}), m.number(0), p});
  const ValueId y = m.node("Transpose", {m.node("MatMul", {weights, split("wv")})});
  m.set("perm", {0, 2, 1, 3});
  m.output(m.node("Reshape", {y, m.ints({0, 0, 12})}));
  expect_golden("attention_guarded", m, 2);
}

TEST(Fusion, OneHotProductsBecomeLookups) {
  GraphMaker m;
  ValueId indices = m.input("indices", {"N", "4"}, DataType::kInt64);
  std::vector<int64_t> iota{0, 1, 2, 3, 4, 5, 6};
  ValueId column = m.node("Unsqueeze", {indices, m.ints({2})});
  ValueId hot = m.node("Equal", {column, m.ints(iota)});
  ValueId y = m.node("Cast", {hot});
  m.set("to", int64_t{1});
  y = m.node("MatMul", {y, m.weights("table", {7, 5})});
  y = m.node("Add", {y, m.weights("bias", {1, 1, 5})});
  y = m.node("Gelu", {y});
  m.output(y);
  m.graph().nodes.back().since_version = 20;
  expect_golden("one_hot_lookup", m);
}

TEST(Fusion, ShapesAreFoldedAndWhatChangesNothingGoes) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "6"});
  ValueId shape = m.node("Shape", {x});
  ValueId batch = m.node("Gather", {shape, m.ints({0})});
  ValueId target = m.node("Concat", {batch, m.ints({2, 2, 6})});
  m.set("axis", int64_t{0});
  ValueId y = m.node("Reshape", {x, target});
  y = m.node("Expand", {y, target});
  y = m.node("Add", {y, m.number(0)});
  y = m.node("Transpose", {y});
  m.set("perm", {0, 1, 3, 2});
  y = m.node("Transpose", {y});
  m.set("perm", {0, 1, 3, 2});
  y = m.node("Squeeze", {m.node("Unsqueeze", {y, m.ints({0})}), m.ints({0})});
  y = m.node("Reshape", {y, m.ints({-1, 12})});
  ValueId again = m.node("Neg", {y}), same = m.node("Neg", {y});
  m.output(m.node("Add", {again, same}));
  ValueId unchanged = m.node("Identity", {x});
  m.output(unchanged);
  expect_golden("fold_shapes", m);
}

TEST(Fusion, GlobalMeanIsAPool) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4", "H", "W"});
  ValueId y = m.node("ReduceMean", {x});
  m.set("axes", {2, 3});
  m.output(y);
  expect_golden("global_pool", m, 3);
}

// A 1-D convolution written as a 2-D one and a Squeeze.
TEST(Fusion, SqueezeSinksBelowBiasAndActivation) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "3", "L", "1"});
  ValueId y = m.node("Conv", {x, m.weights("w", {4, 3, 3, 1})});
  y = m.node("Squeeze", {y, m.ints({3})});
  y = m.node("Add", {y, m.weights("b", {1, 4, 1})});
  y = m.node("Relu", {y});
  m.output(m.node("GlobalMaxPool", {y}));
  expect_golden("sink_squeeze", m, 6);
}

TEST(Fusion, AdditionsOfConstantsJoin) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "3", "4"});
  ValueId y = m.node("Add", {m.node("Add", {x, m.weights("a", {3, 4})}), m.weights("bb", {1, 4})});
  m.output(y);
  expect_golden("constant_adds", m);
}

// The moments of a TensorFlow LayerNorm over the middle dimension, and the Transpose that follows.
TEST(Fusion, NormalisationFromMoments) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "6", "4"});
  ValueId axes = m.ints({1});
  auto sum = [&](ValueId v) {
    ValueId y = m.node("ReduceSum", {v, axes});
    m.set("keepdims", int64_t{0});
    return m.node("Mul", {y, m.number(1.0f / 6)});
  };
  ValueId mean = sum(x), squares = sum(m.node("Mul", {x, x}));
  ValueId variance = m.node("Sub", {squares, m.node("Mul", {mean, mean})});
  variance = m.node("Max", {m.number(0), variance});
  variance = m.node("Unsqueeze", {variance, axes});
  ValueId root = m.node("Sqrt", {m.node("Add", {variance, m.number(1e-5f)})});
  ValueId factor = m.node("Mul", {m.node("Reciprocal", {root}), m.weights("scale", {1, 6, 1})});
  ValueId centred = m.node("Sub", {x, m.node("Unsqueeze", {mean, axes})});
  ValueId y = m.node("Add", {m.node("Mul", {centred, factor}), m.weights("bias", {1, 6, 1})});
  y = m.node("Transpose", {m.node("Unsqueeze", {y, m.ints({3})})});
  m.set("perm", {0, 2, 1, 3});
  m.output(y);
  expect_golden("moment_norm", m);
}

// YOLO's C2f block: both halves go on beside what the second one becomes.
TEST(Fusion, AConcatOfAllPartsReadsTheWhole) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "6", "4"});
  ValueId a = m.node("Split", {x, m.ints({2, 4})}, 2);
  m.set("axis", int64_t{1});
  ValueId b = m.output_of_last(1);
  ValueId c = m.node("Neg", {b});
  m.output(m.node("Concat", {a, b, c}));
  m.set("axis", int64_t{1});
  m.output(m.node("Concat", {b, a}));
  m.set("axis", int64_t{1});
  m.output(m.node("Concat", {a, b}));
  m.set("axis", int64_t{-2});
  expect_golden("split_concat", m);
}

TEST(Fusion, AGateWithAShortcutIsOneProduct) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "8", "H", "W"});
  ValueId gate = m.node("Sigmoid", {m.node("GlobalAveragePool", {x})});
  m.output(m.node("Add", {x, m.node("Mul", {x, gate})}));
  expect_golden("scale_shortcut", m, 4);
}

TEST(Fusion, AnIfOnAConstantIsItsBranch) {
  GraphMaker m;
  ValueId x = m.input("x", {"N", "4"});
  std::byte* data = nullptr;
  ConstantRef yes = make_constant(DataType::kBool, Shape(), &data).value();
  data[0] = std::byte{1};
  auto branch = [](const char* op_type) {
    auto body = std::make_shared<Graph>();
    const ValueId in = body->add_value(Value{.name = "in"}), out = body->add_value(Value{.name = "out"});
    Node node{.op_type = op_type, .since_version = 13};
    node.inputs = {in};
    node.outputs = {out};
    body->nodes.push_back(node);
    body->outputs = {out};
    body->captures = {{ValueId(0), in}};
    return body;
  };
  ValueId y = m.node("If", {m.graph().add_constant("yes", yes)});
  m.graph().nodes.back().attributes = {{.name = "then_branch", .kind = AttributeKind::kGraph, .graph = branch("Neg")},
                                       {.name = "else_branch", .kind = AttributeKind::kGraph, .graph = branch("Abs")}};
  m.output(m.node("Exp", {y}));
  Graph graph = m.graph();
  ASSERT_TRUE(run_named(graph, PassPhase::kLoad, {}).ok());
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[NodeId(0)].op_type, "Neg");
  EXPECT_EQ(graph.nodes[NodeId(0)].inputs[0], x);
  EXPECT_EQ(graph.nodes[NodeId(1)].inputs[0], graph.nodes[NodeId(0)].outputs[0]);
}

}  // namespace
}  // namespace tenon
