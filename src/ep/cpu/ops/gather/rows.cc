// Gather and LookupOrDefault: rows by index, for every type with whole bytes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/moves/rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/integers.h"
#include "ops/gather.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrainBytes = 32 << 10;
constexpr int64_t kNoFailure = INT64_MAX;

// Indices that are read at once.
constexpr int64_t kPiece = 256;

// Indices [first, first + n) as int64.
using ReadIndex = void (*)(const void* indices, int64_t first, int64_t n, int64_t* out);

template <typename T>
void read_index(const void* indices, int64_t first, int64_t n, int64_t* out) {
  const T* from = static_cast<const T*>(indices) + first;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(from[i]);
}

// Copies n rows of each of `tables`, which are `table_bytes` apart, one after the other to `to`.
struct RowCopy {
  const std::byte* table;
  int64_t tables, table_bytes;
  const int64_t* rows;
  int64_t n;
  std::byte* to;
  size_t row_bytes;
};
using CopyRows = void (*)(RowCopy copy);

template <size_t kBytes>
void copy_rows(RowCopy copy) {
  const size_t bytes = kBytes != 0 ? kBytes : copy.row_bytes;
  for (int64_t t = 0; t < copy.tables; ++t, copy.table += copy.table_bytes)
    for (int64_t i = 0; i < copy.n; ++i, copy.to += bytes)
      std::memcpy(copy.to, copy.table + copy.rows[i] * bytes, bytes);
}

CopyRows copy_of(int64_t row_bytes) {
  switch (row_bytes) {
    case 1:
      return &copy_rows<1>;
    case 2:
      return &copy_rows<2>;
    case 4:
      return &copy_rows<4>;
    case 8:
      return &copy_rows<8>;
    case 16:
      return &copy_rows<16>;
    default:
      return &copy_rows<0>;
  }
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
  GatherKernel(const Sizes& sizes, ReadIndex read, bool has_default)
      : s_(sizes), read_(read), copy_(copy_of(sizes.row_bytes)), default_(has_default) {}

  Status run(KernelContext& context) const override {
    const auto* const table = context.input<std::byte>(0);
    const auto* const indices = context.input<void>(1);
    auto* const y = context.output<std::byte>(0);
    std::atomic<int64_t> failed{kNoFailure};
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(8, s_.row_bytes));
    const int64_t table_bytes = s_.table * s_.row_bytes;
    context.pool->parallel_for(s_.outer * s_.indices, grain, [&](int64_t begin, int64_t end) {
      std::array<int64_t, kPiece> piece;
      // Few indices are read once.
      const bool few = s_.indices <= kPiece;
      if (few && !places(indices, 0, s_.indices, piece.data(), failed)) return;
      while (begin < end) {
        const int64_t outer = begin / s_.indices, first = begin % s_.indices;
        int64_t n = std::min(s_.indices - first, end - begin), tables = 1;
        if (few && first == 0 && n == s_.indices) tables = (end - begin) / n;
        if (!few) {
          n = std::min(n, kPiece);
          if (!places(indices, first, n, piece.data(), failed)) return;
        }
        copy_({.table = table + outer * table_bytes,
               .tables = tables,
               .table_bytes = table_bytes,
               .rows = piece.data() + (few ? first : 0),
               .n = n,
               .to = y + begin * s_.row_bytes,
               .row_bytes = static_cast<size_t>(s_.row_bytes)});
        begin += n * tables;
      }
    });
    const int64_t at = failed.load(std::memory_order_relaxed);
    if (at == kNoFailure) return {};
    int64_t index = 0;
    read_(indices, at, 1, &index);
    return out_of_range("Index {} at position {} is not in [{}, {}).", index, at, -s_.table, s_.table);
  }
  std::string_view name() const override { return default_ ? "lookup" : "gather"; }

 private:
  // The rows that indices [first, first + n) name. False: one names none, and `failed` is where.
  bool places(const void* indices, int64_t first, int64_t n, int64_t* rows, std::atomic<int64_t>& failed) const {
    const int64_t count = default_ ? s_.table - 1 : s_.table;  // the last row of a table with a default is the default
    read_(indices, first, n, rows);
    if (default_) {
      for (int64_t i = 0; i < n; ++i) rows[i] = rows[i] < 0 || rows[i] >= count ? count : rows[i];
      return true;
    }
    if (integer_table().place(rows, n, count, 1, 0, rows)) return true;
    const auto outside = [&](int64_t row) { return row < 0 || row >= count; };
    failed.store(first + (std::find_if(rows, rows + n, outside) - rows), std::memory_order_relaxed);
    return false;
  }

  const Sizes s_;
  const ReadIndex read_;
  const CopyRows copy_;
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
