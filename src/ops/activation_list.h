// Functions of one number, each written once: the operators of ONNX that are one, the activations of epilogues
// (docs/reference/internal-operators.md) and the functions of LSTM, GRU and RNN. Macros only, and no include: host
// code, simd/*.cc and CUDA device code read the same list.
//
//   X(Name, text, operator, since, alpha, beta, cost, formula)
//
//   text          the name in tenon's `activation` attribute; "" where the function is no activation of an epilogue
//   operator      the ONNX operator, which Tenon runs from version `since` on; "" where no operator is this function
//   alpha, beta   the parameters a and b of the formula: attribute("alpha") is the ONNX attribute with its default in
//                 the schema, fixed(0.5) a number, unused() none
//   cost          kCheap: bounded by memory; kDear: by arithmetic
//   formula       of x, a and b, in the vocabulary below, on whatever type a user of the list computes in
//
// The vocabulary, which every user of the formulas defines for its type:
//
//   num(x, c)                       the number c in the type of x
//   larger(a, x), smaller(a, x)     the larger or smaller one; NaN where x is
//   where_less(a, b, yes, no)       `yes` where a < b, else `no`
//   multiply_add(x, y, z)           x * y + z
//   negated(x), abs_of(x), ...      the function of that name
//   mish_of(x)                      x * tanh(log(1 + exp(x))), with one exponential: with t = exp(-|x|) it is
//                                   x * n / (n + 2 t^2) with n = 1 + 2 t for x >= 0, and x * n / (n + 2) with
//                                   n = t^2 + 2 t below
//   gelu_of(x), gelu_tanh_of(x)     x * (1 + erf(x / sqrt 2)) / 2, x * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
#pragma once

// clang-format off

// The activations of epilogues.
#define TENON_ACTIVATIONS(X)                                                                                           \
  X(None, "none", "", 0, unused(), unused(), kCheap, x)                                                                \
  X(Relu, "relu", "Relu", 6, unused(), unused(), kCheap, larger(num(x, 0), x))                                         \
  X(Clip, "clip", "Clip", 6, attribute("min"), attribute("max"), kCheap, smaller(b, larger(a, x)))                     \
  X(LeakyRelu, "leaky_relu", "LeakyRelu", 6, attribute("alpha"), unused(), kCheap,                                     \
    where_less(x, num(x, 0), x * a, x))                                                                                \
  X(Sigmoid, "sigmoid", "Sigmoid", 6, unused(), unused(), kDear, num(x, 1) / (num(x, 1) + exp_of(negated(x))))         \
  X(HardSigmoid, "hardsigmoid", "HardSigmoid", 6, attribute("alpha"), attribute("beta"), kCheap,                       \
    smaller(num(x, 1), larger(num(x, 0), multiply_add(x, a, b))))                                                      \
  X(HardSwish, "hardswish", "HardSwish", 14, fixed(1.0 / 6), fixed(0.5), kCheap,                                       \
    x * smaller(num(x, 1), larger(num(x, 0), multiply_add(x, a, b))))                                                  \
  X(Silu, "silu", "", 0, unused(), unused(), kDear, x / (num(x, 1) + exp_of(negated(x))))                              \
  X(Gelu, "gelu", "Gelu", 20, unused(), unused(), kDear, gelu_of(x))                                                   \
  X(GeluTanh, "gelu_tanh", "", 0, unused(), unused(), kDear, gelu_tanh_of(x))                                          \
  X(Tanh, "tanh", "Tanh", 6, unused(), unused(), kDear, tanh_of(x))

// Further functions that the CPU EP has a vector loop for.
#define TENON_VECTOR_FUNCTIONS(X)                                                                                      \
  X(Abs, "", "Abs", 6, unused(), unused(), kCheap, abs_of(x))                                                          \
  X(Neg, "", "Neg", 6, unused(), unused(), kCheap, negated(x))                                                         \
  X(Sqrt, "", "Sqrt", 6, unused(), unused(), kCheap, sqrt_of(x))                                                       \
  X(Reciprocal, "", "Reciprocal", 6, unused(), unused(), kCheap, num(x, 1) / x)                                        \
  X(Exp, "", "Exp", 6, unused(), unused(), kDear, exp_of(x))                                                           \
  X(Log, "", "Log", 6, unused(), unused(), kDear, log_of(x))                                                           \
  X(Erf, "", "Erf", 9, unused(), unused(), kDear, erf_of(x))                                                           \
  X(Floor, "", "Floor", 6, unused(), unused(), kCheap, floor_of(x))                                                    \
  X(Ceil, "", "Ceil", 6, unused(), unused(), kCheap, ceil_of(x))                                                       \
  X(Round, "", "Round", 11, unused(), unused(), kCheap, round_of(x))                                                   \
  X(Sign, "", "Sign", 9, unused(), unused(), kCheap,                                                                   \
    where_less(num(x, 0), x, num(x, 1), where_less(x, num(x, 0), negated(num(x, 1)), x)))                              \
  X(Softplus, "", "Softplus", 1, unused(), unused(), kDear,                                                            \
    larger(num(x, 0), x) + log1p_of(exp_of(negated(abs_of(x)))))                                                       \
  X(Softsign, "", "Softsign", 1, unused(), unused(), kCheap, x / (num(x, 1) + abs_of(x)))                              \
  X(Elu, "", "Elu", 6, attribute("alpha"), unused(), kDear, where_less(x, num(x, 0), a * expm1_of(x), x))              \
  X(Selu, "", "Selu", 6, attribute("alpha"), attribute("gamma"), kDear,                                                \
    b * where_less(x, num(x, 0), a * expm1_of(x), x))                                                                  \
  X(ThresholdedRelu, "", "ThresholdedRelu", 10, attribute("alpha"), unused(), kCheap,                                  \
    where_less(a, x, x, num(x, 0)))                                                                                    \
  X(Mish, "", "Mish", 18, unused(), unused(), kDear, mish_of(x))                                                       \
  X(Celu, "", "Celu", 12, attribute("alpha"), unused(), kDear, where_less(x, num(x, 0), a * expm1_of(x / a), x))       \
  X(Swish, "", "Swish", 24, attribute("alpha"), unused(), kDear, x / (num(x, 1) + exp_of(negated(a * x))))             \
  X(Shrink, "", "Shrink", 9, attribute("lambd"), attribute("bias"), kCheap,                                            \
    where_less(x, negated(a), x + b, where_less(a, x, x - b, num(x, 0))))                                              \
  X(Sin, "", "Sin", 7, unused(), unused(), kDear, sin_of(x))                                                           \
  X(Cos, "", "Cos", 7, unused(), unused(), kDear, cos_of(x))                                                           \
  X(Atan, "", "Atan", 7, unused(), unused(), kDear, atan_of(x))                                                        \
  X(Tan, "", "Tan", 7, unused(), unused(), kDear, tan_of(x))                                                           \
  X(Asin, "", "Asin", 7, unused(), unused(), kDear, asin_of(x))                                                        \
  X(Acos, "", "Acos", 7, unused(), unused(), kDear, acos_of(x))                                                        \
  X(Sinh, "", "Sinh", 9, unused(), unused(), kDear, sinh_of(x))                                                        \
  X(Cosh, "", "Cosh", 9, unused(), unused(), kDear, cosh_of(x))                                                        \
  X(Asinh, "", "Asinh", 9, unused(), unused(), kDear, asinh_of(x))                                                     \
  X(Acosh, "", "Acosh", 9, unused(), unused(), kDear, acosh_of(x))                                                     \
  X(Atanh, "", "Atanh", 9, unused(), unused(), kDear, atanh_of(x))                                                     \
  X(Square, "", "", 0, unused(), unused(), kCheap, x * x)                                                              \
  X(Cube, "", "", 0, unused(), unused(), kCheap, x * x * x)

// Functions that every EP computes by the plain formula.
#define TENON_SCALAR_FUNCTIONS(X)                                                                                      \
  X(Affine, "", "", 0, fixed(1), fixed(0), kCheap, multiply_add(x, a, b))                                              \
  X(ScaledTanh, "", "", 0, fixed(1), fixed(1), kDear, a * tanh_of(b * x))

#define TENON_FUNCTIONS(X)  \
  TENON_ACTIVATIONS(X)      \
  TENON_VECTOR_FUNCTIONS(X) \
  TENON_SCALAR_FUNCTIONS(X)

// Functions that the attribute `activations` of LSTM, GRU and RNN may name.
#define TENON_CELL_FUNCTIONS(X) \
  X(Affine)                     \
  X(Elu)                        \
  X(HardSigmoid)                \
  X(LeakyRelu)                  \
  X(Relu)                       \
  X(ScaledTanh)                 \
  X(Sigmoid)                    \
  X(Softplus)                   \
  X(Softsign)                   \
  X(Tanh)                       \
  X(ThresholdedRelu)

// clang-format on
