// Conv and ConvTranspose of any rank, with groups; those of domain tenon with residual and activation too.
#include "ep/cpu/kernels/ref_window.h"
#include "ops/activation_formula.h"
#include "ops/unary.h"

namespace tenon::cpu::ref {

namespace {

struct Plan {
  Window window;
  bool transposed = false;
  int64_t batch = 0, group = 1;
  int64_t in_group = 0, out_group = 0;  // channels of one group
  Epilogue epilogue;
};
using Loop = void (*)(const Plan& plan, const void* x, const void* w, const void* bias, const void* residual, void* y);

template <typename T>
void loop(const Plan& plan, const void* x, const void* w, const void* bias, const void* residual, void* y) {
  const Window& window = plan.window;
  const int64_t in_count = window.in_count(), out_count = window.out_count(), taps = window.kernel_count();
  // W is [O, C/group, taps], or [C, O/group, taps] when transposed.
  const int64_t w_channel = plan.transposed ? plan.out_group * taps : taps;
  for (int64_t n = 0; n < plan.batch; ++n) {
    for (int64_t g = 0; g < plan.group; ++g) {
      const T* from = static_cast<const T*>(x) + (n * plan.group + g) * plan.in_group * in_count;
      for (int64_t o = 0; o < plan.out_group; ++o) {
        const int64_t channel = g * plan.out_group + o;
        const T* weights = static_cast<const T*>(w) + (plan.transposed ? (g * plan.in_group * plan.out_group + o) * taps
                                                                       : channel * plan.in_group * taps);
        const int64_t first = (n * plan.group * plan.out_group + channel) * out_count;
        const double offset = bias ? static_cast<double>(static_cast<const T*>(bias)[channel]) : 0.0;
        Strides at{};
        for (int64_t p = 0; p < out_count; ++p, Window::advance(window.out, window.rank, at)) {
          double sum = offset;
          Strides tap{};
          for (int64_t k = 0; k < taps; ++k, Window::advance(window.kernel, window.rank, tap)) {
            const int64_t source = plan.transposed ? window.transposed_source(at, tap) : window.source(at, tap);
            if (source < 0) continue;
            for (int64_t c = 0; c < plan.in_group; ++c) {
              sum += static_cast<double>(from[c * in_count + source]) * static_cast<double>(weights[c * w_channel + k]);
            }
          }
          const double add = residual ? static_cast<double>(static_cast<const T*>(residual)[first + p]) : 0.0;
          static_cast<T*>(y)[first + p] = T(evaluate(plan.epilogue, sum, add));
        }
      }
    }
  }
}

template <bool transposed>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  const Shape& w = node.inputs[1].shape;
  const std::string& name = node.node->op_type;
  Plan plan;
  plan.transposed = transposed;
  if constexpr (transposed) {
    TENON_TRY_ASSIGN(plan.window, transposed_window(*node.node, x, w));
  } else {
    TENON_TRY_ASSIGN(plan.window, forward_window(*node.node, x, &w));
  }
  plan.batch = x[0];
  plan.group = node.node->int_or("group", 1);
  TENON_INVALID_IF(plan.group < 1 || x[1] % plan.group != 0 || w[0] % plan.group != 0,
                   "{} has {} groups for X {} and W {}.", name, plan.group, x.to_string(), w.to_string());
  plan.in_group = x[1] / plan.group;
  plan.out_group = transposed ? w[1] : w[0] / plan.group;
  TENON_INVALID_IF((transposed ? w[0] : w[1] * plan.group) != x[1],
                   "{} has {} channels in X {} but W {} for {} groups.", name, x[1], x.to_string(), w.to_string(),
                   plan.group);
  const Shape out = window_output(plan.window, x[0], plan.out_group * plan.group);
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
    ref_row<kFloatSet, &make<false>>("Conv", 1),
    ref_row<kFloatSet, &make<true>>("ConvTranspose", 1),
    ref_row<kFloatSet, &make<false>>("Conv", 1, kAnyVersion, "tenon"),
    ref_row<kFloatSet, &make<true>>("ConvTranspose", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_conv_rows() { return kRows; }

}  // namespace tenon::cpu::ref
