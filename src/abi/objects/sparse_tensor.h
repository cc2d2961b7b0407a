// The contents of a sparse OrtValue: the values that are not zero, and the indices that say where in the dense tensor
// they lie. Shape and element type of the dense tensor are the OrtValue's own.
//
// Ownership: values and indices are copies in one block of `allocator`, or the program's memory where there is none.
// Strings are always copies. Threads: as OrtValue.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/types.h>

#include <memory>
#include <string>
#include <vector>

namespace tenon::abi {

struct SparseIndices {
  DataType type = DataType::kInt64;
  Shape shape;
  const void* data = nullptr;
};

struct SparseTensor {
  OrtSparseFormat format = ORT_SPARSE_UNDEFINED;  // until it is filled, or its indices are given
  OrtAllocator* allocator = nullptr;              // null: the program's memory
  Shape values_shape;
  const void* values = nullptr;        // of numbers
  std::vector<std::string> strings;    // of strings
  std::vector<SparseIndices> indices;  // CSR: the inner ones, then the outer ones
  std::shared_ptr<const void> block;
};

// Indices as a program gives them.
struct IndexArray {
  const int64_t* data = nullptr;
  size_t count = 0;
};

// Null, or why the indices do not describe `value_count` values of a dense tensor of this shape; the codes and texts
// are the reference's. Indices need not be sorted or different.
OrtStatus* check_coo(const Shape& dense, size_t value_count, IndexArray indices);
OrtStatus* check_csr(const Shape& dense, size_t value_count, IndexArray inner, IndexArray outer);
OrtStatus* check_blocks(const Shape& values, const Shape& indices);
// One dimension for linear indices, two for pairs of row and column.
Shape coo_shape(size_t value_count, size_t index_count);

}  // namespace tenon::abi
