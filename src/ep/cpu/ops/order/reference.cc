// Along one axis: TopK, CumSum, CumProd, ReverseSequence.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
#include "ops/order.h"

namespace tenon::cpu::ref {

namespace {

// Ties go to the lower index. NaN sorts above every number.
using TopLoop = void (*)(const void* x, int64_t stride, int64_t length, int64_t k, bool largest, int64_t* order,
                         void* values, int64_t* indices);

template <typename T>
void top_loop(const void* x, int64_t stride, int64_t length, int64_t k, bool largest, int64_t* order, void* values,
              int64_t* indices) {
  const T* from = static_cast<const T*>(x);
  for (int64_t i = 0; i < length; ++i) order[i] = i;
  std::partial_sort(order, order + k, order + length, [&](int64_t i, int64_t j) {
    const Compute<T> a = from[i * stride], b = from[j * stride];
    if (a != a || b != b) {
      if ((a != a) == (b != b)) return i < j;
      return (a != a) == largest;
    }
    if (a == b) return i < j;
    return largest ? a > b : a < b;
  });
  for (int64_t i = 0; i < k; ++i) {
    if (values != nullptr) static_cast<T*>(values)[i * stride] = from[order[i] * stride];
    if (indices != nullptr) indices[i * stride] = order[i];
  }
}

Result<RefImpl> make_top_k(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const TopKDesc desc, read_top_k(*node.node, x));
  if (!desc.k) TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(!desc.k && (node.inputs[1].type != DataType::kInt64 || node.inputs[1].shape.element_count() != 1),
                   "TopK's k is {}{}, not one int64.", data_type_name(node.inputs[1].type),
                   node.inputs[1].shape.to_string());
  const TopLoop chosen =
      select(NumericTypes(), node.inputs[0].type, []<typename T>() -> TopLoop { return &top_loop<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "TopK is not computed on {}.", data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.scratch_bytes = desc.span.length * sizeof(int64_t);
  impl.run = [chosen, x, desc, bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type)),
              values_spec = output_spec(node, 0),
              indices_spec = output_spec(node, 1)](KernelContext& context) -> Status {
    const AxisSpan& line = desc.span;
    const int64_t k = desc.k ? *desc.k : *static_cast<const int64_t*>(context.inputs[1]);
    TENON_TRY(check_top_k(k, line.length));
    Shape shape = x;
    shape[line.axis] = k;
    TENON_TRY_ASSIGN(void* const values, open_output(context, values_spec, 0, shape));
    TENON_TRY_ASSIGN(void* const indices, open_output(context, indices_spec, 1, shape));
    for (int64_t o = 0; o < line.outer; ++o) {
      for (int64_t i = 0; i < line.inner; ++i) {
        const int64_t to = o * k * line.inner + i;
        chosen(context.input<std::byte>(0) + (o * line.length * line.inner + i) * bytes, line.inner, line.length, k,
               desc.largest, reinterpret_cast<int64_t*>(context.scratch),
               values ? static_cast<std::byte*>(values) + to * bytes : nullptr,
               indices ? static_cast<int64_t*>(indices) + to : nullptr);
      }
    }
    return {};
  };
  return impl;
}

using ScanLoop = void (*)(const void* x, void* y, const AxisSpan& line, bool exclusive, bool reverse);

template <bool product, typename T>
void scan_loop(const void* x, void* y, const AxisSpan& line, bool exclusive, bool reverse) {
  using A = std::conditional_t<is_float<T>, double, uint64_t>;
  for (int64_t o = 0; o < line.outer; ++o) {
    for (int64_t i = 0; i < line.inner; ++i) {
      A sum = product ? A(1) : A(0);
      for (int64_t step = 0; step < line.length; ++step) {
        const int64_t k = reverse ? line.length - 1 - step : step;
        const int64_t e = (o * line.length + k) * line.inner + i;
        const A value = static_cast<A>(static_cast<Compute<T>>(static_cast<const T*>(x)[e]));
        const A next = product ? sum * value : sum + value;
        static_cast<T*>(y)[e] = static_cast<T>(exclusive ? sum : next);
        sum = next;
      }
    }
  }
}

using ScanTypes = decltype(FloatTypes() + TypeList<int32_t, int64_t, uint32_t, uint64_t>());

template <bool product>
Result<RefImpl> make_scan(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(node.inputs[1].shape.element_count() != 1, "{} has an axis of shape {}.", node.node->op_type,
                   node.inputs[1].shape.to_string());
  TENON_TRY(require_output(node, 0, x));
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  const ScanLoop chosen =
      select(ScanTypes(), node.inputs[0].type, []<typename T>() -> ScanLoop { return &scan_loop<product, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [chosen, read, x, desc = read_cumulative(*node.node)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const int axis, resolve_axis(read(context.inputs[1], 0), x.rank()));
    chosen(context.inputs[0], context.outputs[0], axis_span(x, axis), desc.exclusive, desc.reverse);
    return {};
  };
  return impl;
}

Result<RefImpl> make_reverse(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const ReverseSequenceDesc desc, read_reverse_sequence(*node.node, x, node.inputs[1].shape));
  TENON_INVALID_IF(node.inputs[1].type != DataType::kInt64, "ReverseSequence has lengths of {}, not of int64.",
                   data_type_name(node.inputs[1].type));
  TENON_TRY(require_output(node, 0, x));
  const int64_t inner = desc.inner * static_cast<int64_t>(data_type_size(node.inputs[0].type));
  RefImpl impl;
  impl.run = [batch = desc.batch, time = desc.time, inner,
              time_first = desc.time_axis == 0](KernelContext& context) -> Status {
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = context.input<int64_t>(1)[b];
      if (length < 0 || length > time) return out_of_range("Sequence {} has length {} of {}.", b, length, time);
      for (int64_t t = 0; t < time; ++t) {
        const int64_t source = t < length ? length - 1 - t : t;
        const auto position = [&](int64_t step) { return (time_first ? step * batch + b : b * time + step) * inner; };
        std::memcpy(context.output<std::byte>(0) + position(t), context.input<std::byte>(0) + position(source), inner);
      }
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kNumericSet, &make_top_k>("TopK", 1),
    ref_row<type_set(ScanTypes()), &make_scan<false>>("CumSum", 11),
    ref_row<type_set(ScanTypes()), &make_scan<true>>("CumProd", 26),
    ref_row<~TypeSet{0}, &make_reverse>("ReverseSequence", 10),
};

}  // namespace

std::span<const KernelEntry> ref_order_rows() { return kRows; }

}  // namespace tenon::cpu::ref
