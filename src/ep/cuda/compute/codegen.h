// Writes CUDA C++ for elementwise chains, for everything that only moves elements, and for reductions.
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

struct GeneratedReduction {
  std::vector<int64_t> dims;         // of the output, without the reduced dimensions
  std::vector<int64_t> strides;      // of the input over them
  std::vector<int64_t> out_strides;  // of the output over them
  std::vector<int64_t> reduced, reduced_strides;
  DataType type = DataType::kFloat, out_type = DataType::kFloat;
  // "sum", "mean", "max", "min", "prod", "l1", "l2", "root" (of a sum), "sum_square", "log_sum", "log_sum_exp",
  // "argmax", "argmin"
  std::string kind;
  bool last = false;  // of equal elements, "argmax" and "argmin" take the last
  // Each result is made in so many parts, which lie together where out_strides say; another reduction joins them.
  int64_t parts = 1;
  int64_t count = 0;  // what a mean divides by; 0: the number of reduced elements
  // Of "argmax" and "argmin": so many places (int64) for each output, -1 for none, are all there is to choose from.
  // They are the kernel's second parameter.
  int64_t candidates = 0;
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
Result<GeneratedKernel> generate_reduction(const GeneratedReduction& kernel);
// In how many parts a device is best kept busy; and the kinds of the reductions that make and join them.
int64_t reduction_parts(const GeneratedReduction& kernel);
std::string first_reduction(const std::string& kind);
std::string second_reduction(const std::string& kind);

}  // namespace tenon::cuda
