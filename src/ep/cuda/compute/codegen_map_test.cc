#include "ep/cuda/compute/codegen_map.h"

#include <gmock/gmock.h>

#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GeneratedMap copy_of(std::vector<int64_t> dims) {
  return {.name = "copy",
          .dims = std::move(dims),
          .reads = {{DataType::kInt8, "a"}},
          .writes = {{DataType::kInt8, "y"}},
          .body = "  y[flat] = a[flat];\n"};
}

TEST(GenerateMap, NamesItsParametersAndCoordinates) {
  const Result<GeneratedKernel> kernel = generate_map(copy_of({3, 100}));
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_THAT(kernel->source, HasSubstr("(const signed char* a, signed char* y)"));
  EXPECT_THAT(kernel->source, HasSubstr("const index_t i1 = ir % 100u"));
  EXPECT_THAT(kernel->source, Not(HasSubstr("unsigned long long")));
  EXPECT_EQ(kernel->blocks, 2U);
  EXPECT_EQ(kernel->name, generate_map(copy_of({3, 100}))->name);
  EXPECT_NE(kernel->name, generate_map(copy_of({3, 101}))->name);
}

// 32 bits would wrap: element 2^32 would be element 0.
TEST(GenerateMap, ManyElementsAreCountedIn64Bits) {
  const int64_t count = (int64_t{1} << 32) + 5;
  const Result<GeneratedKernel> kernel = generate_map(copy_of({count}));
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_THAT(kernel->source, HasSubstr("typedef unsigned long long index_t"));
  EXPECT_THAT(kernel->source, HasSubstr("(index_t)blockIdx.x * 256u"));
  EXPECT_EQ(kernel->blocks, static_cast<unsigned>((count + 255) / 256));
  GeneratedMap few = copy_of({5});
  few.wide = true;  // some other tensor is that large
  EXPECT_THAT(generate_map(few)->source, HasSubstr("typedef unsigned long long index_t"));
}

TEST(GenerateMap, MoreBlocksThanAGridHasAreRefused) {
  GeneratedMap map = copy_of({int64_t{1} << 31});
  map.by_block = true;
  EXPECT_EQ(generate_map(map).status().code(), StatusCode::kUnsupported);
}

TEST(NeedsWideIndex, CountsReachAndOffset) {
  EXPECT_FALSE(needs_wide_index({1000, 1000}, {1000, 1}, 0));
  EXPECT_TRUE(needs_wide_index({50000, 50000}, {}, 0));
  EXPECT_TRUE(needs_wide_index({2}, {1}, int64_t{1} << 31));
  EXPECT_TRUE(needs_wide_index({3}, {-(int64_t{1} << 30)}, 0));
  EXPECT_TRUE(needs_wide_index({int64_t{1} << 40, int64_t{1} << 40}, {}, 0));
}

TEST(DenseAddress, NestsByTheDimensions) {
  EXPECT_EQ(dense_address(index_names(3), {2, 3, 4}), "((i0 * 3 + i1) * 4 + i2)");
  EXPECT_EQ(dense_address({}, {}), "0");
}

}  // namespace
}  // namespace tenon::cuda
