// Products whose results attention reads as keys and values, and which others they are lowered with; needs no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "ops/attention.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

// Different ones each time: what is the same is computed once.
ConstantRef weights(const Shape& shape) {
  static float last = 0;
  last += 0.5F;
  std::byte* data = nullptr;
  ConstantRef constant = *make_constant(DataType::kFloat, shape, &data);
  store_floats(std::vector<float>(shape.element_count(), last), DataType::kFloat, data);
  return constant;
}

// Layers that attend to the same 40 rows, whose keys come from them or are their own: the products of each.
std::vector<std::string> products_of(int layers, bool output_of_keys) {
  plan_testing::GraphBuilder builder;
  const auto fixed = [](const Shape& shape) {
    std::vector<Dim> dims;
    for (int64_t size : shape) dims.push_back({size, {}});
    return dims;
  };
  ValueId x = builder.input("x", fixed({1, 64, 32}), DataType::kFloat);
  const ValueId rows = builder.input("rows", fixed({1, 40, 24}), DataType::kFloat);
  const auto product = [&](ValueId of, int64_t depth, const std::string& name) {
    const ValueId w = builder.graph.add_constant("w_" + name, weights({depth, 32}));
    return builder.node("MatMul", {of, w}, name, DataType::kFloat);
  };
  for (int layer = 0; layer < layers; ++layer) {
    const std::string number = std::to_string(layer);
    const ValueId k = product(rows, 24, "k" + number), v = product(rows, 24, "v" + number);
    if (output_of_keys) builder.output(k);
    x = builder.node("Attention", {product(x, 32, "q" + number), k, v}, "y" + number, DataType::kFloat);
    builder.last().domain = "tenon";
    write_attention(4, 0.5F, false, builder.last());
  }
  builder.output(x);
  Result<Region> region = Region::prepare(std::move(builder.graph));
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  const std::vector<Shape> shapes = {{1, 64, 32}, {1, 40, 24}};
  const Result<Program> program = region->lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  std::vector<std::string> found;
  if (program.ok())
    for (const auto& op : program->ops) {
      const std::string text = op->description(*program);
      if (text.starts_with("product")) found.push_back(text.substr(0, text.find(" in ")));
    }
  return found;
}

TEST(SharedRows, KeysAndValuesOfAllLayersAreOneProduct) {
  EXPECT_THAT(products_of(3, false),
              ::testing::UnorderedElementsAre("product float32 40x192x24", "product float32 64x32x32",
                                              "product float32 64x32x32", "product float32 64x32x32"));
}

TEST(SharedRows, WhatAnotherReaderNeedsInItsPlaceStaysAlone) {
  EXPECT_THAT(products_of(2, true),
              ::testing::UnorderedElementsAre("product float32 40x64x24", "product float32 40x32x24",
                                              "product float32 40x32x24", "product float32 64x32x32",
                                              "product float32 64x32x32"));
}

}  // namespace
}  // namespace tenon::cuda
