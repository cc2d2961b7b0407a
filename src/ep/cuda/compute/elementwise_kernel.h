// The kernels of fused elementwise chains, and of everything that only moves elements: the template of elementwise.cuh
// with the chain as text.
//
// A kernel is a function of the chain and of how its operands lie: rank after joining, which operands repeat or have
// neighbours, vector width. Sizes and strides are parameters. Nothing here needs a device.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ep/cuda/compute/kernel_template.h"

namespace tenon::cuda {

// One operand of an elementwise kernel, read once for each output element.
struct GeneratedLeaf {
  DataType type = DataType::kFloat;
  std::vector<int64_t> strides;  // element strides over the output's dimensions
  int64_t offset = 0;
  // A gathered operand: the address also grows by index * index_stride, the index read from an integer tensor.
  bool gathered = false;
  DataType index_type = DataType::kInt64;
  std::vector<int64_t> index_strides;
  int64_t index_stride = 0, index_limit = 0;
  // A padded operand: only output coordinates in [begin, end) read it, others take `fill`: the bits of a number of the
  // type that kernels compute in, the low ones first.
  std::vector<int64_t> begin, end;
  uint64_t fill = 0;
};

// A step of the chain: `expression` with $0, $1, ... for its arguments; argument >= 0 is a leaf, < 0 is step ~argument.
struct GeneratedStep {
  DataType type = DataType::kFloat;  // of the result
  std::string expression;
  std::vector<int> arguments;
};

struct GeneratedElementwise {
  std::vector<int64_t> dims;  // of the output, none of them 0
  DataType type = DataType::kFloat;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  std::vector<GeneratedLeaf> leaves;
  std::vector<GeneratedStep> steps;  // the last one is the result; empty: leaf 0
};

// The kernel's reads are the leaves, then the indices of gathered ones, in order.
// Errors: kUnsupported for types that kernels have not, and for more operands or elements than a kernel can have.
Result<TemplateKernel> elementwise_kernel(const GeneratedElementwise& kernel);

}  // namespace tenon::cuda
