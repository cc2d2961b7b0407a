#include "abi/objects/sparse_tensor.h"

#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

OrtStatus* check_array(IndexArray indices, const char* what) {
  if (indices.count == 0 || indices.data != nullptr) return nullptr;
  return ort_error(ORT_INVALID_ARGUMENT, "{}", what);
}

OrtStatus* check_linear(const Shape& dense, IndexArray indices) {
  const auto count = dense.checked_element_count();
  if (!count.ok()) return to_ort(count.status());
  for (size_t i = 0; i < indices.count; ++i) {
    if (indices.data[i] < 0 || indices.data[i] >= static_cast<int64_t>(*count))
      return ort_error(ORT_INVALID_ARGUMENT, "COO linear index out of bounds: {} must be in [0, {})", indices.data[i],
                       *count);
  }
  return nullptr;
}

OrtStatus* check_pairs(const Shape& dense, IndexArray indices) {
  if (dense.rank() != 2)
    return make_ort_status(ORT_INVALID_ARGUMENT, "COO 2D indices require dense shape of 2 dimensions");
  for (size_t i = 0; i < indices.count; i += 2) {
    const int64_t row = indices.data[i], column = indices.data[i + 1];
    if (row < 0 || row >= dense[0] || column < 0 || column >= dense[1])
      return ort_error(ORT_INVALID_ARGUMENT, "COO 2D index out of bounds: ({}, {}) must be in [0, {}) x [0, {})", row,
                       column, dense[0], dense[1]);
  }
  return nullptr;
}

// The first outer index is 0, the last one the number of inner ones, and none is smaller than the one before it.
OrtStatus* check_outer(size_t inner_count, IndexArray outer) {
  if (outer.count == 0) return nullptr;
  const auto end = static_cast<int64_t>(inner_count);
  if (outer.data[0] != 0)
    return ort_error(ORT_INVALID_ARGUMENT, "CSR outer index must start at 0, got: {}", outer.data[0]);
  if (outer.data[outer.count - 1] != end)
    return ort_error(ORT_INVALID_ARGUMENT, "CSR outer index last element must equal inner index count ({}), got: {}",
                     inner_count, outer.data[outer.count - 1]);
  for (size_t i = 1; i < outer.count; ++i) {
    if (outer.data[i] < outer.data[i - 1] || outer.data[i] > end)
      return ort_error(ORT_INVALID_ARGUMENT, "CSR outer index out of bounds or not monotonically non-decreasing: {}",
                       outer.data[i]);
  }
  return nullptr;
}

}  // namespace

OrtStatus* check_coo(const Shape& dense, size_t value_count, IndexArray indices) {
  if (OrtStatus* bad = check_array(indices, "indices_data must not be null when indices_num > 0.")) return bad;
  if (value_count == 0 && indices.count > 0)
    return make_ort_status(ORT_INVALID_ARGUMENT, "COO indices must be empty when the sparse tensor has no values.");
  if (value_count > 0 && indices.count == 0)
    return make_ort_status(ORT_INVALID_ARGUMENT, "COO indices must be provided when the sparse tensor has values.");
  if (indices.count == value_count) return check_linear(dense, indices);
  if (indices.count % 2 == 0 && indices.count / 2 == value_count) return check_pairs(dense, indices);
  return make_ort_status(ORT_INVALID_ARGUMENT, "COO indices count must be equal to or twice the values count.");
}

OrtStatus* check_csr(const Shape& dense, size_t value_count, IndexArray inner, IndexArray outer) {
  if (OrtStatus* bad = check_array(inner, "inner index data must not be null when inner index count > 0.")) return bad;
  if (OrtStatus* bad = check_array(outer, "outer index data must not be null when outer index count > 0.")) return bad;
  for (size_t i = 0; dense.rank() == 2 && i < inner.count; ++i) {
    if (inner.data[i] < 0 || inner.data[i] >= dense[1])
      return ort_error(ORT_INVALID_ARGUMENT, "CSR inner index out of bounds: {} must be in [0, {})", inner.data[i],
                       dense[1]);
  }
  if (OrtStatus* bad = check_outer(inner.count, outer)) return bad;
  if (dense.rank() != 2) return ort_error(ORT_FAIL, "dense shape must 2-D. Got: {}", dense.rank());
  if ((inner.count == 0) != (outer.count == 0))
    return ort_error(ORT_FAIL, "There are {} inner and {} outer indices: both or neither must be empty.", inner.count,
                     outer.count);
  if (inner.count != value_count)
    return ort_error(ORT_FAIL, "Expecting inner index size: {} the same as values size: {}", inner.count, value_count);
  if (outer.count != 0 && outer.count - 1 != static_cast<size_t>(dense[0]))
    return ort_error(ORT_FAIL, "Outer index count must be rows + 1 or zero. Got: {} rows: {}", outer.count, dense[0]);
  return nullptr;
}

OrtStatus* check_blocks(const Shape& values, const Shape& indices) {
  if (values.element_count() == 0) {
    if (values.rank() == 1 && indices.rank() == 1 && indices.element_count() == 0) return nullptr;
    return ort_error(ORT_FAIL, "Without values, values and indices have the shape [0]; they are {} and {}.",
                     values.to_string(), indices.to_string());
  }
  if (values.rank() < 3) return ort_error(ORT_FAIL, "Expecting to have at least 3-D values. Got: {}", values.rank());
  if (indices.rank() != 2) return ort_error(ORT_FAIL, "Expecting indices to have 2-D shape. Got: {}", indices.rank());
  if (indices[0] != 2) return ort_error(ORT_FAIL, "Indices shape must have dim[0] == 2. Got: {}", indices[0]);
  int64_t blocks = 1;
  for (int i = 2; i < values.rank(); ++i) blocks *= values[i];
  if (blocks == indices[1]) return nullptr;
  return ort_error(ORT_FAIL, "Expecting index blocks: {} to be equal to values blocks: {}", indices[1], blocks);
}

Shape coo_shape(size_t value_count, size_t index_count) {
  const auto values = static_cast<int64_t>(value_count);
  // Without values the reference has pairs: twice nothing is nothing.
  return index_count == value_count && value_count > 0 ? Shape{values} : Shape{values, 2};
}

}  // namespace tenon::abi
