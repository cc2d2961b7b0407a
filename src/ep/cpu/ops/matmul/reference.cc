// MatMul (numpy's rules), Gemm, and MatMul of domain tenon.
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/activation_formula.h"
#include "ops/matmul.h"
#include "ops/unary.h"

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
            value = evaluate(plan.epilogue, value, add ? static_cast<double>(add[i * plan.n + j]) : 0.0);
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

// `c` and `residual` are inputs of the node, or kNoInput.
Result<RefImpl> finish(RefNode& node, const Plan& plan, size_t c, size_t residual) {
  const DataType type = node.inputs[0].type;
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.present() && spec.type != type, "{} mixes {} and {}.", node.node->op_type,
                     data_type_name(type), data_type_name(spec.type));
  }
  const Loop chosen = select(Types(), type, []<typename T>() -> Loop { return &loop<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type, data_type_name(type));
  RefImpl impl;
  impl.scratch_bytes = plan.n * sizeof(double);
  impl.run = [plan, chosen, c, residual](KernelContext& context) -> Status {
    chosen(plan, context.inputs[0], context.inputs[1], context.input<void>(c), context.input<void>(residual),
           context.outputs[0], context.scratch);
    return {};
  };
  return impl;
}

Result<RefImpl> make_matmul(RefNode& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  Plan plan{.m = desc.m, .n = desc.n, .k = desc.k, .alpha = desc.alpha, .beta = desc.beta};
  plan.a_row = desc.a_row();
  plan.a_column = desc.a_column();
  plan.b_row = desc.b_row();
  plan.b_column = desc.b_column();
  plan.c = {desc.addend_row, desc.addend_column};
  TENON_TRY_ASSIGN(Strides a_strides, broadcast_strides(desc.a_batch, desc.batch));
  TENON_TRY_ASSIGN(Strides b_strides, broadcast_strides(desc.b_batch, desc.batch));
  Strides y_strides = dense_strides(desc.batch);
  for (auto& s : a_strides) s *= plan.m * plan.k;
  for (auto& s : b_strides) s *= plan.n * plan.k;
  for (auto& s : y_strides) s *= plan.m * plan.n;
  plan.batches = make_walk(desc.batch, {a_strides, b_strides, y_strides});
  TENON_TRY(require_output(node, 0, desc.y));
  if (node.node->domain == "tenon") {
    TENON_TRY_ASSIGN(plan.epilogue, read_epilogue(*node.node));
    plan.has_epilogue = true;
  }
  return finish(node, plan, desc.addend, desc.residual);
}

constexpr KernelEntry kRows[] = {
    ref_row<type_set(Types()), &make_matmul>("MatMul", 1),
    ref_row<type_set(Types()), &make_matmul>("Gemm", 7),
    ref_row<kFloatSet, &make_matmul>("MatMul", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_matmul_rows() { return kRows; }

}  // namespace tenon::cpu::ref
