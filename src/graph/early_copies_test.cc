#include "graph/early_copies.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

ConstantRef unaligned(std::vector<std::byte>& file) {
  auto made = std::make_shared<Constant>();
  made->type = DataType::kFloat;
  made->size_bytes = file.size() - 4;
  made->shape = Shape{static_cast<int64_t>(made->size_bytes / sizeof(float))};
  made->data = std::make_shared<const UnalignedBytes>(std::span<const std::byte>(file).subspan(1, made->size_bytes),
                                                      nullptr, false);
  return made;
}

// A reading gets a copy of its own unless the one that stays is there.
bool is_copied(const Constant& constant) {
  const std::shared_ptr<const std::byte> reading = constant.data.read();
  return reading.get() == constant.data.bytes();
}

TEST(EarlyCopies, AllLargeWeightsAreCopied) {
  std::vector<std::byte> first(EarlyCopies::kLeastBytes / 2 + 4, std::byte{3}), second(first.size(), std::byte{4});
  Graph graph;
  (void)graph.add_constant("first", unaligned(first));
  (void)graph.add_constant("second", unaligned(second));
  (void)graph.add_value({.name = "x", .type = DataType::kFloat});
  std::vector<ConstantRef> weights;
  for (const Value& value : graph.values)
    if (value.constant != nullptr) weights.push_back(value.constant);
  {
    const EarlyCopies copies(graph);
    graph = Graph();  // whose passes may let go of weights meanwhile
  }
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_TRUE(is_copied(*weights[0]));
  EXPECT_TRUE(is_copied(*weights[1]));
  EXPECT_EQ(weights[0]->data.bytes()[5], std::byte{3});
  EXPECT_EQ(weights[1]->data.bytes()[weights[1]->size_bytes - 1], std::byte{4});
}

TEST(EarlyCopies, FewBytesAreNotWorthAThread) {
  std::vector<std::byte> file(1 << 16, std::byte{3});
  Graph graph;
  (void)graph.add_constant("small", unaligned(file));
  {
    const EarlyCopies copies(graph);
  }
  for (const Value& value : graph.values) EXPECT_FALSE(is_copied(*value.constant));
}

}  // namespace
}  // namespace tenon
