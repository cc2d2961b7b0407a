// Without the toolkit's libraries: over the fake driver, whose kernels this test writes.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/driver/cudnn.h"
#include "ep/cuda/driver/shared_library.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// The computation of product_plain_f32 (conv/direct.cu), on the host.
CUresult run_product(void* const* parameters) {
  const auto& p = *static_cast<const ProductParams*>(parameters[0]);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t j = 0; j < p.columns; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < p.depth; ++k)
          sum += static_cast<const float*>(p.x)[b * p.x_stride + i * p.depth + k] *
                 static_cast<const float*>(
                     p.w)[b * p.w_stride + (p.transposed_w != 0 ? j * p.depth + k : k * p.columns + j)];
        static_cast<float*>(p.y)[(b * p.rows + i) * p.columns + j] = sum * p.scale;
      }
  return CUDA_SUCCESS;
}

// Device memory of the fake driver, which the host can read.
class FakeMemory final : public plugin::ScratchSource {
 public:
  Result<void*> allocate(size_t size_bytes) override {
    void* memory = nullptr;
    TENON_CUDA_TRY(fake::driver(), MemHostAlloc, &memory, size_bytes, 0);
    return memory;
  }
  void free(void* memory) override { (void)fake::driver().MemFreeHost(memory); }
};

class MissingLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::set_kernel("product_plain_f32", {.parameter_bytes = {sizeof(ProductParams)}, .run = &run_product});
    auto device = CudaDevice::open(fake::driver(), 0);
    ASSERT_THAT(device, is_ok());
    device_ = *device;
    auto scope = ContextScope::enter(*device_);
    ASSERT_TRUE(scope.ok());
    scope_ = std::make_unique<ContextScope>(*std::move(scope));
  }

  std::shared_ptr<ComputeContext> make_context(ComputeOptions options = {}) {
    auto context = ComputeContext::create(device_, std::make_shared<FakeMemory>(), std::move(options));
    EXPECT_THAT(context, is_ok());
    return context.ok() ? *context : nullptr;
  }

  std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<ContextScope> scope_;
};

// It is claimed, and so there has to be a kernel for it.
TEST_F(MissingLibraries, BatchesOfProductsHaveAKernelOfOurs) {
  constexpr int64_t kBatch = 3, kRows = 2, kDepth = 4, kColumns = 5;
  plan_testing::GraphBuilder builder;
  const ValueId a = builder.input("a", {{kBatch, {}}, {kRows, {}}, {kDepth, {}}}, DataType::kFloat);
  const ValueId b = builder.input("b", {{kBatch, {}}, {kDepth, {}}, {kColumns, {}}}, DataType::kFloat);
  builder.output(builder.node("MatMul", {a, b}, "y", DataType::kFloat));
  auto region = ComputeRegion::create(make_context({.libraries = false}), std::move(builder.graph));
  ASSERT_THAT(region, is_ok());
  const std::vector<Shape> shapes = {Shape{kBatch, kRows, kDepth}, Shape{kBatch, kDepth, kColumns}};
  const auto plan = (*region)->plan(shapes);
  ASSERT_THAT(plan, is_ok());
  FakeMemory memory;
  const auto allocate = [&](int64_t count) { return static_cast<float*>(*memory.allocate(count * sizeof(float))); };
  float *const x = allocate(kBatch * kRows * kDepth), *const w = allocate(kBatch * kDepth * kColumns),
               *const y = allocate(kBatch * kRows * kColumns);
  for (int64_t i = 0; i < kBatch * kRows * kDepth; ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (int64_t i = 0; i < kBatch * kDepth * kColumns; ++i) w[i] = static_cast<float>(i % 5) - 2;
  const CUdeviceptr inputs[] = {reinterpret_cast<CUdeviceptr>(x), reinterpret_cast<CUdeviceptr>(w)};
  const auto output = reinterpret_cast<CUdeviceptr>(y);
  ASSERT_THAT((*plan)->run(inputs, std::span(&output, 1), CU_STREAM_PER_THREAD), is_ok());
  ASSERT_EQ(fake::driver().StreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  std::vector<float> wanted;
  for (int64_t n = 0; n < kBatch; ++n)
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < kDepth; ++k)
          sum += x[(n * kRows + i) * kDepth + k] * w[(n * kDepth + k) * kColumns + j];
        wanted.push_back(sum);
      }
  EXPECT_THAT(std::vector<float>(y, y + wanted.size()), Pointwise(FloatNear(1e-6F), wanted));
  for (float* memory_of : {x, w, y}) memory.free(memory_of);
}

// The same with the real kernel, in every type and form.
class PlainProducts : public DeviceTest {
 protected:
  void check(DataType type, float tolerance) {
    constexpr int64_t kBatch = 3, kRows = 37, kDepth = 70, kColumns = 45;
    plan_testing::GraphBuilder builder;
    const ValueId a = builder.input("a", {{kBatch, {}}, {kRows, {}}, {kDepth, {}}}, type);
    const ValueId b = builder.input("b", {{kBatch, {}}, {kDepth, {}}, {kColumns, {}}}, type);
    builder.output(builder.node("MatMul", {a, b}, "y", type));
    auto region = ComputeRegion::create(make_context({.libraries = false}), std::move(builder.graph));
    ASSERT_THAT(region, is_ok());
    const std::vector<Shape> shapes = {Shape{kBatch, kRows, kDepth}, Shape{kBatch, kDepth, kColumns}};
    const auto plan = (*region)->plan(shapes);
    ASSERT_THAT(plan, is_ok());
    const auto context = (*region)->context();
    std::vector<std::vector<float>> values;
    std::vector<DeviceBlockRef> blocks;
    for (uint32_t i = 0; i < 2; ++i) {
      Constant stored{.type = type};
      std::vector<std::byte> bytes(shapes[i].element_count() * data_type_size(type));
      store_floats(random_floats(shapes[i].element_count(), i + 1), type, bytes.data());
      stored.data = bytes.data();
      stored.size_bytes = bytes.size();
      const std::vector<float> rounded = floats_of(stored);
      values.push_back(rounded);
      blocks.push_back(upload(*context, bytes.data(), bytes.size()));
    }
    const size_t count = kBatch * kRows * kColumns, size_bytes = count * data_type_size(type);
    blocks.push_back(upload(*context, std::vector<std::byte>(size_bytes).data(), size_bytes));
    const CUdeviceptr inputs[] = {blocks[0]->address(), blocks[1]->address()}, output = blocks[2]->address();
    ASSERT_THAT((*plan)->run(inputs, std::span(&output, 1), CU_STREAM_PER_THREAD), is_ok());
    ASSERT_EQ(device_->driver().CtxSynchronize(), CUDA_SUCCESS);
    const std::vector<std::byte> bytes = download(output, size_bytes);
    const Constant got{.type = type, .data = bytes.data(), .size_bytes = size_bytes};
    std::vector<float> wanted;
    for (int64_t n = 0; n < kBatch; ++n)
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < kColumns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < kDepth; ++k)
            sum += double{values[0][(n * kRows + i) * kDepth + k]} * values[1][(n * kDepth + k) * kColumns + j];
          wanted.push_back(static_cast<float>(sum));
        }
    EXPECT_THAT(floats_of(got), Pointwise(FloatNear(tolerance), wanted)) << data_type_name(type);
  }
};

TEST_F(PlainProducts, AreRightInEveryType) {
  check(DataType::kFloat, 1e-5F);
  check(DataType::kFloat16, 2e-2F);
  check(DataType::kBfloat16, 1e-1F);
}

TEST_F(MissingLibraries, EachIsToldWithWhatItCosts) {
  EXPECT_THAT(make_context({.libraries = false})->missing(),
              ElementsAre("Products may be slow without cuBLASLt: It is left out.",
                          "Convolutions may be slow without cuDNN: It is left out."));
}

// With kernels of an earlier session there is something to run.
TEST_F(MissingLibraries, WithoutNvrtcOnlyWhatIsKeptCanBeGenerated) {
  const auto left_out = has_status(StatusCode::kNotFound, HasSubstr("NVRTC is left out"));
  EXPECT_THAT(make_context({.libraries = false, .compiler = false})->can_generate(), left_out);
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "tenon_missing_libraries";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto context =
      make_context({.libraries = false, .compiler = false, .cache_file = (folder / "algorithms").string()});
  EXPECT_THAT(context->can_generate(), left_out);
  std::ofstream(folder / "kernels_0_90.cubin") << "code";
  EXPECT_THAT(context->can_generate(), is_ok());
  EXPECT_THAT(context->kernel_cache().compile(
                  std::vector<KernelCode>{{"none", "ep/cuda/templates/kernel.cuh", "// of another program"}}),
              left_out);
  std::filesystem::remove_all(folder);
}

// The error on a machine that has none tells the name that the loader looked for.
TEST_F(MissingLibraries, TheLoadersReasonIsTold) {
  for (const LibraryKind kind :
       {LibraryKind::kNvrtc, LibraryKind::kCublasLt, LibraryKind::kCudnn, LibraryKind::kNccl}) {
    const auto library = SharedLibrary::open(kind);
    const std::string name = kind == LibraryKind::kNvrtc      ? "nvrtc"
                             : kind == LibraryKind::kCublasLt ? "cublasLt"
                             : kind == LibraryKind::kCudnn    ? "cudnn"
                                                              : "nccl";
    if (library.ok())
      EXPECT_THAT(library->name(), HasSubstr(name));
    else
      EXPECT_THAT(library, has_status(StatusCode::kNotFound, HasSubstr(name)));
  }
}

TEST(Cudnn, AnOldVersionIsRefusedByItsNumber) {
  EXPECT_THAT(check_cudnn_version(91802),
              has_status(StatusCode::kUnsupported, HasSubstr("cuDNN is version 9.18.2; 9.19 is the oldest")));
  EXPECT_THAT(check_cudnn_version(8907), has_status(StatusCode::kUnsupported, HasSubstr("cuDNN is version 8.9.7")));
  EXPECT_THAT(check_cudnn_version(91900), is_ok());
  EXPECT_THAT(check_cudnn_version(100100), is_ok());
}

}  // namespace
}  // namespace tenon::cuda
