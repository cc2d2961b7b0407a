// DeformConv of f32 over two axes: columns of moved elements for a block of positions, then a matrix product.
#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/sample/rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/sample.h"
#include "ops/deform_conv.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kBlock = 4 * kGemmPanel;  // positions

struct Problem {
  DeformConvDesc desc;
  int64_t in = 0, out = 0, taps = 0;  // positions of the input and of the output, elements of the kernel
  int64_t depth() const { return desc.group_channels() * taps; }
  int64_t blocks() const { return (out + kBlock - 1) / kBlock; }
};

struct Taps {
  int32_t offset[4][kBlock];
  float weight[4][kBlock];
};

class DeformConvKernel final : public Kernel {
 public:
  // `weights` take the place of the input's, unless they are null.
  DeformConvKernel(const Problem& problem, std::shared_ptr<const std::byte> weights, int64_t parts)
      : p_(problem), weights_(std::move(weights)), parts_(parts) {}

  Status run(KernelContext& context) const override {
    const int64_t tasks = p_.desc.batch * p_.blocks();
    context.pool->parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        auto* const memory = reinterpret_cast<float*>(context.scratch + part * part_bytes());
        for (int64_t task = tasks * part / parts_; task < tasks * (part + 1) / parts_; ++task) {
          run_block(context, task / p_.blocks(), task % p_.blocks() * kBlock, memory);
        }
      }
    });
    return {};
  }
  size_t scratch_bytes() const override { return parts_ * part_bytes(); }
  bool reads(size_t input) const override { return input != 1 || weights_ == nullptr; }
  std::string_view name() const override { return "deform_conv f32"; }

 private:
  int64_t columns_floats() const { return p_.desc.channels * p_.taps * kBlock; }
  size_t part_bytes() const {
    return aligned_bytes((columns_floats() + gemm_packed_floats(p_.depth(), kBlock)) * sizeof(float));
  }

  void run_block(KernelContext& context, int64_t n, int64_t first, float* memory) const {
    const DeformConvDesc& desc = p_.desc;
    const int64_t count = std::min(kBlock, p_.out - first), depth = p_.depth();
    fill_columns(context, n, first, count, memory);
    float* const packed = memory + columns_floats();
    const float* const weights = weights_ ? reinterpret_cast<const float*>(weights_.get()) : context.input<float>(1);
    for (int64_t g = 0; g < desc.group; ++g) {
      gemm_table().pack(memory + g * depth * kBlock, kBlock, 1, depth, count, 0, gemm_panels(count), packed);
      const int64_t row = g * desc.group_outputs();
      float* const y = context.output<float>(0) + (n * desc.outputs + row) * p_.out + first;
      gemm_table().run({.a = weights + row * depth,
                        .lda = depth,
                        .b = packed,
                        .panel_stride = depth * kGemmPanel,
                        .c = y,
                        .ldc = p_.out,
                        .m = desc.group_outputs(),
                        .n = count,
                        .k = depth});
      const float* const bias = context.input<float>(3);
      for (int64_t m = 0; bias != nullptr && m < desc.group_outputs(); ++m) {
        for (int64_t i = 0; i < count; ++i) y[m * p_.out + i] += bias[row + m];
      }
    }
  }

  // columns[channel][tap][position]
  void fill_columns(KernelContext& context, int64_t n, int64_t first, int64_t count, float* columns) const {
    const DeformConvDesc& desc = p_.desc;
    const int64_t each = desc.channels / desc.offset_group;
    Taps memory;
    SampleTaps taps{.taps = 4};
    for (int k = 0; k < 4; ++k) taps.offset[k] = memory.offset[k], taps.weight[k] = memory.weight[k];
    for (int64_t g = 0; g < desc.offset_group; ++g) {
      for (int64_t tap = 0; tap < p_.taps; ++tap) {
        find_taps(context, (n * desc.offset_group + g) * p_.taps + tap, tap, first, count, memory);
        for (int64_t c = g * each; c < (g + 1) * each; ++c) {
          sample_table().weighted(context.input<float>(0) + (n * desc.channels + c) * p_.in, taps,
                                  columns + (c * p_.taps + tap) * kBlock, count);
        }
      }
    }
  }

  // `row` counts images, offset groups and taps.
  void find_taps(KernelContext& context, int64_t row, int64_t tap, int64_t first, int64_t count, Taps& to) const {
    const WindowAxis &down = p_.desc.window.axes[0], &across = p_.desc.window.axes[1];
    const float* const moved = context.input<float>(2) + row * 2 * p_.out + first;
    const float* const mask =
        context.input<float>(4) == nullptr ? nullptr : context.input<float>(4) + row * p_.out + first;
    const int64_t top = tap / across.kernel * down.dilation - down.pad_begin;
    const int64_t left = tap % across.kernel * across.dilation - across.pad_begin;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = first + i;
      const float y = static_cast<float>(position / across.out * down.stride + top) + moved[i];
      const float x = static_cast<float>(position % across.out * across.stride + left) + moved[p_.out + i];
      // Beyond these nothing of the image is near; NaN is beyond them too.
      const bool near = y > -1 && y < static_cast<float>(down.in) && x > -1 && x < static_cast<float>(across.in);
      const float low_y = near ? std::floor(y) : -2, low_x = near ? std::floor(x) : -2;
      const auto row_0 = static_cast<int64_t>(low_y), column_0 = static_cast<int64_t>(low_x);
      const float part_y = near ? y - low_y : 0, part_x = near ? x - low_x : 0, whole = mask != nullptr ? mask[i] : 1;
      for (int k = 0; k < 4; ++k) {
        const int64_t r = row_0 + k / 2, c = column_0 + k % 2;
        const bool inside = r >= 0 && r < down.in && c >= 0 && c < across.in;
        to.offset[k][i] = inside ? static_cast<int32_t>(r * across.in + c) : -1;
        to.weight[k][i] = (k / 2 == 1 ? part_y : 1 - part_y) * (k % 2 == 1 ? part_x : 1 - part_x) * whole;
      }
    }
  }

  const Problem p_;
  const std::shared_ptr<const std::byte> weights_;
  const int64_t parts_;
};

Result<Problem> problem_of(const KernelNode& node) {
  const auto shape_of = [&](size_t i) { return input_spec(node, i).present() ? &input_spec(node, i).shape : nullptr; };
  Problem p;
  TENON_TRY_ASSIGN(p.desc, read_deform_conv(*node.node, node.inputs[0].shape, node.inputs[1].shape,
                                            node.inputs[2].shape, shape_of(3), shape_of(4)));
  TENON_UNSUPPORTED_IF(p.desc.spatial() != 2, "X has {} spatial axes.", p.desc.spatial());
  p.in = p.desc.window.in_count();
  p.out = p.desc.window.out_count();
  p.taps = p.desc.window.kernel_count();
  TENON_UNSUPPORTED_IF(p.in > INT32_MAX || p.depth() == 0, "An image has {} elements, a column {}.", p.in, p.depth());
  return p;
}

}  // namespace

Status match_deform_conv(const KernelNode& node) {
  TENON_TRY(match_plain(node, DataType::kFloat));
  TENON_UNSUPPORTED_IF(
      !input_spec(node, 0).present() || !input_spec(node, 1).present() || !input_spec(node, 2).present(),
      "An input is absent.");
  return problem_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_deform_conv(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, problem_of(node));
  TENON_INVALID_IF(output_spec(node, 0).shape != problem.desc.output(), "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), problem.desc.output().to_string());
  const int64_t threads = node.pool != nullptr ? node.pool->threads() : 1;
  const int64_t most = std::max<int64_t>(1, problem.desc.batch * problem.blocks());
  const int64_t parts = std::min(threads == 1 ? 1 : 2 * threads, most);
  TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> cleared, cleared_constant(node, 1));
  return std::unique_ptr<Kernel>(std::make_unique<DeformConvKernel>(problem, std::move(cleared), parts));
}

}  // namespace tenon::cpu::nn
