// ConvInteger, QLinearConv and tenon.QuantizedConv.
#include "ep/cpu/ops/quantize/reference_fused.h"
#include "ep/cpu/ops/reference_window.h"
#include "ops/conv.h"

namespace tenon::cpu::ref {

namespace {

// A scale or a zero point: one element for all channels, or one for each.
struct Parameter {
  size_t input = SIZE_MAX;
  ReadElement read = nullptr;
  bool channels = false;

  double at(const KernelContext& context, int64_t channel) const {
    return read ? read(context.inputs[input], channels ? channel : 0) : 0;
  }
};

Result<Parameter> read_parameter(const RefNode& node, size_t input, int64_t channels) {
  Parameter parameter{.input = input};
  const TensorSpec& spec = input_spec(node, input);
  if (!spec.present()) return parameter;
  const int64_t count = spec.shape.element_count();
  TENON_INVALID_IF(spec.shape.rank() > 1 || (count != 1 && count != channels),
                   "Input {} of {} has shape {}; a scale or zero point here has 1 element{}.", input,
                   node.node->op_type, spec.shape.to_string(),
                   channels > 1 ? tenon::format(" or {}, one for each channel", channels) : "");
  parameter.read = element_reader(spec.type);
  TENON_UNSUPPORTED_IF(parameter.read == nullptr, "{} has a scale or zero point of {}.", node.node->op_type,
                       data_type_name(spec.type));
  parameter.channels = count != 1;
  return parameter;
}

struct Plan {
  ConvDesc conv;
  size_t w = 1, bias = SIZE_MAX;
  ReadElement read_x = nullptr, read_w = nullptr;
  Parameter x_scale, x_zero, w_scale, w_zero, y_scale, y_zero;
  WriteQuantized write = nullptr;  // null: the sums are the result
  bool fused = false;              // tenon.QuantizedConv
  FusedOutput output;
};

// The sum of one output, which wraps as int32 does. Padding counts as the zero point of X: it adds nothing.
int32_t sum_of(const Plan& plan, const KernelContext& context, int64_t image, int64_t channel, const Strides& at) {
  const ConvDesc& conv = plan.conv;
  const Window& window = conv.window;
  const int64_t in_count = window.in_count(), taps = window.kernel_count(), channels = conv.group_channels();
  const int64_t group = channel / conv.group_outputs();
  const double x_zero = plan.x_zero.at(context, 0), w_zero = plan.w_zero.at(context, channel);
  uint32_t sum = plan.bias != SIZE_MAX && context.input<int32_t>(plan.bias) != nullptr
                     ? static_cast<uint32_t>(context.input<int32_t>(plan.bias)[channel])
                     : 0;
  Strides tap{};
  for (int64_t k = 0; k < taps; ++k, advance(window, &WindowAxis::kernel, tap)) {
    const int64_t source = source_of(window, at, tap);
    if (source < 0) continue;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t x_index = ((image * conv.group + group) * channels + c) * in_count + source;
      const auto x = static_cast<int32_t>(plan.read_x(context.inputs[0], x_index) - x_zero);
      const auto w =
          static_cast<int32_t>(plan.read_w(context.inputs[plan.w], (channel * channels + c) * taps + k) - w_zero);
      sum += static_cast<uint32_t>(x * w);
    }
  }
  return static_cast<int32_t>(sum);
}

void convolve(const Plan& plan, const KernelContext& context) {
  const ConvDesc& conv = plan.conv;
  const int64_t out_count = conv.window.out_count();
  int64_t index = 0;
  for (int64_t n = 0; n < conv.batch; ++n) {
    for (int64_t channel = 0; channel < conv.outputs; ++channel) {
      const float product =
          static_cast<float>(plan.x_scale.at(context, 0)) * static_cast<float>(plan.w_scale.at(context, channel));
      const float scale = product / static_cast<float>(plan.y_scale.at(context, 0));
      Strides at{};
      for (int64_t p = 0; p < out_count; ++p, ++index, advance(conv.window, &WindowAxis::out, at)) {
        const int32_t sum = sum_of(plan, context, n, channel, at);
        if (plan.fused) {
          plan.output.store(context, static_cast<double>(sum) * static_cast<double>(product), channel, index);
        } else if (plan.write == nullptr) {
          context.output<int32_t>(0)[index] = sum;
        } else {
          plan.write(static_cast<float>(sum) * scale, plan.y_zero.at(context, 0), context.outputs[0], index);
        }
      }
    }
  }
}

Result<RefImpl> make(RefNode& node) {
  const bool fused = node.node->domain == "tenon", scaled = fused || node.node->op_type == "QLinearConv";
  Plan plan;
  plan.w = scaled ? 3 : 1;
  TENON_TRY(require_inputs(node, fused ? 2 : scaled ? 8 : 2));
  if (scaled && !input_spec(node, 3).present()) return invalid_argument("{} lacks its weights.", node.node->op_type);
  const TensorSpec &x = node.inputs[0], &w = node.inputs[plan.w];
  TENON_TRY_ASSIGN(plan.conv, read_conv(*node.node, x.shape, w.shape));
  TENON_TRY(require_output(node, 0, plan.conv.output()));
  plan.read_x = element_reader(x.type);
  plan.read_w = element_reader(w.type);
  const auto byte = [](DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; };
  const DataType y = output_spec(node, 0).type;
  TENON_UNSUPPORTED_IF(!byte(x.type) || !byte(w.type) || (scaled && !fused && !byte(y)),
                       "{} is not computed on {} and {}.", node.node->op_type, data_type_name(x.type),
                       data_type_name(w.type));
  const int64_t outputs = plan.conv.outputs;
  if (!scaled) {
    TENON_TRY_ASSIGN(plan.x_zero, read_parameter(node, 2, 1));
    TENON_TRY_ASSIGN(plan.w_zero, read_parameter(node, 3, outputs));
  } else {
    plan.write = quantized_writer(y);
    TENON_TRY_ASSIGN(plan.x_scale, read_parameter(node, 1, 1));
    TENON_TRY_ASSIGN(plan.x_zero, read_parameter(node, 2, 1));
    TENON_TRY_ASSIGN(plan.w_scale, read_parameter(node, 4, outputs));
    TENON_TRY_ASSIGN(plan.w_zero, read_parameter(node, 5, outputs));
    TENON_TRY_ASSIGN(plan.y_scale, read_parameter(node, 6, 1));
    TENON_TRY_ASSIGN(plan.y_zero, read_parameter(node, 7, 1));
    const TensorSpec& bias = input_spec(node, 8);
    const bool fits = bias.type == DataType::kInt32 || (fused && bias.type == DataType::kFloat);
    TENON_INVALID_IF(bias.present() && (!(bias.shape == Shape{outputs}) || !fits),
                     "{} has a bias of {} and shape {} for {} channels; it takes int32.", node.node->op_type,
                     data_type_name(bias.type), bias.shape.to_string(), outputs);
    if (bias.present() && bias.type == DataType::kInt32) plan.bias = 8;
  }
  if (fused) {
    plan.fused = true;
    plan.output = {.residual = given_input(node, 9),
                   .y_scale = given_input(node, 6),
                   .y_zero = given_input(node, 7),
                   .table = given_input(node, 10),
                   .epilogue = {},
                   .y_type = y};
    if (input_spec(node, 8).type == DataType::kFloat) plan.output.bias = 8;
    TENON_TRY_ASSIGN(plan.output.epilogue, read_epilogue(*node.node));
  }
  RefImpl impl;
  impl.run = [plan](KernelContext& context) -> Status {
    convolve(plan, context);
    return {};
  };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr KernelEntry kRows[] = {
    ref_row<kBytes, &make>("ConvInteger", 10),
    ref_row<kBytes, &make>("QLinearConv", 10),
    ref_row<kBytes, &make>("QuantizedConv", 1, kAnyVersion, "tenon"),
    ref_row<kBytes, &make>("QLinearConv", 1, kAnyVersion, "com.microsoft"),
};

}  // namespace

std::span<const KernelEntry> ref_conv_integer_rows() { return kRows; }

}  // namespace tenon::cpu::ref
