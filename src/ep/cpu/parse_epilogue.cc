#include "ep/cpu/parse_epilogue.h"

#include <cfloat>

namespace tenon::cpu {

namespace {

struct ActivationRow {
  std::string_view name;
  Activation activation;
  float alpha, beta;  // where the attributes are absent
};

constexpr ActivationRow kActivations[] = {
    {"none", Activation::kNone, 0, 0},
    {"relu", Activation::kRelu, 0, 0},
    {"clip", Activation::kClip, -FLT_MAX, FLT_MAX},
    {"leaky_relu", Activation::kLeakyRelu, 0.01f, 0},
    {"sigmoid", Activation::kSigmoid, 0, 0},
    {"hardsigmoid", Activation::kHardSigmoid, 0.2f, 0.5f},
    {"hardswish", Activation::kHardSwish, 1.0f / 6, 0.5f},
    {"silu", Activation::kSilu, 0, 0},
    {"gelu", Activation::kGelu, 0, 0},
    {"gelu_tanh", Activation::kGeluTanh, 0, 0},
    {"tanh", Activation::kTanh, 0, 0},
};

}  // namespace

Result<Epilogue> parse_epilogue(const Node& node) {
  const std::string_view name = node.string_or("activation", "none");
  for (const ActivationRow& row : kActivations) {
    if (row.name != name) continue;
    return Epilogue{.activation = row.activation,
                    .residual_after = node.int_or("residual_after", 0) != 0,
                    .alpha = node.float_or("activation_alpha", row.alpha),
                    .beta = node.float_or("activation_beta", row.beta)};
  }
  return invalid_argument("The activation \"{}\" is unknown.", name);
}

}  // namespace tenon::cpu
