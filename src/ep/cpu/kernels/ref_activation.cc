#include "ep/cpu/kernels/ref_activation.h"

namespace tenon::cpu::ref {

Result<Epilogue> Epilogue::of(const Node& node) {
  struct Row {
    std::string_view name;
    ActivationKind kind;
  };
  static constexpr Row kNames[] = {
      {"none", ActivationKind::kNone},           {"relu", ActivationKind::kRelu},
      {"clip", ActivationKind::kClip},           {"leaky_relu", ActivationKind::kLeakyRelu},
      {"sigmoid", ActivationKind::kSigmoid},     {"hardsigmoid", ActivationKind::kHardSigmoid},
      {"hardswish", ActivationKind::kHardSwish}, {"silu", ActivationKind::kSilu},
      {"gelu", ActivationKind::kGelu},           {"gelu_tanh", ActivationKind::kGeluTanh},
      {"tanh", ActivationKind::kTanh},
  };
  const std::string_view name = node.string_or("activation", "none");
  const auto* row = std::find_if(std::begin(kNames), std::end(kNames), [&](const Row& r) { return r.name == name; });
  TENON_INVALID_IF(row == std::end(kNames), "Activation \"{}\" is unknown.", name);
  Epilogue epilogue;
  epilogue.activation = row->kind;
  epilogue.alpha = node.float_or("activation_alpha", 0);
  epilogue.beta = node.float_or("activation_beta", 0);
  epilogue.residual_after = node.int_or("residual_after", 0) != 0;
  return epilogue;
}

double Epilogue::activate(double x) const {
  switch (activation) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return x < 0 ? 0 : x;
    case ActivationKind::kClip:
      return x < alpha ? alpha : x > beta ? beta : x;
    case ActivationKind::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case ActivationKind::kSigmoid:
      return sigmoid(x);
    case ActivationKind::kHardSigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case ActivationKind::kHardSwish:
      return x * std::clamp(alpha * x + beta, 0.0, 1.0);
    case ActivationKind::kSilu:
      return x * sigmoid(x);
    case ActivationKind::kGelu:
      return gelu(x);
    case ActivationKind::kGeluTanh:
      return gelu_tanh(x);
    case ActivationKind::kTanh:
      return std::tanh(x);
  }
  return x;
}

}  // namespace tenon::cpu::ref
