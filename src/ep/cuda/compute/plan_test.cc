// Graph capture of plans, and plans where memory is short. Needs a device.
#include "ep/cuda/compute/plan.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/run_settings.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kRows = 64, kColumns = 64;

// Takes no more than `limit_bytes`.
class LimitedMemory final : public plugin::ScratchSource {
 public:
  LimitedMemory(std::shared_ptr<CudaDevice> device, size_t limit_bytes)
      : memory_(std::move(device)), limit_bytes_(limit_bytes) {}
  Result<void*> allocate(size_t size_bytes) override {
    if (size_bytes > limit_bytes_) return resource_exhausted("{} bytes are too many for this test.", size_bytes);
    return memory_.allocate(size_bytes);
  }
  void free(void* memory) override { memory_.free(memory); }

 private:
  PlainMemory memory_;
  const size_t limit_bytes_;
};

class PlanTest : public DeviceTest {
 protected:
  Result<std::shared_ptr<ComputePlan>> make_plan(ComputeOptions options, size_t limit_bytes = SIZE_MAX) {
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", {{kRows, {}}, {kColumns, {}}}, DataType::kFloat);
    std::byte* data = nullptr;
    const Shape shape{kColumns, kColumns};
    ConstantRef weights = *make_constant(DataType::kFloat, shape, &data);
    store_floats(random_floats(shape.element_count(), 5), DataType::kFloat, data);
    const ValueId product =
        builder.node("MatMul", {x, builder.graph.add_constant("w", std::move(weights))}, "product", DataType::kFloat);
    builder.output(builder.node("Relu", {product}, "y", DataType::kFloat));
    options.measure = !small_sizes();
    TENON_TRY_ASSIGN(auto context,
                     ComputeContext::create(device_, std::make_shared<LimitedMemory>(device_, limit_bytes), options));
    TENON_TRY_ASSIGN(auto region, ComputeRegion::create(std::move(context), std::move(builder.graph)));
    return region->plan(std::vector<Shape>{Shape{kRows, kColumns}});
  }
  // Runs `times` times on the same memory, and reads the result.
  std::vector<float> run(ComputePlan& plan, int times) {
    const CudaDriver& driver = device_->driver();
    const std::vector<float> values = random_floats(kRows * kColumns, 1);
    CUdeviceptr x = 0, y = 0;
    EXPECT_EQ(driver.MemAlloc(&x, values.size() * sizeof(float)), CUDA_SUCCESS);
    EXPECT_EQ(driver.MemAlloc(&y, values.size() * sizeof(float)), CUDA_SUCCESS);
    EXPECT_EQ(driver.Memcpy(x, reinterpret_cast<CUdeviceptr>(values.data()), values.size() * sizeof(float)),
              CUDA_SUCCESS);
    for (int i = 0; i < times; ++i) {
      const Status status = plan.run(std::span(&x, 1), std::span(&y, 1), CU_STREAM_PER_THREAD);
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
    EXPECT_EQ(driver.CtxSynchronize(), CUDA_SUCCESS);
    const std::vector<std::byte> bytes = download(y, values.size() * sizeof(float));
    std::vector<float> result(values.size());
    std::memcpy(result.data(), bytes.data(), bytes.size());
    (void)driver.MemFree(x);
    (void)driver.MemFree(y);
    return result;
  }
};

TEST_F(PlanTest, ABindingIsCapturedWhenItComesAgain) {
  const auto plan = make_plan({});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  (void)run(**plan, 4);
  const ComputePlan::Stats stats = (*plan)->stats();
  EXPECT_EQ(stats.direct, 1U);
  EXPECT_EQ(stats.captured, 1U);
  EXPECT_EQ(stats.launched, 3U);
}

TEST_F(PlanTest, ItIsCapturedAtOnceOrNeverWhereTheOptionSaysSo) {
  const auto at_once = make_plan({.capture_at_once = true}), never = make_plan({.graphs = false});
  ASSERT_TRUE(at_once.ok() && never.ok());
  const std::vector<float> captured = run(**at_once, 3), queued = run(**never, 3);
  EXPECT_EQ((*at_once)->stats().direct, 0U);
  EXPECT_EQ((*at_once)->stats().launched, 3U);
  EXPECT_EQ((*never)->stats().direct, 3U);
  EXPECT_EQ((*never)->stats().captured, 0U);
  EXPECT_THAT(captured, Pointwise(FloatNear(1e-2F), queued));
}

// Where shapes vary, a size takes the choices of those beside it that were measured; one that is far from them tries
// likely ones too.
TEST_F(PlanTest, OtherSizesAreNotMeasuredAgain) {
  if (small_sizes()) GTEST_SKIP() << "nothing is measured with small sizes";
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "rows"}, {kColumns, {}}}, DataType::kFloat);
  std::byte* data = nullptr;
  const Shape shape{kColumns, kColumns};
  ConstantRef weights = *make_constant(DataType::kFloat, shape, &data);
  const std::vector<float> w = random_floats(shape.element_count(), 5);
  store_floats(w, DataType::kFloat, data);
  builder.output(
      builder.node("MatMul", {x, builder.graph.add_constant("w", std::move(weights))}, "y", DataType::kFloat));
  const auto context = make_context({});
  const auto region = ComputeRegion::create(context, std::move(builder.graph));
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  const auto measured_for = [&](int64_t rows) {
    const size_t before = context->algorithms().measured();
    const auto plan = (*region)->plan(std::vector<Shape>{Shape{rows, kColumns}});
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    if (!plan.ok()) return size_t{0};
    const std::vector<float> values = random_floats(rows * kColumns, 1);
    const DeviceBlockRef from = upload(*context, values.data(), values.size() * sizeof(float));
    const DeviceBlockRef to = upload(*context, values.data(), values.size() * sizeof(float));
    const CUdeviceptr in = from->address(), out = to->address();
    EXPECT_TRUE((*plan)->run(std::span(&in, 1), std::span(&out, 1), CU_STREAM_PER_THREAD).ok());
    EXPECT_EQ(device_->driver().CtxSynchronize(), CUDA_SUCCESS);
    const std::vector<std::byte> bytes = download(out, values.size() * sizeof(float));
    for (int64_t r : {int64_t{0}, rows - 1})
      for (int64_t c = 0; c < kColumns; ++c) {
        float wanted = 0, got = 0;
        for (int64_t k = 0; k < kColumns; ++k) wanted += values[r * kColumns + k] * w[k * kColumns + c];
        std::memcpy(&got, bytes.data() + (r * kColumns + c) * sizeof(float), sizeof(float));
        EXPECT_NEAR(got, wanted, 2e-2F) << rows << " rows, " << r << ", " << c;
      }
    return context->algorithms().measured() - before;
  };
  EXPECT_EQ(measured_for(200), 1U);
  EXPECT_EQ(measured_for(240), 0U);
  EXPECT_EQ(measured_for(101), 0U);
  EXPECT_EQ(measured_for(900), 0U);
  EXPECT_EQ(measured_for(40), 0U);
}

// After the first plan those for other sizes need no compiler.
TEST_F(PlanTest, KernelsForOtherSizesAreCompiledAhead) {
  if (!nvrtc().ok()) GTEST_SKIP() << nvrtc().status().to_string();
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "rows"}, {-1, "columns"}}, DataType::kFloat);
  const ValueId y = builder.input("y", {{-1, "columns"}}, DataType::kFloat);
  builder.output(builder.node("Add", {x, y}, "z", DataType::kFloat));
  const auto context = make_context({.measure = false});
  const auto region = ComputeRegion::create(context, std::move(builder.graph));
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  const auto lacks = [&](int64_t rows, int64_t columns) {
    const Result<Program> program =
        (*region)->region().lower_at(std::vector<Shape>{Shape{rows, columns}, Shape{columns}}, true);
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    return context->kernel_cache().lacks(program->kernels);
  };
  EXPECT_TRUE(lacks(5, 63));
  ASSERT_TRUE((*region)->plan(std::vector<Shape>{Shape{6, 64}, Shape{64}}).ok());
  (*region)->finish_rehearsal();
  for (const int64_t columns : {63, 66, 68, 128, 7}) {
    EXPECT_FALSE(lacks(5, columns)) << columns;
    const auto plan = (*region)->plan(std::vector<Shape>{Shape{5, columns}, Shape{columns}});
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  }
}

// gpu_graph_id = -1: also where a graph is there already.
TEST_F(PlanTest, ARunMayRefuseGraphs) {
  const auto plan = make_plan({.capture_at_once = true});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  (void)run(**plan, 1);
  begin_run(this, {.graphs = false});
  (void)run(**plan, 2);
  end_run(this);
  EXPECT_EQ((*plan)->stats().launched, 1U);
  EXPECT_EQ((*plan)->stats().direct, 2U);
}

// The libraries' workspace is what can be done without.
TEST_F(PlanTest, WhereMemoryIsShortThereIsNoWorkspace) {
  const auto usual = make_plan({}), small = make_plan({}, size_t{1} << 20);
  ASSERT_TRUE(usual.ok()) << usual.status().to_string();
  ASSERT_TRUE(small.ok()) << small.status().to_string();
  EXPECT_GE((*usual)->program().arena_bytes, Program::kWorkspaceBytes);
  EXPECT_LT((*small)->program().arena_bytes, size_t{1} << 20);
  EXPECT_THAT(run(**small, 3), Pointwise(FloatNear(1e-2F), run(**usual, 3)));
  const auto none = make_plan({}, 1000);
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted) << none.status().to_string();
}

// Whoever lets go of a plan waits for its work a second at most, also where that never ends.
TEST_F(PlanTest, APlanWhoseWorkIsHeldUpKeepsNobody) {
  const CudaDriver& driver = device_->driver();
  CUstream stream = nullptr;
  ASSERT_EQ(driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  auto plan = make_plan({});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  CUdeviceptr x = 0, y = 0;
  ASSERT_EQ(driver.MemAlloc(&x, kRows * kColumns * sizeof(float)), CUDA_SUCCESS);
  ASSERT_EQ(driver.MemAlloc(&y, kRows * kColumns * sizeof(float)), CUDA_SUCCESS);
  std::atomic<bool> open{false};
  ASSERT_EQ(driver.LaunchHostFunc(
                stream,
                [](void* flag) {
                  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
                },
                &open),
            CUDA_SUCCESS);
  ASSERT_TRUE((*plan)->run(std::span(&x, 1), std::span(&y, 1), stream).ok());
  plan = invalid_argument("let go");  // returns, although nobody has let the stream go on
  open = true;
  EXPECT_EQ(driver.StreamSynchronize(stream), CUDA_SUCCESS);  // its memory and kernels are still there
  (void)driver.StreamDestroy(stream);
  (void)driver.MemFree(x);
  (void)driver.MemFree(y);
}

}  // namespace
}  // namespace tenon::cuda
