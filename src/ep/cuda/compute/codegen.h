// Writes CUDA C++ for elementwise chains and for everything that only moves elements.
//
// A kernel is a function of sizes, strides and types alone: the same text has the same name, and one program compiles
// each text once. Nothing here needs a device.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

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
  // A padded operand: only output coordinates in [begin, end) read it, others take `fill` (text of a number).
  std::vector<int64_t> begin, end;
  std::string fill = "0";
};

// A step of the chain: `expression` with $0, $1, ... for its arguments; argument >= 0 is a leaf, < 0 is step ~argument.
struct GeneratedStep {
  DataType type = DataType::kFloat;  // of the result
  std::string expression;
  std::vector<int> arguments;
};

struct GeneratedElementwise {
  std::vector<int64_t> dims;  // of the output
  DataType type = DataType::kFloat;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  std::vector<GeneratedLeaf> leaves;
  std::vector<GeneratedStep> steps;  // the last one is the result; empty: leaf 0
};

struct GeneratedKernel {
  std::string name;    // from the text
  std::string source;  // one extern "C" __global__ function; parameters are leaves, then indices, then the output
  unsigned blocks = 0, threads = 0;
  std::vector<bool> in_place;  // by parameter before the output: it may be the output's memory
};

// "float", "long long", ...: how the kernels compute with values of a type. Empty for a type that they do not have.
std::string compute_type(DataType type);

Result<GeneratedKernel> generate_elementwise(const GeneratedElementwise& kernel);

}  // namespace tenon::cuda
