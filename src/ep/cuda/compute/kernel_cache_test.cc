// Kernels are compiled once a session and kept in a folder: NVRTC is the real one, the driver the fake one.
#include "ep/cuda/compute/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/testing.h"
#include "ep/cuda/cuda_memory.h"
#include "ep/cuda/fake/fake_cuda.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

KernelCode kernel(const std::string& name) {
  return {name, "ep/cuda/templates/kernel.cuh",
          format("extern \"C\" __global__ void {}(float* x) {{ x[threadIdx.x] *= 2; }}\n", name)};
}

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc().ok()) GTEST_SKIP() << nvrtc().status().to_string();
    for (const std::string& name : names_) fake::set_kernel(name, {.parameter_bytes = {sizeof(void*)}, .run = nullptr});
    auto memory = CudaMemory::of(fake::driver(), 0);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_ = *memory;
    auto scope = ContextScope::enter(*memory_->device());
    ASSERT_TRUE(scope.ok());
    scope_ = std::make_unique<ContextScope>(*std::move(scope));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Counts how often NVRTC is asked for; without it an error.
  KernelCache::Setting setting(bool has_compiler = true, bool keeps = true) {
    return {memory_->device(), keeps ? folder_.string() : "", [this, has_compiler]() -> Result<const Nvrtc*> {
              ++asked_;
              if (!has_compiler) return not_found("NVRTC is left out.");
              return nvrtc();
            }};
  }

  const std::vector<std::string> names_ = {"a", "b", "c", "d", "e", "f"};
  const std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / "tenon_kernel_cache";
  std::shared_ptr<CudaMemory> memory_;
  std::unique_ptr<ContextScope> scope_;
  std::atomic<int> asked_{0};
};

TEST_F(KernelCacheTest, AKernelThatASessionHasIsNotCompiledAgain) {
  KernelCache cache(setting(true, false));
  const std::vector<KernelCode> first = {kernel("a"), kernel("b")}, second = {kernel("b"), kernel("c")};
  ASSERT_THAT(cache.compile(first).status(), is_ok());
  EXPECT_EQ(asked_, 1);
  ASSERT_THAT(cache.compile(first).status(), is_ok());
  EXPECT_EQ(asked_, 1);
  const Result<CompiledKernels> both = cache.compile(second);
  ASSERT_THAT(both.status(), is_ok());
  EXPECT_EQ(asked_, 2);
  EXPECT_THAT(both->function("b").status(), is_ok());
  EXPECT_THAT(both->function("c").status(), is_ok());
  EXPECT_THAT(both->function("a").status(), has_status(StatusCode::kInternal, HasSubstr("a was not compiled")));
}

TEST_F(KernelCacheTest, ManyKernelsAreSeveralPrograms) {
  std::vector<KernelCode> all;
  for (const std::string& name : names_) all.push_back(kernel(name));
  KernelCache cache(setting(true, false));
  const Result<CompiledKernels> made = cache.compile(all);
  ASSERT_THAT(made.status(), is_ok());
  EXPECT_EQ(asked_, 2);  // four and two
  for (const std::string& name : names_) EXPECT_THAT(made->function(name).status(), is_ok());
}

// Another session finds the machine code, whichever operator came first; a file that is cut off is made anew.
TEST_F(KernelCacheTest, MachineCodeIsKeptInTheFolder) {
  const std::vector<KernelCode> kernels = {kernel("a"), kernel("b")}, turned = {kernel("b"), kernel("a")};
  ASSERT_THAT(KernelCache(setting()).compile(kernels).status(), is_ok());
  EXPECT_THAT(KernelCache(setting(false)).compile(turned).status(), is_ok());
  EXPECT_EQ(asked_, 1);
  const std::filesystem::path file = std::filesystem::directory_iterator(folder_)->path();
  EXPECT_THAT(file.filename().string(), ::testing::StartsWith("kernels_"));
  std::filesystem::resize_file(file, 3);
  EXPECT_THAT(KernelCache(setting(false)).compile(kernels).status(),
              has_status(StatusCode::kNotFound, HasSubstr("NVRTC is left out")));
  ASSERT_THAT(KernelCache(setting()).compile(kernels).status(), is_ok());
  EXPECT_GT(std::filesystem::file_size(file), 100U);
}

}  // namespace
}  // namespace tenon::cuda
