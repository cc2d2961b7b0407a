// How the threads of the kernels of norm/norm.cuh and softmax/softmax.cuh share groups: elements, anywhere in a tensor,
// that one sum is taken of.
#pragma once

#include <string>
#include <vector>

#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/norm/norm_params.h"

namespace tenon::cuda {

// The groups that are normalised: the coordinates that share a mean are `reduced`, all with the strides of the input.
struct Groups {
  std::vector<int64_t> dims, strides, reduced, reduced_strides;
  // Of scale and bias over both.
  std::vector<int64_t> scale_strides, scale_reduced_strides;
};

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims);
// Splits `dims` by which of them share a mean; `scale` are the strides of the parameters.
Groups split_groups(const std::vector<int64_t>& dims, const std::vector<bool>& shared,
                    const std::vector<int64_t>& scale);

// How a block's threads share groups: `lanes` each. A lane keeps its elements in registers where they are few.
struct Layout {
  Loops kept, reduced;  // strides of the input, then of the parameters
  bool beside = false;  // groups lie beside each other in memory: neighbours are threads of different groups
  int64_t threads = kMapThreads, lanes = 1, groups = 1;  // of a block
  int64_t outputs = 1, steps = 1, vector = 1;            // steps: vectors of a group
  int64_t turns = 0;                                     // vectors that a lane keeps; 0: none are kept
};

Layout lay_out(const Groups& groups, DataType type);

// The kernel's template arguments, after those of its own, and its parameters.
struct NormKernel {
  std::string arguments;
  NormParams params;
  LaunchShape shape;
};

// `elements`: of the input. Errors: kUnsupported where there are more groups than a launch has blocks.
Result<NormKernel> norm_kernel(const Layout& layout, int64_t elements);

}  // namespace tenon::cuda
