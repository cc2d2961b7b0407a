// Single operators as regions on the device against the CPU EP. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "base/format.h"
#include "ep/cpu/cpu_provider.h"
#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/compute/region.h"
#include "ops/shape_inference.h"
#include "plan/evaluate.h"
#include "plan/testing.h"

namespace tenon::cuda {

struct Operand {
  Shape shape;
  DataType type = DataType::kFloat;
  bool constant = false;
  float low = -1, high = 1;
  std::vector<int64_t> integers;  // instead of random numbers
  bool absent = false;
  std::vector<float> floats;  // instead of random numbers
};

struct Case {
  std::string name;
  std::vector<Operand> inputs;
  std::function<void(Node&)> attributes;
  int since = 13;
  size_t outputs = 1;
  bool half = true;    // also in 16 bits
  std::string choice;  // what operators that know it shall use
  bool tf32 = true;    // also with TF32, where it is tried in 16 bits
};

class Operators : public DeviceTest {
 protected:
  Result<ConstantRef> make_operand(const Operand& operand, DataType half, uint32_t seed) {
    const bool floating = operand.type == DataType::kFloat;
    const DataType type = floating && half != DataType::kUndefined ? half : operand.type;
    std::byte* data = nullptr;
    TENON_TRY_ASSIGN(ConstantRef made, make_constant(type, operand.shape, &data));
    const auto count = static_cast<size_t>(operand.shape.element_count());
    if (floating) {
      const bool given = !operand.floats.empty();
      store_floats(given ? operand.floats : random_floats(count, seed, operand.low, operand.high), type, data);
      return made;
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t value =
          i < operand.integers.size() ? operand.integers[i] : static_cast<int64_t>((seed + i * 7) % 5);
      if (type == DataType::kInt64) reinterpret_cast<int64_t*>(data)[i] = value;
      if (type == DataType::kInt32) reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      if (type == DataType::kUint8) reinterpret_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      if (type == DataType::kInt8) reinterpret_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
      if (type == DataType::kUint16) reinterpret_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(value);
      if (type == DataType::kInt16) reinterpret_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
      if (type == DataType::kBool) reinterpret_cast<uint8_t*>(data)[i] = value % 2 != 0;
    }
    return made;
  }

  Graph make_graph(const Case& test, const std::vector<ConstantRef>& data, bool all_constant, bool wide) {
    plan_testing::GraphBuilder builder;
    builder.graph.opsets = {{"", 18}, {"tenon", 1}};
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < data.size(); ++i) {
      if (test.inputs[i].absent) {
        inputs.push_back(kNoValue);
        continue;
      }
      ConstantRef constant = data[i];
      if (wide && data_type_size(constant->type) == 2) {
        std::byte* bytes = nullptr;
        ConstantRef converted = *make_constant(DataType::kFloat, constant->shape, &bytes);
        convert_floats(*constant, DataType::kFloat, bytes);
        constant = converted;
      }
      const std::string name = format("x{}", i);
      if (all_constant || test.inputs[i].constant) {
        inputs.push_back(builder.graph.add_constant(name, constant));
        continue;
      }
      std::vector<Dim> dims;
      for (int64_t dim : constant->shape.dims()) dims.push_back({dim, {}});
      inputs.push_back(builder.input(name, dims, constant->type));
    }
    builder.node(test.name, inputs, "y", DataType::kUndefined);
    builder.last().since_version = test.since;
    for (size_t i = 1; i < test.outputs; ++i)
      builder.last().outputs.push_back(builder.value(format("y{}", i), DataType::kUndefined));
    if (test.attributes) test.attributes(builder.last());
    for (ValueId id : builder.last().outputs) builder.output(id);
    return builder.graph;
  }

  void check(const Case& test, DataType half, bool tf32, double tolerance) {
    if (!case_is_in_part()) return;
    SCOPED_TRACE(format("{} in {}{}", test.name, half == DataType::kUndefined ? "float32" : data_type_name(half),
                        tf32 ? "" : " exact"));
    std::vector<ConstantRef> data;
    for (size_t i = 0; i < test.inputs.size(); ++i)
      data.push_back(*make_operand(test.inputs[i], half, static_cast<uint32_t>(i) + 11));
    Graph reference = make_graph(test, data, true, true);
    ASSERT_TRUE(infer_shapes(reference).ok());
    const auto provider = cpu::make_cpu_provider();
    plan_testing::InlinePool pool;
    const auto expected = evaluate_node(reference, reference.nodes[NodeId(0)], *provider, pool, size_t{1} << 30);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    run(test, data, *expected, tf32, tolerance);
  }

  // The case on the device.
  void run(const Case& test, const std::vector<ConstantRef>& data, const std::vector<ConstantRef>& expected, bool tf32,
           double tolerance) {
    const std::shared_ptr<ComputeContext> context = shared_context(tf32);
    Graph graph = make_graph(test, data, false, false);
    ASSERT_TRUE(infer_shapes(graph).ok());
    const PerNode<bool> claimed = claim_nodes(graph);
    EXPECT_TRUE(claimed[NodeId(0)]);
    std::vector<Shape> shapes;
    for (ValueId id : graph.inputs) shapes.push_back(graph.value(id).shape());
    if (!test.choice.empty()) choose(*context, graph, shapes, test.choice, tf32);
    const auto region = ComputeRegion::create(context, std::move(graph));
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    const auto plan = (*region)->plan(shapes);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs, outputs;
    for (size_t i = 0; i < data.size(); ++i) {
      if (test.inputs[i].constant || test.inputs[i].absent) continue;
      blocks.push_back(upload(*context, data[i]->data, data[i]->size_bytes));
      inputs.push_back(blocks.back()->address());
    }
    const Program& program = (*plan)->program();
    for (TensorId id : program.outputs) {
      blocks.push_back(*context->allocate(program.tensor(id).size_bytes()));
      outputs.push_back(blocks.back()->address());
    }
    // Queued, captured, launched again: the same each time.
    const int runs = small_sizes() ? 2 : 3;
    for (int run = 0; run < runs; ++run) {
      const Status status = (*plan)->run(inputs, outputs, context->stream());
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
      for (size_t o = 0; o < outputs.size(); ++o)
        compare(program.tensor(program.outputs[o]), outputs[o], *expected[o], tolerance);
    }
    EXPECT_EQ((*plan)->stats().captured, 1U);
  }

  // As if it had been measured before.
  void choose(ComputeContext& context, const Graph& graph, const std::vector<Shape>& shapes, const std::string& choice,
              bool tf32) {
    const Result<Region> region = Region::prepare(graph);
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    const Result<Program> program = region->lower_at(shapes, tf32);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    for (const auto& op : program->ops) context.algorithms().add(op->description(*program), choice);
  }

  void compare(const DeviceTensor& tensor, CUdeviceptr address, const Constant& expected, double tolerance) {
    ASSERT_EQ(tensor.shape, expected.shape);
    const std::vector<std::byte> bytes = download(address, tensor.size_bytes());
    if (expected.type != DataType::kFloat) {
      ASSERT_EQ(bytes.size(), expected.size_bytes);
      EXPECT_EQ(std::memcmp(bytes.data(), expected.data, bytes.size()), 0);
      return;
    }
    const std::vector<float> got =
        floats_of({.type = tensor.type, .shape = tensor.shape, .data = bytes.data(), .size_bytes = bytes.size()});
    const auto wanted = expected.as<float>();
    float largest = 1e-3F;
    for (float value : wanted)
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != wanted[i] && !(std::isnan(got[i]) && std::isnan(wanted[i])) &&
          !(std::fabs(got[i] - wanted[i]) <= tolerance * largest) && wrong++ == 0)
        first = i;
    EXPECT_EQ(wrong, 0U) << wrong << " of " << got.size() << " differ, first element " << first << ": " << got[first]
                         << " instead of " << wanted[first];
  }

  void check(const Case& test) {
    check(test, DataType::kUndefined, false, 1e-4);
    if (!test.half) return;
    if (test.tf32) check(test, DataType::kUndefined, true, 1e-3);
    check(test, DataType::kFloat16, true, 1e-2);
    check(test, DataType::kBfloat16, true, 3e-2);
  }
};

inline Operand weights(Shape shape) { return {.shape = shape, .constant = true}; }
inline Operand numbers(std::vector<float> values) {
  return {.shape = Shape{static_cast<int64_t>(values.size())}, .constant = true, .floats = values};
}
inline Operand ints(std::vector<int64_t> values) {
  return {.shape = Shape{static_cast<int64_t>(values.size())},
          .type = DataType::kInt64,
          .constant = true,
          .integers = values};
}

}  // namespace tenon::cuda
