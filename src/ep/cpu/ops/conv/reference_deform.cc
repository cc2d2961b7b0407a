// DeformConv: linear interpolation at moved positions, over any number of axes.
#include "ep/cpu/ops/reference_access.h"
#include "ep/cpu/ops/reference_window.h"
#include "ops/deform_conv.h"

namespace tenon::cpu::ref {

namespace {

struct DeformPlan {
  DeformConvDesc desc;
  ReadNumber read = nullptr;
  WriteNumber write = nullptr;
  int64_t in = 1, out = 1, taps = 1;  // positions of the input and of the output, elements of the kernel
};

// The interpolated element of the image that begins at `image`; what lies outside counts as 0.
double interpolated(const DeformPlan& plan, const void* x, int64_t image,
                    const std::array<double, Shape::kMaxRank>& at) {
  const int rank = plan.desc.spatial();
  double sum = 0;
  for (int corner = 0; corner < 1 << rank; ++corner) {
    double weight = 1;
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d < rank && inside; ++d) {
      const double low = std::floor(at[d]), part = at[d] - low;
      const bool upper = (corner >> d & 1) != 0;
      const double element = low + (upper ? 1 : 0);
      weight *= upper ? part : 1 - part;
      inside = element >= 0 && element < static_cast<double>(plan.desc.window.axes[d].in);
      if (inside) offset = offset * plan.desc.window.axes[d].in + static_cast<int64_t>(element);
    }
    if (inside && weight != 0) sum += weight * plan.read(x, image + offset);
  }
  return sum;
}

// The weighted elements below the taps at output position `o`, for all channels: columns[channel][tap].
void gather_column(const DeformPlan& plan, const KernelContext& context, int64_t n, int64_t position, const Strides& o,
                   double* columns) {
  const DeformConvDesc& desc = plan.desc;
  const int rank = desc.spatial();
  const int64_t each = desc.channels / desc.offset_group;
  Strides k{};
  for (int64_t tap = 0; tap < plan.taps; ++tap, advance(desc.window, &WindowAxis::kernel, k)) {
    for (int64_t g = 0; g < desc.offset_group; ++g) {
      const int64_t row = (n * desc.offset_group + g) * plan.taps + tap;
      std::array<double, Shape::kMaxRank> at{};
      for (int d = 0; d < rank; ++d) {
        const WindowAxis& axis = desc.window.axes[d];
        at[d] = static_cast<double>(o[d] * axis.stride - axis.pad_begin + k[d] * axis.dilation) +
                plan.read(context.inputs[2], (row * rank + d) * plan.out + position);
      }
      const void* const mask = context.input<void>(4);
      const double weight = mask != nullptr ? plan.read(mask, row * plan.out + position) : 1;
      for (int64_t c = g * each; c < (g + 1) * each; ++c) {
        columns[c * plan.taps + tap] =
            weight * interpolated(plan, context.inputs[0], (n * desc.channels + c) * plan.in, at);
      }
    }
  }
}

void run_deform(const DeformPlan& plan, KernelContext& context) {
  const DeformConvDesc& desc = plan.desc;
  auto* const columns = reinterpret_cast<double*>(context.scratch);
  const int64_t depth = desc.group_channels() * plan.taps;
  const void* const bias = context.input<void>(3);
  for (int64_t n = 0; n < desc.batch; ++n) {
    Strides o{};
    for (int64_t position = 0; position < plan.out; ++position, advance(desc.window, &WindowAxis::out, o)) {
      gather_column(plan, context, n, position, o, columns);
      for (int64_t m = 0; m < desc.outputs; ++m) {
        double sum = bias != nullptr ? plan.read(bias, m) : 0;
        const double* const column = columns + m / desc.group_outputs() * depth;
        for (int64_t i = 0; i < depth; ++i) sum += column[i] * plan.read(context.inputs[1], m * depth + i);
        plan.write(context.outputs[0], (n * desc.outputs + m) * plan.out + position, sum);
      }
    }
  }
}

Result<RefImpl> make_deform(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const auto shape_of = [&](size_t i) { return input_spec(node, i).present() ? &node.inputs[i].shape : nullptr; };
  DeformPlan plan;
  TENON_TRY_ASSIGN(plan.desc, read_deform_conv(*node.node, node.inputs[0].shape, node.inputs[1].shape,
                                               node.inputs[2].shape, shape_of(3), shape_of(4)));
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.present() && spec.type != node.inputs[0].type, "DeformConv mixes {} and {}.",
                     data_type_name(node.inputs[0].type), data_type_name(spec.type));
  }
  TENON_TRY(require_output(node, 0, plan.desc.output()));
  TENON_TRY_ASSIGN(plan.read, input_reader(node, 0));
  TENON_TRY_ASSIGN(plan.write, output_writer(node, 0));
  plan.in = plan.desc.window.in_count();
  plan.out = plan.desc.window.out_count();
  plan.taps = plan.desc.window.kernel_count();
  RefImpl impl;
  impl.scratch_bytes = plan.desc.channels * plan.taps * sizeof(double);
  impl.run = [plan](KernelContext& context) -> Status {
    run_deform(plan, context);
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_deform>("DeformConv", 19),
};

}  // namespace

std::span<const KernelEntry> ref_deform_conv_rows() { return kRows; }

}  // namespace tenon::cpu::ref
