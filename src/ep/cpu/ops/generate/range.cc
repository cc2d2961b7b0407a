#include "ep/cpu/ops/generate/range.h"

#include "ep/cpu/simd/integers.h"

namespace tenon::cpu::ref {

namespace {

// Elements of [start, limit) by delta; -1 when there is no such number.
using RangeCount = int64_t (*)(const void* start, const void* limit, const void* delta);
using RangeFill = void (*)(const void* start, const void* delta, void* y, int64_t begin, int64_t end);

template <typename T>
int64_t range_count(const void* start, const void* limit, const void* delta) {
  const T from = *static_cast<const T*>(start), to = *static_cast<const T*>(limit),
          step = *static_cast<const T*>(delta);
  if constexpr (is_float<T>) {
    const double count = std::ceil((static_cast<double>(to) - static_cast<double>(from)) / static_cast<double>(step));
    if (!(std::abs(count) < 0x1p62)) return -1;
    return std::max<int64_t>(0, static_cast<int64_t>(count));
  } else {
    if (step == 0) return -1;
    if (step > 0 ? from >= to : from <= to) return 0;
    const uint64_t distance = step > 0 ? static_cast<uint64_t>(to) - static_cast<uint64_t>(from)
                                       : static_cast<uint64_t>(from) - static_cast<uint64_t>(to);
    const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
    const uint64_t count = (distance - 1) / stride + 1;
    return count > (uint64_t{1} << 62) ? -1 : static_cast<int64_t>(count);
  }
}

// Elements [begin, end) of the range.
template <typename T>
void range_fill(const void* start, const void* delta, void* y, int64_t begin, int64_t end) {
  using A = std::conditional_t<is_float<T>, Compute<T>, uint64_t>;
  const auto from = static_cast<A>(*static_cast<const T*>(start)), step = static_cast<A>(*static_cast<const T*>(delta));
  T* const to = static_cast<T*>(y);
  if constexpr (is_float<T>) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(from + static_cast<A>(i) * step);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    const A first = from + static_cast<A>(begin) * step;
    integer_table().count64(static_cast<int64_t>(first), static_cast<int64_t>(step), to + begin, end - begin);
  } else {
    // Sums, which compilers make vectors of: products of 64 bits are slow. Integers wrap around.
    A next = from + static_cast<A>(begin) * step;
    for (int64_t i = begin; i < end; ++i, next += step) to[i] = static_cast<T>(next);
  }
}

}  // namespace

Result<RefImpl> make_range(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const DataType type = node.inputs[0].type;
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.type != type || spec.shape.element_count() != 1, "Range has {}{} among its scalars of {}.",
                     data_type_name(spec.type), spec.shape.to_string(), data_type_name(type));
  }
  const auto counter = select(RangeTypes(), type, []<typename T>() -> RangeCount { return &range_count<T>; });
  const auto fill = select(RangeTypes(), type, []<typename T>() -> RangeFill { return &range_fill<T>; });
  TENON_UNSUPPORTED_IF(fill == nullptr, "Range is not computed on {}.", data_type_name(type));
  RefImpl impl;
  impl.run = [counter, fill, out = output_spec(node, 0)](KernelContext& context) -> Status {
    const int64_t count = counter(context.inputs[0], context.inputs[1], context.inputs[2]);
    TENON_INVALID_IF(count < 0, "Range's delta is zero, or its length is no number of elements.");
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, Shape{count}));
    constexpr int64_t kGrain = 16384;
    context.pool->parallel_for(
        count, kGrain, [&](int64_t begin, int64_t end) { fill(context.inputs[0], context.inputs[2], y, begin, end); });
    return {};
  };
  return impl;
}

}  // namespace tenon::cpu::ref
