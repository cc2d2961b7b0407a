// Needs no device.
#include "ep/cuda/compute/pack_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "ops/attributes.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRows = 2, kSize = 8, kHeads = 4, kKvHeads = 2, kDepth = 8;

std::vector<Dim> dims(std::initializer_list<int64_t> sizes) {
  std::vector<Dim> made;
  for (int64_t size : sizes) made.push_back({size, {}});
  return made;
}

// GroupQueryAttention over three products of `x`, or of `x` and `other`.
struct Attention {
  explicit Attention(bool bias = false, bool bits = false, bool same_rows = true, int64_t rows = kRows) {
    const ValueId x = builder.input("x", dims({1, rows, kSize}));
    const ValueId other = same_rows ? x : builder.input("other", dims({1, rows, kSize}));
    std::vector<ValueId> inputs;
    for (const auto& [name, heads] : {std::pair{"q", kHeads}, std::pair{"k", kKvHeads}, std::pair{"v", kKvHeads}}) {
      const int64_t columns = heads * kDepth;
      ValueId made = product(name, inputs.size() == 2 ? other : x, columns, bits);
      builder.graph.value(made).has_rank = true;
      builder.graph.value(made).dims = dims({1, rows, columns});
      if (bias) {
        const ValueId sum = builder.node("Add", {made, floats(std::string(name) + "_bias", Shape{columns})},
                                         std::string(name) + "_sum");
        builder.graph.value(sum).has_rank = true;
        builder.graph.value(sum).dims = dims({1, rows, columns});
        made = sum;
      }
      inputs.push_back(made);
    }
    for (const char* name : {"past_k", "past_v"})
      inputs.push_back(builder.input(name, dims({1, kKvHeads, 20, kDepth})));
    inputs.push_back(builder.input("lengths", dims({1}), DataType::kInt32));
    std::byte* data = nullptr;
    ConstantRef total = *make_constant(DataType::kInt32, Shape{}, &data);
    *reinterpret_cast<int32_t*>(data) = 20;
    inputs.push_back(builder.graph.add_constant("total", std::move(total)));
    const ValueId y = builder.node("GroupQueryAttention", std::move(inputs), "y");
    Node& node = builder.last();
    node.domain = "com.microsoft";
    node.since_version = 1;
    node.set_int("num_heads", kHeads);
    node.set_int("kv_num_heads", kKvHeads);
    node.outputs = {y, builder.value("present_k"), builder.value("present_v")};
    for (ValueId id : std::vector<ValueId>(node.outputs)) builder.output(id);
  }

  ValueId floats(const std::string& name, const Shape& shape) {
    std::byte* data = nullptr;
    ConstantRef made = *make_constant(DataType::kFloat, shape, &data);
    auto* const numbers = reinterpret_cast<float*>(data);
    std::iota(numbers, numbers + shape.element_count(), first_);
    first_ += 1000;
    return builder.graph.add_constant(name, std::move(made));
  }

  ValueId bytes(const std::string& name, const Shape& shape) {
    std::byte* data = nullptr;
    ConstantRef made = *make_constant(DataType::kUint8, shape, &data);
    std::fill_n(data, shape.element_count(), std::byte(name[0]));
    return builder.graph.add_constant(name, std::move(made));
  }

  ValueId product(const std::string& name, ValueId x, int64_t columns, bool bits) {
    if (!bits) return builder.node("MatMul", {x, floats(name + "_w", Shape{kSize, columns})}, name);
    const ValueId made = builder.node(
        "MatMulNBits", {x, bytes(name + "_codes", Shape{columns, 1, 8}), floats(name + "_scales", Shape{columns, 1})},
        name);
    Node& node = builder.last();
    node.domain = "com.microsoft";
    node.since_version = 1;
    node.set_int("K", kSize);
    node.set_int("N", columns);
    node.set_int("bits", 8);
    node.set_int("block_size", 16);
    return made;
  }

  const Graph& packed() {
    pack_heads(builder.graph);
    return builder.graph;
  }

  plan_testing::GraphBuilder builder;
  float first_ = 0;
};

TEST(PackHeads, ThreeProductsAreOneWithTheColumnsBesideEachOther) {
  Attention attention;
  const Graph& graph = attention.packed();
  ASSERT_EQ(graph.nodes.size(), 2u);
  const Node &product = graph.nodes[NodeId(0)], &grouped = graph.nodes[NodeId(1)];
  EXPECT_EQ(product.op_type, "MatMul");
  EXPECT_EQ(grouped.inputs[0], product.outputs[0]);
  EXPECT_EQ(grouped.inputs[1], kNoValue);
  EXPECT_EQ(grouped.inputs[2], kNoValue);
  EXPECT_EQ(graph.value(product.outputs[0]).dims[2].value, 64);
  const ConstantRef& weights = graph.value(product.inputs[1]).constant;
  ASSERT_EQ(weights->shape, Shape({kSize, 64}));
  const auto numbers = weights->as<float>();
  // Row 1: columns of the queries, of the keys, of the values.
  EXPECT_EQ(numbers[64], 32);
  EXPECT_EQ(numbers[64 + 31], 63);
  EXPECT_EQ(numbers[64 + 32], 1000 + 16);
  EXPECT_EQ(numbers[64 + 48], 2000 + 16);
}

TEST(PackHeads, ConstantRowsThatAreAddedAreOne) {
  Attention attention(true);
  const Graph& graph = attention.packed();
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[NodeId(1)].op_type, "Add");
  const ConstantRef& bias = graph.value(graph.nodes[NodeId(1)].inputs[1]).constant;
  ASSERT_EQ(bias->shape, Shape{64});
  EXPECT_EQ(bias->as<float>()[0], 1000);
  EXPECT_EQ(bias->as<float>()[32], 3000);
  EXPECT_EQ(bias->as<float>()[63], 5015);
}

TEST(PackHeads, WeightsOfFewBitsLieBehindEachOther) {
  Attention attention(false, true);
  const Graph& graph = attention.packed();
  ASSERT_EQ(graph.nodes.size(), 2u);
  const Node& product = graph.nodes[NodeId(0)];
  EXPECT_EQ(product.op_type, "MatMulNBits");
  EXPECT_EQ(Attributes(product).integer("N"), 64);
  const ConstantRef &codes = graph.value(product.inputs[1]).constant, &scales = graph.value(product.inputs[2]).constant;
  ASSERT_EQ(codes->shape, Shape({64, 1, 8}));
  EXPECT_EQ(codes->as<uint8_t>()[31 * 8 + 7], 'q');
  EXPECT_EQ(codes->as<uint8_t>()[32 * 8], 'k');
  EXPECT_EQ(codes->as<uint8_t>()[48 * 8], 'v');
  EXPECT_EQ(scales->shape, Shape({64, 1}));
  EXPECT_EQ(scales->as<float>()[32], 1000);
}

TEST(PackHeads, ProductsOfOtherRowsOrThatSomethingElseReadsStay) {
  Attention apart(false, false, false);
  EXPECT_EQ(apart.packed().nodes.size(), 4u);
  Attention read;
  read.builder.output(read.builder.graph.nodes[NodeId(1)].outputs[0]);
  EXPECT_EQ(read.packed().nodes.size(), 4u);
}

// Whole regions, of few rows and of many.
TEST(PackHeads, ARegionHasOneProduct) {
  for (const int64_t rows : {3, 20}) {
    Attention attention(false, false, true, rows);
    const Result<Region> region = Region::prepare(attention.builder.graph);
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    std::vector<Shape> shapes;
    for (ValueId id : region->graph().inputs) shapes.push_back(region->graph().value(id).shape());
    const Result<Program> program = region->lower_at(shapes, false);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    EXPECT_THAT(program->to_text(), HasSubstr("x64x8")) << rows;
    EXPECT_THAT(program->to_text(), Not(HasSubstr("x16x8"))) << rows;
  }
}

}  // namespace
}  // namespace tenon::cuda
