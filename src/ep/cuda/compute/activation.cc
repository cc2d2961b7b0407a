#include "ep/cuda/compute/activation.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {

namespace {

struct Row {
  Activation activation;
  std::string_view name;  // in the attribute
  const char* text;       // of X, with the numbers A and B; a NaN stays one, as it fails every comparison
};

constexpr auto kRows = std::to_array<Row>({
    {Activation::kNone, "none", "X"},
    {Activation::kRelu, "relu", "(X < 0 ? 0.0f : X)"},
    {Activation::kClip, "clip", "(X < A ? A : X > B ? B : X)"},
    {Activation::kLeakyRelu, "leaky_relu", "(X >= 0 ? X : A * X)"},
    {Activation::kSigmoid, "sigmoid", "(1.0f / (1.0f + expf(-X)))"},
    {Activation::kHardSigmoid, "hardsigmoid", "unit_of(A * X + B)"},
    {Activation::kHardSwish, "hardswish", "(X * unit_of(A * X + B))"},
    {Activation::kSilu, "silu", "(X / (1.0f + expf(-X)))"},
    {Activation::kGelu, "gelu", "(0.5f * X * (1.0f + erff(X * 0.70710678f)))"},
    {Activation::kGeluTanh, "gelu_tanh", "(0.5f * X * (1.0f + tanhf(0.79788456f * (X + 0.044715f * X * X * X))))"},
    {Activation::kTanh, "tanh", "tanhf(X)"},
});

}  // namespace

Result<Epilogue> read_epilogue(const Node& node) {
  const std::string_view name = node.string_or("activation", "none");
  const auto* const row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == name; });
  TENON_UNSUPPORTED_IF(row == kRows.end(), "The CUDA EP has no activation \"{}\".", name);
  Epilogue epilogue;
  epilogue.activation = row->activation;
  epilogue.alpha = node.float_or("activation_alpha", 0);
  epilogue.beta = node.float_or("activation_beta", 0);
  epilogue.residual_after = node.int_or("residual_after", 0) != 0;
  return epilogue;
}

std::string activation_expression(const Epilogue& epilogue, const std::string& x) {
  const auto* const row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.activation == epilogue.activation; });
  TENON_CHECK(row != kRows.end());
  std::string text = row->text;
  const auto put = [&](char name, const std::string& value) {
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size()) text.replace(at, 1, value);
  };
  put('A', float_literal(epilogue.alpha));
  put('B', float_literal(epilogue.beta));
  put('X', x);
  return text;
}

}  // namespace tenon::cuda
