#include "ep/sim/sim_elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "ops/activation_formula.h"

namespace tenon::sim {

namespace {

template <typename Function>
Status with_type(DataType type, Function function) {
  switch (type) {
    case DataType::kFloat:
      return function(float{});
    case DataType::kDouble:
      return function(double{});
    case DataType::kInt32:
      return function(int32_t{});
    case DataType::kInt64:
      return function(int64_t{});
    default:
      return internal_error("An elementwise kernel got elements of type {}.", data_type_name(type));
  }
}

template <typename Function>
Status unary(const SimRun& run, Function function) {
  return with_type(run.in[0].type, [&](auto zero) {
    using T = decltype(zero);
    const T* in = reinterpret_cast<const T*>(run.in_data[0]);
    T* out = reinterpret_cast<T*>(run.out_data[0]);
    const int64_t count = run.out[0].shape.element_count();
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(function(in[i]));
    return Status();
  });
}

// Steps of an input's index for one step along each axis of the output; 0 where the input repeats.
std::array<int64_t, Shape::kMaxRank> broadcast_steps(const Shape& in, const Shape& out) {
  std::array<int64_t, Shape::kMaxRank> steps{};
  int64_t step = 1;
  for (int i = in.rank() - 1, o = out.rank() - 1; i >= 0; --i, --o) {
    steps[o] = in[i] == 1 ? 0 : step;
    step *= in[i];
  }
  return steps;
}

// Integers wrap around, as the ONNX operators do.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename Function>
Status binary(const SimRun& run, Function function) {
  return with_type(run.in[0].type, [&](auto zero) -> Status {
    using T = decltype(zero);
    const T* a = reinterpret_cast<const T*>(run.in_data[0]);
    const T* b = reinterpret_cast<const T*>(run.in_data[1]);
    T* out = reinterpret_cast<T*>(run.out_data[0]);
    const Shape& shape = run.out[0].shape;
    const auto a_steps = broadcast_steps(run.in[0].shape, shape);
    const auto b_steps = broadcast_steps(run.in[1].shape, shape);
    const int64_t count = shape.element_count();
    std::array<int64_t, Shape::kMaxRank> index{};
    int64_t at_a = 0, at_b = 0;
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        if (!function.defined(a[at_a], b[at_b]))
          return invalid_argument("Element {} divides {} by {}.", i, a[at_a], b[at_b]);
      }
      out[i] = static_cast<T>(function(a[at_a], b[at_b]));
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        at_a += a_steps[axis];
        at_b += b_steps[axis];
        if (++index[axis] < shape[axis]) break;
        at_a -= a_steps[axis] * shape[axis];
        at_b -= b_steps[axis] * shape[axis];
        index[axis] = 0;
      }
    }
    return Status();
  });
}

struct Add {
  template <typename T>
  auto operator()(T a, T b) const {
    return static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b);
  }
  static bool defined(int64_t, int64_t) { return true; }
};
struct Sub {
  template <typename T>
  auto operator()(T a, T b) const {
    return static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b);
  }
  static bool defined(int64_t, int64_t) { return true; }
};
struct Mul {
  template <typename T>
  auto operator()(T a, T b) const {
    return static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b);
  }
  static bool defined(int64_t, int64_t) { return true; }
};
struct Div {
  template <typename T>
  auto operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == -1) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
    }
    return static_cast<T>(a / b);
  }
  static bool defined(int64_t, int64_t b) { return b != 0; }
};

}  // namespace

Result<std::vector<SimTensor>> infer_same(const SimInputs& inputs, const Node&) {
  return std::vector<SimTensor>{inputs.tensors[0]};
}

Result<std::vector<SimTensor>> infer_broadcast(const SimInputs& inputs, const Node&) {
  const SimTensor& a = inputs.tensors[0];
  const SimTensor& b = inputs.tensors[1];
  TENON_INVALID_IF(a.type != b.type, "Elements are {} and {}; they must be the same.", data_type_name(a.type),
                   data_type_name(b.type));
  const Shape& longer = a.shape.rank() >= b.shape.rank() ? a.shape : b.shape;
  const Shape& shorter = a.shape.rank() >= b.shape.rank() ? b.shape : a.shape;
  Shape shape = longer;
  const int skip = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const int64_t have = shape[skip + i], other = shorter[i];
    TENON_INVALID_IF(have != other && have != 1 && other != 1, "Shapes {} and {} do not broadcast.",
                     a.shape.to_string(), b.shape.to_string());
    if (have == 1) shape[skip + i] = other;
  }
  TENON_TRY_ASSIGN([[maybe_unused]] const size_t bytes, tensor_size_bytes(a.type, shape));
  return std::vector<SimTensor>{{a.type, shape}};
}

// The functions of ops/activation_list.h that have no parameters. NaN stays NaN, so that poison is seen.
template <Unary kFunction>
Status run_function(const SimRun& run) {
  return unary(run, [](auto x) { return formula::apply<kFunction>(x, x, x); });
}
Status run_relu(const SimRun& run, const Node&) { return run_function<Unary::kRelu>(run); }
Status run_sigmoid(const SimRun& run, const Node&) { return run_function<Unary::kSigmoid>(run); }
Status run_tanh(const SimRun& run, const Node&) { return run_function<Unary::kTanh>(run); }
Status run_neg(const SimRun& run, const Node&) { return run_function<Unary::kNeg>(run); }
Status run_identity(const SimRun& run, const Node&) {
  std::memcpy(run.out_data[0], run.in_data[0], run.out[0].size_bytes());
  return Status();
}
Status run_add(const SimRun& run, const Node&) { return binary(run, Add()); }
Status run_sub(const SimRun& run, const Node&) { return binary(run, Sub()); }
Status run_mul(const SimRun& run, const Node&) { return binary(run, Mul()); }
Status run_div(const SimRun& run, const Node&) { return binary(run, Div()); }

}  // namespace tenon::sim
