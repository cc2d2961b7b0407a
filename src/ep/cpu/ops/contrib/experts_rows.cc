#include "ep/cpu/ops/contrib/experts_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/contrib/experts.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/nbits.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrainBytes = 64 << 10;  // of weights, which a thread reads in about 5 microseconds
constexpr int64_t kGroupPanels = 4;        // panels that are widened at once
constexpr int64_t kLargestBlock = 256;

using Packed = std::shared_ptr<const std::byte>;

// Floats, in panels of 16 columns.
class FloatProduct final : public ExpertProduct {
 public:
  FloatProduct(const ExpertWeights& part, Packed packed) : part_(part), packed_(std::move(packed)) {}

  int64_t depth() const override { return part_.k; }
  size_t scratch_bytes(int64_t) const override { return 0; }
  void run(const KernelContext& context, int64_t expert, const float* a, int64_t m, float* c,
           std::byte*) const override {
    const int64_t stride = part_.k * kGemmPanel, panels = gemm_panels(part_.n);
    const float* const b = reinterpret_cast<const float*>(packed_.get()) + expert * panels * stride;
    const float* const bias = part_.bias == kNoInput ? nullptr : context.input<float>(part_.bias) + expert * part_.n;
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (stride * 4));
    context.pool->parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kGemmPanel;
      gemm_table().run({.a = a,
                        .lda = part_.k,
                        .b = b + begin * stride,
                        .panel_stride = stride,
                        .c = c + first,
                        .ldc = part_.n,
                        .m = m,
                        .n = std::min(part_.n, end * kGemmPanel) - first,
                        .k = part_.k,
                        .bias = bias != nullptr ? bias + first : nullptr,
                        .epilogue = {}});
    });
  }

 private:
  const ExpertWeights part_;
  const Packed packed_;
};

// Codes with a scale for each block.
class CodeProduct final : public ExpertProduct {
 public:
  CodeProduct(const ExpertWeights& part, const NBitsFormat& format, Packed packed, int slots)
      : part_(part), format_(format), packed_(std::move(packed)), slots_(slots) {}

  int64_t depth() const override { return format_.blocks * format_.block_size; }
  size_t scratch_bytes(int64_t rows) const override {
    const size_t sums = aligned_bytes(static_cast<size_t>(std::min(rows, kNBitsManyRows) * format_.blocks * 4));
    return std::max(sums, rows >= kNBitsManyRows ? slot_bytes() * static_cast<size_t>(slots_) : 0);
  }
  void run(const KernelContext& context, int64_t expert, const float* a, int64_t m, float* c,
           std::byte* scratch) const override {
    const float* const bias = part_.bias == kNoInput ? nullptr : context.input<float>(part_.bias) + expert * part_.n;
    const auto* const b = reinterpret_cast<const uint8_t*>(packed_.get()) + expert * panels() * format_.panel_bytes();
    if (m >= kNBitsManyRows) {
      widen_and_multiply(context, b, a, bias, m, c, scratch);
    } else {
      multiply(context, b, a, bias, m, c, reinterpret_cast<float*>(scratch));
    }
  }

 private:
  int64_t panels() const { return gemm_panels(part_.n); }
  size_t slot_bytes() const { return aligned_bytes(static_cast<size_t>(kGroupPanels * kNBitsPanel * depth() * 4)); }

  void multiply(const KernelContext& context, const uint8_t* b, const float* a, const float* bias, int64_t m, float* c,
                float* sums) const {
    for (int64_t i = 0; i < m; ++i) {
      nbits_table().sum_blocks(a + i * depth(), format_.block_size, format_.blocks, sums + i * format_.blocks);
    }
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (format_.panel_bytes() * m));
    context.pool->parallel_for(panels(), grain, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kNBitsPanel;
      nbits_table().run({.format = format_,
                         .a = a,
                         .lda = depth(),
                         .sums = sums,
                         .b = b + begin * format_.panel_bytes(),
                         .bias = bias != nullptr ? bias + first : nullptr,
                         .c = c + first,
                         .ldc = part_.n,
                         .m = m,
                         .n = std::min(end * kNBitsPanel, part_.n) - first});
    });
  }

  // Groups of panels become floats, which all rows meet while they lie in a near cache.
  void widen_and_multiply(const KernelContext& context, const uint8_t* b, const float* a, const float* bias, int64_t m,
                          float* c, std::byte* scratch) const {
    ScratchSlots slots(scratch, slot_bytes(), slots_);
    const int64_t groups = (panels() + kGroupPanels - 1) / kGroupPanels;
    context.pool->parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      for (int64_t group = begin; group < end; ++group) {
        const int64_t from = group * kGroupPanels, to = std::min(panels(), from + kGroupPanels);
        const int64_t first = from * kNBitsPanel;
        for (int64_t p = from; p < to; ++p) {
          nbits_table().widen(format_, b + p * format_.panel_bytes(), 0, format_.blocks,
                              claim.floats() + (p - from) * depth() * kGemmPanel);
        }
        gemm_table().run({.a = a,
                          .lda = depth(),
                          .b = claim.floats(),
                          .panel_stride = depth() * kGemmPanel,
                          .c = c + first,
                          .ldc = part_.n,
                          .m = m,
                          .n = std::min(part_.n, to * kNBitsPanel) - first,
                          .k = depth(),
                          .bias = bias != nullptr ? bias + first : nullptr,
                          .epilogue = {}});
      }
    });
  }

  const ExpertWeights part_;
  const NBitsFormat format_;
  const Packed packed_;
  const int slots_;
};

// Rows of one scale are cut into blocks, which share it.
NBitsFormat format_of(const ExpertWeights& part) {
  NBitsFormat format{.bits = part.bits, .block_size = part.block_size, .blocks = part.blocks};
  format.zero_points = part.zeros != kNoInput;
  if (part.blocks == 1) {
    format.block_size = 32;
    format.blocks = (part.k + 31) / 32;
  }
  return format;
}

struct Codes {
  const ExpertWeights& part;
  NBitsFormat format;
  const uint8_t *weights, *zeros;
  const float* scales;
  int64_t experts;
  bool shared_zeros;

  uint8_t zero(int64_t expert, int64_t j, int64_t block) const {
    const auto code = [&](const uint8_t* bytes, int64_t at) {
      return static_cast<uint8_t>(bytes[at * part.bits / 8] >> (at * part.bits % 8) & ((1 << part.bits) - 1));
    };
    if (shared_zeros) return code(zeros + expert * ((part.n * part.bits + 7) / 8), j);
    return code(zeros + (expert * part.n + j) * part.zero_row_bytes(), block);
  }

  // Writes panel `index`, counted over all experts; `packed` is zeroed memory.
  void pack(int64_t index, std::byte* packed) const {
    const int64_t panels = gemm_panels(part.n), expert = index / panels, panel = index % panels;
    const int64_t columns = std::min(kNBitsPanel, part.n - panel * kNBitsPanel);
    const int64_t bytes_of_block = format.block_size * part.bits / 8;
    for (int64_t block = 0; block < format.blocks; ++block) {
      std::byte* const head = packed + index * format.panel_bytes() + block * format.block_bytes();
      auto* const elements = reinterpret_cast<uint8_t*>(head) + format.head_bytes();
      const int64_t stated = part.blocks == 1 ? 0 : block;
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t j = panel * kNBitsPanel + column, row = expert * part.n + j;
        std::memcpy(head + column * 4, scales + row * part.blocks + stated, sizeof(float));
        if (zeros != nullptr) head[kNBitsPanel * 4 + column] = static_cast<std::byte>(zero(expert, j, stated));
        const uint8_t* const from = weights + row * part.row_bytes() + block * bytes_of_block;
        const int64_t count = std::min(bytes_of_block, part.row_bytes() - block * bytes_of_block);
        for (int64_t p = 0; p < count; ++p) elements[p * kNBitsPanel + column] = from[p];
      }
    }
  }
};

void for_panels(const KernelNode& node, int64_t panels, const std::function<void(int64_t)>& pack) {
  const auto part = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pack(i);
  };
  if (node.pool == nullptr) return part(0, panels);
  node.pool->parallel_for(panels, 1, part);
}

Result<std::unique_ptr<ExpertProduct>> make_codes(const KernelNode& node, const ExpertsDesc& desc,
                                                  const ExpertWeights& part) {
  const NBitsFormat format = format_of(part);
  TENON_UNSUPPORTED_IF(format.block_size % 4 != 0 || format.block_size > kLargestBlock,
                       "Blocks of {} elements are not packed.", format.block_size);
  const Constant* const zeros = part.zeros == kNoInput ? nullptr : constant_input(node, part.zeros);
  const Codes codes{.part = part,
                    .format = format,
                    .weights = constant_input(node, part.weights)->as<uint8_t>().data(),
                    .zeros = zeros != nullptr ? zeros->as<uint8_t>().data() : nullptr,
                    .scales = constant_input(node, part.scales)->as<float>().data(),
                    .experts = desc.experts,
                    .shared_zeros = zeros != nullptr && zeros->shape.rank() == 2};
  const int64_t panels = desc.experts * gemm_panels(part.n);
  const auto bytes = checked_mul<int64_t>(panels, format.panel_bytes());
  TENON_UNSUPPORTED_IF(!bytes, "The packed form of {} experts' weights overflows.", desc.experts);
  const std::string name = tenon::format("experts nbits{} {}x{}x{} by {}{}", part.bits, desc.experts, part.k, part.n,
                                         format.block_size, part.blocks == 1 ? " of whole rows" : "");
  const std::array constants = {node.constants[part.weights], node.constants[part.scales],
                                zeros != nullptr ? node.constants[part.zeros] : nullptr};
  TENON_TRY_ASSIGN(
      Packed packed,
      packed_constant(node, constants, name, static_cast<size_t>(*bytes), [&](const std::byte*, std::byte* out) {
        for_panels(node, panels, [&](int64_t index) { codes.pack(index, out); });
      }));
  return std::unique_ptr<ExpertProduct>(
      std::make_unique<CodeProduct>(part, format, std::move(packed), scratch_slots(node)));
}

Result<std::unique_ptr<ExpertProduct>> make_floats(const KernelNode& node, const ExpertsDesc& desc,
                                                   const ExpertWeights& part) {
  const int64_t each = gemm_packed_floats(part.k, part.n), panels = gemm_panels(part.n);
  const auto bytes = checked_mul<int64_t>(desc.experts * 4, each);
  TENON_UNSUPPORTED_IF(!bytes, "The packed form of {} experts' weights overflows.", desc.experts);
  const auto pack = [&](const std::byte* weight, std::byte* out) {
    const auto* const b = reinterpret_cast<const float*>(weight);
    for_panels(node, desc.experts * panels, [&](int64_t index) {
      const int64_t expert = index / panels, panel = index % panels;
      float* const to = reinterpret_cast<float*>(out) + expert * each;
      gemm_table().pack(b + expert * part.n * part.k, 1, part.k, part.k, part.n, panel, panel + 1, to);
      clear_subnormals({to + panel * part.k * kGemmPanel, static_cast<size_t>(part.k * kGemmPanel)});
    });
  };
  const std::string name = tenon::format("experts f32 {}x{}x{}", desc.experts, part.k, part.n);
  TENON_TRY_ASSIGN(Packed packed,
                   packed_constant(node, node.constants[part.weights], name, static_cast<size_t>(*bytes), pack));
  return std::unique_ptr<ExpertProduct>(std::make_unique<FloatProduct>(part, std::move(packed)));
}

}  // namespace

Status match_packed_experts(const KernelNode& node) {
  TENON_TRY(match_experts(node));
  static constexpr size_t kCodes[] = {2, 3, 5, 6, 8, 9, 11, 12, 13}, kFloats[] = {2, 4, 6};
  for (size_t i : node.node->op_type == "QMoE" ? std::span<const size_t>(kCodes) : std::span<const size_t>(kFloats)) {
    TENON_UNSUPPORTED_IF(input_spec(node, i).present() && constant_input(node, i) == nullptr,
                         "Input {} is not constant.", i);
  }
  return {};
}

Result<std::unique_ptr<Kernel>> create_packed_experts(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ExpertsDesc desc, read_experts(*node.node, input_shapes(node)));
  const auto product = [&](const ExpertWeights& part) {
    return part.bits == 0 ? make_floats(node, desc, part) : make_codes(node, desc, part);
  };
  ExpertProducts products;
  TENON_TRY_ASSIGN(products.first, product(desc.first));
  TENON_TRY_ASSIGN(products.second, product(desc.second));
  if (desc.third.present()) {
    TENON_TRY_ASSIGN(products.third, product(desc.third));
  }
  return make_experts(node, desc, std::move(products), desc.first.bits == 0 ? "experts f32" : "experts nbits");
}

}  // namespace tenon::cpu::nn
