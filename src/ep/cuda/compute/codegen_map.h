// Writes CUDA C++ for operators that are a function of an element's coordinates, and for those that need a block's
// threads together: the operator says what one thread does, this adds all around it.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ep/cuda/compute/codegen.h"

namespace tenon::cuda {

// `body` sees the parameters by their names, `flat` (the thread's element of `dims`) and its coordinates i0, i1, ...;
// in a kernel of blocks also threadIdx.x, of `threads`. index_t and place_t are the types of places in tensors.
struct GeneratedMap {
  std::string name;  // what the kernel's name begins with
  std::vector<int64_t> dims;
  // Type and name, in the order of the operator's reads and writes.
  std::vector<std::pair<DataType, std::string>> reads, writes;
  std::string body;
  bool by_block = false;  // an element is a block's
  unsigned threads = 0;   // of a block; 0: kGeneratedThreads
  bool wide = false;      // some tensor has more elements than 32 bits count
};

Result<GeneratedKernel> generate_map(const GeneratedMap& map);

// "((i0 * 3 + i1) * 5 + i2)": where the coordinates `names` are in a dense tensor of `dims`.
std::string dense_address(const std::vector<std::string>& names, const std::vector<int64_t>& dims);
// "i0", "i1", ...
std::vector<std::string> index_names(size_t rank, const char* variable = "i");

}  // namespace tenon::cuda
