// Conv and ConvTranspose of any rank, with groups; those of domain tenon with residual and activation too.
#include "ep/cpu/ops/reference_window.h"
#include "ops/activation_formula.h"
#include "ops/conv.h"
#include "ops/unary.h"

namespace tenon::cpu::ref {

namespace {

struct Plan {
  ConvDesc conv;
  Epilogue epilogue;
};
using Loop = void (*)(const Plan& plan, const void* x, const void* w, const void* bias, const void* residual, void* y);

template <typename T>
void loop(const Plan& plan, const void* x, const void* w, const void* bias, const void* residual, void* y) {
  const ConvDesc& conv = plan.conv;
  const Window& window = conv.window;
  const int64_t group_channels = conv.group_channels(), group_outputs = conv.group_outputs();
  const int64_t in_count = window.in_count(), out_count = window.out_count(), taps = window.kernel_count();
  // W is [O, C/group, taps], or [C, O/group, taps] when transposed.
  const int64_t w_channel = conv.transposed ? group_outputs * taps : taps;
  const T* weights = static_cast<const T*>(w);  // null when there are no input channels
  for (int64_t n = 0; n < conv.batch; ++n) {
    for (int64_t g = 0; g < conv.group; ++g) {
      const T* from = static_cast<const T*>(x) + (n * conv.group + g) * group_channels * in_count;
      for (int64_t o = 0; o < group_outputs; ++o) {
        const int64_t channel = g * group_outputs + o;
        const int64_t first_weight =
            conv.transposed ? (g * group_channels * group_outputs + o) * taps : channel * group_channels * taps;
        const int64_t first = (n * conv.group * group_outputs + channel) * out_count;
        const double offset = bias ? static_cast<double>(static_cast<const T*>(bias)[channel]) : 0.0;
        Strides at{};
        for (int64_t p = 0; p < out_count; ++p, advance(window, &WindowAxis::out, at)) {
          double sum = offset;
          Strides tap{};
          for (int64_t k = 0; k < taps; ++k, advance(window, &WindowAxis::kernel, tap)) {
            const int64_t source = conv.transposed ? transposed_source_of(window, at, tap) : source_of(window, at, tap);
            if (source < 0) continue;
            for (int64_t c = 0; c < group_channels; ++c) {
              sum += static_cast<double>(from[c * in_count + source]) *
                     static_cast<double>(weights[first_weight + c * w_channel + k]);
            }
          }
          const double add = residual ? static_cast<double>(static_cast<const T*>(residual)[first + p]) : 0.0;
          static_cast<T*>(y)[first + p] = T(evaluate(plan.epilogue, sum, add));
        }
      }
    }
  }
}

Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const std::string& name = node.node->op_type;
  Plan plan;
  TENON_TRY_ASSIGN(plan.conv, read_conv(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  const Shape out = plan.conv.output();
  TENON_TRY(require_output(node, 0, out));
  const TensorSpec& bias = input_spec(node, 2);
  TENON_INVALID_IF(bias.present() && !(bias.shape == Shape{out[1]}), "{} has bias {} for {} channels.", name,
                   bias.shape.to_string(), out[1]);
  if (node.node->domain == "tenon") {
    TENON_TRY_ASSIGN(plan.epilogue, read_epilogue(*node.node));
    const TensorSpec& residual = input_spec(node, 3);
    TENON_INVALID_IF(residual.present() && !(residual.shape == out), "{} has residual {} for output {}.", name,
                     residual.shape.to_string(), out.to_string());
  }
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.present() && spec.type != node.inputs[0].type, "{} mixes {} and {}.", name,
                     data_type_name(node.inputs[0].type), data_type_name(spec.type));
  }
  const Loop chosen = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", name, data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [plan, chosen](KernelContext& context) -> Status {
    chosen(plan, context.inputs[0], context.inputs[1], context.input<void>(2), context.input<void>(3),
           context.outputs[0]);
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make>("Conv", 1),
    ref_row<kFloatSet, &make>("ConvTranspose", 1),
    ref_row<kFloatSet, &make>("Conv", 1, kAnyVersion, "tenon"),
    ref_row<kFloatSet, &make>("ConvTranspose", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_conv_rows() { return kRows; }

}  // namespace tenon::cpu::ref
