// MatMulNBits, MatMulBnb4 and GatherBlockQuantized.
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/small_types.h"
#include "ops/block_quantized.h"

namespace tenon::cpu::ref {

namespace {

// Element `index` of a row of elements of `bits` bits, the first in the lowest bits.
int packed_element(const uint8_t* row, int64_t index, int64_t bits) {
  return row[index * bits / 8] >> (index * bits % 8) & ((1 << bits) - 1);
}

// Y = A * columns, transposed: fill(j, column) writes the K elements of column j.
template <typename T, typename Fill>
void multiply(const void* a, void* y, const void* bias, int64_t m, int64_t n, int64_t k, float* column,
              const Fill& fill) {
  const auto* x = static_cast<const T*>(a);
  for (int64_t j = 0; j < n; ++j) {
    fill(j, column);
    for (int64_t i = 0; i < m; ++i) {
      double sum = bias != nullptr ? static_cast<double>(static_cast<const T*>(bias)[j]) : 0;
      for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(x[i * k + p]) * static_cast<double>(column[p]);
      static_cast<T*>(y)[i * n + j] = T(sum);
    }
  }
}

// Reads one column of B.
template <typename T>
struct NBitsColumns {
  const NBitsDesc& desc;
  const uint8_t* b;
  const T* scales;
  const uint8_t* packed_zeros;  // or
  const T* zeros;
  const int32_t* groups;

  float zero_of(int64_t j, int64_t block) const {
    if (packed_zeros != nullptr) {
      const uint8_t* column = packed_zeros + j * desc.zero_point_bytes();
      return static_cast<float>(packed_element(column, block, desc.bits));
    }
    return zeros != nullptr ? static_cast<float>(zeros[j * desc.blocks + block])
                            : static_cast<float>(int64_t{1} << (desc.bits - 1));
  }
  void operator()(int64_t j, float* column) const {
    const uint8_t* bytes = b + j * desc.blocks * desc.block_bytes;
    for (int64_t p = 0; p < desc.k; ++p) {
      const int q = packed_element(bytes + p / desc.block_size * desc.block_bytes, p % desc.block_size, desc.bits);
      const int64_t group = groups != nullptr ? groups[p] : p / desc.block_size;
      column[p] = (static_cast<float>(q) - zero_of(j, group)) * static_cast<float>(scales[j * desc.blocks + group]);
    }
  }
};

template <typename T>
Status run_nbits(const NBitsDesc& desc, bool packed_zeros, KernelContext& context) {
  using Desc = NBitsDesc;
  const auto* groups = context.input<int32_t>(Desc::kGroupIndex);
  for (int64_t p = 0; groups != nullptr && p < desc.k; ++p) {
    TENON_INVALID_IF(groups[p] < 0 || groups[p] >= desc.blocks, "Element {} of g_idx is {}; there are {} blocks.", p,
                     groups[p], desc.blocks);
  }
  const NBitsColumns<T> columns{.desc = desc,
                                .b = context.input<uint8_t>(Desc::kB),
                                .scales = context.input<T>(Desc::kScales),
                                .packed_zeros = packed_zeros ? context.input<uint8_t>(Desc::kZeroPoints) : nullptr,
                                .zeros = packed_zeros ? nullptr : context.input<T>(Desc::kZeroPoints),
                                .groups = groups};
  multiply<T>(context.inputs[Desc::kA], context.outputs[0],
              Desc::kBias < context.inputs.size() ? context.inputs[Desc::kBias] : nullptr, desc.m, desc.n, desc.k,
              reinterpret_cast<float*>(context.scratch), columns);
  return {};
}

using HalfTypes = TypeList<float, Float16, BFloat16>;

Result<RefImpl> make_nbits(RefNode& node) {
  using Desc = NBitsDesc;
  TENON_TRY_ASSIGN(const Desc desc, read_matmul_nbits(*node.node, input_shapes(node)));
  TENON_TRY(require_output(node, 0, desc.y));
  const DataType type = node.inputs[Desc::kA].type;
  const TensorSpec& zeros = input_spec(node, Desc::kZeroPoints);
  const bool packed = zeros.type == DataType::kUint8;
  TENON_INVALID_IF(zeros.present() && !packed && zeros.type != type,
                   "MatMulNBits has zero points of {} beside A of {}.", data_type_name(zeros.type),
                   data_type_name(type));
  const int64_t wanted = desc.n * (packed ? desc.zero_point_bytes() : desc.blocks);
  TENON_INVALID_IF(zeros.present() && zeros.shape.element_count() != wanted,
                   "MatMulNBits has zero points of shape {}; {} elements are needed.", zeros.shape.to_string(), wanted);
  using Loop = Status (*)(const Desc&, bool, KernelContext&);
  const Loop loop = select(HalfTypes(), type, []<typename T>() -> Loop { return &run_nbits<T>; });
  TENON_UNSUPPORTED_IF(loop == nullptr, "MatMulNBits is not computed on {}.", data_type_name(type));
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(desc.k) * sizeof(float);
  impl.run = [desc, packed, loop](KernelContext& context) { return loop(desc, packed, context); };
  return impl;
}

Result<RefImpl> make_bnb4(RefNode& node) {
  TENON_TRY_ASSIGN(const Bnb4Desc desc, read_matmul_bnb4(*node.node, input_shapes(node)));
  TENON_TRY(require_output(node, 0, desc.y));
  using Loop = void (*)(const Bnb4Desc&, KernelContext&);
  const Loop loop = select(HalfTypes(), node.inputs[0].type, []<typename T>() -> Loop {
    return [](const Bnb4Desc& desc, KernelContext& context) {
      const auto* b = context.input<uint8_t>(1);
      const auto* absmax = context.input<T>(2);
      multiply<T>(context.inputs[0], context.outputs[0], nullptr, desc.m, desc.n, desc.k,
                  reinterpret_cast<float*>(context.scratch), [&](int64_t j, float* column) {
                    for (int64_t p = 0; p < desc.k; ++p) {
                      const int64_t at = j * desc.column_step + p * desc.element_step;
                      const int q = at % 2 == 0 ? b[at / 2] >> 4 : b[at / 2] & 15;
                      column[p] = desc.table()[q] * static_cast<float>(absmax[at / desc.block_size]);
                    }
                  });
    };
  });
  TENON_UNSUPPORTED_IF(loop == nullptr, "MatMulBnb4 is not computed on {}.", data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(desc.k) * sizeof(float);
  impl.run = [desc, loop](KernelContext& context) -> Status {
    loop(desc, context);
    return {};
  };
  return impl;
}

// --- GatherBlockQuantized ---

struct GatherBlocks : GatherBlocksDesc {
  DataType type = DataType::kUndefined;
  bool is_signed = false;
  int zero_point = 0;  // where no input has it
  IndexReader read = nullptr;

  // Element `index` of the data, or of the zero points, whose rows have `row` elements.
  int element(const uint8_t* bytes, int64_t index, int64_t row) const {
    if (!bytes_of_pairs && bits == 8) return bytes[index];
    int64_t at = index;
    if (bytes_of_pairs) at = index / row * (row + row % 2) + index % row;  // a row begins with a byte of its own
    const int q = packed_element(bytes, at, bits);
    return is_signed && q >= 1 << (bits - 1) ? q - (1 << bits) : q;
  }
};

template <typename T>
Status run_gather(const GatherBlocks& g, KernelContext& context) {
  const auto* data = context.input<uint8_t>(0);
  const auto* scales = context.input<T>(2);
  const auto* zeros = context.input<uint8_t>(3);
  const int64_t length = g.data[g.quantize_axis], blocks = g.scales[g.quantize_axis];
  const int64_t inner = span_product(g.data, g.quantize_axis + 1, g.data.rank());
  const int64_t row = g.data[g.data.rank() - 1], zero_row = g.scales[g.scales.rank() - 1];
  T* y = context.output<T>(0);
  for (int64_t o = 0; o < g.gather.outer; ++o) {
    for (int64_t i = 0; i < g.count; ++i) {
      TENON_TRY_ASSIGN(const int64_t index, wrap_index(g.read(context.inputs[1], i), g.gather.length));
      const int64_t first = (o * g.gather.length + index) * g.gather.inner;
      for (int64_t e = first; e < first + g.gather.inner; ++e) {
        const int64_t at = e / inner % length;
        const int64_t block = (e / inner / length * blocks + at / g.block_size) * inner + e % inner;
        const int zero = zeros != nullptr ? g.element(zeros, block, zero_row) : g.zero_point;
        *y++ = T(static_cast<float>(g.element(data, e, row) - zero) * static_cast<float>(scales[block]));
      }
    }
  }
  return {};
}

Result<RefImpl> make_gather_blocks(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const DataType type = node.inputs[0].type;
  TENON_TRY_ASSIGN(GatherBlocksDesc desc, read_gather_blocks(*node.node, type, input_shapes(node)));
  TENON_TRY(require_output(node, 0, desc.output));
  TENON_INVALID_IF(input_spec(node, 3).present() && input_spec(node, 3).type != type,
                   "GatherBlockQuantized has zero points of {} for data of {}.",
                   data_type_name(input_spec(node, 3).type), data_type_name(type));
  GatherBlocks g{std::move(desc), type, type == DataType::kInt4, 0, nullptr};
  if (type == DataType::kUint8) g.zero_point = 1 << (g.bits - 1);
  TENON_TRY_ASSIGN(g.read, index_reader(node, 1));
  using Loop = Status (*)(const GatherBlocks&, KernelContext&);
  const Loop loop = select(HalfTypes(), node.inputs[2].type, []<typename T>() -> Loop { return &run_gather<T>; });
  TENON_UNSUPPORTED_IF(loop == nullptr, "GatherBlockQuantized is not computed with scales of {}.",
                       data_type_name(node.inputs[2].type));
  RefImpl impl;
  impl.run = [g, loop](KernelContext& context) { return loop(g, context); };
  return impl;
}

constexpr TypeSet kHalves = type_set(HalfTypes());
constexpr TypeSet kGathered = type_set(TypeList<uint8_t>()) | type_bit(DataType::kInt4) | type_bit(DataType::kUint4);
constexpr std::string_view kDomain = "com.microsoft";

constexpr KernelEntry kRows[] = {
    ref_row<kHalves, &make_nbits>("MatMulNBits", 1, kAnyVersion, kDomain),
    ref_row<kHalves, &make_bnb4>("MatMulBnb4", 1, kAnyVersion, kDomain),
    packed_ref_row<kGathered, &make_gather_blocks>("GatherBlockQuantized", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_block_rows() { return kRows; }

}  // namespace tenon::cpu::ref
