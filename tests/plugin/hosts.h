// The simulated EP's plugin in a host of the C ABI, as tests reach it: libtenon or stock onnxruntime (TENON_TEST_HOST).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/testing.h"
#include "conformance/exporter.h"
#include "conformance/host.h"
#include "programs/relu_model.h"

namespace tenon::hosts {

using conformance::Host;
using conformance::Outcome;
using conformance::Owned;

inline constexpr size_t kFullDevice = 0;
inline constexpr size_t kNoHostAccessible = 1;
inline constexpr int64_t kCount = 256;

// Both sides of a shared timeline in one process: two addresses of one page, between which the thread sanitizer sees no
// order.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesSharedPages = false;
#elif defined(__has_feature)
inline constexpr bool kSeesSharedPages = !__has_feature(thread_sanitizer);
#else
inline constexpr bool kSeesSharedPages = true;
#endif

// A host with the plugin; a test has one at a time.
class HostTest : public testing::Test {
 protected:
  void use(size_t device = kFullDevice) {
    host_ = nullptr;
    const char* library = std::getenv("TENON_TEST_HOST");
    const char* plugin = std::getenv("TENON_SIM_PLUGIN");
    ASSERT_TRUE(library != nullptr && plugin != nullptr) << "TENON_TEST_HOST and TENON_SIM_PLUGIN name the libraries";
    auto loaded = Host::load({.library = library,
                              .plugin_name = "sim",
                              .plugin_library = plugin,
                              .ep_name = "TenonSimExecutionProvider",
                              .device = device});
    ASSERT_THAT(loaded, is_ok());
    host_ = *std::move(loaded);
    ASSERT_NE(host_->sim(), nullptr);
  }
  void TearDown() override {
    if (host_ == nullptr) return;
    host_->sim()->fail_at("", 0);
    EXPECT_EQ(counter("total_order_violations"), 0);
  }

  Host& host() { return *host_; }
  const OrtApi& api() { return host_->api(); }
  int64_t counter(const char* name) { return host_->sim()->counter(name); }
  Status ok(OrtStatus* status, const char* what) { return conformance::to_status(host_->take(status), what); }

  Owned<OrtSession> session(const std::vector<std::string>& ops, const std::map<std::string, std::string>& options = {},
                            int64_t count = kCount) {
    auto made = host_->create_session(test::chain_model(ops, {1, count}), options);
    EXPECT_THAT(made, is_ok());
    return made.ok() ? *std::move(made) : nullptr;
  }

  // A tensor of the program's own memory.
  Owned<OrtValue> wrap(std::vector<float>& values) {
    OrtMemoryInfo* info = nullptr;
    EXPECT_THAT(ok(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info), "CreateCpuMemoryInfo"),
                is_ok());
    const auto owned = host_->own(info, api().ReleaseMemoryInfo);
    const int64_t dims[] = {1, static_cast<int64_t>(values.size())};
    OrtValue* value = nullptr;
    EXPECT_THAT(ok(api().CreateTensorWithDataAsOrtValue(info, values.data(), values.size() * sizeof(float), dims, 2,
                                                        ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
                   "CreateTensorWithDataAsOrtValue"),
                is_ok());
    return host_->own(value, api().ReleaseValue);
  }

  // Memory of the device, from the allocator that the host shares.
  Owned<OrtValue> allocate(OrtDeviceMemoryType kind, int64_t count = kCount) {
    const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(host_->device(), kind);
    EXPECT_NE(info, nullptr);
    OrtAllocator* allocator = nullptr;
    EXPECT_THAT(ok(api().GetSharedAllocator(host_->env(), info, &allocator), "GetSharedAllocator"), is_ok());
    const int64_t dims[] = {1, count};
    OrtValue* value = nullptr;
    EXPECT_THAT(ok(api().CreateTensorAsOrtValue(allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
                   "CreateTensorAsOrtValue"),
                is_ok());
    return host_->own(value, api().ReleaseValue);
  }

  float* data(OrtValue* value) {
    void* address = nullptr;
    EXPECT_THAT(ok(api().GetTensorMutableData(value, &address), "GetTensorMutableData"), is_ok());
    return static_cast<float*>(address);
  }

  Status run(OrtSession* session, const OrtValue* x, OrtValue** y, const OrtRunOptions* options = nullptr) {
    const char* input = "x";
    const char* output = "y";
    return ok(api().Run(session, options, &input, &x, 1, &output, 1, y), "Run");
  }

  // Through the device's data transfer; done on return.
  Status copy(const OrtValue* from, OrtValue* to) {
    return ok(api().CopyTensors(host_->env(), &from, &to, nullptr, 1), "CopyTensors");
  }

  std::unique_ptr<Host> host_;
};

inline std::vector<float> numbers(int64_t count = kCount) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 97) - 48);
  return values;
}

// The result of a chain of Abs and Neg for `values`.
inline std::vector<float> chain_of(std::vector<float> values, const std::vector<std::string>& ops) {
  for (const std::string& op : ops)
    for (float& value : values) value = op == "Neg" ? -value : std::abs(value);
  return values;
}

}  // namespace tenon::hosts
