// Along one axis: CumSum, CumProd, ReverseSequence; TopK is in top_k.cc.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/order/top_k.h"
#include "ep/cpu/ops/shared_lines.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/simd/lines.h"
#include "ops/order.h"

namespace tenon::cpu::ref {

namespace {

// Lines [begin, end) of the outer * inner ones.
using ScanLoop = void (*)(const void* x, void* y, const AxisSpan& line, bool exclusive, bool reverse, int64_t begin,
                          int64_t end);

// kRows rows of `length` elements, `stride` apart, which go on from `sums`.
template <bool product, int kRows, typename A, typename T>
void scan_rows(const T* x, T* y, int64_t length, int64_t stride, bool exclusive, bool reverse,
               std::array<A, kRows> sums) {
  const int64_t last = length - 1, step = reverse ? -1 : 1;
  for (int64_t k = 0, i = reverse ? last : 0; k <= last; ++k, i += step) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const A value = static_cast<A>(static_cast<Compute<T>>(x[r * stride + i])), before = sums[r];
      sums[r] = product ? before * value : before + value;
      y[r * stride + i] = static_cast<T>(exclusive ? before : sums[r]);
    }
  }
}

// So few lines beside each other are no vectors.
constexpr int64_t kFewestLines = 8;

// kOuters blocks of [length, inner], one behind the other, with few lines each. An element waits for the sum before it,
// which several blocks hide.
template <bool product, int kOuters, typename A, typename T>
void scan_few_lines(const T* x, T* y, int64_t length, int64_t inner, bool exclusive, bool reverse) {
  const int64_t each = length * inner;
  A sums[kFewestLines][kOuters];
  std::fill_n(&sums[0][0], kFewestLines * kOuters, product ? A(1) : A(0));
  for (int64_t k = 0; k < length; ++k) {
    const int64_t row = (reverse ? length - 1 - k : k) * inner;
    for (int64_t j = 0; j < inner; ++j) {
#pragma GCC unroll 4
      for (int r = 0; r < kOuters; ++r) {
        const A value = static_cast<A>(static_cast<Compute<T>>(x[r * each + row + j])), before = sums[j][r];
        sums[j][r] = product ? before * value : before + value;
        y[r * each + row + j] = static_cast<T>(exclusive ? before : sums[j][r]);
      }
    }
  }
}

// The loop of vectors for lines beside each other, or nullptr.
template <typename T>
auto running_sum() {
  if constexpr (std::is_same_v<T, float>) return line_table().running_sum;
  if constexpr (std::is_same_v<T, double>) return line_table().running_sum_f64;
  if constexpr (std::is_same_v<T, int32_t>) return line_table().running_sum_i32;
  if constexpr (std::is_same_v<T, int64_t>) return line_table().running_sum_i64;
  if constexpr (sizeof(T) == 2) return nullptr;
}

template <bool product, typename T>
void scan_loop(const void* x, void* y, const AxisSpan& line, bool exclusive, bool reverse, int64_t begin, int64_t end) {
  using A = std::conditional_t<is_float<T>, double, uint64_t>;
  // Several rows at a time: an element waits for the sum before it.
  if (line.inner == 1) {
    const auto rows = [&]<int kRows>(std::integral_constant<int, kRows>) {
      std::array<A, kRows> starts;
      starts.fill(product ? A(1) : A(0));
      for (; begin + kRows <= end; begin += kRows)
        scan_rows<product, kRows>(static_cast<const T*>(x) + begin * line.length,
                                  static_cast<T*>(y) + begin * line.length, line.length, line.length, exclusive,
                                  reverse, starts);
    };
    if constexpr (!product) rows(std::integral_constant<int, 4>());
    rows(std::integral_constant<int, 1>());
    return;
  }
  // Neighbouring lines go side by side.
  constexpr int64_t kLines = 512, kOuters = 4;  // of an array of sums
  while (begin < end) {
    const int64_t o = begin / line.inner, i = begin % line.inner;
    if (line.inner < kFewestLines && i == 0 && end - begin >= kOuters * line.inner) {
      const int64_t first = begin * line.length;
      scan_few_lines<product, kOuters, A>(static_cast<const T*>(x) + first, static_cast<T*>(y) + first, line.length,
                                          line.inner, exclusive, reverse);
      begin += kOuters * line.inner;
      continue;
    }
    const int64_t lines = std::min({kLines, line.inner - i, end - begin});
    if constexpr (!product && !std::is_null_pointer_v<decltype(running_sum<T>())>) {
      if (lines >= kFewestLines) {
        const int64_t first = (o * line.length + (reverse ? line.length - 1 : 0)) * line.inner + i;
        running_sum<T>()(static_cast<const T*>(x) + first, static_cast<T*>(y) + first, line.length,
                         reverse ? -line.inner : line.inner, lines, exclusive);
        begin += lines;
        continue;
      }
    }
    std::array<A, kLines> sums;
    sums[0] = A(0);  // g++ does not know that there is a line
    std::fill_n(sums.begin(), lines, product ? A(1) : A(0));
    for (int64_t step = 0; step < line.length; ++step) {
      const int64_t k = reverse ? line.length - 1 - step : step;
      const int64_t first = (o * line.length + k) * line.inner + i;
      const T* from = static_cast<const T*>(x) + first;
      T* to = static_cast<T*>(y) + first;
      TENON_INDEPENDENT_LOOP
      for (int64_t j = 0; j < lines; ++j) {
        const A value = static_cast<A>(static_cast<Compute<T>>(from[j])), before = sums[j];
        const A next = product ? before * value : before + value;
        to[j] = static_cast<T>(exclusive ? before : next);
        sums[j] = next;
      }
    }
    begin += lines;
  }
}

// Rows that threads share: the sums of parts, then running sums that go on from these, of four parts side by side.
template <typename T>
void scan_shared(KernelContext& context, const AxisSpan& line, const nn::Parts& parts, bool exclusive, bool reverse) {
  using A = std::conditional_t<is_float<T>, double, uint64_t>;
  constexpr int64_t kSide = 4;
  const T* const x = context.input<T>(0);
  T* const y = context.output<T>(0);
  nn::OfParts<A> starts;
  nn::for_parts(*context.pool, line.outer, parts, [&](int64_t row, int64_t part) {
    const T* const from = x + row * line.length + parts.first(part);
    std::array<A, 8> sums{};
    int64_t i = 0;
    for (; i + std::ssize(sums) <= parts.size(part); i += std::ssize(sums))
      for (int64_t j = 0; j < std::ssize(sums); ++j) sums[j] += static_cast<A>(static_cast<Compute<T>>(from[i + j]));
    for (; i < parts.size(part); ++i) sums[0] += static_cast<A>(static_cast<Compute<T>>(from[i]));
    starts[row * parts.count + part] = std::accumulate(sums.begin(), sums.end(), A(0));
  });
  for (int64_t row = 0; row < line.outer; ++row) {
    const auto first = starts.begin() + row * parts.count, last = first + parts.count;
    if (reverse) {
      std::exclusive_scan(std::reverse_iterator(last), std::reverse_iterator(first), std::reverse_iterator(last), A(0));
    } else {
      std::exclusive_scan(first, last, first, A(0));
    }
  }
  const nn::Parts sides{parts.count, kSide, (parts.count + kSide - 1) / kSide};
  nn::for_parts(*context.pool, line.outer, sides, [&](int64_t row, int64_t side) {
    const int64_t first = sides.first(side), at = row * line.length + parts.first(first);
    const A* const start = starts.data() + row * parts.count + first;
    if (sides.size(side) == kSide && parts.size(first + kSide - 1) == parts.length) {
      scan_rows<false, kSide>(x + at, y + at, parts.length, parts.length, exclusive, reverse,
                              std::array{start[0], start[1], start[2], start[3]});
      return;
    }
    for (int64_t i = 0; i < sides.size(side); ++i)
      scan_rows<false, 1>(x + at + parts.first(i), y + at + parts.first(i), parts.size(first + i), int64_t{0},
                          exclusive, reverse, std::array{start[i]});
  });
}
using SharedScan = void (*)(KernelContext& context, const AxisSpan& line, const nn::Parts& parts, bool exclusive,
                            bool reverse);

// Where few elements lie beside each other, the lines of several outers [begin, end) are scanned side by side. U is as
// large as an element.
template <typename U>
void scan_turned(ScanLoop loop, const void* x, void* y, const AxisSpan& line, const CumulativeDesc& desc, int64_t begin,
                 int64_t end) {
  const int64_t each = line.length * line.inner;
  nn::for_turned(static_cast<const U*>(x), begin, end, line.length, line.inner,
                 [&](const U* block, int64_t first, int64_t count) {
                   alignas(64) U sums[nn::kTurnedElements<U>];
                   AxisSpan turned = line;
                   turned.outer = 1;
                   turned.inner = line.inner * count;
                   loop(block, sums, turned, desc.exclusive, desc.reverse, 0, turned.inner);
                   nn::turn_back(sums, each, count, static_cast<U*>(y) + first * each);
                 });
}

using ScanLoopTypes = decltype(FloatTypes() + TypeList<int32_t, int64_t>());
using ScanTypes = decltype(ScanLoopTypes() + TypeList<uint32_t, uint64_t>());

// Sums and products that wrap around have the same bits with a sign and without.
DataType scanned_as(DataType type) {
  if (type == DataType::kUint32) return DataType::kInt32;
  return type == DataType::kUint64 ? DataType::kInt64 : type;
}

template <bool product>
Result<RefImpl> make_scan(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(node.inputs[1].shape.element_count() != 1, "{} has an axis of shape {}.", node.node->op_type,
                   node.inputs[1].shape.to_string());
  TENON_TRY(require_output(node, 0, x));
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  const ScanLoop chosen = select(ScanLoopTypes(), scanned_as(node.inputs[0].type),
                                 []<typename T>() -> ScanLoop { return &scan_loop<product, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  SharedScan shared = nullptr;
  if constexpr (!product) {
    shared = select(ScanLoopTypes(), scanned_as(node.inputs[0].type),
                    []<typename T>() -> SharedScan { return &scan_shared<T>; });
  }
  RefImpl impl;
  impl.run = [chosen, shared, read, x, bytes = data_type_size(node.inputs[0].type),
              desc = read_cumulative(*node.node)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const int axis, resolve_axis(read(context.inputs[1], 0), x.rank()));
    const AxisSpan line = axis_span(x, axis);
    if (const nn::Parts parts = nn::parts_of(line.outer, line.length);
        shared != nullptr && line.inner == 1 && parts.shared()) {
      shared(context, line, parts, desc.exclusive, desc.reverse);
      return {};
    }
    constexpr int64_t kElements = 8192, kTogether = 512;
    const auto turn = [&]<typename U>(U) {
      // Turning many bytes takes longer than scanning few lines as they are.
      if (sizeof(U) == 8 && line.inner > 1 && line.inner < kFewestLines) return false;
      if (line.inner == 1 ? line.length > nn::kShortRow || line.outer < nn::kFewestTurned || line.length == 0
                          : !nn::is_short_inner<U>(line.outer, line.length, line.inner))
        return false;
      const int64_t outers = std::max(nn::kFewestTurned, kElements / (line.length * line.inner));
      context.pool->parallel_for(line.outer, outers, [&](int64_t begin, int64_t end) {
        scan_turned<U>(chosen, context.inputs[0], context.outputs[0], line, desc, begin, end);
      });
      return true;
    };
    const bool turned =
        (bytes == 2 && turn(uint16_t())) || (bytes == 4 && turn(uint32_t())) || (bytes == 8 && turn(uint64_t()));
    if (turned) return {};
    // Few lines at a time would be no vectors, and a cache line of each row.
    const int64_t grain = std::max(line.inner > 1 ? kTogether : 1, kElements / std::max<int64_t>(1, line.length));
    context.pool->parallel_for(line.outer * line.inner, grain, [&](int64_t begin, int64_t end) {
      chosen(context.inputs[0], context.outputs[0], line, desc.exclusive, desc.reverse, begin, end);
    });
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
    const auto* const lengths = context.input<int64_t>(1);
    for (int64_t b = 0; b < batch; ++b) {
      if (lengths[b] < 0 || lengths[b] > time)
        return out_of_range("Sequence {} has length {} of {}.", b, lengths[b], time);
    }
    // Steps of sequences in the order of memory.
    const int64_t across = time_first ? batch : time;
    constexpr int64_t kBytes = 65536;
    context.pool->parallel_for(
        batch * time, std::max<int64_t>(1, kBytes / std::max<int64_t>(1, inner)), [&](int64_t begin, int64_t end) {
          int64_t row = begin / across, column = begin % across;
          for (int64_t i = begin; i < end; ++i) {
            const int64_t t = time_first ? row : column;
            const int64_t length = lengths[time_first ? column : row];
            // The step that comes here, and how far away it is.
            const int64_t away = t < length ? length - 1 - 2 * t : 0;
            std::memcpy(context.output<std::byte>(0) + i * inner,
                        context.input<std::byte>(0) + (i + away * (time_first ? batch : 1)) * inner, inner);
            if (++column == across) column = 0, ++row;
          }
        });
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
