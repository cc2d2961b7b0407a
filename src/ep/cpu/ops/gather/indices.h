// Indices as data: read as int64 whatever their type, checked against an axis.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/gather.h"

namespace tenon::cpu::ref {

using IndexReader = int64_t (*)(const void* indices, int64_t i);
// Floats are truncated (OneHot allows them).
Result<IndexReader> index_reader(const KernelNode& node, size_t input);

// Counts from the end when negative; the error names the index and the axis' length.
inline Result<int64_t> wrap_index(int64_t index, int64_t length) {
  if (index < -length || index >= length) {
    return out_of_range("Index {} is outside [{}, {}).", index, -length, length);
  }
  return index < 0 ? index + length : index;
}

// body(i, offset) for each element i of `indices`: offset is that of x's element with i's coordinates and the index on
// `axis`.
template <typename Body>
Status each_element(IndexReader read, const void* data, const Shape& indices, const Shape& x, int axis,
                    const Body& body) {
  const Strides strides = dense_strides(x);
  const int64_t count = indices.element_count();
  const int rank = x.rank();
  std::array<int64_t, Shape::kMaxRank> at{};
  for (int64_t i = 0; i < count; ++i) {
    Result<int64_t> index = wrap_index(read(data, i), x[axis]);
    if (!index.ok()) return std::move(index).status();
    int64_t offset = *index * strides[axis];
    for (int d = 0; d < rank; ++d) {
      if (d != axis) offset += at[d] * strides[d];
    }
    body(i, offset);
    for (int d = rank - 1; d >= 0; --d) {
      if (++at[d] < indices[d]) break;
      at[d] = 0;
    }
  }
  return {};
}

// Reads tuples (GatherNdDesc): the element of a batch of x where the slice begins that a tuple names.
struct Tuples {
  int length = 0;  // of a tuple
  Shape dims;      // x's axes that a tuple indexes
  Strides strides{};

  Result<int64_t> offset(IndexReader read, const void* data, int64_t tuple) const {
    int64_t sum = 0;
    for (int d = 0; d < length; ++d) {
      Result<int64_t> index = wrap_index(read(data, tuple * length + d), dims[d]);
      if (!index.ok()) return index;
      sum += *index * strides[d];
    }
    return sum;
  }
};
Tuples tuples_of(const GatherNdDesc& desc, const Shape& x);

}  // namespace tenon::cpu::ref
