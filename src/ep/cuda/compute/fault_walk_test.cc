// Every call of the driver and its libraries fails once, in its turn: the status is clean, all memory goes back, and
// the next attempt is right. Needs a device.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/format.h"
#include "ep/cuda/compute/device_testing.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kChannels = 16, kSide = 8, kClasses = 8;

std::vector<Dim> dims(std::initializer_list<int64_t> numbers) {
  std::vector<Dim> result;
  for (int64_t number : numbers) result.push_back({number, {}});
  return result;
}

ConstantRef constant(const Shape& shape, float value) {
  std::byte* data = nullptr;
  ConstantRef made = *make_constant(DataType::kFloat, shape, &data);
  store_floats(std::vector<float>(shape.element_count(), value), DataType::kFloat, data);
  return made;
}

// A convolution, a pool, a product and generated code: each of the libraries has its part.
Graph make_graph() {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({1, kChannels, kSide, kSide}), DataType::kFloat);
  const ValueId w = builder.graph.add_constant("w", constant(Shape{kChannels, kChannels, 3, 3}, 0.01F));
  const ValueId conv = builder.node("Conv", {x, w}, "conv", DataType::kFloat);
  builder.last().set_ints("pads", {1, 1, 1, 1});
  const ValueId relu = builder.node("Relu", {conv}, "relu", DataType::kFloat);
  const ValueId pooled = builder.node("GlobalAveragePool", {relu}, "pooled", DataType::kFloat);
  const ValueId flat = builder.node("Flatten", {pooled}, "flat", DataType::kFloat);
  const ValueId v = builder.graph.add_constant("v", constant(Shape{kChannels, kClasses}, 0.5F));
  const ValueId product = builder.node("MatMul", {flat, v}, "product", DataType::kFloat);
  const ValueId scaled = builder.node("Mul", {product, product}, "scaled", DataType::kFloat);
  builder.output(builder.node("Softmax", {scaled}, "y", DataType::kFloat));
  return builder.graph;
}

class CountedMemory final : public plugin::ScratchSource {
 public:
  explicit CountedMemory(std::shared_ptr<CudaDevice> device) : memory_(std::move(device)) {}
  Result<void*> allocate(size_t size_bytes) override {
    TENON_TRY_ASSIGN(void* memory, memory_.allocate(size_bytes));
    ++live;
    return memory;
  }
  void free(void* memory) override {
    --live;
    memory_.free(memory);
  }
  std::atomic<int> live{0};

 private:
  PlainMemory memory_;
};

class FaultWalk : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (device_ == nullptr) return;
    memory_ = std::make_shared<CountedMemory>(device_);
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "tenon_fault_walk";
    std::filesystem::create_directories(folder);
    options_ = {.measure = !small_sizes(), .cache_file = (folder / "algorithms").string()};
    const Shape shape{1, kChannels, kSide, kSide};
    shapes_ = {shape};
    const std::vector<float> x = random_floats(shape.element_count(), 1);
    const CudaDriver& driver = device_->driver();
    ASSERT_EQ(driver.MemAlloc(&x_, x.size() * sizeof(float)), CUDA_SUCCESS);
    ASSERT_EQ(driver.MemAlloc(&y_, kClasses * sizeof(float)), CUDA_SUCCESS);
    ASSERT_EQ(driver.Memcpy(x_, reinterpret_cast<CUdeviceptr>(x.data()), x.size() * sizeof(float)), CUDA_SUCCESS);
    ASSERT_EQ(driver.CtxSynchronize(), CUDA_SUCCESS);
    ASSERT_EQ(driver.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    const CudaDriver& driver = device_->driver();
    (void)driver.StreamDestroy(stream_);
    (void)driver.MemFree(x_);
    (void)driver.MemFree(y_);
    EXPECT_EQ(memory_->live, 0);
  }

  Result<std::shared_ptr<ComputePlan>> make_plan() {
    TENON_TRY_ASSIGN(auto context, ComputeContext::create(device_, memory_, options_));
    TENON_TRY_ASSIGN(auto region, ComputeRegion::create(std::move(context), make_graph()));
    return region->plan(shapes_);
  }
  Status run(ComputePlan& plan) {
    TENON_TRY(plan.run(std::span(&x_, 1), std::span(&y_, 1), stream_));
    return cuda_status(device_->driver(), device_->driver().StreamSynchronize(stream_), "cuStreamSynchronize");
  }
  std::vector<float> result() {
    (void)device_->driver().StreamSynchronize(stream_);
    const std::vector<std::byte> bytes = download(y_, kClasses * sizeof(float));
    std::vector<float> values(kClasses);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(device_->driver().MemsetD8Async(y_, 0xFF, kClasses * sizeof(float), stream_), CUDA_SUCCESS);
    return values;
  }
  std::shared_ptr<CountedMemory> memory_;
  ComputeOptions options_;
  std::vector<Shape> shapes_;
  CUdeviceptr x_ = 0, y_ = 0;
  CUstream stream_ = nullptr;
};

TEST_F(FaultWalk, MakingAPlanFailsCleanlyAtEveryCall) {
  std::vector<float> wanted;
  {
    // Also fills the cache, so that the walk compiles and measures nothing.
    const auto plan = make_plan();
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    ASSERT_TRUE(run(**plan).ok());
    wanted = result();
  }
  int walked = 0;
  for (int n = 1;; ++n) {
    if (!case_is_in_part()) continue;
    std::string at;
    Status made;
    {
      FaultInjection fault(n);
      Result<std::shared_ptr<ComputePlan>> plan = make_plan();
      if (!fault.fired()) break;
      at = fault.fired_at();
      made = plan.status();
      // An optional call of a library may fail: another way is taken then, and its result has to be right.
      if (plan.ok()) {
        EXPECT_TRUE(run(**plan).ok()) << at;
        EXPECT_THAT(result(), ::testing::Pointwise(::testing::FloatNear(1e-4F), wanted)) << at;
      }
    }
    if (!made.ok()) {
      EXPECT_THAT(made.message(), ::testing::HasSubstr(at));
    }
    EXPECT_EQ(memory_->live, 0) << "after a failure of " << at;
    walked = n;
  }
  EXPECT_GT(walked, 20);
  std::cout << walked << " calls of making a plan failed in turn\n";
  const auto plan = make_plan();
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_TRUE(run(**plan).ok());
  EXPECT_EQ(result(), wanted);
}

// The first run is queued, the second is captured, later ones are replayed: a failure at any call of the three leaves a
// plan that goes on.
TEST_F(FaultWalk, RunsFailCleanlyAtEveryCallAndTheNextOneIsRight) {
  const auto reference = make_plan();
  ASSERT_TRUE(reference.ok()) << reference.status().to_string();
  ASSERT_TRUE(run(**reference).ok());
  const std::vector<float> wanted = result();
  int walked = 0;
  for (int n = 1;; ++n) {
    if (!case_is_in_part()) continue;
    const auto plan = make_plan();
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    std::string at;
    Status failure;
    {
      FaultInjection fault(n);
      for (int i = 0; i < 3 && failure.ok(); ++i) failure = run(**plan);
      if (!fault.fired()) break;
      at = fault.fired_at();
    }
    if (!failure.ok()) {
      EXPECT_THAT(failure.message(), ::testing::HasSubstr(at));
    }
    for (int i = 0; i < 3; ++i) {
      const Status again = run(**plan);
      EXPECT_TRUE(again.ok()) << "after a failure of " << at << ": " << again.to_string();
      EXPECT_EQ(result(), wanted) << "after a failure of " << at;
    }
    walked = n;
  }
  EXPECT_GT(walked, 5);
  std::cout << walked << " calls of three runs failed in turn\n";
}

}  // namespace
}  // namespace tenon::cuda
