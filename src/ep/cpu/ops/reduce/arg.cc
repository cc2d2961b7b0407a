// ArgMax and ArgMin of every type of number, by rows and by columns.
#include "ep/cpu/ops/reduce/arg.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ep/cpu/ops/order/keys.h"
#include "ep/cpu/ops/reduce/problem.h"
#include "ep/cpu/ops/turned.h"
#include "ops/reduce.h"

namespace tenon::cpu::ref {

namespace {

struct ArgTask {
  ArgReduceDesc desc;
  TypeOrder order;
};

// Neighbouring results, in the lanes of vectors.
template <typename B>
void arg_columns(const KeyTable<B>& table, const ElementOrder<B>& by, const ArgTask& task, const std::byte* x,
                 int64_t inner, int64_t columns, int64_t* y) {
  const int64_t last = task.desc.length - 1;
  const auto bytes = static_cast<int64_t>(task.order.bytes);
  if (!task.desc.select_last_index) return table.top_rows(x, bytes, task.desc.length, inner, columns, by, y);
  // Of equal ones the last is the first on the way back.
  table.top_rows(x + last * inner * bytes, bytes, task.desc.length, -inner, columns, by, y);
  for (int64_t i = 0; i < columns; ++i) y[i] = last - y[i];
}

// Few inner elements, of several outers side by side. [begin, end) counts outers. U is as large as an element.
template <typename U, typename B>
void arg_of_turned(const KeyTable<B>& table, const ElementOrder<B>& by, const ArgTask& task, const void* x,
                   int64_t begin, int64_t end, int64_t* y) {
  const int64_t inner = task.desc.inner;
  nn::for_turned(static_cast<const U*>(x), begin, end, task.desc.length, inner,
                 [&](const U* block, int64_t first, int64_t count) {
                   std::array<int64_t, nn::kMostTurnedResults> results;
                   arg_columns(table, by, task, reinterpret_cast<const std::byte*>(block), inner * count, inner * count,
                               results.data());
                   nn::turn_back(results.data(), inner, count, y + first * inner);
                 });
}

// Rows of at most so many bytes, as wide as their keys, are worth turning.
constexpr int64_t kShortRowBytes = 512;
bool is_turned(const ArgTask& task) {
  const ArgReduceDesc& desc = task.desc;
  const auto key_bytes = static_cast<int64_t>(std::max(task.order.bytes, sizeof(int32_t)));
  if (desc.inner == 1) return desc.length <= kShortRowBytes / key_bytes && desc.outer >= nn::kFewestTurned;
  return nn::is_short_inner<int64_t>(desc.outer, desc.length, desc.inner);
}

// Results [begin, end) of the outer * inner ones.
template <typename B>
void arg_loop(const KeyTable<B>& table, const ElementOrder<B>& by, const ArgTask& task, const std::byte* x, int64_t* y,
              int64_t begin, int64_t end) {
  const int64_t length = task.desc.length, inner = task.desc.inner;
  const auto bytes = static_cast<int64_t>(task.order.bytes);
  if (is_turned(task)) {
    begin /= inner;
    end /= inner;
    if constexpr (sizeof(B) == 8) return arg_of_turned<int64_t>(table, by, task, x, begin, end, y);
    if (bytes == 1) return arg_of_turned<int8_t>(table, by, task, x, begin, end, y);
    if (bytes == 2) return arg_of_turned<int16_t>(table, by, task, x, begin, end, y);
    return arg_of_turned<int32_t>(table, by, task, x, begin, end, y);
  }
  if (inner == 1) {
    for (; begin < end; ++begin)
      y[begin] =
          top_place(table, x + begin * length * bytes, task.order.bytes, length, by, task.desc.select_last_index);
    return;
  }
  while (begin < end) {
    const int64_t o = begin / inner, i = begin % inner;
    const int64_t columns = std::min(inner - i, end - begin);
    arg_columns(table, by, task, x + (o * length * inner + i) * bytes, inner, columns, y + begin);
    begin += columns;
  }
}

// Where threads share the elements of a result.
template <typename B>
void arg_shared(const KeyTable<B>& table, const ElementOrder<B>& by, const ArgTask& task, const nn::Parts& parts,
                KernelContext& context) {
  const ArgReduceDesc& desc = task.desc;
  const auto bytes = static_cast<int64_t>(task.order.bytes);
  const auto* const x = context.input<std::byte>(0);
  alignas(64) std::array<int64_t, nn::kMostBetween> between;
  nn::for_parts(*context.pool, desc.outer, parts, [&](int64_t outer, int64_t part) {
    ArgTask piece = task;
    piece.desc.outer = 1;
    piece.desc.length = parts.size(part);
    arg_loop(table, by, piece, x + (outer * desc.length + parts.first(part)) * desc.inner * bytes,
             between.data() + (outer * parts.count + part) * desc.inner, 0, desc.inner);
  });
  for (int64_t i = 0; i < desc.outer * desc.inner; ++i) {
    const int64_t outer = i / desc.inner, column = i % desc.inner;
    int64_t best = 0;
    B top = 0;
    for (int64_t part = 0; part < parts.count; ++part) {
      const int64_t at = parts.first(part) + between[(outer * parts.count + part) * desc.inner + column];
      const B key = key_at<B>(x + ((outer * desc.length + at) * desc.inner + column) * bytes, bytes, by);
      if (part != 0 && (desc.select_last_index ? key < top : key <= top)) continue;
      top = key;
      best = at;
    }
    context.output<int64_t>(0)[i] = best;
  }
}

}  // namespace

Result<RefImpl> make_arg(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const ArgReduceDesc desc, read_arg_reduce(*node.node, node.inputs[0].shape));
  const std::optional<TypeOrder> order = type_order(node.inputs[0].type, desc.largest, true);
  TENON_UNSUPPORTED_IF(!order, "{} is not computed on {}.", node.node->op_type, data_type_name(node.inputs[0].type));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  impl.run = [task = ArgTask{desc, *order}](KernelContext& context) -> Status {
    const ArgReduceDesc& d = task.desc;
    if (const nn::Parts parts = nn::parts_of(nn::Pass{d.outer, d.length, d.inner}); parts.shared()) {
      task.order.with_keys([&](const auto& table, const auto& by) { arg_shared(table, by, task, parts, context); });
      return {};
    }
    constexpr int64_t kElements = 8192, kTogether = 128;
    // Few columns at a time would be no vectors, and a cache line of each row.
    int64_t grain = std::max(d.inner > 1 ? kTogether : 1, kElements / std::max<int64_t>(1, d.length));
    if (d.inner > 1 && d.inner < nn::kShortInner) grain += d.inner - grain % d.inner;  // whole outers
    context.pool->parallel_for(d.outer * d.inner, grain, [&](int64_t begin, int64_t end) {
      task.order.with_keys([&](const auto& table, const auto& by) {
        arg_loop(table, by, task, context.input<std::byte>(0), context.output<int64_t>(0), begin, end);
      });
    });
    return {};
  };
  return impl;
}

}  // namespace tenon::cpu::ref
