// Along one axis: TopK, CumSum, CumProd, ReverseSequence.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/shared_lines.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/simd/lines.h"
#include "ep/cpu/simd/norm.h"
#include "ops/order.h"

namespace tenon::cpu::ref {

namespace {

// Ties go to the lower index. NaN sorts above every number.
struct TopTask {
  const void* x = nullptr;  // `lines` neighbouring lines of `length` elements, each `stride` after the one before it
  int64_t lines = 0, stride = 0, length = 0, k = 0;
  bool largest = true;
  int64_t* order = nullptr;  // room for order_of()
  void* line = nullptr;      // room for the lines, where the stride is not 1
  void* values = nullptr;    // the results, k of each line, as far apart as the elements; or null
  int64_t* indices = nullptr;
};
using TopLoop = void (*)(const TopTask& task);

// Neighbouring lines, kTopLines of them, are made rows together: they share cache lines. Elements of these rows.
constexpr int64_t kTopElements = 65536;

// The first k of [first, last) in order.
template <typename Key>
[[gnu::noinline]] void sort_first(Key* first, Key* last, int64_t k) {
  // A heap is fastest for few; for many it moves too much.
  constexpr int64_t kFewParts = 32;
  if (k * kFewParts <= last - first) {
    std::partial_sort(first, first + k, last);
    return;
  }
  if (k < last - first) std::nth_element(first, first + k, last);
  std::sort(first, first + k);
}

// Up to so many first elements are found by insertion.
constexpr int64_t kFewFirst = kMostTop;

// A number whose order as an unsigned one is that of the value; zeros of both signs are one, and so are NaNs.
template <typename C>
uint32_t ordered_bits(C value) {
  if constexpr (std::is_same_v<C, Float16>) {
    if ((value.bits & 0x7fff) > 0x7c00) return UINT32_MAX;
    const uint32_t bits = value.bits == 0x8000 ? 0 : value.bits;
    return bits >= 0x8000 ? ~bits & 0xffff : bits | 0x8000;
  } else if constexpr (std::is_same_v<C, BFloat16>) {
    return ordered_bits(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<C>) {
    if (value != value) return UINT32_MAX;
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value) + 0.0f);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  } else if constexpr (std::is_signed_v<C>) {
    return static_cast<uint32_t>(static_cast<int32_t>(value)) ^ 0x80000000u;
  } else {
    return static_cast<uint32_t>(value);
  }
}

// Value and index in one number, smaller for what comes first: sorting moves and compares nothing else.
template <typename C>
uint64_t sort_key(C value, int64_t index, bool largest) {
  return uint64_t{ordered_bits(value) ^ (largest ? UINT32_MAX : 0)} << 32 | static_cast<uint64_t>(index);
}

// The same for values of 64 bits and for indices beyond 32.
struct Ranked {
  uint64_t rank = 0;
  int64_t index = 0;
  bool operator<(const Ranked& other) const { return rank != other.rank ? rank < other.rank : index < other.index; }
};

template <typename C>
Ranked ranked(C value, int64_t index, bool largest) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  uint64_t rank = 0;
  if constexpr (sizeof(C) <= 4) {
    rank = ordered_bits(value);
  } else if constexpr (std::is_floating_point_v<C>) {
    const auto bits = std::bit_cast<uint64_t>(value + 0.0);
    rank = value != value ? UINT64_MAX : (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else {
    rank = static_cast<uint64_t>(value) ^ (std::is_signed_v<C> ? kSign : 0);
  }
  return {largest ? ~rank : rank, index};
}

template <typename Key, typename C>
Key key_of(C value, int64_t index, bool largest) {
  if constexpr (std::is_same_v<Key, Ranked>) {
    return ranked(value, index, largest);
  } else {
    return sort_key(value, index, largest);
  }
}

// Whether the 32 bits beside a value's in sort_key() hold each index.
bool has_short_keys(int64_t element_bytes, int64_t length) { return element_bytes <= 4 && length <= UINT32_MAX; }

// Bytes that order_of() needs for each element.
int64_t order_bytes_of(int64_t element_bytes, int64_t length) {
  return has_short_keys(element_bytes, length) ? sizeof(uint64_t) : sizeof(Ranked);
}

// Whether `a` comes before `b`, which stands at a lower index and wins a tie.
template <bool largest, typename C>
bool comes_before(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return largest ? a != a && b == b : a == a && b != b;
  }
  return largest ? a > b : a < b;
}

// The k first of a row, k being small: nearly all elements are passed over in blocks, by one comparison each.
template <bool largest, typename C>
void few_first(const C* x, int64_t length, int64_t k, int64_t* order) {
  constexpr int64_t kBlock = 16;
  C best[kFewFirst];
  int64_t held = 0;
  const auto insert = [&](int64_t i) {
    int64_t at = held < k ? held++ : k - 1;
    for (; at > 0 && comes_before<largest>(x[i], best[at - 1]); --at) {
      best[at] = best[at - 1];
      order[at] = order[at - 1];
    }
    best[at] = x[i];
    order[at] = i;
  };
  int64_t i = 0;
  for (; i < k; ++i) insert(i);
  for (; i + kBlock <= length; i += kBlock) {
    const C worst = best[k - 1];
    int32_t better = 0;
    // Of a NaN no comparison holds: the loop below looks at it.
    for (int64_t j = 0; j < kBlock; ++j) better |= largest ? !(x[i + j] <= worst) : !(x[i + j] >= worst);
    for (int64_t j = i; better != 0 && j < i + kBlock; ++j)
      if (comes_before<largest>(x[j], best[k - 1])) insert(j);
  }
  for (; i < length; ++i)
    if (comes_before<largest>(x[i], best[k - 1])) insert(i);
}

int64_t index_of(uint64_t key) { return static_cast<int64_t>(key & UINT32_MAX); }
int64_t index_of(const Ranked& key) { return key.index; }

// The k first of a row many times as long: what comes before the k-th until now is collected, and cut to k when it
// fills the room. `keys` has room for kManyTimes * k and for kFewestMany, and becomes the k first in order.
constexpr int64_t kManyTimes = 32, kFewestMany = 1024;
template <typename Key, typename T>
void first_of_many(const T* x, int64_t length, int64_t k, bool largest, Key* keys) {
  constexpr int64_t kBlock = 16;
  const int64_t room = std::max<int64_t>(4 * k, kFewestMany / 4);
  int64_t held = 0, i = 0;
  std::optional<Key> worst;  // the k-th
  const auto enter = [&](int64_t index) {
    const Key key = key_of<Key>(x[index], index, largest);
    if (worst && !(key < *worst)) return;
    keys[held++] = key;
    if (held < room) return;
    std::nth_element(keys, keys + k - 1, keys + held);
    held = k;
    worst = keys[k - 1];
  };
  if constexpr (std::is_arithmetic_v<T>) {
    // Nearly all elements are passed over in blocks.
    while (!worst && i < length) enter(i++);
    for (; i + kBlock <= length; i += kBlock) {
      const T last = x[index_of(*worst)];
      int32_t better = 0;
      // Of a NaN no comparison holds: enter() looks at it.
      if (largest) {
        for (int64_t j = 0; j < kBlock; ++j) better |= !(x[i + j] <= last) ? 1 : 0;
      } else {
        for (int64_t j = 0; j < kBlock; ++j) better |= !(x[i + j] >= last) ? 1 : 0;
      }
      for (int64_t j = 0; better != 0 && j < kBlock; ++j) enter(i + j);
    }
  }
  for (; i < length; ++i) enter(i);
  sort_first(keys, keys + held, k);
}

// `order` becomes the places of the k first; it has room for order_bytes_of() each element.
template <typename T>
[[gnu::noinline]] void order_of(const T* from, int64_t length, int64_t k, bool largest, int64_t* order) {
  if constexpr (std::is_same_v<T, float>) {
    // One alone is found by its value.
    if (k == 1 && length >= kFewFirst) {
      float first = 0;
      norm_table().reduce_rows(from, &first, 1, length, largest ? Reduction::kMax : Reduction::kMin);
      if (!std::isnan(first)) {
        *order = line_table().find(from, length, first);
        return;
      }
    }
  }
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> ||
                std::is_same_v<T, int64_t>) {
    if (k > 0 && k <= kFewFirst) {
      largest ? few_first<true>(from, length, k, order) : few_first<false>(from, length, k, order);
      return;
    }
  }
  const auto by_keys = [&](auto* keys) {
    using Key = std::remove_pointer_t<decltype(keys)>;
    if (k > 0 && k * kManyTimes <= length && length >= kFewestMany) {
      first_of_many(from, length, k, largest, keys);
    } else {
      for (int64_t i = 0; i < length; ++i) keys[i] = key_of<Key>(from[i], i, largest);
      sort_first(keys, keys + length, k);
    }
    for (int64_t i = 0; i < k; ++i) order[i] = index_of(keys[i]);
  };
  if constexpr (sizeof(T) <= 4) {
    if (has_short_keys(sizeof(T), length)) return by_keys(reinterpret_cast<uint64_t*>(order));
  }
  by_keys(reinterpret_cast<Ranked*>(order));
}

// Neighbouring lines in the lanes of vectors; false where they are not for these.
template <typename T, typename Bits, typename Top>
bool top_beside(const TopTask& task, Top top) {
  const T* const x = static_cast<const T*>(task.x);
  alignas(64) Bits order[kMostTop * kTopLines];
  TopLines<Bits> lines{.x = reinterpret_cast<const Bits*>(x),
                       .step = task.stride,
                       .length = task.length,
                       .n = task.lines,
                       .k = task.k,
                       .flip = task.largest ? Bits(0) : Bits(-1),
                       .order = order};
  if constexpr (is_float<T>) {
    lines.magnitude = std::numeric_limits<Bits>::max();
    lines.infinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  }
  if (!top(lines)) return false;
  for (int64_t j = 0; j < task.k; ++j) {
    for (int64_t l = 0; l < task.lines; ++l) {
      const int64_t from = order[j * kTopLines + l], to = j * task.stride + l;
      if (task.values != nullptr) static_cast<T*>(task.values)[to] = x[from * task.stride + l];
      if (task.indices != nullptr) task.indices[to] = from;
    }
  }
  return true;
}

template <typename T>
void top_loop(const TopTask& task) {
  const T* rows = static_cast<const T*>(task.x);
  if (task.stride != 1) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int32_t>) {
      if (top_beside<T, int32_t>(task, line_table().top_i32)) return;
    }
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, int64_t>) {
      if (top_beside<T, int64_t>(task, line_table().top_i64)) return;
    }
    T* const made = static_cast<T*>(task.line);
    for (int64_t i = 0; i < task.length; ++i)
      for (int64_t l = 0; l < task.lines; ++l) made[l * task.length + i] = rows[i * task.stride + l];
    rows = made;
  }
  for (int64_t l = 0; l < task.lines; ++l, rows += task.length) {
    order_of(rows, task.length, task.k, task.largest, task.order);
    for (int64_t i = 0; i < task.k; ++i) {
      const int64_t to = task.stride != 1 ? i * task.stride + l : l * task.k + i;
      if (task.values != nullptr) static_cast<T*>(task.values)[to] = rows[task.order[i]];
      if (task.indices != nullptr) task.indices[to] = task.order[i];
    }
  }
}

// A row that threads share: the first of each part are found, then the first of those. A part's room is in `order`, for
// parts.length elements each, and that for all first ones behind it.
template <typename T>
void top_shared(const TopTask& task, const nn::Parts& parts, ThreadPool& pool) {
  const T* const x = static_cast<const T*>(task.x);
  const int64_t room = parts.length * order_bytes_of(sizeof(T), parts.length) / static_cast<int64_t>(sizeof(int64_t));
  auto* const all = reinterpret_cast<Ranked*>(task.order + parts.count * room);
  nn::for_parts(pool, 1, parts, [&](int64_t, int64_t part) {
    int64_t* const order = task.order + part * room;
    const int64_t first = parts.first(part), k = std::min(task.k, parts.size(part));
    order_of(x + first, parts.size(part), k, task.largest, order);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = first + order[i];
      all[part * task.k + i] = ranked(x[at], at, task.largest);
    }
  });
  const int64_t count = (parts.count - 1) * task.k + std::min(task.k, parts.size(parts.count - 1));
  sort_first(all, all + count, task.k);
  for (int64_t i = 0; i < task.k; ++i) {
    const int64_t at = all[i].index;
    if (task.values != nullptr) static_cast<T*>(task.values)[i] = x[at];
    if (task.indices != nullptr) task.indices[i] = at;
  }
}
using SharedTop = void (*)(const TopTask& task, const nn::Parts& parts, ThreadPool& pool);

struct TopLoops {
  TopLoop loop = nullptr;
  SharedTop shared = nullptr;
};

Result<RefImpl> make_top_k(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const TopKDesc desc, read_top_k(*node.node, x));
  if (!desc.k) TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(!desc.k && (node.inputs[1].type != DataType::kInt64 || node.inputs[1].shape.element_count() != 1),
                   "TopK's k is {}{}, not one int64.", data_type_name(node.inputs[1].type),
                   node.inputs[1].shape.to_string());
  const auto chosen = select(NumericTypes(), node.inputs[0].type,
                             []<typename T>() -> TopLoops { return {&top_loop<T>, &top_shared<T>}; });
  TENON_UNSUPPORTED_IF(chosen.loop == nullptr, "TopK is not computed on {}.", data_type_name(node.inputs[0].type));
  RefImpl impl;
  const int slots = scratch_slots(node);
  const auto bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type));
  const AxisSpan& span = desc.span;
  // Lines whose elements do not lie side by side are made rows, some at a time.
  const int64_t together =
      span.inner == 1 ? 1 : std::clamp<int64_t>(kTopElements / std::max<int64_t>(1, span.length), 1, kTopLines);
  const size_t order_bytes = round_up(span.length * order_bytes_of(bytes, span.length), 64);
  const size_t slot_bytes = order_bytes + (span.inner == 1 ? 0 : round_up(together * span.length * bytes, 64));
  impl.scratch_bytes = slot_bytes * slots;
  // Rows that threads share, one after the other: those whose first ones are few beside the elements of a part.
  const nn::Parts parts = span.inner == 1 ? nn::parts_of(span.outer, span.length) : nn::Parts();
  constexpr int64_t kFewOfPart = 4;
  if (parts.shared()) {
    const int64_t firsts = parts.count * parts.length / kFewOfPart * static_cast<int64_t>(sizeof(Ranked));
    const int64_t room = parts.count * parts.length * order_bytes_of(bytes, parts.length) + firsts;
    impl.scratch_bytes = std::max(impl.scratch_bytes, static_cast<size_t>(room));
  }
  impl.run = [chosen, x, desc, parts, slots, slot_bytes, order_bytes, together, bytes,
              values_spec = output_spec(node, 0),
              indices_spec = output_spec(node, 1)](KernelContext& context) -> Status {
    const AxisSpan& line = desc.span;
    const int64_t k = desc.k ? *desc.k : *static_cast<const int64_t*>(context.inputs[1]);
    TENON_TRY(check_top_k(k, line.length));
    Shape shape = x;
    shape[line.axis] = k;
    TENON_TRY_ASSIGN(void* const values, open_output(context, values_spec, 0, shape));
    TENON_TRY_ASSIGN(void* const indices, open_output(context, indices_spec, 1, shape));
    if (parts.shared() && k <= parts.length / kFewOfPart) {
      for (int64_t row = 0; row < line.outer; ++row) {
        const TopTask task{.x = context.input<std::byte>(0) + row * line.length * bytes,
                           .length = line.length,
                           .k = k,
                           .largest = desc.largest,
                           .order = reinterpret_cast<int64_t*>(context.scratch),
                           .values = values ? static_cast<std::byte*>(values) + row * k * bytes : nullptr,
                           .indices = indices ? static_cast<int64_t*>(indices) + row * k : nullptr};
        chosen.shared(task, parts, *context.pool);
      }
      return {};
    }
    ScratchSlots scratch(context.scratch, slot_bytes, slots);
    constexpr int64_t kElements = 2048;
    const int64_t grain = std::max(std::min(kTopLines, line.inner), kElements / std::max<int64_t>(1, line.length));
    context.pool->parallel_for(line.outer * line.inner, grain, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(scratch);
      auto* const room = reinterpret_cast<std::byte*>(claim.floats());
      TopTask task{.stride = line.inner, .length = line.length, .k = k, .largest = desc.largest};
      task.order = reinterpret_cast<int64_t*>(room);
      task.line = room + order_bytes;
      for (int64_t e = begin; e < end; e += task.lines) {
        const int64_t o = e / line.inner, i = e % line.inner, to = o * k * line.inner + i;
        task.lines = std::min({together, line.inner - i, end - e});
        task.x = context.input<std::byte>(0) + (o * line.length * line.inner + i) * bytes;
        task.values = values ? static_cast<std::byte*>(values) + to * bytes : nullptr;
        task.indices = indices ? static_cast<int64_t*>(indices) + to : nullptr;
        chosen.loop(task);
      }
    });
    return {};
  };
  return impl;
}

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
