// Nodes that are claimed while sizes are symbols can be lowered once they are numbers; needs no device. The whole
// models lie in the folder that TENON_MODELS names.
#include "ep/cuda/compute/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/testing.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "graph/reader.h"
#include "ops/shape_inference.h"
#include "plan/bind_shapes.h"
#include "plan/fold.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;

std::vector<Dim> dims(std::initializer_list<int64_t> numbers) {
  std::vector<Dim> result;
  for (int64_t number : numbers) result.push_back({number, {}});
  return result;
}

// The nodes of one group with the inputs and outputs that a host would give them.
Graph part_of(const Graph& graph, const PerNode<int>& groups, int group) {
  Graph part = graph;
  part.nodes.clear();
  part.inputs.clear();
  part.outputs.clear();
  PerValue<bool> made(graph.values.size(), false), read(graph.values.size(), false), listed = read;
  for (ValueId id : graph.outputs) read[id] = true;
  for (NodeId n : groups.ids()) {
    for (ValueId id : graph.nodes[n].outputs)
      if (id != kNoValue && groups[n] == group) made[id] = true;
    for (ValueId id : graph.nodes[n].inputs)
      if (id != kNoValue && groups[n] != group) read[id] = true;
  }
  for (NodeId n : groups.ids()) {
    if (groups[n] != group) continue;
    part.nodes.push_back(graph.nodes[n]);
    for (ValueId id : graph.nodes[n].inputs) {
      if (id == kNoValue || made[id] || listed[id] || graph.value(id).constant != nullptr) continue;
      listed[id] = true;
      part.inputs.push_back(id);
    }
  }
  for (ValueId id : made.ids())
    if (made[id] && read[id]) part.outputs.push_back(id);
  return part;
}

struct Lowered {
  int regions = 0;
  size_t nodes = 0, operators = 0;
  std::string left;  // "NonZero Det": what stays with others
};

// Claims with symbols, then lowers each region for `inputs`.
Lowered lower_regions(Graph graph, const std::vector<Shape>& inputs) {
  Lowered result;
  EXPECT_TRUE(graph.sort_topologically().ok());
  Status inferred = infer_shapes(graph);
  EXPECT_TRUE(inferred.ok()) << inferred.to_string();
  const PerNode<int> groups = group_nodes(graph, claim_nodes(graph), PerNode<bool>(graph.nodes.size(), false));
  Graph sized = graph;
  set_input_shapes(sized, inputs);
  EXPECT_TRUE(fold_constants(sized, &evaluate_on_host).ok());
  for (NodeId n : groups.ids()) {
    result.regions = std::max(result.regions, groups[n] + 1);
    result.nodes += groups[n] >= 0 ? 1 : 0;
    if (groups[n] < 0) result.left += (result.left.empty() ? "" : " ") + graph.nodes[n].op_type;
  }
  for (int group = 0; group < result.regions; ++group) {
    const Graph part = part_of(graph, groups, group);
    std::vector<Shape> shapes;
    for (ValueId id : part.inputs) {
      EXPECT_TRUE(sized.value(id).fully_known()) << sized.value(id).name;
      if (sized.value(id).fully_known()) shapes.push_back(sized.value(id).shape());
    }
    const Result<Region> region = Region::prepare(part);
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    if (!region.ok()) continue;
    const Result<Program> program = region->lower_at(shapes, true);
    EXPECT_TRUE(program.ok()) << "region " << group << ": " << program.status().to_string();
    if (!program.ok()) continue;
    result.operators += program->ops.size();
    for (size_t i = 0; i < part.outputs.size(); ++i)
      EXPECT_EQ(program->tensor(program->outputs[i]).shape, sized.value(part.outputs[i]).shape());
  }
  return result;
}

TEST(ClaimNodes, WhatHasNoKernelIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({4, 8}));
  const ValueId a = builder.node("Exp", {x}, "a");
  const ValueId b = builder.node("Det", {a}, "b");
  builder.output(builder.node("Relu", {b}, "y"));
  builder.shape(a, Shape{4, 8}).shape(b, Shape{});
  EXPECT_THAT(claim_nodes(builder.graph), ::testing::ElementsAre(true, false, true));
}

// A node whose kernel would need more parameters, or more loops, than a kernel has is refused before the session is
// made.
TEST(ClaimNodes, ANodeOfTooManyParametersOrLoopsIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  std::vector<ValueId> terms;
  for (int i = 0; i < 120; ++i) {
    // Every second dimension is repeated, so that none of them join.
    std::vector<Dim> shape;
    for (int d = 0; d < Shape::kMaxRank; ++d) shape.push_back({d % 2 == i % 2 ? 2 : 1, {}});
    terms.push_back(builder.input("x" + std::to_string(i), shape));
  }
  builder.output(builder.node("Sum", terms, "sum"));
  builder.output(builder.node("Sum", {terms[0], terms[1], terms[2]}, "short"));
  // 13 loops, of which none join.
  for (const Dim& dim : {Dim{2, {}}, Dim{-1, "n"}}) {
    const ValueId a = builder.input("a" + dim.symbol, std::vector<Dim>(12, dim));
    const ValueId b = builder.input("b" + dim.symbol, std::vector<Dim>(12, dim));
    builder.output(builder.node("Einsum", {a, b}, "y" + dim.symbol));
    builder.last().set_string("equation", "abcdefghijkl,mlnkojpiqhrg->");
  }
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false, true, false, false));
}

// A size that a run computes cannot be planned for.
TEST(ClaimNodes, AComputedShapeIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({4, 8}));
  const ValueId shape = builder.input("shape", dims({2}), DataType::kInt64);
  builder.output(builder.node("Reshape", {x, shape}, "y"));
  EXPECT_THAT(claim_nodes(builder.graph), ::testing::ElementsAre(false));
}

TEST(ClaimNodes, AShapeOfShapesIsTakenWithItsReader) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}});
  const ValueId shape = builder.node("Shape", {x}, "shape", DataType::kInt64);
  const ValueId e = builder.node("Exp", {x}, "e");
  builder.output(builder.node("Reshape", {e, shape}, "y"));
  EXPECT_THAT(claim_nodes(builder.graph), ::testing::ElementsAre(true, true, true));
}

// As torch's exporter writes the pads of a window that has to fill its input.
TEST(ClaimNodes, PadsThatFollowFromAShapeAreTakenWithTheirReader) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{1, {}}, {4, {}}, {-1, "h"}, {-1, "w"}});
  const auto whole = [&](const char* op_type, const std::vector<ValueId>& inputs, const char* name) {
    return builder.node(op_type, inputs, name, DataType::kInt64);
  };
  const ValueId shape = whole("Shape", {x}, "shape");
  const ValueId width = whole("Gather", {shape, builder.constant("last", {3})}, "width");
  const ValueId seven = builder.constant("seven", {7});
  const ValueId rest = whole("Mod", {whole("Sub", {seven, width}, "lacks"), seven}, "rest");
  const ValueId none = whole("ConstantOfShape", {builder.constant("seven_more", {7})}, "none");
  const ValueId pads = whole("Concat", {rest, none}, "pads");
  builder.last().set_int("axis", 0);
  const ValueId pairs = whole("Reshape", {pads, builder.constant("pairs", {-1, 2})}, "by_axis");
  const ValueId backward = whole("Slice",
                                 {pairs, builder.constant("start", {-1}), builder.constant("end", {-9}),
                                  builder.constant("axis", {0}), builder.constant("step", {-1})},
                                 "backward");
  const ValueId sides = whole("Transpose", {backward}, "sides");
  const ValueId flat = whole("Reshape", {sides, builder.constant("flat", {-1})}, "all");
  builder.output(builder.node("Pad", {x, flat}, "y"));
  EXPECT_THAT(claim_nodes(builder.graph), ::testing::Each(true));
}

TEST(ClaimNodes, AConvolutionOfManyChannelsIsTakenWithSymbols) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {-1, "c"}, {-1, "h"}, {-1, "w"}});
  std::byte* data = nullptr;
  const ValueId weights = builder.graph.add_constant("w", *make_constant(DataType::kFloat, Shape{512, 1, 3, 3}, &data));
  builder.output(builder.node("Conv", {x, weights}, "y"));
  builder.last().set_int("group", 512);
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true));
}

TEST(ClaimNodes, APoolThatPadsToTheSameSizeIsTakenWithSymbols) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}, {-1, "h"}, {-1, "w"}});
  const ValueId pool = builder.node("MaxPool", {x}, "pool");
  builder.last().set_ints("kernel_shape", {2, 2});
  builder.last().set_string("auto_pad", "SAME_UPPER");
  builder.output(builder.node("GlobalMaxPool", {pool}, "y"));
  EXPECT_EQ(lower_regions(builder.graph, {Shape{1, 8, 5, 7}}).nodes, 2u);
}

// Its refusal depends on attributes alone: sizes need not be known.
// A pad by a number that a run computes has no form here; one by what is there needs no number.
TEST(ClaimNodes, WhatCannotBeLoweredIsRefusedWithSymbols) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}, {-1, "h"}, {-1, "w"}});
  const ValueId fill = builder.input("fill", {});
  const ValueId pads = builder.constant("pads", {0, 0, 1, 1, 0, 0, 1, 1});
  builder.output(builder.node("Pad", {x, pads, fill}, "a"));
  builder.output(builder.node("Pad", {x, pads}, "b"));
  builder.last().set_string("mode", "reflect");
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false, true));
}

// A form that depends on sizes is taken for all of them: a claim cannot be given back at the first run.
TEST(ClaimNodes, FormsThatDependOnSizesAreTakenForAll) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}, {-1, "h"}, {-1, "w"}});
  builder.output(builder.node("Softmax", {x}, "c"));
  builder.last().set_int("axis", 2);
  const ValueId a = builder.input("a", {{-1, "p"}, {-1, "q"}, {-1, "r"}, {-1, "s"}});
  const ValueId b = builder.input("b", {{-1, "t"}, {-1, "s"}, {-1, "u"}});
  builder.output(builder.node("MatMul", {a, b}, "product"));
  const ValueId v = builder.input("v", {{-1, "s"}});
  builder.output(builder.node("MatMul", {a, v}, "vector"));
  const ValueId c = builder.input("c2", {{-1, "k"}, {-1, "m"}}), d = builder.input("d", {{-1, "k"}, {-1, "o"}});
  const ValueId e = builder.input("e", {{-1, "m"}, {1, {}}});
  builder.output(builder.node("Gemm", {c, d, e}, "gemm"));
  builder.last().set_int("transA", 1);
  builder.last().set_float("beta", 0.5F);
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true, true, true, true));
  // A batch that is partly broadcast is spread; so is none; the vector is a matrix of one column.
  const std::vector<Shape> shapes = {Shape{2, 8, 3, 5}, Shape{2, 1, 3, 7}, Shape{4, 7, 6}, Shape{7},
                                     Shape{5, 3},       Shape{5, 4},       Shape{3, 1}};
  EXPECT_EQ(lower_regions(builder.graph, shapes).regions, 1u);
}

// It has no kernel, but a rewrite makes a Gather of it.
TEST(ClaimNodes, WhatARewriteReplacesIsTaken) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({4, 5}));
  std::byte* data = nullptr;
  ConstantRef places = *make_constant(DataType::kInt64, Shape{3, 2}, &data);
  std::copy_n(std::initializer_list<int64_t>{0, 1, 2, -1, 3, 0}.begin(), 6, reinterpret_cast<int64_t*>(data));
  const ValueId y = builder.node("GatherND", {x, builder.graph.add_constant("places", std::move(places))}, "y");
  builder.shape(y, Shape{3});
  builder.output(y);
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true));
}

TEST(ClaimNodes, AResizeIsOneKernelWhateverItsFactor) {
  for (const float factor : {2.0F, 1.5F}) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}, {-1, "h"}, {-1, "w"}});
    std::byte* data = nullptr;
    ConstantRef scales = *make_constant(DataType::kFloat, Shape{4}, &data);
    std::copy_n(std::initializer_list<float>{1, 1, factor, factor}.begin(), 4, reinterpret_cast<float*>(data));
    const ValueId scale = builder.graph.add_constant("scales", std::move(scales));
    builder.output(builder.node("Resize", {x, kNoValue, scale}, "y"));
    EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true));
    EXPECT_EQ(lower_regions(builder.graph, {Shape{1, 8, 5, 7}}).operators, 1u);
  }
}

// The elements that a TopK takes have to fit into a block, so that a number that only a run knows is refused.
TEST(ClaimNodes, TopKTakesAKnownNumberOfElements) {
  for (const int64_t k : {300, 5000, 0}) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", {{-1, "n"}, {8400, {}}});
    const ValueId wanted = k != 0 ? builder.constant("k", {k}) : builder.input("k", dims({1}), DataType::kInt64);
    const ValueId y = builder.node("TopK", {x, wanted}, "y");
    builder.last().since_version = 11;
    builder.last().outputs.push_back(builder.value("places", DataType::kInt64));
    builder.output(y);
    EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(k == 300)) << k;
  }
}

TEST(ClaimNodes, ATransposedConvolutionIsAConvolutionAndAKernel) {
  for (const int64_t stride : {2, 1}) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}, {-1, "h"}, {-1, "w"}});
    std::byte* data = nullptr;
    const ValueId w = builder.graph.add_constant("w", *make_constant(DataType::kFloat, Shape{8, 3, 2, 2}, &data));
    const ValueId y = builder.node("ConvTranspose", {x, w}, "y");
    builder.last().set_ints("strides", {stride, stride});
    builder.output(builder.node("Relu", {y}, "z"));
    EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true, true));
    // To channels last, the convolution, and the kernel that reorders its pixels, or back.
    EXPECT_EQ(lower_regions(builder.graph, {Shape{1, 8, 5, 7}}).operators, 3u);
  }
}

// A node that no sizes help is no claim, also where nobody knows a rank: the sizes that are tried have to fit.
TEST(ClaimNodes, WhatNoSizesHelpIsRefusedThoughRanksAreUnknown) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.value("x", DataType::kInt64);
  builder.graph.inputs.push_back(x);
  std::byte* data = nullptr;
  const ValueId slope = builder.graph.add_constant("slope", *make_constant(DataType::kInt64, Shape{7, 1, 1}, &data));
  builder.output(builder.node("PRelu", {x, slope}, "y", DataType::kInt64));
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));

  plan_testing::GraphBuilder norm;
  const ValueId image = norm.value("image"), mean = norm.value("mean");
  norm.graph.inputs = {image, mean};
  const ValueId scale = norm.graph.add_constant("scale", *make_constant(DataType::kFloat, Shape{12}, &data));
  const ValueId y = norm.node("BatchNormalization", {image, scale, mean, scale, mean}, "y");
  norm.last().since_version = 15;
  norm.last().set_int("training_mode", 1);
  norm.last().outputs = {y, norm.value("running_mean"), norm.value("running_var")};
  for (ValueId id : std::vector<ValueId>(norm.last().outputs)) norm.output(id);
  EXPECT_THAT(claim_nodes(norm.graph), ElementsAre(false));

  plan_testing::GraphBuilder sample;
  const ValueId volume = sample.value("volume", DataType::kDouble), grid = sample.value("grid", DataType::kDouble);
  sample.graph.inputs = {volume, grid};
  sample.output(sample.node("GridSample", {volume, grid}, "y", DataType::kDouble));
  sample.last().since_version = 20;
  EXPECT_THAT(claim_nodes(sample.graph), ElementsAre(false));
}

// Its size would be taken of a tensor without one.
TEST(ClaimNodes, AValueWithoutATypeIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.value("x", DataType::kUndefined);
  builder.graph.inputs.push_back(x);
  builder.output(builder.node("Shape", {x}, "y", DataType::kInt64));
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));
}

TEST(ClaimNodes, ScalesOfBlocksAreLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {-1, "m"}});
  std::byte* data = nullptr;
  const ValueId scale = builder.graph.add_constant("scale", *make_constant(DataType::kFloat, Shape{2, 2}, &data));
  builder.output(builder.node("QuantizeLinear", {x, scale}, "y", DataType::kUint8));
  builder.last().since_version = 24;
  builder.last().set_int("block_size", 3);
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));
}

// All that is left is the bias.
TEST(ClaimNodes, ATransposedConvolutionWithoutChannelsIsTwoKernels) {
  for (const int64_t stride : {2, 1}) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", {{-1, "n"}, {-1, "c"}, {-1, "h"}, {-1, "w"}});
    std::byte* data = nullptr;
    const ValueId w = builder.graph.add_constant("w", *make_constant(DataType::kFloat, Shape{0, 2, 2, 2}, &data));
    const ValueId bias = builder.graph.add_constant("bias", *make_constant(DataType::kFloat, Shape{2}, &data));
    builder.output(builder.node("ConvTranspose", {x, w, bias}, "y"));
    builder.last().set_ints("strides", {stride, stride});
    EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true));
    // Zeros, their sums with the bias, and the result with channels first.
    EXPECT_EQ(lower_regions(builder.graph, {Shape{1, 0, 5, 7}}).operators, 3u);
  }
}

// Ranks that nobody knows have to be served whatever they are: no kernel multiplies a vector of bytes.
TEST(ClaimNodes, ARankThatNoKernelServesIsRefusedWhereRanksAreUnknown) {
  plan_testing::GraphBuilder builder;
  const ValueId a = builder.value("a", DataType::kUint8), b = builder.value("b", DataType::kUint8);
  builder.graph.inputs = {a, b};
  builder.output(builder.node("MatMulInteger", {a, b}, "y", DataType::kInt32));
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));
  const ValueId x = builder.value("x");
  builder.graph.inputs.push_back(x);
  builder.output(builder.node("Relu", {x}, "z"));
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false, true));
}

// A number of elements to take that no row on trial has.
TEST(ClaimNodes, TopKOfRowsOfAnyLengthTakesNoMoreThanAKernelDoes) {
  for (const int64_t k : {300, 5000}) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", {{-1, "n"}, {-1, "m"}});
    const ValueId y = builder.node("TopK", {x, builder.constant("k", {k})}, "y");
    builder.last().since_version = 11;
    builder.last().outputs.push_back(builder.value("places", DataType::kInt64));
    builder.output(y);
    EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(k == 300)) << k;
  }
}

TEST(ClaimNodes, APoolWithoutItsFirstOutputIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({1, 1, 4, 4}));
  const ValueId places = builder.node("MaxPool", {x}, "places", DataType::kInt64);
  builder.last().set_ints("kernel_shape", {2, 2});
  builder.last().outputs = {kNoValue, places};
  builder.shape(places, Shape{1, 1, 3, 3});
  builder.output(places);
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));
}

// The result of ONNX Runtime's own norms has the scale's type, and the kernel writes that of x.
TEST(ClaimNodes, ANormThatMakesAnotherTypeIsLeftToOthers) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", dims({2, 128, 3}), type), scale = builder.input("scale", dims({3}));
    const ValueId y = builder.node("SimplifiedLayerNormalization", {x, scale}, "y");
    builder.last().since_version = 1;
    builder.last().set_int("axis", -1);
    builder.last().set_float("epsilon", 1e-5F);
    builder.shape(y, Shape{2, 128, 3});
    builder.output(y);
    EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(type == DataType::kFloat)) << data_type_name(type);
  }
}

TEST(ClaimNodes, ANormOfWhichOnlyTheMeanIsWantedIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({1, 4})), scale = builder.input("scale", dims({4}));
  const ValueId bias = builder.input("bias", {});
  const ValueId mean = builder.node("LayerNormalization", {x, scale, bias}, "mean");
  builder.last().since_version = 17;
  builder.last().outputs = {kNoValue, mean};
  builder.shape(mean, Shape{1, 1});
  builder.output(mean);
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(false));
}

TEST(ClaimNodes, ANormWhoseBiasIsBroadcastIsTwoKernels) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {6, {}}, {8, {}}});
  const ValueId scale = builder.input("scale", dims({8})), bias = builder.input("bias", dims({6, 1}));
  builder.output(builder.node("LayerNormalization", {x, scale, bias}, "y"));
  builder.last().since_version = 17;
  EXPECT_THAT(claim_nodes(builder.graph), ElementsAre(true));
  EXPECT_EQ(lower_regions(builder.graph, {Shape{2, 6, 8}, Shape{8}, Shape{6, 1}}).operators, 2u);
}

// Another part of the graph makes the size: nothing is known of it when the region is planned.
TEST(GroupNodes, WhatNeedsASizeOfAnotherRegionIsLeftToOthers) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}});
  const ValueId e = builder.node("Exp", {x}, "e");
  const ValueId d = builder.node("Det", {e}, "d");
  const ValueId shape = builder.node("Shape", {d}, "shape", DataType::kInt64);
  const ValueId first = builder.node("Reshape", {e, shape}, "first");
  builder.output(builder.node("Relu", {first}, "y"));
  PerNode<bool> claimed = {true, false, false, true, true};
  EXPECT_THAT(group_nodes(builder.graph, claimed, PerNode<bool>(5, false)), ElementsAre(0, -1, -1, -1, 1));
}

TEST(GroupNodes, WhatIsBesideAnUnclaimedNodeJoinsTheRegionBeforeIt) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({4, 8}));
  const ValueId a = builder.node("Exp", {x}, "a");
  const ValueId b = builder.node("Det", {a}, "b");
  const ValueId c = builder.node("Abs", {a}, "c");
  builder.output(builder.node("Add", {b, c}, "y"));
  const PerNode<bool> claimed = {true, false, true, true};
  EXPECT_THAT(group_nodes(builder.graph, claimed, {false, false, false, false}), ElementsAre(0, -1, 0, 1));
  // A node with subgraphs may read anything before it.
  EXPECT_THAT(group_nodes(builder.graph, claimed, {false, true, false, false}), ElementsAre(0, -1, 1, 1));
}

struct ModelCase {
  const char* name;
  std::vector<std::vector<Shape>> inputs;  // some sets of them
};

std::ostream& operator<<(std::ostream& out, const ModelCase& model) { return out << model.name; }

class Models : public ::testing::TestWithParam<ModelCase> {};

TEST_P(Models, TheWholeModelIsOneRegionForAllSizes) {
  const std::string folder = test_variable("TENON_MODELS"), path = folder + "/" + GetParam().name + ".onnx";
  if (folder.empty() || !std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << "; see TENON_MODELS";
  const Result<Model> model = read_model_file(path);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  for (const std::vector<Shape>& inputs : GetParam().inputs) {
    SCOPED_TRACE(inputs[0].to_string());
    const Lowered lowered = lower_regions(model->graph, inputs);
    EXPECT_EQ(lowered.left, "");
    EXPECT_EQ(lowered.regions, 1);
    std::cout << GetParam().name << inputs[0].to_string() << ": " << lowered.nodes << " nodes, " << lowered.operators
              << " operators\n";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Real, Models,
    ::testing::Values(ModelCase{"magika", {{Shape{1, 2048}}, {Shape{3, 2048}}}},
                      ModelCase{"nudenet_yolov8n", {{Shape{1, 3, 320, 320}}, {Shape{2, 3, 640, 352}}}},
                      ModelCase{
                          "minilm_l3",
                          {{Shape{2, 16}, Shape{2, 16}}, {Shape{1, 1}, Shape{1, 1}}, {Shape{3, 77}, Shape{3, 77}}}},
                      ModelCase{"nsnet2", {{Shape{1, 500, 161}}, {Shape{2, 1, 161}}, {Shape{5, 33, 161}}}},
                      ModelCase{"smart_turn_v3", {{Shape{1, 80, 800}}, {Shape{3, 80, 800}}}},
                      ModelCase{"ppocr_v6_det", {{Shape{1, 3, 480, 640}}, {Shape{2, 3, 96, 64}}}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon::cuda
