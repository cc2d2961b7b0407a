// Tensors, rows and grids beyond what 16, 31 or 32 bits count.
#include "operators_testing.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kMost31 = int64_t{1} << 31, kMost32 = int64_t{1} << 32;

class Large : public Operators {
 protected:
  // Plans `node` over inputs of these shapes, runs it, and leaves inputs and outputs where they are. Inputs begin as
  // zeros; `fill` puts in what is not.
  struct Ran {
    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs, outputs;
  };
  Ran run_large(const Case& test, size_t needed_bytes, const std::function<void(const Ran&)>& fill) {
    Ran ran;
    size_t free_bytes = 0, total_bytes = 0;
    if (device_->driver().MemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS ||
        free_bytes < needed_bytes + (size_t{1} << 30))
      return ran;  // the caller skips
    const std::shared_ptr<ComputeContext> context = shared_context(false);
    plan_testing::GraphBuilder builder;
    builder.graph.opsets = {{"", 18}};
    std::vector<ValueId> ids;
    std::vector<Shape> shapes;
    for (const Operand& operand : test.inputs) {
      std::vector<Dim> dims;
      for (int64_t dim : operand.shape.dims()) dims.push_back({dim, {}});
      ids.push_back(builder.input(format("x{}", ids.size()), dims, operand.type));
      shapes.push_back(operand.shape);
    }
    builder.node(test.name, ids, "y", DataType::kUndefined);
    builder.last().since_version = test.since;
    if (test.attributes) test.attributes(builder.last());
    builder.output(builder.last().outputs[0]);
    EXPECT_TRUE(infer_shapes(builder.graph).ok());
    EXPECT_TRUE(claim_nodes(builder.graph)[NodeId(0)]);
    const auto region = ComputeRegion::create(context, std::move(builder.graph));
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    if (!region.ok()) return ran;
    const auto plan = (*region)->plan(shapes);
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    if (!plan.ok()) return ran;
    const auto allocate = [&](const DeviceTensor& tensor) {
      Result<DeviceBlockRef> block = context->allocate(tensor.size_bytes());
      EXPECT_TRUE(block.ok()) << block.status().to_string();
      EXPECT_EQ(device_->driver().MemsetD8Async((*block)->address(), 0, tensor.size_bytes(), context->stream()),
                CUDA_SUCCESS);
      ran.blocks.push_back(*block);
      return (*block)->address();
    };
    const Program& program = (*plan)->program();
    for (TensorId id : program.inputs) ran.inputs.push_back(allocate(program.tensor(id)));
    for (TensorId id : program.outputs) ran.outputs.push_back(allocate(program.tensor(id)));
    EXPECT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
    fill(ran);
    const Status status = (*plan)->run(ran.inputs, ran.outputs, context->stream());
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
    return ran;
  }
  void put(CUdeviceptr to, std::span<const uint8_t> bytes) {
    ASSERT_EQ(device_->driver().Memcpy(to, reinterpret_cast<CUdeviceptr>(bytes.data()), bytes.size()), CUDA_SUCCESS);
    ASSERT_EQ(device_->driver().CtxSynchronize(), CUDA_SUCCESS);
  }
  std::vector<uint8_t> bytes_at(CUdeviceptr from, size_t count) {
    const std::vector<std::byte> bytes = download(from, count);
    std::vector<uint8_t> numbers;
    for (std::byte byte : bytes) numbers.push_back(std::to_integer<uint8_t>(byte));
    return numbers;
  }
};

// A grid has 65535 blocks in its second dimension.
TEST_F(Large, ImagesBeyondAGridsRows) {
  check({"GlobalAveragePool", {{Shape{70000, 1, 1, 4}}}, nullptr, 1});
  check({"GlobalAveragePool", {{Shape{70000, 8, 2, 2}}}, nullptr, 1});
  check({"ReduceMean", {{Shape{70000, 4, 1, 3}}, ints({2, 3})}, nullptr, 18});
  check({"Softmax", {{Shape{70000, 5}}}, [](Node& node) { node.set_int("axis", -1); }});
  check({"LayerNormalization", {{Shape{70000, 8}}, weights({8}), weights({8})}, nullptr, 17});
  check({"MatMul", {{Shape{70000, 2, 3}}, {Shape{70000, 3, 2}}}, nullptr});
  check({"MaxPool", {{Shape{70000, 1, 2, 2}}}, [](Node& node) { node.set_ints("kernel_shape", {2, 2}); }, 12});
  check({"InstanceNormalization", {{Shape{70000, 1, 4}}, weights({1}), weights({1})}, nullptr, 6});
}

// Attention of more heads than that uses another kernel; transposes and convolutions count in one dimension.
TEST_F(Large, ConvolutionsOfManyImages) {
  check({"Conv", {{Shape{70000, 4, 2, 2}}, weights({8, 4, 1, 1})}, nullptr, 11});
  check({"Transpose", {{Shape{70000, 3, 2}}}, [](Node& node) { node.set_ints("perm", {1, 0, 2}); }});
}

TEST_F(Large, ElementwiseBeyond32Bits) {
  const int64_t count = kMost32 + 5000;
  const std::vector<uint8_t> tail = {1, 2, 0x80, 0x7f, 5};
  const Ran ran = run_large({"Neg", {{Shape{count}, DataType::kInt8}}, nullptr}, size_t(2 * count), [&](const Ran& r) {
    put(r.inputs[0] + static_cast<CUdeviceptr>(count - 5), tail);
    put(r.inputs[0] + static_cast<CUdeviceptr>(kMost31 - 2), tail);
    put(r.inputs[0] + static_cast<CUdeviceptr>(kMost32 - 2), tail);
  });
  if (ran.outputs.empty()) GTEST_SKIP() << "the device has not enough memory";
  const std::vector<uint8_t> wanted = {255, 254, 0x80, 0x81, 251};
  for (int64_t at : {count - 5, kMost31 - 2, kMost32 - 2})
    EXPECT_EQ(bytes_at(ran.outputs[0] + static_cast<CUdeviceptr>(at), 5), wanted) << at;
}

TEST_F(Large, TransposeBeyond31Bits) {
  const int64_t rows = 50000, columns = 50001;
  const std::vector<uint8_t> one = {7};
  const Ran ran = run_large({"Transpose", {{Shape{rows, columns}, DataType::kInt8}}, nullptr},
                            size_t(2 * rows * columns), [&](const Ran& r) {
                              put(r.inputs[0] + static_cast<CUdeviceptr>(rows * columns - 2), one);
                              put(r.inputs[0] + static_cast<CUdeviceptr>((rows - 3) * columns + 5), one);
                            });
  if (ran.outputs.empty()) GTEST_SKIP() << "the device has not enough memory";
  EXPECT_EQ(bytes_at(ran.outputs[0] + static_cast<CUdeviceptr>((columns - 2) * rows + rows - 1), 1), one);
  EXPECT_EQ(bytes_at(ran.outputs[0] + static_cast<CUdeviceptr>(5 * rows + rows - 3), 1), one);
}

TEST_F(Large, GatherBeyond31Bits) {
  const int64_t rows = 70000, columns = 40000;
  const std::vector<uint8_t> marks = {9, 8, 7};
  const std::vector<int64_t> indices = {rows - 1, 0, -2};
  const Ran ran =
      run_large({"Gather", {{Shape{rows, columns}, DataType::kInt8}, {Shape{3}, DataType::kInt64}}, nullptr},
                size_t(rows * columns), [&](const Ran& r) {
                  put(r.inputs[0] + static_cast<CUdeviceptr>(rows * columns - 3), marks);
                  put(r.inputs[0] + static_cast<CUdeviceptr>((rows - 2) * columns), marks);
                  put(r.inputs[1], {reinterpret_cast<const uint8_t*>(indices.data()), 24});
                });
  if (ran.outputs.empty()) GTEST_SKIP() << "the device has not enough memory";
  EXPECT_EQ(bytes_at(ran.outputs[0] + static_cast<CUdeviceptr>(columns - 3), 3), marks);
  EXPECT_EQ(bytes_at(ran.outputs[0] + static_cast<CUdeviceptr>(2 * columns), 3), marks);
}

TEST_F(Large, SumOfMoreThan31Bits) {
  const int64_t rows = 2, columns = kMost31 + 300;
  const std::vector<uint8_t> ones = {1, 2, 3};
  const Ran ran = run_large(
      {"ReduceMax", {{Shape{rows, columns}, DataType::kUint8}}, [](Node& node) { node.set_ints("axes", {1}); }, 13},
      size_t(rows * columns), [&](const Ran& r) {
        put(r.inputs[0] + static_cast<CUdeviceptr>(columns - 3), ones);
        put(r.inputs[0] + static_cast<CUdeviceptr>(2 * columns - 4), ones);
      });
  if (ran.outputs.empty()) GTEST_SKIP() << "the device has not enough memory";
  EXPECT_EQ(bytes_at(ran.outputs[0], 2), (std::vector<uint8_t>{3, 3}));
}

// 8-bit products on tensor cores, with every pair of types and zero points, against sums on the host.
TEST_F(Large, IntegerProducts) {
  for (const DataType a_type : {DataType::kUint8, DataType::kInt8})
    for (const DataType b_type : {DataType::kUint8, DataType::kInt8})
      for (const auto& [rows, depth, columns] :
           {std::array<int64_t, 3>{65, 100, 130}, {256, 768, 192}, {1, 4096, 77}}) {
        if (!case_is_in_part() || (small_sizes() && rows == 256)) continue;
        SCOPED_TRACE(format("{} {} {}x{}x{}", data_type_name(a_type), data_type_name(b_type), rows, depth, columns));
        std::mt19937 random(7);
        const auto bytes = [&](int64_t count) {
          std::vector<uint8_t> made;
          for (int64_t i = 0; i < count; ++i) made.push_back(static_cast<uint8_t>(random()));
          return made;
        };
        const std::vector<uint8_t> a = bytes(rows * depth), b = bytes(depth * columns), p = bytes(1),
                                   q = bytes(columns);
        const Ran ran = run_large({"MatMulInteger",
                                   {{Shape{rows, depth}, a_type},
                                    {Shape{depth, columns}, b_type},
                                    {Shape{}, a_type},
                                    {Shape{columns}, b_type}},
                                   nullptr,
                                   10},
                                  0, [&](const Ran& r) {
                                    put(r.inputs[0], a);
                                    put(r.inputs[1], b);
                                    put(r.inputs[2], p);
                                    put(r.inputs[3], q);
                                  });
        ASSERT_FALSE(ran.outputs.empty());
        const auto number = [](DataType type, uint8_t byte) {
          return type == DataType::kUint8 ? int{byte} : int{static_cast<int8_t>(byte)};
        };
        const std::vector<std::byte> got = download(ran.outputs[0], static_cast<size_t>(rows * columns) * 4);
        size_t wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            int32_t sum = 0, value = 0;
            for (int64_t k = 0; k < depth; ++k)
              sum +=
                  (number(a_type, a[static_cast<size_t>(r * depth + k)]) - number(a_type, p[0])) *
                  (number(b_type, b[static_cast<size_t>(k * columns + c)]) - number(b_type, q[static_cast<size_t>(c)]));
            std::memcpy(&value, got.data() + (r * columns + c) * 4, 4);
            wrong += value != sum;
          }
        EXPECT_EQ(wrong, 0U);
      }
}

}  // namespace
}  // namespace tenon::cuda
