#include "ep/cuda/compute/activation.h"

#include <cctype>
#include <cmath>
#include <string_view>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A parameter in the type of x.
std::string number_like(const std::string& x, double value) {
  return format("num({}, {})", x,
                std::isfinite(value) ? format("{:.17e}", value) : float_literal(static_cast<float>(value)));
}

}  // namespace

std::string unary_expression(const UnaryDesc& unary, const std::string& x) {
  const std::string_view formula = row_of(unary.function).formula;
  std::string text = "(";
  for (size_t i = 0; i < formula.size();) {
    size_t end = i;
    while (end < formula.size() && is_word(formula[end])) ++end;
    const std::string_view word = formula.substr(i, end - i);
    if (word == "x") {
      text += x;
    } else if (word == "a" || word == "b") {
      text += number_like(x, word == "a" ? unary.alpha : unary.beta);
    } else if (word.empty()) {
      text += formula[end++];
    } else {
      text += word;
    }
    i = end;
  }
  return text + ")";
}

std::string activation_expression(const Epilogue& epilogue, const std::string& x) {
  return unary_expression({unary_of(epilogue.activation), epilogue.alpha, epilogue.beta}, x);
}

const std::string& generated_vocabulary() {
  static const std::string kText = [] {
    std::string text = R"(
template <typename T> __device__ __forceinline__ T num(T, double c) { return (T)c; }
template <typename T> __device__ __forceinline__ T larger(T a, T x) { return x < a ? a : x; }
template <typename T> __device__ __forceinline__ T smaller(T a, T x) { return a < x ? a : x; }
template <typename T> __device__ __forceinline__ T where_less(T a, T b, T yes, T no) { return a < b ? yes : no; }
template <typename T> __device__ __forceinline__ T multiply_add(T x, T y, T z) { return x * y + z; }
template <typename T> __device__ __forceinline__ T negated(T x) { return (T)-x; }
template <typename T> __device__ __forceinline__ T abs_of(T x) { return x < 0 ? (T)-x : x; }
__device__ __forceinline__ float abs_of(float x) { return fabsf(x); }
__device__ __forceinline__ double abs_of(double x) { return fabs(x); }
__device__ __forceinline__ float round_of(float x) { return rintf(x); }
__device__ __forceinline__ double round_of(double x) { return rint(x); }
)";
    for (const char* name : {"sqrt", "exp", "expm1", "log",  "log1p", "erf",  "tanh", "floor", "ceil",  "sin",
                             "cos",  "tan", "asin",  "acos", "atan",  "sinh", "cosh", "asinh", "acosh", "atanh"})
      text += format(
          "__device__ __forceinline__ float {0}_of(float x) {{ return {0}f(x); }}\n"
          "__device__ __forceinline__ double {0}_of(double x) {{ return {0}(x); }}\n",
          name);
    return text + R"(template <typename T> __device__ __forceinline__ T gelu_of(T x) {
  return num(x, 0.5) * x * (num(x, 1) + erf_of(x * num(x, 0.70710678118654752440)));
}
template <typename T> __device__ __forceinline__ T gelu_tanh_of(T x) {
  return num(x, 0.5) * x *
         (num(x, 1) + tanh_of(num(x, 0.79788456080286535588) * (x + num(x, 0.044715) * x * x * x)));
}
)";
  }();
  return kText;
}

}  // namespace tenon::cuda
