#include "ops/shape_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <optional>

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

Dim number(int64_t value) { return {.value = value, .symbol = {}}; }
Dim symbol(std::string name) { return {.value = -1, .symbol = std::move(name)}; }

// One node with the inputs given; its first output is what the test looks at.
class OneNode {
 public:
  OneNode(std::string op_type, int version, std::string domain = "") {
    node_.op_type = std::move(op_type);
    node_.since_version = version;
    node_.domain = std::move(domain);
  }
  OneNode& in(std::vector<Dim> dims, DataType type = DataType::kFloat) {
    Value value;
    value.name = "in" + std::to_string(node_.inputs.size());
    value.type = type;
    value.has_rank = true;
    value.dims = std::move(dims);
    node_.inputs.push_back(graph_.add_value(std::move(value)));
    return *this;
  }
  OneNode& in(const Shape& shape, DataType type = DataType::kFloat) {
    std::vector<Dim> dims;
    for (int64_t dim : shape.dims()) dims.push_back(number(dim));
    return in(std::move(dims), type);
  }
  OneNode& unranked() {
    node_.inputs.push_back(graph_.add_value(Value{.name = "unranked", .type = DataType::kFloat}));
    return *this;
  }
  OneNode& absent() {
    node_.inputs.push_back(kNoValue);
    return *this;
  }
  OneNode& ints(std::vector<int64_t> values, bool scalar = false) {
    node_.inputs.push_back(graph_.add_constant("ints", make_int64_constant(values, scalar)));
    return *this;
  }
  OneNode& floats(std::vector<float> values) {
    std::byte* data = nullptr;
    ConstantRef constant = make_constant(DataType::kFloat, Shape{static_cast<int64_t>(values.size())}, &data).value();
    if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(float));
    node_.inputs.push_back(graph_.add_constant("floats", constant));
    return *this;
  }
  OneNode& set(const char* name, int64_t value) {
    node_.set_int(name, value);
    return *this;
  }
  OneNode& set(const char* name, std::vector<int64_t> value) {
    node_.set_ints(name, std::move(value));
    return *this;
  }
  OneNode& set(const char* name, const char* value) {
    node_.set_string(name, value);
    return *this;
  }
  OneNode& outputs(size_t count) {
    outputs_ = count;
    return *this;
  }
  // "float32[1,2]", or the error; several outputs with spaces between.
  std::string infer() {
    for (size_t i = 0; i < outputs_; ++i)
      node_.outputs.push_back(graph_.add_value(Value{.name = "out" + std::to_string(i)}));
    Status status = infer_node(graph_, node_);
    if (!status.ok()) return std::string(status.message());
    std::string text;
    for (ValueId id : node_.outputs) text += (text.empty() ? "" : " ") + graph_.value(id).type_text();
    return text;
  }

 private:
  Graph graph_;
  Node node_;
  size_t outputs_ = 1;
};

TEST(ShapeInference, BroadcastKeepsEqualSymbolsAndTakesNumbers) {
  EXPECT_EQ(OneNode("Add", 14).in({symbol("N"), number(3)}).in({symbol("N"), number(1)}).infer(), "float32[N,3]");
  EXPECT_EQ(OneNode("Mul", 14).in({symbol("N"), number(3)}).in({number(4), number(1), number(3)}).infer(),
            "float32[4,N,3]");
  EXPECT_EQ(OneNode("Add", 14).in({symbol("N")}).in({symbol("M")}).infer(), "float32[?]");
  EXPECT_EQ(OneNode("Add", 14).in({symbol("N")}).in({number(5)}).infer(), "float32[5]");
  EXPECT_EQ(OneNode("Equal", 13).in(Shape{2, 1}).in(Shape{1, 3}).infer(), "bool[2,3]");
  EXPECT_EQ(OneNode("Where", 9).in(Shape{2, 1}, DataType::kBool).in(Shape{3}).in(Shape{}).infer(), "float32[2,3]");
}

TEST(ShapeInference, BroadcastErrorHasBothShapesAndTheNode) {
  std::string message = OneNode("Add", 14).in(Shape{2, 3}).in(Shape{4}).infer();
  EXPECT_THAT(message, HasSubstr("[2,3]"));
  EXPECT_THAT(message, HasSubstr("[4]"));
  EXPECT_THAT(message, HasSubstr("Add (output \"out0\")"));
}

TEST(ShapeInference, ConvolutionsFollowPadsStridesAndAutoPad) {
  auto conv = [] {
    return OneNode("Conv", 11).in({symbol("N"), number(3), number(9), symbol("W")}).in(Shape{8, 3, 3, 3});
  };
  EXPECT_EQ(conv().infer(), "float32[N,8,7,?]");
  EXPECT_EQ(conv().set("pads", {1, 1, 1, 1}).infer(), "float32[N,8,9,W]");
  EXPECT_EQ(conv().set("strides", {2, 2}).set("pads", {1, 1, 1, 1}).infer(), "float32[N,8,5,?]");
  EXPECT_EQ(conv().set("auto_pad", "SAME_UPPER").set("strides", {2, 1}).infer(), "float32[N,8,5,W]");
  EXPECT_EQ(OneNode("ConvTranspose", 11).in(Shape{1, 4, 5, 5}).in(Shape{4, 2, 2, 2}).set("strides", {2, 2}).infer(),
            "float32[1,2,10,10]");
  EXPECT_EQ(OneNode("ConvTranspose", 11).in(Shape{1, 4, 5}).in(Shape{4, 1, 3}).set("group", 2).infer(),
            "float32[1,2,7]");
}

TEST(ShapeInference, OddConvolutionAttributesAreErrors) {
  auto conv = [] { return OneNode("Conv", 11).in(Shape{1, 3, 9, 9}).in(Shape{8, 3, 3, 3}); };
  EXPECT_THAT(conv().set("strides", {0, 1}).infer(), HasSubstr("\"strides\" contains 0"));
  EXPECT_THAT(conv().set("strides", {-1, 1}).infer(), HasSubstr("\"strides\" contains -1"));
  EXPECT_THAT(conv().set("dilations", {1, 0}).infer(), HasSubstr("\"dilations\" contains 0"));
  EXPECT_THAT(conv().set("pads", {1, 1}).infer(), HasSubstr("\"pads\" has 2 values"));
  EXPECT_THAT(conv().set("pads", {kHuge, 0, 0, 0}).infer(), HasSubstr("\"pads\" contains"));
  EXPECT_THAT(conv().set("group", int64_t{0}).infer(), HasSubstr("\"group\" (0)"));
  EXPECT_THAT(conv().set("auto_pad", "WHATEVER").infer(), HasSubstr("WHATEVER"));
  EXPECT_THAT(conv().set("kernel_shape", {5, 5}).infer(), HasSubstr("\"kernel_shape\" has 5 where the weights have 3"));
  EXPECT_THAT(OneNode("Conv", 11).in(Shape{1, 3, 2, 9}).in(Shape{8, 3, 3, 3}).infer(),
              HasSubstr("kernel (size 3, dilation 1) is larger than the padded input (2 + 0 + 0)"));
  EXPECT_THAT(OneNode("ConvTranspose", 11).unranked().in(Shape{4, 2, 3}).set("group", int64_t{8}).infer(),
              HasSubstr("8 groups"));
  EXPECT_THAT(OneNode("Conv", 11).in(Shape{1, 4, 9, 9}).in(Shape{8, 3, 3, 3}).infer(), HasSubstr("4 channels"));
}

// As in ONNX Runtime a session of such a model is refused, before a run meets it.
TEST(ShapeInference, EyesOfOtherRanksAndNeighboursWithoutASizeAreErrors) {
  EXPECT_THAT(OneNode("EyeLike", 22).in(Shape{2, 3, 4}).infer(), HasSubstr("its rank has to be 2"));
  EXPECT_THAT(OneNode("EyeLike", 22).in(Shape{3}).infer(), HasSubstr("its rank has to be 2"));
  EXPECT_EQ(OneNode("EyeLike", 22).in({symbol("n"), number(3)}).infer(), "float32[n,3]");
  EXPECT_EQ(OneNode("EyeLike", 22).unranked().infer(), "float32[...]");
  EXPECT_THAT(OneNode("LRN", 13).in(Shape{1, 4, 2, 2}).set("size", int64_t{0}).infer(), HasSubstr("LRN has size 0"));
  EXPECT_EQ(OneNode("LRN", 13).in(Shape{1, 4, 2, 2}).set("size", int64_t{2}).infer(), "float32[1,4,2,2]");
}

TEST(ShapeInference, PoolsInCeilModeDropWindowsThatStartInThePadding) {
  auto pool = [](int64_t size) {
    return OneNode("MaxPool", 12)
        .in({number(1), number(1), number(size)})
        .set("kernel_shape", std::vector<int64_t>{2})
        .set("strides", std::vector<int64_t>{3});
  };
  EXPECT_EQ(pool(6).set("ceil_mode", 1).infer(), "float32[1,1,2]");
  EXPECT_EQ(pool(7).set("ceil_mode", 1).infer(), "float32[1,1,3]");
  EXPECT_EQ(pool(7).infer(), "float32[1,1,2]");
  EXPECT_EQ(pool(6).set("ceil_mode", 1).outputs(2).infer(), "float32[1,1,2] int64[1,1,2]");
  EXPECT_EQ(OneNode("GlobalAveragePool", 1).in({symbol("N"), number(4), symbol("H"), symbol("W")}).infer(),
            "float32[N,4,1,1]");
}

TEST(ShapeInference, ReshapeKeepsSymbolsThatCancel) {
  auto reshape = [](std::vector<Dim> dims, std::vector<int64_t> target) {
    return OneNode("Reshape", 14).in(std::move(dims)).ints(std::move(target));
  };
  EXPECT_EQ(reshape({number(2), number(6)}, {-1, 4}).infer(), "float32[3,4]");
  EXPECT_EQ(reshape({symbol("N"), number(6)}, {0, 2, 3}).infer(), "float32[N,2,3]");
  EXPECT_EQ(reshape({symbol("N"), number(6)}, {-1, 2, 3}).infer(), "float32[N,2,3]");
  EXPECT_EQ(reshape({symbol("N"), number(6)}, {0, -1}).infer(), "float32[N,6]");
  EXPECT_EQ(reshape({number(0), number(6)}, {0, 3}).set("allowzero", 1).infer(), "float32[0,3]");
  EXPECT_THAT(reshape({number(2), number(6)}, {5, -1}).infer(), HasSubstr("[2,6] does not reshape to [5,?]"));
  EXPECT_THAT(reshape({number(2), number(6)}, {5}).infer(), HasSubstr("12 elements"));
  EXPECT_THAT(reshape({number(2)}, {-1, -1}).infer(), HasSubstr("more than one -1"));
  EXPECT_THAT(reshape({number(2)}, {-3}).infer(), HasSubstr("-3"));
  EXPECT_THAT(reshape({number(2)}, {1, 0}).infer(), HasSubstr("copies dimension 1"));
  EXPECT_EQ(OneNode("Reshape", 14).in(Shape{6}).in(Shape{3}, DataType::kInt64).infer(), "float32[?,?,?]");
}

TEST(ShapeInference, SlicesClampAsNumpyDoes) {
  auto slice = [](int64_t start, int64_t end, int64_t step) {
    return OneNode("Slice", 13).in(Shape{10}).ints({start}).ints({end}).ints({0}).ints({step}).infer();
  };
  EXPECT_EQ(slice(2, 5, 1), "float32[3]");
  EXPECT_EQ(slice(-3, kHuge, 1), "float32[3]");
  EXPECT_EQ(slice(5, 2, 1), "float32[0]");
  EXPECT_EQ(slice(-1, -kHuge, -1), "float32[10]");
  EXPECT_EQ(slice(kHuge, -kHuge - 1, -3), "float32[4]");
  EXPECT_EQ(slice(0, 10, kHuge), "float32[1]");
  EXPECT_EQ(slice(9, -kHuge - 1, -kHuge - 1), "float32[1]");
  EXPECT_THAT(slice(0, 10, 0), HasSubstr("step of axis 0 is 0"));
  EXPECT_EQ(OneNode("Slice", 1)
                .in(Shape{4, 5})
                .set("starts", std::vector<int64_t>{1})
                .set("ends", std::vector<int64_t>{3})
                .set("axes", std::vector<int64_t>{1})
                .infer(),
            "float32[4,2]");
  EXPECT_THAT(OneNode("Slice", 13).in(Shape{4}).ints({0}).ints({1}).ints({1}).infer(),
              HasSubstr("Axis 1 is out of range for rank 1"));
  EXPECT_THAT(OneNode("Slice", 13).in(Shape{4}).ints({0}).ints({1, 2}).ints({0}).infer(), HasSubstr("2 ends"));
}

TEST(ShapeInference, SplitConcatPadTileExpand) {
  EXPECT_EQ(OneNode("Split", 13).in(Shape{2, 7}).ints({3, 4}).set("axis", 1).outputs(2).infer(),
            "float32[2,3] float32[2,4]");
  EXPECT_EQ(OneNode("Split", 2).in(Shape{6}).outputs(3).infer(), "float32[2] float32[2] float32[2]");
  EXPECT_EQ(OneNode("Split", 18).in(Shape{7}).set("num_outputs", 3).outputs(3).infer(),
            "float32[3] float32[3] float32[1]");
  EXPECT_THAT(OneNode("Split", 13).in(Shape{7}).ints({3, 3}).outputs(2).infer(), HasSubstr("sum to 6"));
  EXPECT_EQ(OneNode("Split", 13).in(Shape{6}).ints({}).outputs(2).infer(), "float32[3] float32[3]");
  EXPECT_EQ(OneNode("Concat", 13).in({symbol("N"), number(2)}).in({symbol("N"), number(3)}).set("axis", -1).infer(),
            "float32[N,5]");
  EXPECT_THAT(OneNode("Concat", 13).in(Shape{2, 2}).in(Shape{3, 2}).set("axis", 1).infer(), HasSubstr("[3,2]"));
  EXPECT_THAT(OneNode("Concat", 13).in(Shape{kHuge}).in(Shape{1}).set("axis", int64_t{0}).infer(),
              HasSubstr("overflows"));
  EXPECT_EQ(OneNode("Pad", 13).in(Shape{2, 3}).ints({0, 1, 0, -2}).infer(), "float32[2,2]");
  EXPECT_THAT(OneNode("Pad", 13).in(Shape{2}).ints({-2, -1}).infer(), HasSubstr("do not fit"));
  EXPECT_EQ(OneNode("Tile", 13).in(Shape{2, 3}).ints({2, 0}).infer(), "float32[4,0]");
  EXPECT_EQ(OneNode("Expand", 13).in(Shape{3, 1}).ints({2, 1, 6}).infer(), "float32[2,3,6]");
  EXPECT_THAT(OneNode("Tile", 13).in(Shape{kHuge}).ints({3}).infer(), HasSubstr("overflows"));
}

TEST(ShapeInference, ResizeReadsScalesOrSizes) {
  EXPECT_EQ(OneNode("Resize", 10).in(Shape{1, 1, 4, 6}).floats({1, 1, 2, 0.5f}).infer(), "float32[1,1,8,3]");
  EXPECT_EQ(OneNode("Resize", 13).in(Shape{1, 1, 4, 6}).absent().floats({1, 1, 2, 2}).infer(), "float32[1,1,8,12]");
  EXPECT_EQ(OneNode("Resize", 13).in(Shape{1, 1, 4, 6}).absent().absent().ints({1, 1, 5, 7}).infer(),
            "float32[1,1,5,7]");
  EXPECT_EQ(OneNode("Resize", 18)
                .in(Shape{1, 1, 4, 6})
                .absent()
                .absent()
                .ints({8, 9})
                .set("axes", {2, 3})
                .set("keep_aspect_ratio_policy", "not_larger")
                .infer(),
            "float32[1,1,6,9]");
  EXPECT_THAT(OneNode("Resize", 10).in(Shape{1, 4}).floats({1, -2}).infer(), HasSubstr("scale -2"));
  EXPECT_THAT(OneNode("Resize", 10).in(Shape{1, 4}).floats({1}).infer(), HasSubstr("1 scales for 2 axes"));
}

TEST(ShapeInference, GathersAndTopK) {
  EXPECT_EQ(OneNode("Gather", 13).in(Shape{5, 6}).in({symbol("N"), number(2)}, DataType::kInt64).set("axis", 1).infer(),
            "float32[5,N,2]");
  EXPECT_EQ(OneNode("GatherND", 12).in(Shape{2, 3, 4}).in(Shape{7, 2}, DataType::kInt64).infer(), "float32[7,4]");
  EXPECT_THAT(OneNode("GatherND", 12).in(Shape{2, 3}).in(Shape{7, 3}, DataType::kInt64).infer(), HasSubstr("[7,3]"));
  EXPECT_EQ(OneNode("TopK", 11).in(Shape{2, 9}).ints({4}).outputs(2).infer(), "float32[2,4] int64[2,4]");
  EXPECT_THAT(OneNode("TopK", 11).in(Shape{2, 3}).ints({4}).infer(), HasSubstr("K (4)"));
  EXPECT_EQ(OneNode("NonZero", 13).in(Shape{2, 3}).infer(), "int64[2,?]");
  EXPECT_EQ(OneNode("OneHot", 11).in({symbol("N")}, DataType::kInt64).ints({7}, true).floats({0, 1}).infer(),
            "float32[N,7]");
}

TEST(ShapeInference, MatrixProducts) {
  EXPECT_EQ(OneNode("MatMul", 13).in({symbol("B"), number(4), number(5)}).in(Shape{5, 6}).infer(), "float32[B,4,6]");
  EXPECT_EQ(OneNode("MatMul", 13).in(Shape{5}).in(Shape{2, 5, 6}).infer(), "float32[2,6]");
  EXPECT_THAT(OneNode("MatMul", 13).in(Shape{4, 5}).in(Shape{6, 5}).infer(), HasSubstr("5 against 6"));
  EXPECT_THAT(OneNode("MatMul", 13).in(Shape{}).in(Shape{6, 5}).infer(), HasSubstr("scalar"));
  EXPECT_EQ(OneNode("Gemm", 13).in(Shape{5, 4}).in(Shape{6, 5}).in(Shape{6}).set("transA", 1).set("transB", 1).infer(),
            "float32[4,6]");
  EXPECT_THAT(OneNode("Gemm", 13).in(Shape{4, 5}).in(Shape{5, 6}).in(Shape{5}).infer(),
              HasSubstr("C [5] does not broadcast to the product [4,6]"));
  EXPECT_EQ(OneNode("Einsum", 12).in(Shape{2, 3, 4}).in(Shape{4, 5}).set("equation", "...ij,jk->...ik").infer(),
            "float32[2,3,5]");
  EXPECT_EQ(OneNode("LSTM", 14)
                .in({symbol("T"), number(2), number(8)})
                .in(Shape{1, 64, 8})
                .in(Shape{1, 64, 16})
                .set("hidden_size", 16)
                .outputs(3)
                .infer(),
            "float32[T,1,2,16] float32[1,2,16] float32[1,2,16]");
}

TEST(ShapeInference, ReductionsTakeAxesFromEitherPlace) {
  EXPECT_EQ(OneNode("ReduceMean", 11).in(Shape{2, 3, 4}).set("axes", std::vector<int64_t>{-1}).infer(),
            "float32[2,3,1]");
  EXPECT_EQ(OneNode("ReduceSum", 13).in(Shape{2, 3, 4}).ints({0, 2}).set("keepdims", int64_t{0}).infer(), "float32[3]");
  EXPECT_EQ(OneNode("ReduceSum", 13).in(Shape{2, 3}).infer(), "float32[1,1]");
  EXPECT_EQ(OneNode("ReduceSum", 13).in(Shape{2, 3}).set("noop_with_empty_axes", 1).infer(), "float32[2,3]");
  EXPECT_THAT(OneNode("ReduceSum", 13).in(Shape{2, 3}).ints({1, -1}).infer(), HasSubstr("Axis 1 is repeated"));
}

TEST(ShapeInference, RangesAreCountedExactly) {
  auto range = [](int64_t start, int64_t limit, int64_t delta) {
    return OneNode("Range", 11).ints({start}, true).ints({limit}, true).ints({delta}, true).infer();
  };
  EXPECT_EQ(range(0, 10, 3), "int64[4]");
  EXPECT_EQ(range(10, 0, -3), "int64[4]");
  EXPECT_EQ(range(0, -5, 1), "int64[0]");
  EXPECT_THAT(range(-kHuge, kHuge, 1), HasSubstr("too many"));
  EXPECT_THAT(range(0, 5, 0), HasSubstr("step of the range is 0"));
}

TEST(ShapeInference, ElementCountsThatOverflowAreErrors) {
  EXPECT_THAT(OneNode("ConstantOfShape", 9).ints({int64_t{1} << 40, int64_t{1} << 40}).infer(),
              HasSubstr("more elements"));
  EXPECT_THAT(OneNode("ConstantOfShape", 9).in(Shape{2, 2}, DataType::kInt64).infer(),
              HasSubstr("2 dimensions itself"));
  EXPECT_THAT(OneNode("ConstantOfShape", 9).ints({-1}).infer(), HasSubstr("negative dimension -1"));
  EXPECT_THAT(OneNode("Unsqueeze", 13).in(Shape{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}).ints({0, 1}).infer(),
              HasSubstr("rank 13"));
}

// A zero makes the count 0, wherever it stands.
TEST(ShapeInference, SizesBesideAZeroDoNotOverflow) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_EQ(OneNode("ConstantOfShape", 9).ints({kLarge, kLarge, 0}).infer(), "float32[1099511627776,1099511627776,0]");
  EXPECT_EQ(OneNode("Flatten", 13).in(Shape{kLarge, kLarge, 0}).set("axis", int64_t{3}).infer(), "float32[0,1]");
  EXPECT_EQ(OneNode("Reshape", 14).in(Shape{kLarge, kLarge, 0}).ints({0, 0, 0}).infer(),
            "float32[1099511627776,1099511627776,0]");
}

TEST(ShapeInference, UnknownStaysUnknown) {
  EXPECT_EQ(OneNode("Conv", 11).unranked().in(Shape{8, 3, 3, 3}).infer(), "float32[?,8,?,?]");
  EXPECT_EQ(OneNode("Relu", 14).unranked().infer(), "float32[...]");
  EXPECT_EQ(OneNode("Flatten", 13).unranked().infer(), "float32[?,?]");
  EXPECT_EQ(OneNode("NobodyKnows", 1, "custom").in(Shape{2}).infer(), "undefined[...]");
}

// A file's claim about an intermediate value could otherwise make a kernel write past its output.
TEST(ShapeInference, DeclaredShapesOfResultsAreNotBelieved) {
  Graph graph;
  Value x{.name = "x", .type = DataType::kFloat};
  x.set_shape(Shape{2, 3});
  Value y{.name = "y", .type = DataType::kFloat};
  y.set_shape(Shape{1});
  Node node{.op_type = "NonZero", .since_version = 13};
  node.inputs = {graph.add_value(x)};
  node.outputs = {graph.add_value(y)};
  graph.nodes.push_back(node);
  ASSERT_TRUE(infer_shapes(graph).ok());
  EXPECT_EQ(graph.value(ValueId(1)).type_text(), "int64[2,?]");
}

TEST(ShapeInference, InternalOperatorsCheckTheirResidual) {
  auto conv = [] { return OneNode("Conv", 1, "tenon").in(Shape{1, 3, 9, 9}).in(Shape{8, 3, 3, 3}).absent(); };
  EXPECT_EQ(conv().in(Shape{1, 8, 7, 7}).infer(), "float32[1,8,7,7]");
  EXPECT_THAT(conv().in(Shape{1, 8, 1, 1}).infer(), HasSubstr("residual has shape [1,8,1,1]"));
  EXPECT_EQ(OneNode("MatMul", 1, "tenon").in(Shape{2, 4}).in(Shape{5, 4}).set("trans_b", 1).infer(), "float32[2,5]");
  EXPECT_EQ(
      OneNode("PackedAttention", 1, "tenon").in(Shape{1, 7, 36}).in(Shape{1, 1, 1, 7}).set("num_heads", 3).infer(),
      "float32[1,7,12]");
  EXPECT_THAT(OneNode("PackedAttention", 1, "tenon").in(Shape{1, 7, 35}).set("num_heads", 3).infer(), HasSubstr("35"));
  EXPECT_THAT(
      OneNode("PackedAttention", 1, "tenon").in(Shape{1, 7, 36}).in(Shape{2, 1, 1, 7}).set("num_heads", 3).infer(),
      HasSubstr("mask [2,1,1,7]"));
  EXPECT_EQ(
      OneNode("LookupOrDefault", 1, "tenon").in(Shape{9, 4}).in({symbol("N"), number(2)}, DataType::kInt32).infer(),
      "float32[N,2,4]");
}

std::shared_ptr<Graph> branch_of(const char* op_type, const Shape& inner) {
  auto body = std::make_shared<Graph>();
  Value captured{.name = "captured"};
  const ValueId in = body->add_value(captured);
  std::byte* data = nullptr;
  const ValueId constant = body->add_constant("c", make_constant(DataType::kFloat, inner, &data).value());
  const ValueId out = body->add_value(Value{.name = "out"});
  Node node{.op_type = op_type, .since_version = 13};
  node.inputs = {in, constant};
  node.outputs = {out};
  body->nodes.push_back(node);
  body->outputs = {out};
  body->captures = {{ValueId(0), in}};
  return body;
}

std::string infer_if(std::shared_ptr<Graph> then_branch, std::shared_ptr<Graph> else_branch) {
  Graph graph;
  Value x{.name = "x", .type = DataType::kFloat};
  x.set_shape(Shape{4, 3});
  graph.add_value(x);
  Value condition{.name = "condition", .type = DataType::kBool};
  condition.set_shape(Shape{});
  Node node{.op_type = "If", .since_version = 13};
  node.inputs = {graph.add_value(condition)};
  node.outputs = {graph.add_value(Value{.name = "y"})};
  node.attributes = {{.name = "then_branch", .kind = AttributeKind::kGraph, .graph = std::move(then_branch)},
                     {.name = "else_branch", .kind = AttributeKind::kGraph, .graph = std::move(else_branch)}};
  graph.nodes.push_back(std::move(node));
  Status status = infer_shapes(graph);
  return status.ok() ? graph.value(ValueId(2)).type_text() : std::string(status.message());
}

TEST(ShapeInference, BranchesAgreeOrBecomeUnknown) {
  EXPECT_EQ(infer_if(branch_of("Add", {3}), branch_of("Mul", {1})), "float32[4,3]");
  EXPECT_EQ(infer_if(branch_of("Add", {3}), branch_of("MatMul", {3, 7})), "float32[4,?]");
}

// The branch that is not taken may not fit the shapes of this run.
TEST(ShapeInference, ABranchThatCannotRunIsNoError) {
  EXPECT_EQ(infer_if(branch_of("Add", {3}), branch_of("Add", {5})), "float32[...]");
}

// Inferring each body several times for each round of the outer one would take 4^40 steps.
TEST(ShapeInference, DeeplyNestedLoopsTakeNoLongTime) {
  auto body = [](std::shared_ptr<Graph> inner) {
    auto graph = std::make_shared<Graph>();
    for (const char* name : {"iteration", "condition", "carried"})
      graph->inputs.push_back(graph->add_value(Value{.name = name}));
    ValueId out = graph->inputs[2];
    if (inner) {
      Node loop{.op_type = "Loop", .since_version = 13};
      loop.inputs = {kNoValue, graph->inputs[1], graph->inputs[2]};
      loop.outputs = {graph->add_value(Value{.name = "out"})};
      loop.attributes = {{.name = "body", .kind = AttributeKind::kGraph, .graph = std::move(inner)}};
      out = loop.outputs[0];
      graph->nodes.push_back(std::move(loop));
    } else {
      Node grow{.op_type = "Concat", .since_version = 13};
      grow.set_int("axis", 0);
      grow.inputs = {out, out};
      grow.outputs = {graph->add_value(Value{.name = "out"})};
      out = grow.outputs[0];
      graph->nodes.push_back(std::move(grow));
    }
    graph->outputs = {graph->inputs[1], out};
    return graph;
  };
  std::shared_ptr<Graph> graph;
  for (int depth = 0; depth < 40; ++depth) graph = body(std::move(graph));
  graph->value(graph->inputs[2]).type = DataType::kFloat;
  graph->value(graph->inputs[2]).set_shape(Shape{3});
  ASSERT_TRUE(infer_shapes(*graph).ok());
  EXPECT_THAT(graph->value(graph->outputs[1]).type_text(), testing::AnyOf("float32[?]", "float32[...]"));
}

// A Loop over float32[2,3] whose body stacks its state; `next` is the body's condition output: the condition that
// comes in, a constant, or a value that a node computes.
struct CountedLoop {
  enum class Next { kPassed, kCopied, kTrue, kFalse, kComputed };
  Next next = Next::kPassed;
  std::optional<int64_t> trips = 5;   // constant, or an input
  std::optional<bool> begins = true;  // constant, or an input; `has_condition` false: absent
  bool has_condition = true;

  std::string infer() const {
    auto body = std::make_shared<Graph>();
    for (const char* name : {"iteration", "condition", "state"})
      body->inputs.push_back(body->add_value(Value{.name = name}));
    body->outputs = {condition(*body), body->inputs[2], body->inputs[2]};
    Graph graph;
    Node loop{.op_type = "Loop", .since_version = 13};
    const std::vector<int64_t> count = {trips.value_or(0)};
    loop.inputs.push_back(trips ? graph.add_constant("trips", make_int64_constant(count, true))
                                : graph.add_value(Value{.name = "trips", .type = DataType::kInt64}));
    loop.inputs.push_back(!has_condition ? kNoValue
                          : begins       ? graph.add_constant("begins", flag(*begins))
                                         : graph.add_value(Value{.name = "begins", .type = DataType::kBool}));
    Value state{.name = "x", .type = DataType::kFloat};
    state.set_shape(Shape{2, 3});
    loop.inputs.push_back(graph.add_value(state));
    loop.outputs = {graph.add_value(Value{.name = "last"}), graph.add_value(Value{.name = "all"})};
    loop.attributes = {{.name = "body", .kind = AttributeKind::kGraph, .graph = body}};
    graph.nodes.push_back(loop);
    graph.outputs = loop.outputs;
    const Status status = infer_shapes(graph);
    return status.ok() ? graph.value(loop.outputs[1]).type_text() : status.message();
  }

 private:
  static ConstantRef flag(bool value) {
    std::byte* data = nullptr;
    ConstantRef constant = make_constant(DataType::kBool, Shape(), &data).value();
    *data = std::byte{value};
    return constant;
  }
  ValueId condition(Graph& body) const {
    if (next == Next::kPassed) return body.inputs[1];
    if (next == Next::kTrue || next == Next::kFalse) return body.add_constant("next", flag(next == Next::kTrue));
    Node node{.op_type = next == Next::kCopied ? "Identity" : "Not", .since_version = 1};
    node.inputs = {body.inputs[1]};
    node.outputs = {body.add_value(Value{.name = "next"})};
    body.nodes.push_back(node);
    return node.outputs[0];
  }
};

TEST(ShapeInference, AConstantTripCountIsTheLengthOfWhatALoopStacks) {
  using Next = CountedLoop::Next;
  for (const Next next : {Next::kPassed, Next::kCopied, Next::kTrue})
    EXPECT_EQ(CountedLoop{.next = next}.infer(), "float32[5,2,3]");
  EXPECT_EQ(CountedLoop{.has_condition = false}.infer(), "float32[5,2,3]");
  EXPECT_EQ(CountedLoop{.trips = 0}.infer(), "float32[0,2,3]");
  EXPECT_EQ(CountedLoop{.trips = -4}.infer(), "float32[0,2,3]");
  EXPECT_EQ(CountedLoop{.begins = false}.infer(), "float32[0,2,3]");
  EXPECT_EQ((CountedLoop{.trips = std::nullopt, .begins = false}.infer()), "float32[0,2,3]");
  EXPECT_EQ(CountedLoop{.next = Next::kFalse}.infer(), "float32[1,2,3]");
  EXPECT_EQ((CountedLoop{.next = Next::kFalse, .trips = 0}.infer()), "float32[0,2,3]");
}

TEST(ShapeInference, ALoopThatMayEndEarlierStacksAnUnknownNumber) {
  EXPECT_EQ(CountedLoop{.next = CountedLoop::Next::kComputed}.infer(), "float32[?,2,3]");
  EXPECT_EQ(CountedLoop{.begins = std::nullopt}.infer(), "float32[?,2,3]");
  EXPECT_EQ(CountedLoop{.trips = std::nullopt}.infer(), "float32[?,2,3]");
  // Such a loop fails in a run, if it is run: the model loads.
  EXPECT_EQ(CountedLoop{.trips = kHuge}.infer(), "float32[?,2,3]");
}

TEST(ShapeInference, LongSymbolsAreNotCarriedOn) {
  EXPECT_EQ(OneNode("Relu", 14).in({symbol(std::string(1000, 'N'))}).infer(), "float32[?]");
}

TEST(ShapeInference, SaysWhichValuesSetAShape) {
  Node reshape{.op_type = "Reshape", .since_version = 14};
  EXPECT_TRUE(shape_depends_on_value(reshape, 1));
  EXPECT_FALSE(shape_depends_on_value(reshape, 0));
  Node resize{.op_type = "Resize", .since_version = 10};
  EXPECT_TRUE(shape_depends_on_value(resize, 1));
  resize.since_version = 13;
  EXPECT_FALSE(shape_depends_on_value(resize, 1));
  EXPECT_TRUE(shape_depends_on_value(resize, 3));
  EXPECT_TRUE(shape_depends_on_value(Node{.op_type = "NonZero", .since_version = 13}, 0));
  EXPECT_FALSE(shape_depends_on_value(Node{.op_type = "Conv", .since_version = 11}, 1));
}

}  // namespace
}  // namespace tenon
