// Sparse tensors, as Python sees them.
#pragma once

#include <tenon/tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core.h"

namespace tenon::python {

// A value of the C ABI over arrays of Python, which it keeps; of strings it has copies. It never changes, so an
// OrtValue and any number of SparseTensors share one.
struct Sparse {
  OwnedValue value;
  Shape dense_shape;
  DataType type = DataType::kUndefined;
  Tensor values;                // of strings: undefined
  std::vector<Tensor> indices;  // COO one, CSR the inner and the outer ones
  OrtSparseFormat format = ORT_SPARSE_UNDEFINED;
};
using SparseRef = std::shared_ptr<Sparse>;

// "sparse_tensor(float)".
std::string type_text(const Sparse& sparse);
// What SparseTensor's Python class holds.
SparseRef sparse_of(nb::handle sparse_tensor);
nb::object make_sparse_tensor(SparseRef sparse);

}  // namespace tenon::python
