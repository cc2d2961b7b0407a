// MatMul (numpy's rules), Gemm, and MatMul of domain tenon.
#include "ep/cpu/kernels/ref_activation.h"

namespace tenon::cpu::ref {

namespace {

struct Plan {
  Walk batches;  // offsets of {a, b, y}
  int64_t m = 1, n = 1, k = 1;
  int64_t a_row = 0, a_column = 1;  // strides
  int64_t b_row = 0, b_column = 1;
  Strides c{};  // rows and columns of what is added (Gemm's C, the bias)
  double alpha = 1, beta = 1;
  Epilogue epilogue;
  bool has_epilogue = false;
};
// Towards zero; the nearest end of T's range for what is beyond it.
template <typename T>
T saturated(double value) {
  if (!(value > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

// `sums` has n elements of Accumulate<T>.
using Loop = void (*)(const Plan& plan, const void* a, const void* b, const void* c, const void* residual, void* y,
                      void* sums);

template <typename T>
void loop(const Plan& plan, const void* a, const void* b, const void* c, const void* residual, void* y, void* sums) {
  using A = Accumulate<T>;
  A* sum = static_cast<A*>(sums);
  const auto product = [&](const T* left, const T* right, T* to, const T* add) {
    for (int64_t i = 0; i < plan.m; ++i) {
      for (int64_t j = 0; j < plan.n; ++j) sum[j] = A(0);
      for (int64_t k = 0; k < plan.k; ++k) {
        const A factor = static_cast<A>(static_cast<Compute<T>>(left[i * plan.a_row + k * plan.a_column]));
        const T* row = right + k * plan.b_row;
        for (int64_t j = 0; j < plan.n; ++j) {
          const A value = static_cast<A>(static_cast<Compute<T>>(row[j * plan.b_column]));
          if constexpr (is_float<T>) {
            sum[j] += factor * value;
          } else {
            sum[j] = static_cast<A>(static_cast<uint64_t>(sum[j]) +
                                    static_cast<uint64_t>(factor) * static_cast<uint64_t>(value));
          }
        }
      }
      for (int64_t j = 0; j < plan.n; ++j) {
        if constexpr (is_float<T>) {
          double value = plan.alpha * sum[j];
          if (c != nullptr)
            value += plan.beta * static_cast<double>(static_cast<const T*>(c)[i * plan.c[0] + j * plan.c[1]]);
          if (plan.has_epilogue)
            value = plan.epilogue.apply(value, add ? static_cast<double>(add[i * plan.n + j]) : 0.0);
          to[i * plan.n + j] = T(value);
        } else {
          const A extra = c != nullptr ? static_cast<A>(static_cast<const T*>(c)[i * plan.c[0] + j * plan.c[1]]) : A(0);
          if (plan.alpha == 1 && plan.beta == 1) {
            to[i * plan.n + j] = static_cast<T>(static_cast<uint64_t>(sum[j]) + static_cast<uint64_t>(extra));
          } else {
            // One rounding for the whole sum, as in the standard's reference; what leaves the range saturates.
            const double value = plan.alpha * static_cast<double>(sum[j]) + plan.beta * static_cast<double>(extra);
            to[i * plan.n + j] = saturated<T>(value);
          }
        }
      }
    }
  };
  plan.batches.run([&](const auto& at) {
    for (int64_t i = 0; i < plan.batches.inner; ++i) {
      const auto& steps = plan.batches.inner_strides;
      const int64_t out = at[2] + i * steps[2];
      product(static_cast<const T*>(a) + at[0] + i * steps[0], static_cast<const T*>(b) + at[1] + i * steps[1],
              static_cast<T*>(y) + out, residual ? static_cast<const T*>(residual) + out : nullptr);
    }
    return true;
  });
}

using Types = decltype(FloatTypes() + TypeList<int32_t, int64_t, uint32_t, uint64_t>());

// Which of the inputs are what; -1 where the operator has none.
Result<RefImpl> finish(RefNode& node, const Plan& plan, size_t c, size_t residual) {
  const DataType type = node.inputs[0].type;
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.present() && spec.type != type, "{} mixes {} and {}.", node.node->op_type,
                     data_type_name(type), data_type_name(spec.type));
  }
  const Loop chosen = select(Types(), type, []<typename T>() -> Loop { return &loop<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type, data_type_name(type));
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(plan.n) * sizeof(double);
  impl.run = [plan, chosen, c, residual](KernelContext& context) -> Status {
    chosen(plan, context.inputs[0], context.inputs[1], context.input<void>(c), context.input<void>(residual),
           context.outputs[0], context.scratch);
    return {};
  };
  return impl;
}

constexpr size_t kNone = 1000;

Result<RefImpl> make_matmul(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const bool internal = node.node->domain == "tenon";
  const bool trans_b = internal && node.node->int_or("trans_b", 0) != 0;
  Shape a = node.inputs[0].shape, b = node.inputs[1].shape;
  TENON_INVALID_IF(a.rank() < 1 || b.rank() < 1, "MatMul needs operands of rank 1 or more, not {} and {}.",
                   a.to_string(), b.to_string());
  const bool row_vector = a.rank() == 1, column_vector = b.rank() == 1;
  if (row_vector) a = Shape{1, a[0]};
  if (column_vector) b = Shape{b[0], 1};
  Plan plan;
  plan.m = a[a.rank() - 2];
  plan.k = a[a.rank() - 1];
  plan.n = trans_b ? b[b.rank() - 2] : b[b.rank() - 1];
  const int64_t depth = trans_b ? b[b.rank() - 1] : b[b.rank() - 2];
  TENON_INVALID_IF(depth != plan.k, "MatMul multiplies {} by {}: {} columns meet {} rows.",
                   node.inputs[0].shape.to_string(), node.inputs[1].shape.to_string(), plan.k, depth);
  plan.a_row = plan.k;
  plan.b_row = trans_b ? 1 : plan.n;
  plan.b_column = trans_b ? plan.k : 1;
  const Shape a_batch(a.dims().first(static_cast<size_t>(a.rank() - 2)));
  const Shape b_batch(b.dims().first(static_cast<size_t>(b.rank() - 2)));
  TENON_TRY_ASSIGN(const Shape batch, broadcast_shape(a_batch, b_batch));
  TENON_TRY_ASSIGN(Strides a_strides, broadcast_strides(a_batch, batch));
  TENON_TRY_ASSIGN(Strides b_strides, broadcast_strides(b_batch, batch));
  Strides y_strides = dense_strides(batch);
  for (auto& s : a_strides) s *= plan.m * plan.k;
  for (auto& s : b_strides) s *= plan.n * plan.k;
  for (auto& s : y_strides) s *= plan.m * plan.n;
  plan.batches = make_walk(batch, {a_strides, b_strides, y_strides});
  Shape out = batch;
  TENON_UNSUPPORTED_IF(out.rank() + 2 > Shape::kMaxRank, "MatMul of rank {} is beyond {}.", out.rank() + 2,
                       Shape::kMaxRank);
  if (!row_vector) out.push_back(plan.m);
  if (!column_vector) out.push_back(plan.n);
  TENON_TRY(require_output(node, 0, out));
  if (!internal) return finish(node, plan, kNone, kNone);

  plan.alpha = node.node->float_or("alpha", 1);
  TENON_TRY_ASSIGN(plan.epilogue, Epilogue::of(*node.node));
  plan.has_epilogue = true;
  plan.c[1] = 1;
  const TensorSpec &bias = input_spec(node, 2), &residual = input_spec(node, 3);
  TENON_INVALID_IF(bias.present() && !(bias.shape == Shape{plan.n}), "MatMul has bias {} for {} columns.",
                   bias.shape.to_string(), plan.n);
  TENON_INVALID_IF(residual.present() && !(residual.shape == out), "MatMul has residual {} for output {}.",
                   residual.shape.to_string(), out.to_string());
  return finish(node, plan, 2, 3);
}

Result<RefImpl> make_gemm(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& a = node.inputs[0].shape;
  const Shape& b = node.inputs[1].shape;
  TENON_INVALID_IF(a.rank() != 2 || b.rank() != 2, "Gemm multiplies matrices, not {} and {}.", a.to_string(),
                   b.to_string());
  const bool trans_a = node.node->int_or("transA", 0) != 0, trans_b = node.node->int_or("transB", 0) != 0;
  Plan plan;
  plan.m = a[trans_a ? 1 : 0];
  plan.k = a[trans_a ? 0 : 1];
  plan.n = b[trans_b ? 0 : 1];
  TENON_INVALID_IF(b[trans_b ? 1 : 0] != plan.k, "Gemm multiplies {}{} by {}{}.", a.to_string(),
                   trans_a ? " (transposed)" : "", b.to_string(), trans_b ? " (transposed)" : "");
  plan.a_row = trans_a ? 1 : plan.k;
  plan.a_column = trans_a ? plan.m : 1;
  plan.b_row = trans_b ? 1 : plan.n;
  plan.b_column = trans_b ? plan.k : 1;
  plan.batches = make_walk(Shape{}, {Strides{}, Strides{}, Strides{}});
  plan.alpha = node.node->float_or("alpha", 1);
  plan.beta = node.node->float_or("beta", 1);
  const Shape out{plan.m, plan.n};
  TENON_TRY(require_output(node, 0, out));
  if (input_spec(node, 2).present()) {
    TENON_TRY_ASSIGN(plan.c, broadcast_strides(node.inputs[2].shape, out));
  }
  return finish(node, plan, 2, kNone);
}

constexpr KernelEntry kRows[] = {
    ref_row<type_set(Types()), &make_matmul>("MatMul", 1),
    ref_row<type_set(Types()), &make_gemm>("Gemm", 7),
    ref_row<kFloatSet, &make_matmul>("MatMul", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_matmul_rows() { return kRows; }

}  // namespace tenon::cpu::ref
