// Single operators as regions on the device against the CPU EP.
#include <cmath>
#include <functional>

#include "base/format.h"
#include "ep/cpu/cpu_provider.h"
#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/device_testing.h"
#include "graph/shape_inference.h"
#include "plan/evaluate.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

struct Operand {
  Shape shape;
  DataType type = DataType::kFloat;
  bool constant = false;
  float low = -1, high = 1;
  std::vector<int64_t> integers;  // instead of random numbers
};

struct Case {
  std::string name;
  std::vector<Operand> inputs;
  std::function<void(Node&)> attributes;
  int since = 13;
  size_t outputs = 1;
  bool half = true;  // also in 16 bits
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
      store_floats(random_floats(count, seed, operand.low, operand.high), type, data);
      return made;
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t value =
          i < operand.integers.size() ? operand.integers[i] : static_cast<int64_t>((seed + i * 7) % 5);
      if (type == DataType::kInt64) reinterpret_cast<int64_t*>(data)[i] = value;
      if (type == DataType::kInt32) reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      if (type == DataType::kBool) reinterpret_cast<uint8_t*>(data)[i] = value % 2 != 0;
    }
    return made;
  }

  Graph make_graph(const Case& test, const std::vector<ConstantRef>& data, bool all_constant, bool wide) {
    plan_testing::GraphBuilder builder;
    builder.graph.opsets = {{"", 18}, {"tenon", 1}};
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < data.size(); ++i) {
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
    SCOPED_TRACE(format("{} in {}{}", test.name, half == DataType::kUndefined ? "float32" : data_type_name(half),
                        tf32 ? "" : " exact"));
    std::vector<ConstantRef> data;
    for (size_t i = 0; i < test.inputs.size(); ++i)
      data.push_back(*make_operand(test.inputs[i], half, static_cast<uint32_t>(i) + 11));
    Graph reference = make_graph(test, data, true, true);
    ASSERT_TRUE(infer_shapes(reference).ok());
    const auto provider = cpu::make_cpu_provider();
    plan_testing::InlinePool pool;
    const auto expected = evaluate_node(reference, reference.nodes[0], *provider, pool, size_t{1} << 30);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();

    const std::shared_ptr<ComputeContext> context = make_context({.tf32 = tf32, .measure = false});
    Graph graph = make_graph(test, data, false, false);
    ASSERT_TRUE(infer_shapes(graph).ok());
    const std::vector<bool> claimed = claim_nodes(graph);
    EXPECT_TRUE(claimed[0]);
    std::vector<Shape> shapes;
    for (ValueId id : graph.inputs) shapes.push_back(graph.value(id).shape());
    const auto region = ComputeRegion::create(context, std::move(graph));
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    const auto plan = (*region)->plan(shapes);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs, outputs;
    for (size_t i = 0; i < data.size(); ++i) {
      if (test.inputs[i].constant) continue;
      blocks.push_back(upload(*context, data[i]->data, data[i]->size_bytes));
      inputs.push_back(blocks.back()->address());
    }
    const Program& program = (*plan)->program();
    for (TensorId id : program.outputs) {
      blocks.push_back(*context->allocate(program.tensor(id).size_bytes()));
      outputs.push_back(blocks.back()->address());
    }
    // Queued, captured, launched again: the same each time.
    for (int run = 0; run < 3; ++run) {
      const Status status = (*plan)->run(inputs, outputs, context->stream());
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
      for (size_t o = 0; o < outputs.size(); ++o)
        compare(program.tensor(program.outputs[o]), outputs[o], *(*expected)[o], tolerance);
    }
    EXPECT_EQ((*plan)->stats().captured, program.ops.empty() ? 0U : 1U);
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
      if (!(std::fabs(got[i] - wanted[i]) <= tolerance * largest) && wrong++ == 0) first = i;
    EXPECT_EQ(wrong, 0U) << wrong << " of " << got.size() << " differ, first element " << first << ": " << got[first]
                         << " instead of " << wanted[first];
  }

  void check(const Case& test) {
    check(test, DataType::kUndefined, false, 1e-4);
    if (!test.half) return;
    check(test, DataType::kUndefined, true, 1e-3);
    check(test, DataType::kFloat16, true, 1e-2);
    check(test, DataType::kBfloat16, true, 3e-2);
  }
};

Operand weights(Shape shape) { return {.shape = shape, .constant = true}; }
Operand ints(std::vector<int64_t> values) {
  return {.shape = Shape{static_cast<int64_t>(values.size())},
          .type = DataType::kInt64,
          .constant = true,
          .integers = values};
}

TEST_F(Operators, Convolutions) {
  const auto pads = [](Node& node) { node.set_ints("pads", {1, 1, 1, 1}); };
  check({"Conv", {{Shape{2, 16, 9, 11}}, weights({24, 16, 3, 3}), weights({24})}, pads, 11});
  check({"Conv", {{Shape{1, 3, 20, 20}}, weights({16, 3, 3, 3}), weights({16})}, pads, 11});
  check({"Conv",
         {{Shape{1, 32, 13, 13}}, weights({32, 1, 3, 3}), weights({32})},
         [](Node& node) {
           node.set_ints("pads", {1, 1, 1, 1});
           node.set_int("group", 32);
           node.set_ints("strides", {2, 2});
         },
         11});
  check({"Conv",
         {{Shape{1, 16, 12, 12}}, weights({16, 1, 5, 5})},
         [](Node& node) {
           node.set_ints("pads", {2, 2, 2, 2});
           node.set_int("group", 16);
         },
         11});
  check({"Conv",
         {{Shape{1, 16, 12, 12}}, weights({8, 4, 3, 3})},
         [](Node& node) {
           node.set_int("group", 4);
           node.set_ints("dilations", {2, 2});
         },
         11});
  check({"Conv", {{Shape{2, 8, 33}}, weights({8, 8, 3})}, [](Node& node) { node.set_ints("pads", {1, 1}); }, 11});
}

TEST_F(Operators, Products) {
  check({"MatMul", {{Shape{2, 10, 64}}, weights({64, 48})}, nullptr});
  check({"MatMul", {{Shape{2, 3, 10, 16}}, {Shape{2, 3, 16, 24}}}, nullptr});
  check({"MatMul", {{Shape{2, 10, 16}}, {Shape{16, 24}}}, nullptr});
  check({"Gemm", {{Shape{5, 40}}, weights({32, 40}), weights({32})}, [](Node& node) { node.set_int("transB", 1); }});
}

TEST_F(Operators, Rows) {
  for (int64_t columns : {64, 768, 1000, 1024, 3000, 77}) {
    check({"LayerNormalization", {{Shape{6, columns}}, weights({columns}), weights({columns})}, nullptr, 17});
    check({"Softmax", {{Shape{3, 5, columns}}}, [](Node& node) { node.set_int("axis", -1); }});
  }
  check({"Softmax", {{Shape{2, 16, 4, 21}}}, [](Node& node) { node.set_int("axis", 1); }});
  check({"LogSoftmax", {{Shape{3, 200}}}, [](Node& node) { node.set_int("axis", -1); }});
}

TEST_F(Operators, TransposedConvolutions) {
  for (const int64_t outputs : {1, 5, 16}) {
    check({"ConvTranspose",
           {{Shape{2, 24, 6, 7}}, weights({24, outputs, 2, 3}), weights({outputs})},
           [](Node& node) { node.set_ints("strides", {2, 3}); },
           11});
    check({"ConvTranspose",
           {{Shape{2, 7, 9}}, weights({7, outputs, 4})},
           [](Node& node) { node.set_ints("strides", {4}); },
           11});
  }
}

TEST_F(Operators, Pooling) {
  const auto window = [](Node& node) {
    node.set_ints("kernel_shape", {3, 3});
    node.set_ints("strides", {2, 2});
    node.set_ints("pads", {1, 1, 1, 1});
  };
  check({"MaxPool", {{Shape{2, 16, 15, 17}}}, window, 12});
  check({"AveragePool", {{Shape{2, 5, 15, 17}}}, window, 11});
  for (const char* side : {"SAME_UPPER", "SAME_LOWER"})
    for (const char* name : {"MaxPool", "AveragePool"})
      check({name,
             {{Shape{2, 8, 15, 18}}},
             [&](Node& node) {
               node.set_ints("kernel_shape", {2, 4});
               node.set_ints("strides", {1, 3});
               node.set_string("auto_pad", side);
             },
             11});
  check({"GlobalMaxPool", {{Shape{2, 40, 7, 7}}}, nullptr, 1});
  check({"GlobalMaxPool", {{Shape{2, 5, 300}}}, nullptr, 1});
  check({"GlobalAveragePool", {{Shape{2, 40, 7, 7}}}, nullptr, 1});
  check({"GlobalAveragePool", {{Shape{2, 5, 9, 7}}}, nullptr, 1});
}

TEST_F(Operators, Reductions) {
  const auto keep = [](Node& node) { node.set_int("keepdims", 1); };
  for (const char* name : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"}) {
    check({name, {{Shape{3, 50, 9}}, ints({1})}, keep, 18});
    check({name, {{Shape{3, 5, 300}}, ints({-1})}, [](Node& node) { node.set_int("keepdims", 0); }, 18});
  }
  check({"ReduceMean", {{Shape{2, 24, 6, 5}}, ints({2, 3})}, keep, 18});
}

TEST_F(Operators, Elementwise) {
  for (const char* name : {"Add", "Sub", "Mul", "Div"}) {
    check({name, {{Shape{2, 3, 32}}, {Shape{2, 3, 32}, DataType::kFloat, false, 0.5F, 2}}, nullptr, 14});
    check({name, {{Shape{2, 3, 5}}, {Shape{3, 1}, DataType::kFloat, false, 0.5F, 2}}, nullptr, 14});
    check({name, {{Shape{7}}, {Shape{}, DataType::kFloat, true, 0.5F, 2}}, nullptr, 14});
  }
  for (const char* name : {"Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Abs", "Neg", "Floor", "Ceil", "HardSwish",
                           "HardSigmoid", "LeakyRelu", "Elu", "Softplus"})
    check({name,
           {{Shape{3, 70}, DataType::kFloat, false, -4, 4}},
           nullptr,
           name == std::string_view("HardSwish") ? 14 : 13});
  for (const char* name : {"Sqrt", "Log", "Reciprocal"})
    check({name, {{Shape{65}, DataType::kFloat, false, 0.1F, 4}}, nullptr});
  check({"Pow", {{Shape{33}, DataType::kFloat, false, 0.1F, 3}, {Shape{}, DataType::kFloat, true, 2, 2}}, nullptr, 15});
  check({"Clip",
         {{Shape{70}}, {Shape{}, DataType::kFloat, true, -0.5F, -0.5F}, {Shape{}, DataType::kFloat, true, 0.5F, 0.5F}},
         nullptr});
  check({"Where", {{Shape{4, 1}, DataType::kBool}, {Shape{4, 6}}, {Shape{6}}}, nullptr, 9});
  check({"Add", {{Shape{40}, DataType::kInt64}, {Shape{40}, DataType::kInt64}}, nullptr, 14, 1, false});
  check({"Equal", {{Shape{40}, DataType::kInt64}, {Shape{1}, DataType::kInt64}}, nullptr, 13, 1, false});
  check({"And", {{Shape{4, 8}, DataType::kBool}, {Shape{8}, DataType::kBool}}, nullptr, 7, 1, false});
  check({"Cast", {{Shape{40}, DataType::kInt64}}, [](Node& node) { node.set_int("to", 1); }, 13, 1, false});
}

TEST_F(Operators, Moves) {
  check({"Transpose", {{Shape{2, 3, 4, 40}}}, [](Node& node) { node.set_ints("perm", {0, 2, 1, 3}); }});
  check({"Transpose", {{Shape{17, 31}}}, nullptr});
  check({"Gather", {{Shape{9, 64}, DataType::kFloat}, {Shape{2, 5}, DataType::kInt64}}, nullptr});
  check({"Gather", {{Shape{3, 9, 4}}, {Shape{}, DataType::kInt64, true, 0, 0, {-2}}}, [](Node& node) {
           node.set_int("axis", 1);
         }});
  check({"Concat", {{Shape{2, 3, 8}}, {Shape{2, 5, 8}}}, [](Node& node) { node.set_int("axis", 1); }});
  check({"Split", {{Shape{2, 6, 8}}, ints({2, 4})}, [](Node& node) { node.set_int("axis", 1); }, 13, 2});
  check({"Slice", {{Shape{4, 10, 8}}, ints({1}), ints({9}), ints({1}), ints({2})}, nullptr});
  const Operand absent{.shape = Shape{0}, .constant = true};
  check({"Resize", {{Shape{2, 8, 5, 7}}, absent, absent, ints({2, 8, 10, 21})}, nullptr, 13, 1, false});
  check({"Resize",
         {{Shape{2, 3, 5, 7}}, absent, absent, ints({2, 3, 20, 14})},
         [](Node& node) {
           node.set_string("coordinate_transformation_mode", "asymmetric");
           node.set_string("nearest_mode", "floor");
         },
         13,
         1,
         false});
  check({"Pad", {{Shape{3, 5}}, ints({1, 0, 0, 2})}, nullptr, 18});
  check({"Expand", {{Shape{3, 1}}, ints({2, 3, 4})}, nullptr});
  check({"Reshape", {{Shape{3, 8}}, ints({4, 6})}, nullptr, 14});
  const Operand places{
      .shape = Shape{3, 2}, .type = DataType::kInt64, .constant = true, .integers = {0, 1, 2, -1, 3, 0}};
  check({"GatherND", {{Shape{4, 5}}, places}, nullptr});
}

}  // namespace
}  // namespace tenon::cuda
