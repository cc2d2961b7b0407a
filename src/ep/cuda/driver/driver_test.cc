#include <gtest/gtest.h>

#include "base/testing.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/cuda/driver/nvrtc.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers of a driver that is there, but too old; what it is asked for first is its version.
CUresult CUDAAPI old_version(int* version) {
  *version = 12040;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI old_lookup(const char* name, void** out, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  const bool known = std::string_view(name) == "cuDriverGetVersion";
  *out = known ? reinterpret_cast<void*>(&old_version) : nullptr;
  return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI new_version(int* version) {
  *version = 99000;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI gap_lookup(const char* name, void** out, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  const bool known = std::string_view(name) == "cuDriverGetVersion";
  *out = known ? reinterpret_cast<void*>(&new_version) : nullptr;
  return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

TEST(CudaDriver, AnOldDriverIsRefusedWithItsVersion) {
  EXPECT_THAT(CudaDriver::load_with(&old_lookup),
              has_status(StatusCode::kUnsupported, HasSubstr("is for version 12.4; this plugin needs one for 13.0")));
}

TEST(CudaDriver, AMissingFunctionIsNamed) {
  EXPECT_THAT(CudaDriver::load_with(&gap_lookup),
              has_status(StatusCode::kUnsupported, HasSubstr("has no function cuInit")));
}

TEST(CudaDriver, TheMachinesDriverLoadsOrSaysWhyNot) {
  const Result<const CudaDriver*> driver = cuda_driver();
  if (driver.ok()) {
    EXPECT_GE((*driver)->version, CUDA_VERSION / 1000 * 1000);
  } else {
    EXPECT_FALSE(driver.status().message().empty());
    EXPECT_NE(driver.status().code(), StatusCode::kInternal);
  }
}

NvrtcSource twice() {
  return {.text = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }", .name = "twice.cu"};
}

TEST(Nvrtc, CompilesWithoutADevice) {
  const Result<const Nvrtc*> library = nvrtc();
  if (!library.ok()) GTEST_SKIP() << library.status().to_string();
  const auto cubin = (*library)->compile(twice(), 90);
  ASSERT_THAT(cubin, is_ok());
  EXPECT_GT(cubin->code.size(), 100U);
  EXPECT_THAT(cubin->instance_names, IsEmpty());
}

// Which functions of the code are a template's instances cannot be told from their names, so the compiler says it.
TEST(Nvrtc, InstantiatesTemplatesOfAHeaderByName) {
  const Result<const Nvrtc*> library = nvrtc();
  if (!library.ok()) GTEST_SKIP() << library.status().to_string();
  const NvrtcHeader headers[] = {
      {"scale.cuh", "namespace k { template <typename T, int n> __global__ void scale(T* x) { *x *= n; } }"}};
  const auto ptx = (*library)->compile({.text = "#include \"scale.cuh\"",
                                        .name = "scale.cu",
                                        .headers = headers,
                                        .instances = {"k::scale<float, 2>", "k::scale<int, 3>"}},
                                       999);
  ASSERT_THAT(ptx, is_ok());
  const std::string text(reinterpret_cast<const char*>(ptx->code.data()));
  ASSERT_EQ(ptx->instance_names.size(), 2U);
  for (const std::string& name : ptx->instance_names) EXPECT_THAT(text, HasSubstr(".entry " + name + "("));
  EXPECT_NE(ptx->instance_names[0], ptx->instance_names[1]);
  EXPECT_THAT(
      (*library)->compile({.text = "", .name = "none.cu", .headers = {}, .instances = {"k::scale<float, 2>"}}, 90),
      has_status(StatusCode::kInternal, HasSubstr("k::scale<float, 2>")));
}

// A device that is newer than the library: the driver makes its machine code of PTX.
TEST(Nvrtc, ANewerDeviceGetsPtx) {
  const Result<const Nvrtc*> library = nvrtc();
  if (!library.ok()) GTEST_SKIP() << library.status().to_string();
  const auto ptx = (*library)->compile(twice(), 999);
  ASSERT_THAT(ptx, is_ok());
  const std::string text(reinterpret_cast<const char*>(ptx->code.data()));
  EXPECT_EQ(text.size() + 1, ptx->code.size());
  EXPECT_THAT(text, HasSubstr(".visible .entry twice("));
  EXPECT_THAT((*library)->compile(twice(), 10),
              has_status(StatusCode::kUnsupported, HasSubstr("compute capability 1.0")));
}

TEST(Nvrtc, AnErrorCarriesTheCompilersWords) {
  const Result<const Nvrtc*> library = nvrtc();
  if (!library.ok()) GTEST_SKIP() << library.status().to_string();
  EXPECT_THAT((*library)->compile({.text = "__global__ void broken() { nonsense; }", .name = "broken.cu"}, 90),
              has_status(StatusCode::kInternal, HasSubstr("\"nonsense\" is undefined")));
}

}  // namespace
}  // namespace tenon::cuda
