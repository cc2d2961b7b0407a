// The text of kernels for images; needs no device.
#include "ep/cuda/compute/codegen_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GeneratedResize two_taps() {
  return {.dims = {2, 8, 9}, .strides = {20, 4, 1}, .out_strides = {72, 9, 1}, .widths = {0, 0, 2}};
}

TEST(GenerateResize, LoopsOnlyWhereElementsAreMixed) {
  const Result<GeneratedKernel> kernel = generate_resize(two_taps());
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_THAT(kernel->source, HasSubstr("const float* a, const int* x2, const float* w2, float* y"));
  EXPECT_THAT(kernel->source, HasSubstr("for (int k2 = 0; k2 < 2; ++k2)"));
  EXPECT_THAT(kernel->source, Not(HasSubstr("k1")));
  EXPECT_EQ(kernel->blocks, 1U);
  EXPECT_EQ(generate_resize(two_taps())->name, kernel->name);
}

TEST(GenerateResize, WholeElementsOfAnyTypeAreCopied) {
  GeneratedResize resize = two_taps();
  resize.type = DataType::kInt64;
  EXPECT_EQ(generate_resize(resize).status().code(), StatusCode::kUnsupported);
  resize.widths = {0, 0, 1};
  resize.copies = true;
  const Result<GeneratedKernel> kernel = generate_resize(resize);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_THAT(kernel->source, Not(HasSubstr("sum")));
}

TEST(GenerateResize, WhatLiesOutsideIsFilled) {
  GeneratedResize resize = two_taps();
  resize.outside = true;
  resize.fill = "7.0f";
  EXPECT_THAT(generate_resize(resize)->source, HasSubstr("if (x2[i2 * 2] < 0) {"));
  EXPECT_THAT(generate_resize(resize)->source, HasSubstr("(float)(7.0f)"));
}

TEST(GenerateWindowSum, EachAxisSkipsWhatDoesNotMeet) {
  const GeneratedWindowSum window{
      .images = 2,
      .channels = 8,
      .image_stride = 1000,
      .channel_stride = 1,
      .out_image_stride = 512,
      .out_channel_stride = 1,
      .axes =
          {{.in = 5, .out = 9, .kernel = 3, .stride = 2, .pad = 1, .in_stride = 24, .out_stride = 8, .tap_stride = 8}},
      .bias = true,
      .activation = "fmaxf($0, 0.0f)"};
  const Result<GeneratedKernel> kernel = generate_window_sum(window);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_THAT(kernel->source, HasSubstr("p0 < 0 || p0 % 2 != 0 || p0 / 2 >= 5"));
  EXPECT_THAT(kernel->source, HasSubstr("sum = fmaxf(sum, 0.0f);"));
  EXPECT_THAT(kernel->source, HasSubstr("const float* a, const float* b, float* y"));
  EXPECT_EQ(kernel->blocks, 1U);
}

}  // namespace
}  // namespace tenon::cuda
