// Kernels are compiled once a session and kept in a folder: NVRTC is the real one, the driver the fake one.
#include "ep/cuda/compute/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

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
    KernelCache::Setting setting{memory_->device(), keeps ? folder_.string() : "",
                                 [this, has_compiler]() -> Result<const Nvrtc*> {
                                   ++asked_;
                                   if (!has_compiler) return not_found("NVRTC is left out.");
                                   return nvrtc();
                                 }};
    setting.threads = 1;
    return setting;
  }

  const std::vector<std::string> names_ = {"a", "b", "c", "d", "e", "f"};
  const std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / "tenon_kernel_cache";
  std::shared_ptr<CudaMemory> memory_;
  std::unique_ptr<ContextScope> scope_;
  std::atomic<int> asked_{0};
  const std::atomic<bool> no_{false};
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
  all.reserve(names_.size());
  for (const std::string& name : names_) all.push_back(kernel(name));
  KernelCache cache(setting(true, false));
  const Result<CompiledKernels> made = cache.compile(all);
  ASSERT_THAT(made.status(), is_ok());
  EXPECT_EQ(asked_, 2);  // four and two
  for (const std::string& name : names_) EXPECT_THAT(made->function(name).status(), is_ok());
  EXPECT_EQ(program_groups(all, 3).size(), 3U);
  EXPECT_EQ(program_groups(all, 16).size(), 6U);
}

// Another session finds the machine code, whichever operator came first; a file that is cut off is made anew.
TEST_F(KernelCacheTest, MachineCodeIsKeptInTheFolder) {
  const std::vector<KernelCode> kernels = {kernel("a"), kernel("b")}, turned = {kernel("b"), kernel("a")};
  ASSERT_THAT(KernelCache(setting()).compile(kernels).status(), is_ok());
  EXPECT_THAT(KernelCache(setting(false)).compile(turned).status(), is_ok());
  EXPECT_EQ(asked_, 1);
  const std::filesystem::path file = std::filesystem::directory_iterator(folder_)->path();
  EXPECT_THAT(file.filename().string(), ::testing::StartsWith("kernels_"));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THAT(KernelCache(setting(false)).compile(kernels).status(),
              has_status(StatusCode::kNotFound, HasSubstr("NVRTC is left out")));
  ASSERT_THAT(KernelCache(setting()).compile(kernels).status(), is_ok());
  EXPECT_GT(std::filesystem::file_size(file), 100U);
}

TEST_F(KernelCacheTest, AFileWhoseBytesChangedIsMadeAnew) {
  const std::vector<KernelCode> kernels = {kernel("a")};
  ASSERT_THAT(KernelCache(setting()).compile(kernels).status(), is_ok());
  const std::filesystem::path file = std::filesystem::directory_iterator(folder_)->path();
  {
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekg(-8, std::ios::end);
    const auto byte = static_cast<char>(bytes.get());
    bytes.seekp(-8, std::ios::end);
    bytes.put(static_cast<char>(byte ^ 1));
  }
  EXPECT_THAT(KernelCache(setting(false)).compile(kernels).status(), has_status(StatusCode::kNotFound));
  ASSERT_THAT(KernelCache(setting()).compile(kernels).status(), is_ok());
  EXPECT_THAT(KernelCache(setting(false)).compile(kernels).status(), is_ok());
}

TEST_F(KernelCacheTest, TheOldestFilesGo) {
  KernelCache::Setting few = setting();
  few.most_files = 2;
  const auto file_count = [&] {
    return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
  };
  for (const std::string& name : names_)
    ASSERT_THAT(KernelCache(few).compile(std::vector<KernelCode>{kernel(name)}).status(), is_ok());
  EXPECT_EQ(file_count(), 2);
  EXPECT_THAT(KernelCache(setting(false)).compile(std::vector<KernelCode>{kernel("f")}).status(), is_ok());
  EXPECT_THAT(KernelCache(setting(false)).compile(std::vector<KernelCode>{kernel("a")}).status(),
              has_status(StatusCode::kNotFound));
}

// A kernel that is compiled ahead needs no context, and the plan that wants it loads it.
TEST_F(KernelCacheTest, AKernelThatIsCompiledAheadIsThereForAPlan) {
  KernelCache cache(setting(true, false));
  const std::vector<KernelCode> kernels = {kernel("a"), kernel("b")};
  EXPECT_TRUE(cache.lacks(kernels));
  std::thread([&] {
    cache.compile_ahead(kernels[0], no_);
    cache.compile_ahead(kernels[0], no_);
  }).join();
  EXPECT_EQ(asked_, 1);
  EXPECT_TRUE(cache.lacks(kernels));
  EXPECT_FALSE(cache.lacks(std::span(kernels).first(1)));
  const Result<CompiledKernels> both = cache.compile(kernels);
  ASSERT_THAT(both.status(), is_ok());
  EXPECT_EQ(asked_, 2);
  EXPECT_THAT(both->function("a").status(), is_ok());
  EXPECT_FALSE(cache.lacks(kernels));
  cache.compile_ahead(kernels[1], no_);
  EXPECT_EQ(asked_, 2);
}

// Another session's plan wants it among others.
TEST_F(KernelCacheTest, AKernelThatWasCompiledAheadIsKeptByItself) {
  const std::vector<KernelCode> kernels = {kernel("a"), kernel("b"), kernel("c")};
  {
    KernelCache cache(setting());
    cache.compile_ahead(kernels[1], no_);
  }
  EXPECT_EQ(asked_, 1);
  KernelCache cache(setting());
  cache.compile_ahead(kernels[1], no_);
  EXPECT_EQ(asked_, 1);
  EXPECT_FALSE(cache.lacks(std::span(kernels).subspan(1, 1)));
  ASSERT_THAT(cache.compile(kernels).status(), is_ok());
  EXPECT_EQ(asked_, 2);
  KernelCache again(setting(false));
  EXPECT_FALSE(again.lacks(kernels));
  const Result<CompiledKernels> all = again.compile(kernels);
  ASSERT_THAT(all.status(), is_ok());
  for (const KernelCode& one : kernels) EXPECT_THAT(all->function(one.name).status(), is_ok());
}

TEST_F(KernelCacheTest, AFailureAheadComesAgainWhereTheKernelIsWanted) {
  KernelCache cache(setting(true, false));
  KernelCode wrong = kernel("a");
  wrong.text = "extern \"C\" __global__ void a(float* x) { no_such_thing(x); }\n";
  cache.compile_ahead(wrong, no_);
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(cache.compile(std::vector<KernelCode>{wrong}).status().message(), HasSubstr("no_such_thing"));
}

TEST_F(KernelCacheTest, WhatIsCancelledAheadIsAsIfNobodyHadBegun) {
  KernelCache cache(setting(true, false));
  const std::vector<KernelCode> kernels = {kernel("a")};
  cache.compile_ahead(kernels[0], true);
  EXPECT_EQ(asked_, 1);
  EXPECT_TRUE(cache.lacks(kernels));
  cache.compile_ahead(kernels[0], no_);
  EXPECT_FALSE(cache.lacks(kernels));
  EXPECT_THAT(cache.compile(kernels).status(), is_ok());
  EXPECT_EQ(asked_, 2);
}

// A plan uploads its weights and chooses algorithms meanwhile.
TEST_F(KernelCacheTest, ThreadsCompileWhatWasBegun) {
  KernelCache cache(setting(true, false));
  std::vector<KernelCode> kernels = {kernel("a"), kernel("b")};
  KernelCache::Pending pending = cache.begin(kernels);
  kernels.clear();
  const Result<CompiledKernels> made = cache.finish(std::move(pending));
  ASSERT_THAT(made.status(), is_ok());
  EXPECT_THAT(made->function("b").status(), is_ok());
  const KernelCache::Pending given_up = cache.begin(std::vector<KernelCode>{kernel("c")});
}

}  // namespace
}  // namespace tenon::cuda
