#include "ep/cpu/ops/gather/indices.h"

namespace tenon::cpu::ref {

Result<IndexReader> index_reader(const KernelNode& node, size_t input) {
  const DataType type = input_spec(node, input).type;
  const IndexReader reader = select(NumericTypes(), type, []<typename T>() -> IndexReader {
    return [](const void* indices, int64_t i) {
      const auto value = static_cast<Compute<T>>(static_cast<const T*>(indices)[i]);
      if constexpr (is_float<T>) {
        // Beyond int64 (or NaN) is out of range for every axis.
        if (!(std::abs(static_cast<double>(value)) < 0x1p62)) return std::numeric_limits<int64_t>::min();
      } else if constexpr (std::is_same_v<T, uint64_t>) {
        if (value > uint64_t{INT64_MAX}) return std::numeric_limits<int64_t>::min();
      }
      return static_cast<int64_t>(value);
    };
  });
  TENON_UNSUPPORTED_IF(reader == nullptr, "{} takes no indices of {}.", node.node->op_type, data_type_name(type));
  return reader;
}

void IndexRows::load(const void* indices, int64_t first, int64_t count, int64_t* out) const {
  if (type == DataType::kInt64) {
    std::copy_n(static_cast<const int64_t*>(indices) + first, count, out);
  } else if (type == DataType::kInt32) {
    std::copy_n(static_cast<const int32_t*>(indices) + first, count, out);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = read(indices, first + i);
  }
}

Result<IndexRows> index_rows(const KernelNode& node, size_t input) {
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, input));
  return IndexRows{read, input_spec(node, input).type};
}

ElementBox::ElementBox(const IndexRows& rows, const Shape& indices, const Shape& x, int axis)
    : rows_(rows),
      indices_(indices),
      axis_(axis),
      length_(x[axis]),
      count_(indices.element_count()),
      index_strides_(dense_strides(indices)),
      x_strides_(dense_strides(x)) {
  axis_stride_ = x_strides_[axis];
}

int ElementBox::longest_part(bool axis_too) const {
  int longest = -1;
  for (int d = 0; d < indices_.rank(); ++d)
    if ((axis_too || d != axis_) && (longest < 0 || indices_[d] > indices_[longest])) longest = d;
  return longest;
}

int64_t ElementBox::grain(int part) const {
  constexpr int64_t kElements = 32768, kLeastPiece = 64;
  // Rows that are split keep whole cache lines together.
  const int64_t least = part >= 0 && part == indices_.rank() - 1 ? kLeastPiece : 1;
  return std::max(least, kElements * part_size(part) / std::max<int64_t>(1, count_));
}

Status ElementBox::status(const void* data, int64_t failed) const {
  if (failed < 0) return {};
  return wrap_index(rows_.read(data, failed), length_).status();
}

Tuples tuples_of(const GatherNdDesc& desc, const Shape& x) {
  Tuples tuples;
  tuples.length = desc.width;
  const Strides strides = dense_strides(x);
  for (int d = 0; d < desc.width; ++d) {
    tuples.strides[d] = strides[desc.batch_rank + d];
    tuples.dims.push_back(x[desc.batch_rank + d]);
  }
  return tuples;
}

}  // namespace tenon::cpu::ref
