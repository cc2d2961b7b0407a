// Softmax, LogSoftmax and Hardmax: along one axis since version 13, before that over everything from the axis on; and
// tenon.GuardedSoftmax.
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/softmax.h"

namespace tenon::cpu::ref {

namespace {

using Kind = SoftmaxDesc::Kind;

using Loop = void (*)(const void* x, void* y, int64_t outer, int64_t length, int64_t inner);

template <Kind kind, typename T>
void loop(const void* x, void* y, int64_t outer, int64_t length, int64_t inner) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const T* from = static_cast<const T*>(x) + o * length * inner + i;
      T* to = static_cast<T*>(y) + o * length * inner + i;
      double most = -std::numeric_limits<double>::infinity();
      int64_t where = 0;
      for (int64_t k = 0; k < length; ++k) {
        const auto v = static_cast<double>(from[k * inner]);
        if (v > most) most = v, where = k;
      }
      if constexpr (kind == Kind::kHardmax) {
        for (int64_t k = 0; k < length; ++k) to[k * inner] = T(k == where ? 1.0 : 0.0);
        continue;
      }
      double sum = 0;
      for (int64_t k = 0; k < length; ++k) sum += std::exp(static_cast<double>(from[k * inner]) - most);
      const double log_sum = std::log(sum);
      for (int64_t k = 0; k < length; ++k) {
        const double shifted = static_cast<double>(from[k * inner]) - most;
        to[k * inner] = T(kind == Kind::kSoftmax ? std::exp(shifted) / sum : shifted - log_sum);
      }
    }
  }
}

template <Kind kind>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& shape = node.inputs[0].shape;
  TENON_TRY(require_output(node, 0, shape));
  const Loop chosen = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<kind, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_softmax(*node.node, shape));
  RefImpl impl;
  impl.run = [chosen, desc](KernelContext& context) -> Status {
    chosen(context.inputs[0], context.outputs[0], desc.outer, desc.length, desc.inner);
    if (!desc.guarded) return {};
    auto* const y = static_cast<float*>(context.outputs[0]);
    for (int64_t i = 0; i < desc.outer * desc.length * desc.inner; ++i) y[i] = std::isnan(y[i]) ? 0 : y[i];
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make<Kind::kSoftmax>>("Softmax", 1),
    ref_row<kFloatSet, &make<Kind::kLogSoftmax>>("LogSoftmax", 1),
    ref_row<kFloatSet, &make<Kind::kHardmax>>("Hardmax", 1),
    ref_row<kFloat32Set, &make<Kind::kSoftmax>>("GuardedSoftmax", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_softmax_rows() { return kRows; }

}  // namespace tenon::cpu::ref
