// A plan keeps a bounded number of graphs and arenas, and a region one of plans, whatever addresses and shapes come:
// over the fake driver, whose one kernel is a layer normalisation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/compute/plan.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/session_memory.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::Pointwise;

constexpr int64_t kColumns = 8;
constexpr float kEpsilon = 1e-5F, kScale = 2, kBias = 3;

void normalise(const float* x, const float* scale, const float* bias, float* y, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, x += kColumns, y += kColumns) {
    float mean = 0, variance = 0;
    for (int64_t c = 0; c < kColumns; ++c) mean += x[c] / kColumns;
    for (int64_t c = 0; c < kColumns; ++c) variance += (x[c] - mean) * (x[c] - mean) / kColumns;
    for (int64_t c = 0; c < kColumns; ++c) y[c] = (x[c] - mean) / std::sqrt(variance + kEpsilon) * scale[c] + bias[c];
  }
}

CUresult run_layer_norm(void* const* parameters) {
  const auto& p = *static_cast<const LayerNormParams*>(parameters[0]);
  const size_t count = p.rows * kColumns * sizeof(float);
  // Weights, inputs and outputs that are not there any more would be an error of the device.
  if (p.columns != kColumns || !fake::is_memory(p.x, count) || !fake::is_memory(p.y, count) ||
      !fake::is_memory(p.scale, kColumns * sizeof(float)) || !fake::is_memory(p.bias, kColumns * sizeof(float)))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  // Rows of 8 floats are read 16 bytes at once.
  for (const void* address : {p.x, static_cast<const void*>(p.y)})
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return CUDA_ERROR_MISALIGNED_ADDRESS;
  normalise(static_cast<const float*>(p.x), p.scale, p.bias, static_cast<float*>(p.y), p.rows);
  return CUDA_SUCCESS;
}

ConstantRef row_of(float value) {
  std::byte* data = nullptr;
  ConstantRef made = *make_constant(DataType::kFloat, Shape{kColumns}, &data);
  store_floats(std::vector<float>(kColumns, value), DataType::kFloat, data);
  return made;
}

class PlanBounds : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::set_kernel("layer_norm_warp_f32", {.parameter_bytes = {sizeof(LayerNormParams)}, .run = &run_layer_norm});
    (void)fake::take_violations();
    auto memory = CudaMemory::of(fake::driver(), 0);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_ = *memory;
    auto scope = ContextScope::enter(*memory_->device());
    ASSERT_TRUE(scope.ok());
    scope_ = std::make_unique<ContextScope>(*std::move(scope));
    ASSERT_EQ(driver().StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(driver().StreamDestroy(stream_), CUDA_SUCCESS);
    }
    EXPECT_THAT(fake::take_violations(), IsEmpty());
  }
  static const CudaDriver& driver() { return fake::driver(); }

  // LayerNormalization of [rows, 8]; rows < 0: any number of them.
  std::shared_ptr<ComputeRegion> make_region(int64_t rows, size_t plans = 16) {
    plan_testing::GraphBuilder builder;
    const Dim any{.value = rows, .symbol = rows < 0 ? "rows" : ""};
    const ValueId x = builder.input("x", {any, {kColumns, {}}}, DataType::kFloat);
    const ValueId scale = builder.graph.add_constant("scale", row_of(kScale));
    const ValueId bias = builder.graph.add_constant("bias", row_of(kBias));
    const ValueId y = builder.node("LayerNormalization", {x, scale, bias}, "y", DataType::kFloat);
    builder.last().set_float("epsilon", kEpsilon);
    builder.output(y);
    // Without libraries: cuBLASLt leaks where it finds no device of the real driver.
    auto context = ComputeContext::create(
        memory_->device(), std::make_shared<SessionMemory>(memory_, CudaOptions{}, nullptr),
        {.libraries = false, .plans = plans, .release_later = [memory = memory_](std::shared_ptr<void> what) {
           memory->release_when_nobody_waits(std::move(what));
         }});
    EXPECT_TRUE(context.ok()) << context.status().to_string();
    auto region = ComputeRegion::create(*std::move(context), std::move(builder.graph));
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    return region.ok() ? *region : nullptr;
  }

  // Pinned memory, which the fake's kernels reach as they reach the device's.
  float* allocate(int64_t rows) {
    void* memory = nullptr;
    EXPECT_EQ(driver().MemHostAlloc(&memory, rows * kColumns * sizeof(float), 0), CUDA_SUCCESS);
    return static_cast<float*>(memory);
  }
  void free(float* memory) { EXPECT_EQ(driver().MemFreeHost(memory), CUDA_SUCCESS); }
  static void fill(float* x, int64_t rows, int seed) {
    for (int64_t i = 0; i < rows * kColumns; ++i) x[i] = static_cast<float>((i * 7 + seed * 13) % 11) - 5;
  }
  // The objects that are alive once everything that was queued, frees too, is done.
  static int64_t live_objects() {
    EXPECT_EQ(driver().CtxSynchronize(), CUDA_SUCCESS);
    return fake::live_objects();
  }
  static Status queue(ComputePlan& plan, const float* x, float* y, CUstream stream) {
    const auto from = reinterpret_cast<CUdeviceptr>(x), to = reinterpret_cast<CUdeviceptr>(y);
    return plan.run(std::span(&from, 1), std::span(&to, 1), stream);
  }
  static void expect_result(const float* x, const float* y, int64_t rows) {
    const std::vector<float> scale(kColumns, kScale), bias(kColumns, kBias);
    std::vector<float> wanted(rows * kColumns);
    normalise(x, scale.data(), bias.data(), wanted.data(), rows);
    EXPECT_THAT(std::vector<float>(y, y + rows * kColumns), Pointwise(FloatNear(1e-6F), wanted));
  }
  // Runs with these addresses, looks at the result, and forgets it.
  void run(ComputePlan& plan, float* x, float* y, int64_t rows, int seed) {
    fill(x, rows, seed);
    std::memset(y, 0xff, rows * kColumns * sizeof(float));
    const Status queued = queue(plan, x, y, stream_);
    ASSERT_TRUE(queued.ok()) << queued.to_string();
    ASSERT_EQ(driver().StreamSynchronize(stream_), CUDA_SUCCESS);
    expect_result(x, y, rows);
  }

  std::shared_ptr<CudaMemory> memory_;
  std::unique_ptr<ContextScope> scope_;
  CUstream stream_ = nullptr;
};

// Each binding comes twice, and so each is captured: what was used longest ago goes.
TEST_F(PlanBounds, BindingsThatChangeForEverKeepEightGraphs) {
  constexpr int64_t kRows = 4;
  const auto region = make_region(kRows);
  ASSERT_NE(region, nullptr);
  const auto plan = region->plan(std::vector{Shape{kRows, kColumns}});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const int64_t graphs_before = fake::live_graphs();
  float* const x = allocate(kRows);
  std::vector<float*> outputs(120);
  for (float*& output : outputs) output = allocate(kRows);
  int64_t graphs_at_20 = 0, objects_at_20 = 0;
  for (int i = 0; i < 120; ++i) {
    for (int time = 0; time < 3; ++time) run(**plan, x, outputs[i], kRows, 3 * i + time);
    if (i != 20) continue;
    graphs_at_20 = fake::live_graphs();
    objects_at_20 = live_objects();
  }
  EXPECT_EQ((*plan)->stats().captured, 120U);
  EXPECT_EQ((*plan)->stats().instances, 1U);
  EXPECT_EQ(fake::live_graphs(), graphs_at_20);
  EXPECT_LE(live_objects(), objects_at_20);
  // Eight captures, and for each at most a graph and what was made of it.
  EXPECT_GE(graphs_at_20 - graphs_before, 8);
  EXPECT_LE(graphs_at_20 - graphs_before, 16);
  // One that went long ago is queued, captured and right again.
  run(**plan, x, outputs[0], kRows, 1);
  run(**plan, x, outputs[0], kRows, 2);
  EXPECT_EQ((*plan)->stats().captured, 121U);
  for (float* y : outputs) free(y);
  free(x);
}

TEST_F(PlanBounds, BindingsThatNeverComeBackAreNotCaptured) {
  constexpr int64_t kRows = 2;
  const auto region = make_region(kRows);
  ASSERT_NE(region, nullptr);
  const auto plan = region->plan(std::vector{Shape{kRows, kColumns}});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const int64_t graphs = fake::live_graphs();
  float* const x = allocate(kRows);
  for (int i = 0; i < 100; ++i) {
    float* const y = allocate(kRows);  // an address that the fake never gives again
    run(**plan, x, y, kRows, i);
    free(y);
  }
  EXPECT_EQ((*plan)->stats().direct, 100U);
  EXPECT_EQ((*plan)->stats().captured, 0U);
  EXPECT_EQ(fake::live_graphs(), graphs);
  free(x);
}

// Parts of tensors lie anywhere: what kernels cannot take is copied, queued and in graphs, into memory that stays as it
// is.
TEST_F(PlanBounds, AddressesAreOfAnyAlignment) {
  constexpr int64_t kRows = 4;
  const auto region = make_region(kRows);
  ASSERT_NE(region, nullptr);
  const auto plan = region->plan(std::vector{Shape{kRows, kColumns}});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  float *const x = allocate(kRows + 1), *const y = allocate(kRows + 2);
  int64_t objects = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 16; ++i) {
      float* const into = y + 4 + i / 4;
      float &before = *(into - 1), &after = *(into + kRows * kColumns);
      before = after = 9;
      for (int time = 0; time < 2; ++time) run(**plan, x + i % 4, into, kRows, round + i);
      EXPECT_EQ(before, 9);
      EXPECT_EQ(after, 9);
    }
    if (round == 0) objects = live_objects();
  }
  EXPECT_LE(live_objects(), objects);
  EXPECT_GT((*plan)->stats().captured, 0U);
  EXPECT_EQ((*plan)->stats().instances, 1U);
  free(x);
  free(y);
}

// Weights are packed and uploaded once, for whatever sizes.
TEST_F(PlanBounds, ShapesThatChangeForEverKeepAsManyPlansAsTheOptionSays) {
  constexpr int64_t kMost = 64;
  const auto region = make_region(-1, 4);
  ASSERT_NE(region, nullptr);
  float *const x = allocate(kMost), *const y = allocate(kMost);
  int64_t objects_at_10 = 0, graphs_at_10 = 0, uploads_at_10 = 0;
  for (int i = 1; i <= static_cast<int>(kMost); ++i) {
    const auto plan = region->plan(std::vector{Shape{i, kColumns}});
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    for (int time = 0; time < 3; ++time) run(**plan, x, y, i, 3 * i + time);
    if (i != 10) continue;
    objects_at_10 = live_objects();
    graphs_at_10 = fake::live_graphs();
    uploads_at_10 = fake::calls("cuMemcpyHtoDAsync");
  }
  EXPECT_LE(live_objects(), objects_at_10);
  EXPECT_EQ(fake::live_graphs(), graphs_at_10);
  EXPECT_EQ(fake::calls("cuMemcpyHtoDAsync"), uploads_at_10);
  // One whose plan went long ago.
  const auto again = region->plan(std::vector{Shape{1, kColumns}});
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  run(**again, x, y, 1, 5);
  EXPECT_LE(live_objects(), objects_at_10);
  free(x);
  free(y);
}

// Streams that are held up have an arena each, eight at most; then one waits for another.
TEST_F(PlanBounds, StreamsShareEightArenas) {
  constexpr int64_t kRows = 3;
  constexpr int kStreams = 12;
  const auto region = make_region(kRows);
  ASSERT_NE(region, nullptr);
  const auto plan = region->plan(std::vector{Shape{kRows, kColumns}});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  std::atomic<bool> open{false};
  float* const x = allocate(kRows);
  fill(x, kRows, 1);
  std::vector<CUstream> streams(kStreams);
  std::vector<float*> outputs;
  for (CUstream& stream : streams) {
    ASSERT_EQ(driver().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver().LaunchHostFunc(
                  stream,
                  [](void* flag) {
                    while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
                  },
                  &open),
              CUDA_SUCCESS);
    outputs.push_back(allocate(kRows));
    ASSERT_TRUE(queue(**plan, x, outputs.back(), stream).ok());
  }
  EXPECT_EQ((*plan)->stats().instances, 8U);
  open = true;
  for (int i = 0; i < kStreams; ++i) {
    ASSERT_EQ(driver().StreamSynchronize(streams[i]), CUDA_SUCCESS);
    expect_result(x, outputs[i], kRows);
    EXPECT_EQ(driver().StreamDestroy(streams[i]), CUDA_SUCCESS);
    free(outputs[i]);
  }
  free(x);
}

}  // namespace
}  // namespace tenon::cuda
