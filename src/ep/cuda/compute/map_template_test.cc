// The kernels of templates (map_template.h) that operators ask for; needs no device.
#include "ep/cuda/compute/map_template.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "ep/cuda/compute/kernel_template_testing.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using plan_testing::GraphBuilder;

std::vector<Dim> dims(const Shape& shape) {
  std::vector<Dim> result;
  for (int64_t size : shape) result.push_back({size, {}});
  return result;
}

ConstantRef zeros(DataType type, const Shape& shape) {
  std::byte* data = nullptr;
  ConstantRef constant = *make_constant(type, shape, &data);
  std::fill(data, data + constant->size_bytes, std::byte{0});
  return constant;
}

// One node over an input of one of two shapes, whose kernels are the same templates' instances.
struct Problem {
  std::string name, op;
  DataType type = DataType::kFloat;
  Shape first, second;
  DataType out = DataType::kFloat;
  // Adds further inputs and sets attributes, for an input of that shape.
  std::function<void(GraphBuilder&, Node&, const Shape&)> finish;
};

std::set<std::string> instances_of(const Problem& problem, const Shape& x, bool compile) {
  GraphBuilder builder;
  builder.graph.opsets = {{"", 20}, {"tenon", 1}};
  const ValueId from = builder.input("x", dims(x), problem.type);
  builder.output(builder.node(problem.op, {from}, "y", problem.out));
  Node node = builder.last();
  node.since_version = 10;
  problem.finish(builder, node, x);
  builder.graph.nodes.back() = node;
  std::vector<Shape> shapes;
  for (ValueId id : builder.graph.inputs) shapes.push_back(builder.graph.value(id).shape());
  Result<Region> region = Region::prepare(std::move(builder.graph));
  EXPECT_TRUE(region.ok()) << problem.name << ": " << region.status().to_string();
  if (!region.ok()) return {};
  const Result<Program> program = region->lower_at(shapes, false);
  EXPECT_TRUE(program.ok()) << problem.name << ": " << program.status().to_string();
  std::set<std::string> names;
  if (!program.ok()) return names;
  for (const KernelCode& kernel : program->kernels) {
    if (!kernel.text.empty()) continue;  // a chain of elementwise steps, which depends on the joined dimensions
    names.insert(kernel.name);
    if (compile) expect_kernel_compiles(kernel);
  }
  return names;
}

ValueId weights(GraphBuilder& builder, const Shape& shape, DataType type = DataType::kFloat) {
  return builder.graph.add_constant("w", zeros(type, shape));
}

void add_weights(GraphBuilder& builder, Node& node, const Shape& shape, DataType type = DataType::kFloat) {
  node.inputs.push_back(weights(builder, shape, type));
}

std::vector<Problem> problems() {
  const auto kernel = [](const std::vector<int64_t>& sizes) {
    return [sizes](GraphBuilder&, Node& node, const Shape&) { node.set_ints("kernel_shape", sizes); };
  };
  return {
      {.name = "norms of windows",
       .op = "LpPool",
       .first = {1, 3, 9, 9},
       .second = {2, 5, 7, 12},
       .finish = kernel({3, 2})},
      {.name = "volumes",
       .op = "AveragePool",
       .first = {1, 3, 5, 6, 7},
       .second = {2, 1, 9, 4, 4},
       .finish = kernel({2, 2, 2})},
      {.name = "bytes",
       .op = "MaxPool",
       .type = DataType::kInt8,
       .first = {1, 3, 9, 9},
       .second = {2, 5, 7, 12},
       .out = DataType::kInt8,
       .finish = kernel({3, 2})},
      {.name = "samples",
       .op = "GridSample",
       .first = {2, 3, 5, 7},
       .second = {2, 4, 9, 8},
       .finish =
           [](GraphBuilder& builder, Node& node, const Shape& x) {
             node.inputs.push_back(builder.input("grid", dims(Shape{x[0], x[2] + 1, x[3] - 1, 2})));
             node.since_version = 20;
             node.set_string("mode", "cubic");
           }},
      {.name = "halfway between pixels",
       .op = "Resize",
       .first = {1, 3, 8, 10},
       .second = {2, 4, 6, 14},
       .finish =
           [](GraphBuilder& builder, Node& node, const Shape&) {
             std::byte* data = nullptr;
             const ConstantRef scales = *make_constant(DataType::kFloat, Shape{4}, &data);
             const float values[] = {1, 1, 1.5F, 1.5F};
             std::memcpy(data, values, sizeof(values));
             node.inputs.insert(node.inputs.end(), {kNoValue, builder.graph.add_constant("scales", scales)});
             node.since_version = 13;
             node.set_string("mode", "linear");
           }},
      {.name = "four axes",
       .op = "Conv",
       .first = {1, 2, 4, 5, 4, 3},
       .second = {2, 2, 5, 4, 6, 7},
       .finish = [](GraphBuilder& builder, Node& node,
                    const Shape&) { add_weights(builder, node, {3, 2, 2, 2, 2, 2}); }},
      {.name = "a window a channel",
       .op = "Conv",
       .first = {2, 16, 8, 8},
       .second = {1, 8, 20, 12},
       .finish =
           [](GraphBuilder& builder, Node& node, const Shape& x) {
             add_weights(builder, node, {x[1], 1, 3, 3});
             node.set_int("group", x[1]);
           }},
      {.name = "phases",
       .op = "ConvTranspose",
       .first = {2, 16, 8, 8},
       .second = {1, 8, 10, 7},
       .finish =
           [](GraphBuilder& builder, Node& node, const Shape& x) {
             add_weights(builder, node, {x[1], 8, 4, 4});
             node.set_ints("strides", {2, 2});
           }},
      {.name = "overlapping windows",
       .op = "ConvTranspose",
       .first = {2, 16, 8, 8},
       .second = {1, 8, 10, 7},
       .finish =
           [](GraphBuilder& builder, Node& node, const Shape& x) {
             add_weights(builder, node, {x[1], 8, 3, 3});
             node.set_ints("strides", {2, 2});
           }},
      {.name = "groups of bytes",
       .op = "ConvInteger",
       .type = DataType::kUint8,
       .first = {1, 8, 5, 5},
       .second = {2, 8, 9, 4},
       .out = DataType::kInt32,
       .finish =
           [](GraphBuilder& builder, Node& node, const Shape& x) {
             add_weights(builder, node, {8, x[1] / 2, 3, 3}, DataType::kInt8);
             node.set_int("group", 2);
           }},
      {.name = "windows of bytes",
       .op = "ConvInteger",
       .type = DataType::kUint8,
       .first = {1, 3, 40, 40},
       .second = {2, 5, 30, 50},
       .out = DataType::kInt32,
       .finish = [](GraphBuilder& builder, Node& node,
                    const Shape& x) { add_weights(builder, node, {16, x[1], 3, 3}, DataType::kInt8); }},
      {.name = "few bytes",
       .op = "MatMulInteger",
       .type = DataType::kUint8,
       .first = {3, 5},
       .second = {7, 12},
       .out = DataType::kInt32,
       .finish = [](GraphBuilder& builder, Node& node,
                    const Shape& x) { add_weights(builder, node, {x[1], 4}, DataType::kInt8); }},
  };
}

// A new size of an input compiles nothing: sizes are parameters.
TEST(MapTemplate, SizesDoNotChangeTheKernel) {
  for (const Problem& problem : problems()) {
    const std::set<std::string> names = instances_of(problem, problem.first, /*compile=*/true);
    EXPECT_FALSE(names.empty()) << problem.name;
    EXPECT_EQ(names, instances_of(problem, problem.second, /*compile=*/false)) << problem.name;
  }
}

// A size of 0 has a divisor, too, which nothing divides by.
TEST(MapTemplate, ParamsCountTheElements) {
  const MapParams map = map_params(std::vector<int64_t>{3, 0, 5});
  EXPECT_EQ(map.count, 0);
  EXPECT_EQ(map.dims[1].size, 1U);
  EXPECT_EQ(map_params(std::vector<int64_t>{3, 4, 5}).count, 60);
  EXPECT_EQ(map_params(std::vector<int64_t>{}).count, 1);
}

}  // namespace
}  // namespace tenon::cuda
