// The device of the tests that need one. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string_view>
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

// TENON_SMALL_SIZES: problems that take the same kernels and are as small as those allow, for tools under which a
// kernel takes a thousand times as long.
inline bool small_sizes() { return std::getenv("TENON_SMALL_SIZES") != nullptr; }

// TENON_PART=K/N: of a test's cases the K-th of each N (from 0), so that N processes share them. Counts its calls.
inline bool case_is_in_part() {
  static unsigned cases = 0;
  const unsigned index = cases++;
  const char* const part = std::getenv("TENON_PART");
  if (part == nullptr) return true;
  const std::string_view text(part);
  unsigned k = 0, n = 0;
  const size_t slash = std::min(text.find('/'), text.size());
  std::from_chars(text.data(), text.data() + slash, k);
  if (slash < text.size()) std::from_chars(text.data() + slash + 1, text.data() + text.size(), n);
  EXPECT_LT(k, n) << "TENON_PART=" << text << " is not K/N with K below N.";
  return n != 0 && index % n == k;
}

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

  // One that takes the first algorithm that fits, for all of a test's cases: loading code takes longer than they do.
  std::shared_ptr<ComputeContext> shared_context(bool tf32) {
    std::shared_ptr<ComputeContext>& context = shared_[tf32];
    if (context == nullptr) context = make_context({.tf32 = tf32, .measure = false});
    return context;
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
  std::map<bool, std::shared_ptr<ComputeContext>> shared_;
};

inline std::vector<float> random_floats(size_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

}  // namespace tenon::cuda
