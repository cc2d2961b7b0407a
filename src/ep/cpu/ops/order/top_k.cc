// TopK of every type of number, by keys: ties go to the lower index, NaN is above every number.
#include "ep/cpu/ops/order/top_k.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/order/keys.h"
#include "ep/cpu/ops/shared_lines.h"
#include "ops/order.h"

namespace tenon::cpu::ref {

namespace {

// Copies elements of `bytes`: to[i * step] = from[at(i)] for i < n.
template <typename At>
void pick(const std::byte* from, std::byte* to, int64_t step, int64_t n, size_t bytes, const At& at) {
  const auto of_size = [&]<typename U>(U) {
    for (int64_t i = 0; i < n; ++i) reinterpret_cast<U*>(to)[i * step] = reinterpret_cast<const U*>(from)[at(i)];
  };
  if (bytes == 1) return of_size(uint8_t());
  if (bytes == 2) return of_size(uint16_t());
  if (bytes == 4) return of_size(uint32_t());
  of_size(uint64_t());
}

struct TopTask {
  // Neighbouring lines of `length` elements, each `stride` after the one before it.
  const std::byte* x = nullptr;
  int64_t lines = 0, stride = 0, length = 0, k = 0;
  size_t bytes = 0;             // of an element
  std::byte* keys = nullptr;    // room for the keys of a line
  void* rows = nullptr;         // room for the lines, widened and turned, each where it is needed
  std::byte* values = nullptr;  // the results, k of each line, as far apart as the elements; or null
  int64_t* indices = nullptr;
};

// The results of line l, whose element i is at order(i).
template <typename Order>
void put_line(const TopTask& task, int64_t l, const Order& order) {
  const bool beside = task.stride != 1;
  const int64_t from = beside ? l : l * task.length, to = beside ? l : l * task.k;
  if (task.values != nullptr)
    pick(task.x + from * task.bytes, task.values + to * task.bytes, task.stride, task.k, task.bytes,
         [&](int64_t i) { return order(i) * task.stride; });
  if (task.indices != nullptr)
    for (int64_t i = 0; i < task.k; ++i) task.indices[to + i * task.stride] = order(i);
}

// So short rows, several of them, go side by side.
constexpr int64_t kShortTop = 512, kFewestBeside = 4;
bool goes_beside(int64_t stride, int64_t lines, int64_t length, int64_t k) {
  if (lines < kFewestBeside || k < 1 || k > kMostTop) return false;
  return stride != 1 || length <= kShortTop;
}

// Whether one element of each row is found, in that row alone.
constexpr int64_t kFewestAlone = 32;
bool goes_alone(int64_t stride, int64_t length, int64_t k) { return k == 1 && stride == 1 && length >= kFewestAlone; }

template <typename B>
void top_loop(const KeyTable<B>& table, const TopTask& task, const ElementOrder<B>& by) {
  if (goes_alone(task.stride, task.length, task.k)) {
    for (int64_t l = 0; l < task.lines; ++l) {
      const std::byte* const row = task.x + l * task.length * static_cast<int64_t>(task.bytes);
      const int64_t place = top_place(table, row, task.bytes, task.length, by, false);
      put_line(task, l, [&](int64_t) { return place; });
    }
    return;
  }
  const B* x = reinterpret_cast<const B*>(task.x);
  const bool beside = task.stride != 1;
  int64_t step = task.stride;
  B* free = static_cast<B*>(task.rows);
  if constexpr (sizeof(B) == 4) {
    if (task.bytes < sizeof(B)) {
      x = free;
      if (beside) {
        for (int64_t i = 0; i < task.length; ++i)
          widen(task.x + i * step * task.bytes, task.bytes, task.lines, free + i * task.lines);
        step = task.lines;
      } else {
        widen(task.x, task.bytes, task.lines * task.length, free);
      }
      free += task.lines * task.length;
    }
  }
  if (goes_beside(task.stride, task.lines, task.length, task.k)) {
    alignas(64) std::array<B, kMostTop * kTopLines> order;
    TopLines<B> lines{.x = x, .step = step, .length = task.length, .n = task.lines, .k = task.k, .by = by};
    lines.order = order.data();
    if (!beside) {
      nn::transpose(sizeof(B), x, task.length, free, task.lines, task.lines, task.length);
      lines.x = free;
      lines.step = task.lines;
    }
    if (table.top(lines)) {
      for (int64_t l = 0; l < task.lines; ++l) put_line(task, l, [&](int64_t i) { return order[i * kTopLines + l]; });
      return;
    }
  }
  if (beside) {
    for (int64_t l = 0; l < task.lines; ++l)
      for (int64_t i = 0; i < task.length; ++i) free[l * task.length + i] = x[i * step + l];
    x = free;
  }
  for (int64_t l = 0; l < task.lines; ++l) {
    const int64_t* const order = order_of(table, x + l * task.length, task.length, task.k, by, task.keys);
    put_line(task, l, [&](int64_t i) { return order[i]; });
  }
}

// A row that threads share: the first of each part are found, and put together as a row of their own, where ties keep
// their order. Each part has `part_room` bytes in task.keys, for its order and its widened elements; behind those are
// the first ones, their places and the room for their order.
template <typename B>
void top_shared(const KeyTable<B>& table, const TopTask& task, const ElementOrder<B>& by, const nn::Parts& parts,
                int64_t part_room, ThreadPool& pool) {
  const int64_t count = (parts.count - 1) * task.k + std::min(task.k, parts.size(parts.count - 1));
  std::byte* const behind = task.keys + parts.count * part_room;
  auto* const places = reinterpret_cast<int64_t*>(behind + order_room(sizeof(B), count));
  auto* const firsts = reinterpret_cast<B*>(places + count);
  nn::for_parts(pool, 1, parts, [&](int64_t, int64_t part) {
    std::byte* const room = task.keys + part * part_room;
    const int64_t first = parts.first(part), n = parts.size(part), k = std::min(task.k, n);
    const B* x = reinterpret_cast<const B*>(task.x + first * task.bytes);
    if constexpr (sizeof(B) == 4) {
      if (task.bytes < sizeof(B)) {
        auto* const wide = reinterpret_cast<B*>(room + order_room(task.bytes, parts.length));
        widen(x, task.bytes, n, wide);
        x = wide;
      }
    }
    const int64_t* const order = order_of(table, x, n, k, by, room);
    for (int64_t i = 0; i < k; ++i) {
      places[part * task.k + i] = first + order[i];
      firsts[part * task.k + i] = x[order[i]];
    }
  });
  const int64_t* const order = order_of(table, firsts, count, task.k, by, behind);
  put_line(task, 0, [&](int64_t i) { return places[order[i]]; });
}

}  // namespace

Result<RefImpl> make_top_k(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const TopKDesc desc, read_top_k(*node.node, x));
  if (!desc.k) TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(!desc.k && (node.inputs[1].type != DataType::kInt64 || node.inputs[1].shape.element_count() != 1),
                   "TopK's k is {}{}, not one int64.", data_type_name(node.inputs[1].type),
                   node.inputs[1].shape.to_string());
  const std::optional<TypeOrder> order = type_order(node.inputs[0].type, desc.largest, false);
  TENON_UNSUPPORTED_IF(!order, "TopK is not computed on {}.", data_type_name(node.inputs[0].type));
  TENON_UNSUPPORTED_IF(order->bytes <= sizeof(int32_t) && desc.span.length > kLongestOrder,
                       "TopK is not computed on {} along {} elements, more than {}.",
                       data_type_name(node.inputs[0].type), desc.span.length, kLongestOrder);
  RefImpl impl;
  const int slots = scratch_slots(node);
  const auto bytes = static_cast<int64_t>(order->bytes);
  const int64_t wide_bytes = std::max<int64_t>(bytes, sizeof(int32_t));
  const AxisSpan& span = desc.span;
  // Neighbouring lines share cache lines where their elements do not lie side by side, and vectors where they are
  // short.
  constexpr int64_t kTogetherElements = 65536;
  const int64_t together =
      span.inner == 1 && span.length > kShortTop
          ? 1
          : std::clamp<int64_t>(kTogetherElements / std::max<int64_t>(1, span.length), 1, kTopLines);
  const int64_t key_bytes = order_room(order->bytes, span.length);
  // Room for lines that are widened, and for those that are turned.
  const int copies = (order->is_narrow() ? 1 : 0) + (span.inner != 1 || together > 1 ? 1 : 0);
  const int64_t slot_bytes = key_bytes + copies * round_up(together * span.length * wide_bytes, 64);
  impl.scratch_bytes = static_cast<size_t>(slot_bytes * slots);
  // Rows that threads share, one after the other: those fewer than the threads, whose first ones are few beside the
  // elements of a part, which takes some 20 microseconds. Results are the same whatever the parts.
  constexpr int64_t kFewestShared = 131072;
  nn::Parts parts;
  if (const int64_t count = std::min<int64_t>(span.length / kFewestShared, slots);
      count > span.outer && span.inner == 1) {
    const int64_t length = (span.length + count - 1) / count;
    parts = {span.length, length, (span.length + length - 1) / length};
  }
  constexpr int64_t kFewOfPart = 4;
  const int64_t part_room =
      order_room(order->bytes, parts.length) + (order->is_narrow() ? round_up(parts.length * wide_bytes, 64) : 0);
  if (parts.shared()) {
    const int64_t firsts = parts.count * (parts.length / kFewOfPart);
    const int64_t behind = order_room(order->bytes, firsts) + firsts * (int64_t{sizeof(int64_t)} + wide_bytes);
    impl.scratch_bytes = std::max(impl.scratch_bytes, static_cast<size_t>(parts.count * part_room + behind));
  }
  impl.run = [order = *order, x, desc, parts, part_room, slots, slot_bytes, key_bytes, together, bytes,
              values_spec = output_spec(node, 0),
              indices_spec = output_spec(node, 1)](KernelContext& context) -> Status {
    const AxisSpan& line = desc.span;
    const int64_t k = desc.k ? *desc.k : *static_cast<const int64_t*>(context.inputs[1]);
    TENON_TRY(check_top_k(k, line.length));
    Shape shape = x;
    shape[line.axis] = k;
    TENON_TRY_ASSIGN(void* const values, open_output(context, values_spec, 0, shape));
    TENON_TRY_ASSIGN(void* const indices, open_output(context, indices_spec, 1, shape));
    TopTask whole{.stride = line.inner, .length = line.length, .k = k, .bytes = order.bytes};
    // `lines` lines from one on.
    const auto task_at = [&](int64_t first, int64_t lines) {
      const int64_t o = first / line.inner, i = first % line.inner, to = o * k * line.inner + i;
      TopTask task = whole;
      task.lines = lines;
      task.x = context.input<std::byte>(0) + (o * line.length * line.inner + i) * bytes;
      task.values = values ? static_cast<std::byte*>(values) + to * bytes : nullptr;
      task.indices = indices ? static_cast<int64_t*>(indices) + to : nullptr;
      return task;
    };
    if (parts.shared() && k <= parts.length / kFewOfPart) {
      for (int64_t row = 0; row < line.outer; ++row) {
        TopTask task = task_at(row, 1);
        task.keys = reinterpret_cast<std::byte*>(context.scratch);
        order.with_keys(
            [&](const auto& table, const auto& by) { top_shared(table, task, by, parts, part_room, *context.pool); });
      }
      return {};
    }
    ScratchSlots scratch(context.scratch, slot_bytes, slots);
    constexpr int64_t kElements = 2048;
    const int64_t grain = std::max(together, kElements / std::max<int64_t>(1, line.length));
    const bool alone = goes_alone(line.inner, line.length, k);
    context.pool->parallel_for(line.outer * line.inner, grain, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(scratch);
      auto* const room = reinterpret_cast<std::byte*>(claim.floats());
      for (int64_t e = begin; e < end;) {
        const int64_t left = line.inner == 1 ? end - e : std::min(line.inner - e % line.inner, end - e);
        TopTask task = task_at(e, alone ? left : std::min(together, left));
        task.keys = room;
        task.rows = room + key_bytes;
        order.with_keys([&](const auto& table, const auto& by) { top_loop(table, task, by); });
        e += task.lines;
      }
    });
    return {};
  };
  return impl;
}

}  // namespace tenon::cpu::ref
