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
