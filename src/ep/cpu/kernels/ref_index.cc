#include "ep/cpu/kernels/ref_index.h"

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

Status require_inside(const KernelNode& node, const Shape& indices, const Shape& x, int axis) {
  bool fits = indices.rank() == x.rank();
  for (int d = 0; fits && d < x.rank(); ++d) fits = d == axis || indices[d] <= x[d];
  TENON_INVALID_IF(!fits, "{} has indices {} for {} along axis {}.", node.node->op_type, indices.to_string(),
                   x.to_string(), axis);
  return {};
}

Result<Tuples> tuples_of(const KernelNode& node, const Shape& x, const Shape& indices, int first) {
  TENON_INVALID_IF(indices.rank() < 1, "{} has scalar indices.", node.node->op_type);
  const int64_t length = indices[indices.rank() - 1];
  TENON_INVALID_IF(length < 0 || length > x.rank() - first, "{} has indices {} for {}.", node.node->op_type,
                   indices.to_string(), x.to_string());
  Tuples tuples;
  tuples.length = static_cast<int>(length);
  const Strides strides = dense_strides(x);
  for (int d = 0; d + 1 < indices.rank(); ++d) tuples.count *= indices[d];
  for (int d = first; d < x.rank(); ++d) {
    tuples.batch_stride *= x[d];
    if (d < first + tuples.length) {
      tuples.strides[static_cast<size_t>(d - first)] = strides[static_cast<size_t>(d)];
      tuples.dims.push_back(x[d]);
    } else {
      tuples.slice *= x[d];
    }
  }
  return tuples;
}

}  // namespace tenon::cpu::ref
