// For tests of kernels that are compiled at run time.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "ep/cuda/compute/kernel_cache.h"
#include "ep/cuda/compute/kernel_template.h"

namespace tenon::cuda {

// The kernel compiles for a device that need not be here; a machine without the compiler skips.
inline void expect_kernel_compiles(const KernelCode& kernel) {
  const Result<const Nvrtc*> compiler = nvrtc();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  const auto image = compile_kernels(**compiler, {&kernel, 1}, 90);
  EXPECT_TRUE(image.ok()) << image.status().to_string() << kernel.text;
}
inline void expect_instance_compiles(const TemplateKernel& kernel) {
  expect_kernel_compiles({kernel.instance, kernel.header, kernel.text});
}

// The parameters that the kernel gets.
template <typename P>
P params_of(const TemplateKernel& kernel) {
  P params;
  EXPECT_EQ(kernel.params.size(), sizeof(P));
  std::memcpy(&params, kernel.params.data(), sizeof(P));
  return params;
}

}  // namespace tenon::cuda
