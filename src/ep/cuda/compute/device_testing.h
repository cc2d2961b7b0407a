// The device of the tests that need one. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "ep/cuda/compute/plan.h"

namespace tenon::cuda {

class TestMemory final : public plugin::ScratchSource {
 public:
  explicit TestMemory(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  Result<void*> allocate(size_t size_bytes) override {
    CUdeviceptr address = 0;
    TENON_CUDA_TRY(device_->driver(), MemAlloc, &address, size_bytes);
    return reinterpret_cast<void*>(address);
  }
  void free(void* memory) override { (void)device_->driver().MemFree(reinterpret_cast<CUdeviceptr>(memory)); }

 private:
  const std::shared_ptr<CudaDevice> device_;
};

// A context on device 0; the test is skipped, with the reason, where there is none.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<const CudaDriver*> driver = cuda_driver();
    if (!driver.ok()) GTEST_SKIP() << driver.status().to_string();
    Result<std::shared_ptr<CudaDevice>> device = CudaDevice::open(**driver, 0);
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    device_ = *device;
    Result<ContextScope> scope = ContextScope::enter(*device_);
    ASSERT_TRUE(scope.ok()) << scope.status().to_string();
    scope_ = std::make_unique<ContextScope>(*std::move(scope));
  }

  std::shared_ptr<ComputeContext> make_context(ComputeOptions options) {
    auto context = ComputeContext::create(device_, std::make_shared<TestMemory>(device_), std::move(options));
    EXPECT_TRUE(context.ok()) << context.status().to_string();
    return context.ok() ? *context : nullptr;
  }

  DeviceBlockRef upload(ComputeContext& context, const void* data, size_t size_bytes) {
    Result<DeviceBlockRef> block = context.allocate(size_bytes);
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    EXPECT_EQ(device_->driver().Memcpy((*block)->address(), reinterpret_cast<CUdeviceptr>(data), size_bytes),
              CUDA_SUCCESS);
    // A copy from pageable memory returns when it is staged; no stream that does not block waits for the rest.
    EXPECT_EQ(device_->driver().CtxSynchronize(), CUDA_SUCCESS);
    return *block;
  }

  std::vector<std::byte> download(CUdeviceptr address, size_t size_bytes) {
    std::vector<std::byte> bytes(size_bytes);
    EXPECT_EQ(device_->driver().Memcpy(reinterpret_cast<CUdeviceptr>(bytes.data()), address, size_bytes), CUDA_SUCCESS);
    return bytes;
  }

  std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<ContextScope> scope_;
};

inline std::vector<float> random_floats(size_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

}  // namespace tenon::cuda
