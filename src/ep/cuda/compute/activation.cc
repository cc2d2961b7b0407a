#include "ep/cuda/compute/activation.h"

#include <algorithm>
#include <array>

namespace tenon::cuda {

Result<Epilogue> read_epilogue(const Node& node) {
  constexpr std::array<std::string_view, 11> kNames = {
      "none", "relu", "clip", "leaky_relu", "sigmoid", "hardsigmoid", "hardswish", "silu", "gelu", "gelu_tanh", "tanh"};
  const std::string_view name = node.string_or("activation", "none");
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  TENON_UNSUPPORTED_IF(found == kNames.end(), "The CUDA EP has no activation \"{}\".", name);
  Epilogue epilogue;
  epilogue.activation = static_cast<Activation>(found - kNames.begin());
  epilogue.alpha = node.float_or("activation_alpha", 0);
  epilogue.beta = node.float_or("activation_beta", 0);
  epilogue.residual_after = node.int_or("residual_after", 0) != 0;
  return epilogue;
}

}  // namespace tenon::cuda
