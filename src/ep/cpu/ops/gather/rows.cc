// Gather and LookupOrDefault: rows by index, for every type with whole bytes.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/moves/rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ops/gather.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrainBytes = 32 << 10;
constexpr int64_t kNoFailure = INT64_MAX;

using ReadIndex = int64_t (*)(const void* indices, int64_t at);

template <typename T>
int64_t read_index(const void* indices, int64_t at) {
  return static_cast<int64_t>(static_cast<const T*>(indices)[at]);
}

// Unsigned 64-bit values past the largest int64 become negative: outside every table, as they should be.
ReadIndex index_reader(DataType type) {
  switch (type) {
    case DataType::kInt64:
    case DataType::kUint64:
      return &read_index<int64_t>;
    case DataType::kInt32:
      return &read_index<int32_t>;
    case DataType::kUint32:
      return &read_index<uint32_t>;
    case DataType::kInt16:
      return &read_index<int16_t>;
    case DataType::kUint16:
      return &read_index<uint16_t>;
    case DataType::kInt8:
      return &read_index<int8_t>;
    case DataType::kUint8:
      return &read_index<uint8_t>;
    default:
      return nullptr;
  }
}

class GatherKernel final : public Kernel {
 public:
  struct Sizes {
    int64_t outer, table, indices, row_bytes;
  };
  GatherKernel(const Sizes& sizes, ReadIndex read, bool has_default) : s_(sizes), read_(read), default_(has_default) {}

  Status run(KernelContext& context) const override {
    const auto* const table = context.input<std::byte>(0);
    const auto* const indices = context.input<void>(1);
    auto* const y = context.output<std::byte>(0);
    const int64_t rows = default_ ? s_.table - 1 : s_.table;  // the last row of a table with a default is the default
    std::atomic<int64_t> failed{kNoFailure};
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, s_.row_bytes));
    context.pool->parallel_for(s_.outer * s_.indices, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t row = read_(indices, i % s_.indices);
        if (default_) {
          if (row < 0 || row >= rows) row = rows;
        } else {
          if (row < 0) row += rows;
          if (row < 0 || row >= rows) {
            failed.store(i % s_.indices, std::memory_order_relaxed);
            return;
          }
        }
        std::memcpy(y + i * s_.row_bytes, table + (i / s_.indices * s_.table + row) * s_.row_bytes, s_.row_bytes);
      }
    });
    if (const int64_t at = failed.load(std::memory_order_relaxed); at != kNoFailure)
      return out_of_range("Index {} at position {} is not in [{}, {}).", read_(indices, at), at, -rows, rows);
    return {};
  }
  std::string_view name() const override { return default_ ? "lookup" : "gather"; }

 private:
  const Sizes s_;
  const ReadIndex read_;
  const bool default_;
};

Result<std::unique_ptr<Kernel>> make_gather(const KernelNode& node, bool has_default) {
  const Shape &x = input_spec(node, 0).shape, &i = input_spec(node, 1).shape, &y = output_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const GatherDesc desc, read_gather(*node.node, x, i));
  TENON_INVALID_IF(y != desc.output || input_spec(node, 0).type != output_spec(node, 0).type,
                   "The output of shape {} does not hold rows of {} at indices of shape {}.", y.to_string(),
                   x.to_string(), i.to_string());
  const GatherKernel::Sizes sizes{
      .outer = desc.span.outer,
      .table = desc.span.length,
      .indices = desc.count,
      .row_bytes = desc.span.inner * static_cast<int64_t>(data_type_size(input_spec(node, 0).type))};
  TENON_INVALID_IF(has_default && sizes.table == 0, "The table of shape {} has no default row.", x.to_string());
  return std::unique_ptr<Kernel>(
      std::make_unique<GatherKernel>(sizes, index_reader(input_spec(node, 1).type), has_default));
}

}  // namespace

Status match_gather(const KernelNode& node) {
  TENON_TRY(match_move(node));
  TENON_UNSUPPORTED_IF(index_reader(input_spec(node, 1).type) == nullptr, "The indices are {}, not integers.",
                       data_type_name(input_spec(node, 1).type));
  return {};
}

Result<std::unique_ptr<Kernel>> create_gather(const KernelNode& node) { return make_gather(node, false); }

Result<std::unique_ptr<Kernel>> create_lookup_or_default(const KernelNode& node) { return make_gather(node, true); }

}  // namespace tenon::cpu::nn
