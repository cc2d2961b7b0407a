#include "plan/fold_rules.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace tenon {
namespace {

// Slice of float32 [8, 3], whose elements count from 0.
struct Sliced {
  Graph graph;
  Node node{.op_type = "Slice", .since_version = 13};
  std::shared_ptr<Constant> source = std::make_shared<Constant>();
  std::vector<float> numbers;

  Sliced(const std::vector<int64_t>& starts, const std::vector<int64_t>& ends, const std::vector<int64_t>& axes,
         const std::vector<int64_t>& steps = {})
      : numbers(24) {
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    source->type = DataType::kFloat;
    source->shape = Shape{8, 3};
    source->size_bytes = numbers.size() * sizeof(float);
    source->data = reinterpret_cast<const std::byte*>(numbers.data());
    node.inputs.push_back(graph.add_constant("x", source));
    for (const auto& list : {starts, ends, axes, steps})
      if (!list.empty()) node.inputs.push_back(graph.add_constant("list", make_int64_constant(list)));
    Value y;
    y.type = DataType::kFloat;
    node.outputs = {graph.add_value(std::move(y))};
  }

  ConstantRef view() const { return fold_rules::sliced_constant(graph, node); }
};

TEST(SlicedConstant, RowsAreTheBytesAsTheyLie) {
  const Sliced sliced({2}, {7}, {0});
  const ConstantRef view = sliced.view();
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->shape, (Shape{5, 3}));
  EXPECT_EQ(view->size_bytes, 60u);
  EXPECT_EQ(view->as<float>().data(), sliced.numbers.data() + 6);
}

TEST(SlicedConstant, APartOfOneRowIsContiguousToo) {
  Sliced sliced({3, 1}, {4, 3}, {0, 1});
  sliced.source->in_file = true;
  const ConstantRef view = sliced.view();
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->shape, (Shape{1, 2}));
  EXPECT_EQ(view->as<float>()[0], 10.0f);
}

TEST(SlicedConstant, ColumnsAndStepsAreComputed) {
  EXPECT_EQ(Sliced({0}, {2}, {1}).view(), nullptr);
  EXPECT_EQ(Sliced({0}, {8}, {0}, {2}).view(), nullptr);
  EXPECT_EQ(Sliced({7}, {-9}, {0}, {-1}).view(), nullptr);
  EXPECT_EQ(Sliced({2}, {2}, {0}).view(), nullptr);  // of no elements
}

// A view would hold all of the memory; a file is mapped anyway.
TEST(SlicedConstant, ASmallPartOfMemoryIsComputedAndOneOfAFileIsNot) {
  Sliced sliced({2}, {4}, {0});
  EXPECT_EQ(sliced.view(), nullptr);
  sliced.source->in_file = true;
  EXPECT_NE(sliced.view(), nullptr);
}

TEST(SlicedConstant, WeightsThatLieUnalignedAreNotCopied) {
  Sliced sliced({1}, {8}, {0});
  std::vector<std::byte> file(1 + sliced.source->size_bytes);
  std::memcpy(file.data() + 1, sliced.numbers.data(), sliced.source->size_bytes);
  sliced.source->data =
      std::make_shared<const UnalignedBytes>(std::span<const std::byte>(file).subspan(1), nullptr, false);
  const ConstantRef view = sliced.view();
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->data.stored(), file.data() + 1 + 12);
  EXPECT_EQ(view->as<float>()[0], 3.0f);
  EXPECT_EQ(view->as<float>()[20], 23.0f);
}

// The operator that a Gather of float32 [2, n, 3] along its second dimension is simplified to.
std::string simplified_gather(int64_t n, const std::vector<int64_t>& indices) {
  Graph graph;
  Value x, y;
  x.type = y.type = DataType::kFloat;
  x.set_shape({2, n, 3});
  y.set_shape({2, static_cast<int64_t>(indices.size()), 3});
  Node node{.op_type = "Gather", .since_version = 13};
  node.inputs = {graph.add_value(std::move(x)), graph.add_constant("indices", make_int64_constant(indices))};
  node.outputs = {graph.add_value(std::move(y))};
  node.set_int("axis", 1);
  fold_rules::simplify(graph, node, [](ValueId) { return nullptr; });
  return node.op_type;
}

TEST(SimplifiedGather, AllRowsInOrderAreTheElementsAsTheyLie) {
  EXPECT_EQ(simplified_gather(1, {0}), "Reshape");
  EXPECT_EQ(simplified_gather(1, {-1}), "Reshape");
  EXPECT_EQ(simplified_gather(3, {0, 1, -1}), "Reshape");
  EXPECT_EQ(simplified_gather(3, {0, 2, 1}), "Gather");
  EXPECT_EQ(simplified_gather(3, {0, 1}), "Gather");
  EXPECT_EQ(simplified_gather(1, {0, 0}), "Gather");
}

}  // namespace
}  // namespace tenon
