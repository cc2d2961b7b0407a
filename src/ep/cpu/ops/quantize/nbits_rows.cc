#include "ep/cpu/ops/quantize/nbits_rows.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/nbits.h"
#include "ops/block_quantized.h"

namespace tenon::cpu::nn {

namespace {

using Desc = NBitsDesc;

constexpr int64_t kLargestBlock = 256;  // of what ONNX Runtime takes
constexpr int64_t kGroupPanels = 4;     // panels that are widened at once
// Bytes of weights that a thread reads in about 5 microseconds.
constexpr int64_t kGrainBytes = 64 << 10;

NBitsFormat format_of(const Desc& desc, bool zero_points) {
  return {.bits = desc.bits, .block_size = desc.block_size, .blocks = desc.blocks, .zero_points = zero_points};
}

// Writes panels [begin, end) of B; `packed` is zeroed memory.
void pack(const Desc& desc, const NBitsFormat& format, const uint8_t* b, const float* scales, const uint8_t* zeros,
          int64_t begin, int64_t end, std::byte* packed) {
  const int64_t bits = desc.bits, each = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t columns = std::min(kNBitsPanel, desc.n - panel * kNBitsPanel);
    for (int64_t block = 0; block < desc.blocks; ++block) {
      std::byte* const head = packed + panel * format.panel_bytes() + block * format.block_bytes();
      auto* const bytes = reinterpret_cast<uint8_t*>(head) + format.head_bytes();
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t column = panel * kNBitsPanel + j;
        std::memcpy(head + j * 4, scales + column * desc.blocks + block, sizeof(float));
        if (zeros != nullptr) {
          const uint8_t* const row = zeros + column * desc.zero_point_bytes();
          head[kNBitsPanel * 4 + j] = static_cast<std::byte>(row[block * bits / 8] >> (block * bits % 8) & mask);
        }
        // A byte holds neighbours along K in both layouts.
        const uint8_t* const from = b + (column * desc.blocks + block) * desc.block_bytes;
        for (int64_t p = 0; p < desc.block_size / each; ++p) bytes[p * kNBitsPanel + j] = from[p];
      }
    }
  }
}

class NBitsKernel final : public Kernel {
 public:
  NBitsKernel(const Desc& desc, bool zero_points, std::shared_ptr<const std::byte> packed, int slots)
      : desc_(desc), format_(format_of(desc, zero_points)), packed_(std::move(packed)), slots_(slots) {
    const auto take = [this](size_t bytes) {
      return std::exchange(scratch_bytes_, scratch_bytes_ + aligned_bytes(bytes));
    };
    depth_ = desc.blocks * desc.block_size;
    if (depth_ != desc.k) a_offset_ = take(desc.m * depth_ * sizeof(float));
    sums_offset_ = take(desc.m * desc.blocks * sizeof(float));
    slot_bytes_ = aligned_bytes(kGroupPanels * kNBitsPanel * depth_ * sizeof(float));
    if (many_rows()) slots_offset_ = take(slot_bytes_ * slots_);
  }

  Status run(KernelContext& context) const override {
    if (desc_.m == 0) return {};
    const float* const a = filled_a(context);
    if (many_rows()) {
      widen_and_multiply(context, a);
    } else {
      multiply(context, a);
    }
    return {};
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string_view name() const override { return many_rows() ? "nbits widened f32" : "nbits f32"; }

 private:
  bool many_rows() const { return desc_.m >= kNBitsManyRows; }
  int64_t panels() const { return gemm_panels(desc_.n); }
  float* scratch(const KernelContext& context, size_t offset) const {
    return reinterpret_cast<float*>(context.scratch + offset);
  }
  const uint8_t* panel(int64_t index) const {
    return reinterpret_cast<const uint8_t*>(packed_.get()) + index * format_.panel_bytes();
  }
  static const float* bias(const KernelContext& context) { return context.input<float>(Desc::kBias); }

  // A with rows of whole blocks.
  const float* filled_a(KernelContext& context) const {
    const float* const a = context.input<float>(Desc::kA);
    if (depth_ == desc_.k) return a;
    float* const filled = scratch(context, a_offset_);
    for (int64_t i = 0; i < desc_.m; ++i) {
      std::copy_n(a + i * desc_.k, desc_.k, filled + i * depth_);
      std::fill_n(filled + i * depth_ + desc_.k, depth_ - desc_.k, 0.0f);
    }
    return filled;
  }

  void multiply(KernelContext& context, const float* a) const {
    float* const sums = scratch(context, sums_offset_);
    for (int64_t i = 0; i < desc_.m; ++i) {
      nbits_table().sum_blocks(a + i * depth_, desc_.block_size, desc_.blocks, sums + i * desc_.blocks);
    }
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (format_.panel_bytes() * desc_.m));
    context.pool->parallel_for(panels(), grain, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kNBitsPanel;
      nbits_table().run({.format = format_,
                         .a = a,
                         .lda = depth_,
                         .sums = sums,
                         .b = panel(begin),
                         .bias = bias(context) != nullptr ? bias(context) + first : nullptr,
                         .c = context.output<float>(0) + first,
                         .ldc = desc_.n,
                         .m = desc_.m,
                         .n = std::min(end * kNBitsPanel, desc_.n) - first});
    });
  }

  // B by groups of panels: they become floats, which all rows meet while they lie in a near cache.
  void widen_and_multiply(KernelContext& context, const float* a) const {
    ScratchSlots slots(context.scratch + slots_offset_, slot_bytes_, slots_);
    const int64_t groups = (panels() + kGroupPanels - 1) / kGroupPanels;
    context.pool->parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      for (int64_t group = begin; group < end; ++group) multiply_group(context, a, group, claim.floats());
    });
  }

  void multiply_group(KernelContext& context, const float* a, int64_t group, float* floats) const {
    const int64_t first_panel = group * kGroupPanels, last_panel = std::min(panels(), first_panel + kGroupPanels);
    const int64_t first = first_panel * kNBitsPanel;
    for (int64_t p = first_panel; p < last_panel; ++p) {
      nbits_table().widen(format_, panel(p), 0, desc_.blocks, floats + (p - first_panel) * depth_ * kGemmPanel);
    }
    gemm_table().run({.a = a,
                      .lda = depth_,
                      .b = floats,
                      .panel_stride = depth_ * kGemmPanel,
                      .c = context.output<float>(0) + first,
                      .ldc = desc_.n,
                      .m = desc_.m,
                      .n = std::min(desc_.n, last_panel * kNBitsPanel) - first,
                      .k = depth_,
                      .bias = bias(context) != nullptr ? bias(context) + first : nullptr,
                      .epilogue = {}});
  }

  const Desc desc_;
  const NBitsFormat format_;
  const std::shared_ptr<const std::byte> packed_;
  const int slots_;
  int64_t depth_ = 0;  // K in whole blocks
  size_t a_offset_ = 0, sums_offset_ = 0, slots_offset_ = 0, slot_bytes_ = 0;
  size_t scratch_bytes_ = 0;
};

}  // namespace

std::span<const ConstantRef> packed_constants(const KernelNode& node) {
  return node.constants.subspan(Desc::kB, std::min(node.constants.size(), Desc::kZeroPoints + 1) - Desc::kB);
}

Status match_nbits(const KernelNode& node) {
  const DataType type = input_spec(node, Desc::kA).type;
  TENON_UNSUPPORTED_IF(type != DataType::kFloat, "A is {}, not float32.", data_type_name(type));
  TENON_UNSUPPORTED_IF(output_spec(node, 0).dynamic, "The number of rows is not known beforehand.");
  TENON_UNSUPPORTED_IF(input_spec(node, Desc::kGroupIndex).present(), "The blocks are not those of the places.");
  const TensorSpec& zeros = input_spec(node, Desc::kZeroPoints);
  TENON_UNSUPPORTED_IF(zeros.present() && zeros.type != DataType::kUint8, "The zero points are {}, not uint8.",
                       data_type_name(zeros.type));
  for (size_t i : {Desc::kB, Desc::kScales, Desc::kZeroPoints}) {
    TENON_UNSUPPORTED_IF(input_spec(node, i).present() && constant_input(node, i) == nullptr,
                         "Input {} is not constant.", i);
  }
  for (const TensorSpec& spec : node.inputs)
    TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain, "An input is not in the plain layout.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_nbits(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Desc desc, read_matmul_nbits(*node.node, input_shapes(node)));
  TENON_INVALID_IF(output_spec(node, 0).shape != desc.y, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  TENON_UNSUPPORTED_IF(desc.block_size % 4 != 0 || desc.block_size > kLargestBlock,
                       "Blocks of {} elements are not packed.", desc.block_size);
  const Constant* zeros = constant_input(node, Desc::kZeroPoints);
  TENON_INVALID_IF(zeros != nullptr && zeros->shape.element_count() != desc.n * desc.zero_point_bytes(),
                   "The zero points have shape {}; {} x {} elements are needed.", zeros->shape.to_string(), desc.n,
                   desc.zero_point_bytes());
  const NBitsFormat format = format_of(desc, zeros != nullptr);
  const int64_t panels = gemm_panels(desc.n);
  const auto bytes = checked_mul<int64_t>(panels, format.panel_bytes());
  TENON_UNSUPPORTED_IF(!bytes, "The packed form of a {} x {} matrix overflows.", desc.k, desc.n);
  const auto* const b = constant_input(node, Desc::kB)->as<uint8_t>().data();
  const auto* const scales = constant_input(node, Desc::kScales)->as<float>().data();
  const auto* const zero_bytes = zeros != nullptr ? zeros->as<uint8_t>().data() : nullptr;
  const auto pack_all = [&](const std::byte*, std::byte* out) {
    const auto part = [&](int64_t begin, int64_t end) { pack(desc, format, b, scales, zero_bytes, begin, end, out); };
    if (node.pool == nullptr) return part(0, panels);
    node.pool->parallel_for(panels, 1, part);
  };
  const std::string name = tenon::format("nbits{} {}x{} by {}", desc.bits, desc.k, desc.n, desc.block_size);
  TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> packed,
                   packed_constant(node, packed_constants(node), name, static_cast<size_t>(*bytes), pack_all));
  return std::unique_ptr<Kernel>(
      std::make_unique<NBitsKernel>(desc, zeros != nullptr, std::move(packed), scratch_slots(node)));
}

}  // namespace tenon::cpu::nn
