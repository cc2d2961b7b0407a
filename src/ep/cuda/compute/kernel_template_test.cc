#include "ep/cuda/compute/kernel_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "base/testing.h"
#include "ep/cuda/compute/kernel_template_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

// The quotient as templates/kernel.cuh computes it with 32 bits.
uint32_t quotient(uint32_t n, const Divisor& by) {
  const auto high = static_cast<uint32_t>(uint64_t{n} * by.multiplier >> 32);
  return (high + n) >> by.shift;
}

// Every divisor near a power of two, and every numerator near a multiple of it, where a wrong multiplier errs first.
TEST(Divisor, TheQuotientIsExactAtEveryEdge) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int bit = 0; bit <= 31; ++bit)
    for (int64_t size = (int64_t{1} << bit) - 70; size <= (int64_t{1} << bit) + 70; ++size) {
      if (size < 1 || size > kMost) continue;
      const Divisor by = make_divisor(size);
      for (const int64_t factor :
           {int64_t{0}, int64_t{1}, int64_t{2}, kMost / size / 2, kMost / size - 1, kMost / size})
        for (int64_t n = factor * size - 2; n <= factor * size + 2; ++n)
          if (n >= 0 && n <= kMost) {
            ASSERT_EQ(quotient(static_cast<uint32_t>(n), by), n / size) << n << " / " << size;
          }
      ASSERT_EQ(quotient(static_cast<uint32_t>(kMost), by), kMost / size) << size;
    }
}

// And every divisor up to the sizes that tensors mostly have, at the largest numerators.
TEST(Divisor, TheQuotientIsExactForEverySmallDivisor) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int64_t size = 1; size <= 1 << 20; ++size) {
    const Divisor by = make_divisor(size);
    const int64_t multiple = kMost / size * size;
    for (const int64_t n : {multiple - 1, multiple, kMost})
      ASSERT_EQ(quotient(static_cast<uint32_t>(n), by), n / size) << n << " / " << size;
  }
}

TEST(TemplateInstance, NamesTypesConstantsAndEnumerators) {
  EXPECT_EQ(template_instance("f", DataType::kFloat, DataType::kFloat16, DataType::kBool, 4, true),
            "tenon::cuda::device::f<float, tenon::cuda::device::half_bits, tenon::cuda::device::bool_bits, 4, true>");
  EXPECT_EQ(template_instance("f", DataType::kInt8, TemplateEnum{"tenon::Activation", 3}),
            "tenon::cuda::device::f<signed char, tenon::Activation(3)>");
}

TEST(LoopParams, MoreLoopsThanAKernelHasAreRefused) {
  Loops loops{.dims = std::vector<int64_t>(kMostRank + 1, 2), .strides = {std::vector<int64_t>(kMostRank + 1, 1)}};
  EXPECT_THAT(loop_params<1>(loops).status(),
              has_status(StatusCode::kUnsupported, HasSubstr("at most 12 nested loops")));
  loops.dims.pop_back();
  loops.strides[0].pop_back();
  const auto params = loop_params<1>(loops);
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(params->dims[11].size, 2U);
}

TEST(MapLaunch, HasAThreadForEachElement) {
  EXPECT_EQ(map_launch(257)->grid_x, 2U);
  EXPECT_EQ(map_launch(257)->block_x, kMapThreads);
  EXPECT_THAT(map_launch(int64_t{1} << 40).status(), has_status(StatusCode::kUnsupported, HasSubstr("blocks")));
}

// An error names the instance and its header.
TEST(CompileKernels, AnUnknownInstanceIsNamed) {
  const Result<const Nvrtc*> compiler = nvrtc();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  const KernelCode kernel{"tenon::cuda::device::nothing<float>", "ep/cuda/templates/kernel.cuh", ""};
  EXPECT_THAT(
      compile_kernels(**compiler, {&kernel, 1}, 90).status(),
      has_status(StatusCode::kInternal,
                 HasSubstr("while compiling tenon::cuda::device::nothing<float> of ep/cuda/templates/kernel.cuh")));
}

}  // namespace
}  // namespace tenon::cuda
