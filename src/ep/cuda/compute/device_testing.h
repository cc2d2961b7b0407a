// The device of the tests that need one. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "ep/cuda/compute/plain_memory.h"
#include "ep/cuda/compute/plan.h"

namespace tenon::cuda {

// Under tools a kernel takes a thousand times as long: problems that take the same kernels, as small as those allow.
inline bool small_sizes() { return !test_variable("TENON_SMALL_SIZES").empty(); }

// Whether a test's next case is this process's (TENON_PART). Counts its calls.
inline bool case_is_in_part() {
  static unsigned cases = 0;
  const unsigned index = cases++;
  const std::string part = test_variable("TENON_PART");
  if (part.empty()) return true;
  const char* const end = part.data() + part.size();
  unsigned k = 0, n = 0;
  const auto first = std::from_chars(part.data(), end, k);
  if (first.ptr != end && *first.ptr == '/') std::from_chars(first.ptr + 1, end, n);
  EXPECT_LT(k, n) << "TENON_PART is \"" << part << "\", which is not K/N with K below N.";
  return n != 0 && index % n == k;
}

// A context on device 0; the test is skipped, with the reason, where there is none.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef TENON_NO_GPU_CODE
    GTEST_SKIP() << "this build holds no GPU code (TENON_GPU_CODE)";
#endif
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
    auto context = ComputeContext::create(device_, std::make_shared<PlainMemory>(device_), std::move(options));
    EXPECT_TRUE(context.ok()) << context.status().to_string();
    return context.ok() ? *context : nullptr;
  }

  // One that takes the first algorithm that fits, for all of a test's cases: loading code takes longer than they do.
  // With small sizes none of the libraries', whose code tools take apart too.
  std::shared_ptr<ComputeContext> shared_context(bool tf32) {
    std::shared_ptr<ComputeContext>& context = shared_[tf32];
    if (context == nullptr) context = make_context({.tf32 = tf32, .measure = false, .libraries = !small_sizes()});
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
