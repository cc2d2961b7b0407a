#include "ep/cpu/kernels/ref_activation.h"

#include "ep/cpu/parse_epilogue.h"

namespace tenon::cpu::ref {

Result<Epilogue> Epilogue::of(const Node& node) {
  TENON_TRY_ASSIGN(const cpu::Epilogue parsed, parse_epilogue(node));
  return Epilogue{.activation = parsed.activation,
                  .alpha = parsed.alpha,
                  .beta = parsed.beta,
                  .residual_after = parsed.residual_after};
}

double Epilogue::activate(double x) const {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kClip:
      return x < alpha ? alpha : x > beta ? beta : x;
    case Activation::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kHardSigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case Activation::kHardSwish:
      return x * std::clamp(alpha * x + beta, 0.0, 1.0);
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

}  // namespace tenon::cpu::ref
