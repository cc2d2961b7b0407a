// Pieces of text that all generated kernels are made of (codegen.cc).
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::cuda {

inline constexpr unsigned kGeneratedThreads = 256;

// How a type lies in memory.
std::string storage_type(DataType type);
// Text that loads from, or stores to, memory of a type.
std::string loaded(DataType type, const std::string& text);
std::string stored(DataType type, const std::string& text);
// The dimensions that count, outermost in the memory of one operand first, neighbours joined where every operand
// allows.
struct Loops {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  // one list an operand
};
Loops join_dims(std::vector<int64_t> dims, const std::vector<std::vector<int64_t>>& strides, size_t order_by);
int64_t count_of(const std::vector<int64_t>& dims);

// "(1.500000000e+00f)", or what names an infinity or NaN.
std::string float_literal(float value);
// "i0 * 128 + i1 * 4 + 7".
std::string address(const std::vector<int64_t>& strides, int64_t offset, const char* variable = "i");
// Declares i0, i1, ... of the flat index `from`.
std::string split_index(const std::vector<int64_t>& dims, const char* variable, const char* from);
// Whether 32 bits cannot count the elements, or address what the strides reach.
bool needs_wide_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t offset);
// Declares index_t and place_t (the same with a sign), of 64 bits where `wide`. Every kernel begins with it.
std::string index_types(bool wide);
// Declares `flat`, a thread's element of `count`, and ends the threads that have none.
std::string flat_index(int64_t count);
// Errors: kUnsupported for more blocks than a grid may have.
Result<unsigned> blocks_of(int64_t count, int64_t a_block);
std::string hash_name(const char* prefix, const std::string& text);

}  // namespace tenon::cuda
