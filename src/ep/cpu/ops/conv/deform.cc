// DeformConv of f32 over two axes. The channels of an element are brought side by side, so that each of the four
// elements around a moved tap is a run of them; a block of positions is the left side of a product with the weights.
#include <algorithm>

#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/lines.h"
#include "ops/deform_conv.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kBlock = 64;      // positions
constexpr int64_t kReadsOver = 16;  // floats, by weighted_sum()

struct Problem {
  DeformConvDesc desc;
  int64_t in = 0, out = 0, taps = 0;  // positions of the input and of the output, elements of the kernel
  int64_t depth() const { return desc.group_channels() * taps; }
  int64_t blocks() const { return (out + kBlock - 1) / kBlock; }
  int64_t packed_floats() const { return gemm_packed_floats(depth(), desc.group_outputs()); }  // of a group
};

// The products' right sides, one for each group: a row for each tap and each channel in it.
void pack(const Problem& p, const float* weights, float* packed) {
  const int64_t channels = p.desc.group_channels(), outputs = p.desc.group_outputs(), depth = p.depth();
  std::fill_n(packed, p.desc.group * p.packed_floats(), 0.0f);
  for (int64_t g = 0; g < p.desc.group; ++g, packed += p.packed_floats()) {
    for (int64_t m = 0; m < outputs; ++m) {
      float* const column = packed + m / kGemmPanel * depth * kGemmPanel + m % kGemmPanel;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t tap = 0; tap < p.taps; ++tap) column[(tap * channels + c) * kGemmPanel] = *weights++;
    }
  }
}

// Of each position, what is around a moved tap: as many elements as the image has, and their parts of the sum.
struct Taps {
  int count[kBlock];
  int64_t position[kBlock][4];
  float weight[kBlock][4];
};

// Of numbers within int32.
int32_t floor_of(float value) {
  const auto towards_zero = static_cast<int32_t>(value);
  return towards_zero - (value < static_cast<float>(towards_zero) ? 1 : 0);
}

class DeformConvKernel final : public Kernel {
 public:
  // `packed` weights, or null where a run gives them.
  DeformConvKernel(const Problem& problem, std::shared_ptr<const float> packed, int64_t parts)
      : p_(problem), packed_(std::move(packed)), parts_(parts) {}

  Status run(KernelContext& context) const override {
    const float* packed = packed_.get();
    if (packed == nullptr) {
      auto* const made = reinterpret_cast<float*>(context.scratch + image_bytes());
      pack(p_, context.input<float>(1), made);
      packed = made;
    }
    bring_channels_together(context);
    const int64_t tasks = p_.desc.batch * p_.blocks();
    std::byte* const of_parts = context.scratch + image_bytes() + run_weight_bytes();
    context.pool->parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        auto* const memory = reinterpret_cast<float*>(of_parts + part * part_bytes());
        for (int64_t task = tasks * part / parts_; task < tasks * (part + 1) / parts_; ++task)
          run_block(context, packed, task / p_.blocks(), task % p_.blocks() * kBlock, memory);
      }
    });
    return {};
  }
  size_t scratch_bytes() const override { return image_bytes() + run_weight_bytes() + parts_ * part_bytes(); }
  bool reads(size_t input) const override { return input != 1 || packed_ == nullptr; }
  std::string_view name() const override { return "deform_conv f32"; }

 private:
  size_t image_bytes() const {
    return aligned_bytes((p_.desc.batch * p_.in * p_.desc.channels + kReadsOver) * sizeof(float));
  }
  size_t run_weight_bytes() const {
    return packed_ ? 0 : aligned_bytes(p_.desc.group * p_.packed_floats() * sizeof(float));
  }
  int64_t rows_floats() const { return p_.desc.group * kBlock * p_.depth(); }
  size_t part_bytes() const {
    return aligned_bytes((rows_floats() + kBlock * p_.desc.group_outputs()) * sizeof(float));
  }

  // x[image][position][channel], at the start of the scratch memory.
  void bring_channels_together(KernelContext& context) const {
    const int64_t channels = p_.desc.channels, pieces = (p_.in + kBlock - 1) / kBlock;
    const auto* const x = context.input<uint32_t>(0);
    auto* const moved = reinterpret_cast<uint32_t*>(context.scratch);
    std::fill_n(moved + p_.desc.batch * p_.in * channels, kReadsOver, 0);
    context.pool->parallel_for(
        p_.desc.batch * pieces, grain_of(kBlock * channels / 2), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t n = item / pieces, first = item % pieces * kBlock;
            eltwise_table().transpose32(x + n * channels * p_.in + first, p_.in, moved + (n * p_.in + first) * channels,
                                        channels, channels, std::min(kBlock, p_.in - first));
          }
        });
  }

  void run_block(KernelContext& context, const float* packed, int64_t n, int64_t first, float* rows) const {
    const DeformConvDesc& desc = p_.desc;
    const int64_t count = std::min(kBlock, p_.out - first), depth = p_.depth(), outputs = desc.group_outputs();
    fill_rows(context, n, first, count, rows);
    float* const tile = rows + rows_floats();
    for (int64_t g = 0; g < desc.group; ++g) {
      const float* const bias = context.input<float>(3);
      gemm_table().run({.a = rows + g * kBlock * depth,
                        .lda = depth,
                        .b = packed + g * p_.packed_floats(),
                        .panel_stride = depth * kGemmPanel,
                        .c = tile,
                        .ldc = outputs,
                        .m = count,
                        .n = outputs,
                        .k = depth,
                        .bias = bias == nullptr ? nullptr : bias + g * outputs});
      auto* const y = context.output<uint32_t>(0) + (n * desc.outputs + g * outputs) * p_.out + first;
      eltwise_table().transpose32(reinterpret_cast<const uint32_t*>(tile), outputs, y, p_.out, count, outputs);
    }
  }

  // rows[group][position][tap][channel]
  void fill_rows(KernelContext& context, int64_t n, int64_t first, int64_t count, float* rows) const {
    const DeformConvDesc& desc = p_.desc;
    const int64_t channels = desc.channels, of_group = desc.group_channels(), each = channels / desc.offset_group;
    const float* const x = reinterpret_cast<const float*>(context.scratch) + n * p_.in * channels;
    Taps around;
    for (int64_t o = 0; o < desc.offset_group; ++o) {
      for (int64_t tap = 0; tap < p_.taps; ++tap) {
        find_taps(context, (n * desc.offset_group + o) * p_.taps + tap, tap, first, count, around);
        // The channels that share these offsets, group by group.
        for (int64_t c = o * each, end = c + each, run = 0; c < end; c += run) {
          const int64_t g = c / of_group;
          run = std::min(end, (g + 1) * of_group) - c;
          float* const to = rows + (g * kBlock * p_.taps + tap) * of_group + c % of_group;
          for (int64_t i = 0; i < count; ++i)
            line_table().weighted_sum(x + c, around.position[i], around.weight[i], around.count[i], 0, run,
                                      to + i * p_.depth());
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
    int64_t out_row = first / across.out, out_column = first % across.out;
    for (int64_t i = 0; i < count; ++i) {
      const float y = static_cast<float>(out_row * down.stride + top) + moved[i];
      const float x = static_cast<float>(out_column * across.stride + left) + moved[p_.out + i];
      if (++out_column == across.out) out_column = 0, ++out_row;
      to.count[i] = 0;
      // Beyond these nothing of the image is near; NaN is beyond them too.
      if (!(y > -1 && y < static_cast<float>(down.in) && x > -1 && x < static_cast<float>(across.in))) continue;
      const int32_t row_0 = floor_of(y), column_0 = floor_of(x);
      const float part_y = y - static_cast<float>(row_0), part_x = x - static_cast<float>(column_0);
      const float whole = mask != nullptr ? mask[i] : 1;
      for (int k = 0; k < 4; ++k) {
        const int64_t r = row_0 + k / 2, c = column_0 + k % 2;
        if (r < 0 || r >= down.in || c < 0 || c >= across.in) continue;
        const int at = to.count[i]++;
        to.position[i][at] = (r * across.in + c) * p_.desc.channels;
        to.weight[i][at] = (k / 2 == 1 ? part_y : 1 - part_y) * (k % 2 == 1 ? part_x : 1 - part_x) * whole;
      }
    }
  }

  const Problem p_;
  const std::shared_ptr<const float> packed_;
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
  std::shared_ptr<const float> packed;
  if (node.constants[1] != nullptr) {
    TENON_TRY_ASSIGN(packed, pack_weights(node, 1, format("deform_conv {} {}", problem.desc.group, problem.taps),
                                          problem.desc.group * problem.packed_floats(),
                                          [&](const float* from, float* to) { pack(problem, from, to); }));
  }
  return std::unique_ptr<Kernel>(std::make_unique<DeformConvKernel>(problem, std::move(packed), parts));
}

}  // namespace tenon::cpu::nn
