#include "ep/cpu/ops/quantize/nbits8_rows.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/quantize/nbits_rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/nbits8.h"
#include "ops/block_quantized.h"

namespace tenon::cpu::nn {

namespace {

using Desc = NBitsDesc;

// Products of bytes that a thread makes in about 5 microseconds.
constexpr int64_t kGrainProducts = int64_t{1} << 20;
constexpr int64_t kTaskRows = 16;  // they meet a panel while it lies in L1

// Writes panels [begin, end) of B; `packed` is zeroed memory.
void pack(const Desc& desc, const NBitsFormat& format, const uint8_t* b, const float* scales, const uint8_t* zeros,
          int64_t begin, int64_t end, std::byte* packed) {
  const auto element = [](const uint8_t* row, int64_t index) { return row[index / 2] >> (index % 2 * 4) & 15; };
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t columns = std::min(kNBitsPanel, desc.n - panel * kNBitsPanel);
    for (int64_t block = 0; block < desc.blocks; ++block) {
      std::byte* const head = packed + panel * format.panel_bytes() + block * format.block_bytes();
      auto* const bytes = reinterpret_cast<uint8_t*>(head) + format.head_bytes();
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t column = panel * kNBitsPanel + j;
        std::memcpy(head + j * 4, scales + column * desc.blocks + block, sizeof(float));
        if (zeros != nullptr) {
          head[kNBitsPanel * 4 + j] = static_cast<std::byte>(element(zeros + column * desc.zero_point_bytes(), block));
        }
        const uint8_t* const from = b + (column * desc.blocks + block) * desc.block_bytes;
        for (int64_t k = 0; k < desc.block_size; ++k) {
          uint8_t& byte = bytes[k / 8 * 4 * kNBitsPanel + j * 4 + k % 4];
          byte = static_cast<uint8_t>(byte | element(from, k) << (k % 8 / 4 * 4));
        }
      }
    }
  }
}

class NBits8Kernel final : public Kernel {
 public:
  NBits8Kernel(const Desc& desc, const NBitsFormat& format, std::shared_ptr<const std::byte> packed)
      : desc_(desc), format_(format), packed_(std::move(packed)), depth_(desc.blocks * desc.block_size) {
    const auto take = [this](int64_t bytes) {
      return std::exchange(scratch_bytes_, scratch_bytes_ + aligned_bytes(static_cast<size_t>(bytes)));
    };
    bytes_offset_ = take(desc.m * depth_);
    scales_offset_ = take(desc.m * desc.blocks * 4);
    sums_offset_ = take(desc.m * desc.blocks * 4);
    if (depth_ != desc.k) rows_offset_ = take(desc.m * depth_ * 4);
  }

  Status run(KernelContext& context) const override {
    auto* const bytes = reinterpret_cast<int8_t*>(context.scratch + bytes_offset_);
    auto* const scales = reinterpret_cast<float*>(context.scratch + scales_offset_);
    auto* const sums = reinterpret_cast<float*>(context.scratch + sums_offset_);
    const float* const bias = context.input<float>(Desc::kBias);
    context.pool->parallel_for(desc_.m, std::max<int64_t>(1, 16384 / depth_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        nbits8_table().quantize(row(context, i), desc_.block_size, desc_.blocks, bytes + i * depth_,
                                scales + i * desc_.blocks, sums + i * desc_.blocks);
      }
    });
    const int64_t panels = (desc_.n + kNBitsPanel - 1) / kNBitsPanel;
    const int64_t grain = std::max<int64_t>(1, kGrainProducts / (depth_ * kNBitsPanel * std::max<int64_t>(1, desc_.m)));
    context.pool->parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p * kNBitsPanel;
        for (int64_t i = 0; i < desc_.m; i += kTaskRows) {
          nbits8_table().run({.format = format_,
                              .a = bytes + i * depth_,
                              .lda = depth_,
                              .scales = scales + i * desc_.blocks,
                              .sums = sums + i * desc_.blocks,
                              .b = reinterpret_cast<const uint8_t*>(packed_.get()) + p * format_.panel_bytes(),
                              .bias = bias != nullptr ? bias + first : nullptr,
                              .c = context.output<float>(0) + i * desc_.n + first,
                              .ldc = desc_.n,
                              .m = std::min(kTaskRows, desc_.m - i),
                              .n = std::min(kNBitsPanel, desc_.n - first)});
        }
      }
    });
    return {};
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string_view name() const override { return "nbits int8"; }

 private:
  // Row i of A, filled up to whole blocks.
  const float* row(KernelContext& context, int64_t i) const {
    const float* const from = context.input<float>(Desc::kA) + i * desc_.k;
    if (depth_ == desc_.k) return from;
    auto* const to = reinterpret_cast<float*>(context.scratch + rows_offset_) + i * depth_;
    std::copy_n(from, desc_.k, to);
    std::fill_n(to + desc_.k, depth_ - desc_.k, 0.0f);
    return to;
  }

  const Desc desc_;
  const NBitsFormat format_;
  const std::shared_ptr<const std::byte> packed_;
  const int64_t depth_;  // K in whole blocks
  size_t bytes_offset_ = 0, scales_offset_ = 0, sums_offset_ = 0, rows_offset_ = 0, scratch_bytes_ = 0;
};

}  // namespace

Status match_nbits8(const KernelNode& node) {
  TENON_TRY(match_nbits(node));
  TENON_UNSUPPORTED_IF(nbits8_table().run == nullptr, "The instruction set has no dot products of bytes.");
  TENON_TRY_ASSIGN(const Desc desc, read_matmul_nbits(*node.node, input_shapes(node)));
  TENON_UNSUPPORTED_IF(!desc.rounds_a, "A keeps its precision.");
  TENON_UNSUPPORTED_IF(desc.bits != 4 || desc.block_size % 8 != 0, "Blocks of {} elements of {} bits are not packed.",
                       desc.block_size, desc.bits);
  return {};
}

Result<std::unique_ptr<Kernel>> create_nbits8(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Desc desc, read_matmul_nbits(*node.node, input_shapes(node)));
  TENON_INVALID_IF(output_spec(node, 0).shape != desc.y, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  const Constant* zeros = constant_input(node, Desc::kZeroPoints);
  TENON_INVALID_IF(zeros != nullptr && zeros->shape.element_count() != desc.n * desc.zero_point_bytes(),
                   "The zero points have shape {}; {} x {} elements are needed.", zeros->shape.to_string(), desc.n,
                   desc.zero_point_bytes());
  const NBitsFormat format{
      .bits = desc.bits, .block_size = desc.block_size, .blocks = desc.blocks, .zero_points = zeros != nullptr};
  const int64_t panels = (desc.n + kNBitsPanel - 1) / kNBitsPanel;
  const auto bytes = checked_mul<int64_t>(panels, format.panel_bytes());
  const auto rows = checked_mul<int64_t>(desc.m, desc.blocks * desc.block_size);
  TENON_UNSUPPORTED_IF(!bytes || !rows || *rows > INT64_MAX / 16, "The packed form of a {} x {} matrix overflows.",
                       desc.k, desc.n);
  const auto* const b = constant_input(node, Desc::kB)->as<uint8_t>().data();
  const auto* const scales = constant_input(node, Desc::kScales)->as<float>().data();
  const auto* const zero_bytes = zeros != nullptr ? zeros->as<uint8_t>().data() : nullptr;
  const auto pack_all = [&](const std::byte*, std::byte* out) {
    const auto part = [&](int64_t begin, int64_t end) { pack(desc, format, b, scales, zero_bytes, begin, end, out); };
    if (node.pool == nullptr) return part(0, panels);
    node.pool->parallel_for(panels, 1, part);
  };
  const std::string name = tenon::format("nbits8 {}x{} by {}", desc.k, desc.n, desc.block_size);
  TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> packed,
                   packed_constant(node, packed_constants(node), name, static_cast<size_t>(*bytes), pack_all));
  return std::unique_ptr<Kernel>(std::make_unique<NBits8Kernel>(desc, format, std::move(packed)));
}

}  // namespace tenon::cpu::nn
