// Which kernels reductions become; needs no device.
#include "ep/cuda/ops/reduce/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/kernel_template_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

Reduction rows_of(int64_t rows, int64_t columns, ReduceKind kind) {
  return {.dims = {rows},
          .strides = {columns},
          .out_strides = {1},
          .reduced = {columns},
          .reduced_strides = {1},
          .type = DataType::kFloat16,
          .out_type = DataType::kFloat16,
          .kind = kind};
}

TEST(Reduction, LongSumsShareABlock) {
  const auto kernel = reduction_kernel(rows_of(3, 100000, ReduceKind::kMean));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->shape.grid_x, 3U);
  EXPECT_THAT(kernel->instance, HasSubstr("ReduceKind(1), 1, 8, false>"));  // vectors of eight
  const auto params = params_of<ReduceParams>(*kernel);
  EXPECT_EQ(params.steps, 12500);
  EXPECT_EQ(params.count, 100000);
  EXPECT_EQ(1 << params.lane_bits, 256);
  expect_instance_compiles(*kernel);
}

// Another size of the same layout is the same instance: nothing is compiled for it.
TEST(Reduction, AnotherSizeIsTheSameInstance) {
  const auto a = reduction_kernel(rows_of(3, 100000, ReduceKind::kMean));
  const auto b = reduction_kernel(rows_of(700, 64, ReduceKind::kMean));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->instance, b->instance);
  EXPECT_NE(a->params, b->params);
}

TEST(Reduction, ShortRowsShareABlock) {
  const auto kernel = reduction_kernel(rows_of(1000, 3, ReduceKind::kMax));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->shape.grid_x, 16U);  // four threads a row
  expect_instance_compiles(*kernel);
}

// Neighbouring threads read neighbouring columns.
TEST(Reduction, ColumnsLieBesideEachOther) {
  Reduction reduction = rows_of(64, 4096, ReduceKind::kArgMax);
  std::swap(reduction.strides, reduction.reduced_strides);
  reduction.reduced_strides = {64};
  reduction.out_type = DataType::kInt64;
  const auto kernel = reduction_kernel(reduction);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->shape.grid_x, 2U);
  EXPECT_EQ(params_of<ReduceParams>(*kernel).beside, 1);
  expect_instance_compiles(*kernel);
}

TEST(Reduction, FewResultsOfMuchAreMadeInParts) {
  EXPECT_EQ(reduction_parts(rows_of(1, 1 << 24, ReduceKind::kSum)), 1024);
  EXPECT_EQ(reduction_parts(rows_of(1, 1000, ReduceKind::kSum)), 1);
  EXPECT_EQ(reduction_parts(rows_of(100000, 1000, ReduceKind::kSum)), 1);
  Reduction pieces = rows_of(2, 1 << 20, first_reduction(ReduceKind::kL2));
  pieces.parts = 100;
  pieces.out_strides = {100};
  pieces.out_type = DataType::kFloat;
  const auto kernel = reduction_kernel(pieces);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(pieces.kind, ReduceKind::kSumSquare);
  EXPECT_EQ(second_reduction(ReduceKind::kL2), ReduceKind::kRoot);
  EXPECT_EQ(kernel->shape.grid_x, 200U);
  EXPECT_EQ(params_of<ReduceParams>(*kernel).kept.strides[1][0], 100);
  expect_instance_compiles(*kernel);
}

// The positions that parts chose are all there is to choose from.
TEST(Reduction, AChoiceAmongCandidatesReadsTheirPlaces) {
  Reduction reduction = rows_of(2, 1 << 20, ReduceKind::kArgMin);
  reduction.out_type = DataType::kInt64;
  reduction.candidates = 100;
  const auto kernel = reduction_kernel(reduction);
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->instance, HasSubstr("choose_candidate<"));
  EXPECT_EQ(params_of<ReduceParams>(*kernel).candidates, 100);
  expect_instance_compiles(*kernel);
}

TEST(Reduction, ALogarithmOfIntegersIsRefused) {
  Reduction reduction = rows_of(2, 8, ReduceKind::kLogSum);
  reduction.type = reduction.out_type = DataType::kInt32;
  EXPECT_EQ(reduction_kernel(reduction).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tenon::cuda
