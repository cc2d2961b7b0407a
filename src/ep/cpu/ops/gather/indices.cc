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
  for (; failed < count_; ++failed)
    if (Status status = wrap_index(rows_.read(data, failed), length_).status(); !status.ok()) return status;
  return internal_error("No index is outside [{}, {}).", -length_, length_);
}

Tuples::Tuples(const GatherNdDesc& desc, const Shape& x) : length_(desc.width) {
  const Strides strides = dense_strides(x);
  for (int d = 0; d < desc.width; ++d) {
    strides_[d] = strides[desc.batch_rank + d];
    dims_.push_back(x[desc.batch_rank + d]);
  }
}

bool Tuples::find(const int64_t* indices, int64_t n, int64_t* offsets) const {
  if (length_ == 1) return integer_table().place(indices, n, dims_[0], strides_[0], 0, offsets);
  int64_t outside = 0;
  for (int64_t i = 0; i < n; ++i, indices += length_) {
    uint64_t sum = 0;
    for (int d = 0; d < length_; ++d) {
      const int64_t index = indices[d] + (indices[d] < 0 ? dims_[d] : 0);
      outside |= index | (dims_[d] - 1 - index);  // negative where the index is outside
      sum += static_cast<uint64_t>(index) * static_cast<uint64_t>(strides_[d]);
    }
    offsets[i] = static_cast<int64_t>(sum);
  }
  return outside >= 0;
}

Status Tuples::status(const IndexRows& rows, const void* data, int64_t tuples, int64_t failed) const {
  if (failed < 0) return {};
  for (int64_t i = failed * length_; i < tuples * length_; ++i) {
    Status status = wrap_index(rows.read(data, i), dims_[static_cast<int>(i % length_)]).status();
    if (!status.ok()) return status;
  }
  return internal_error("No index of the {} tuples is outside.", tuples);
}

}  // namespace tenon::cpu::ref
