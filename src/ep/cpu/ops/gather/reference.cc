// Reading by index: Gather, GatherElements, GatherND, OneHot, Compress, and LookupOrDefault of domain tenon.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/moves/fill.h"
#include "ops/gather.h"

namespace tenon::cpu::ref {

namespace {

// Bytes of a chunk that is worth claiming.
constexpr int64_t kGrainBytes = 64 << 10;

Result<RefImpl> make_gather(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const GatherDesc desc, read_gather(*node.node, x, indices));
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  impl.run = [read, outer = desc.span.outer, length = desc.span.length, count = desc.count,
              inner = desc.span.inner *
                      static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    const auto* from = context.input<std::byte>(0);
    auto* to = context.output<std::byte>(0);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < count; ++i) {
        TENON_TRY_ASSIGN(const int64_t index, wrap_index(read(context.inputs[1], i), length));
        std::memcpy(to, from + (o * length + index) * inner, inner);
        to += inner;
      }
    }
    return {};
  };
  return impl;
}

using GatherLoop = void (*)(const std::byte* x, const int64_t* offsets, std::byte* y, int64_t count);

template <size_t kBytes>
void gather_loop(const std::byte* x, const int64_t* offsets, std::byte* y, int64_t count) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < count; ++i) std::memcpy(y + i * kBytes, x + offsets[i] * kBytes, kBytes);
}

Result<GatherLoop> gather_loop_of(const KernelNode& node) {
  switch (data_type_size(node.inputs[0].type)) {
    case 1:
      return &gather_loop<1>;
    case 2:
      return &gather_loop<2>;
    case 4:
      return &gather_loop<4>;
    case 8:
      return &gather_loop<8>;
    case 16:
      return &gather_loop<16>;
    default:
      return unsupported("{} is not computed on {}.", node.node->op_type, data_type_name(node.inputs[0].type));
  }
}

Result<RefImpl> make_gather_elements(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(*node.node, x, indices));
  TENON_TRY_ASSIGN(const IndexRows rows, index_rows(node, 1));
  TENON_TRY_ASSIGN(const GatherLoop loop, gather_loop_of(node));
  TENON_TRY(require_output(node, 0, indices));
  RefImpl impl;
  impl.run = [box = ElementBox(rows, indices, x, axis), loop,
              bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    const auto gather = [&](int64_t i, int64_t base, const int64_t* offsets, int64_t n, bool is_run) {
      const std::byte* const x = context.input<std::byte>(0) + base * bytes;
      std::byte* const y = context.output<std::byte>(0) + i * bytes;
      if (is_run) {
        std::memcpy(y, x + offsets[0] * bytes, n * bytes);
      } else {
        loop(x, offsets, y, n);
      }
    };
    return run_elements(box, context.inputs[1], true, *context.pool, gather);
  };
  return impl;
}

Result<RefImpl> make_gather_nd(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(*node.node, x, indices));
  TENON_TRY_ASSIGN(const IndexRows rows, index_rows(node, 1));
  TENON_TRY(require_output(node, 0, desc.output));
  const int64_t batch_stride = span_product(x, desc.batch_rank, x.rank());
  GatherLoop loop = nullptr;  // of single elements
  if (desc.slice == 1 && desc.batch == 1) {
    TENON_TRY_ASSIGN(loop, gather_loop_of(node));
  }
  RefImpl impl;
  impl.run = [rows, loop, desc, batch_stride, tuples = Tuples(desc, x),
              bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    const int64_t slice = desc.slice * bytes, all = desc.batch * desc.tuples;
    std::atomic<int64_t> failed{-1};
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(16, slice));
    context.pool->parallel_for(all, grain, [&](int64_t begin, int64_t end) {
      tuples.each_piece(rows, context.inputs[1], begin, end, failed, [&](int64_t t, const int64_t* offsets, int64_t n) {
        std::byte* const y = context.output<std::byte>(0) + t * slice;
        const std::byte* const x = context.input<std::byte>(0);
        if (loop != nullptr) return loop(x, offsets, y, n);
        for (int64_t i = 0; i < n; ++i)
          std::memcpy(y + i * slice, x + ((t + i) / desc.tuples * batch_stride + offsets[i]) * bytes, slice);
      });
    });
    return tuples.status(rows, context.inputs[1], all, failed.load(std::memory_order_relaxed));
  };
  return impl;
}

Result<RefImpl> make_lookup(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& table = node.inputs[0].shape;
  TENON_INVALID_IF(table.rank() != 2 || table[0] < 1, "LookupOrDefault has a table of shape {}.", table.to_string());
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  Shape out = node.inputs[1].shape;
  out.push_back(table[1]);
  TENON_TRY(require_output(node, 0, out));
  RefImpl impl;
  impl.run = [read, rows = table[0] - 1, bytes = table[1] * static_cast<int64_t>(data_type_size(node.inputs[0].type)),
              count = node.inputs[1].shape.element_count()](KernelContext& context) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = read(context.inputs[1], i);
      const int64_t row = index >= 0 && index < rows ? index : rows;
      std::memcpy(context.output<std::byte>(0) + i * bytes, context.input<std::byte>(0) + row * bytes, bytes);
    }
    return {};
  };
  return impl;
}

// The index of a row, or one that no row has where a float has a fraction.
Result<IndexReader> row_reader(const RefNode& node) {
  const IndexReader floats = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> IndexReader {
    return [](const void* data, int64_t i) {
      const auto value = static_cast<double>(static_cast<const T*>(data)[i]);
      return std::trunc(value) == value && std::fabs(value) < 1e18 ? static_cast<int64_t>(value) : INT64_MIN;
    };
  });
  if (floats != nullptr) return floats;
  return index_reader(node, 0);
}

Result<RefImpl> make_one_hot(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const Shape indices = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const int axis, read_one_hot_axis(*node.node, indices.rank()));
  TENON_INVALID_IF(node.inputs[1].shape.element_count() != 1 || node.inputs[2].shape.element_count() != 2,
                   "OneHot has a depth of shape {} and values of shape {}.", node.inputs[1].shape.to_string(),
                   node.inputs[2].shape.to_string());
  TENON_TRY_ASSIGN(const IndexReader read, row_reader(node));
  TENON_TRY_ASSIGN(const IndexReader read_depth, index_reader(node, 1));
  const int64_t outer = span_product(indices, 0, axis), inner = span_product(indices, axis, indices.rank());
  RefImpl impl;
  impl.run = [read, read_depth, indices, axis, outer, inner, out = output_spec(node, 0),
              bytes = data_type_size(node.inputs[2].type)](KernelContext& context) -> Status {
    const int64_t depth = read_depth(context.inputs[1], 0);
    TENON_TRY_ASSIGN(const Shape shape, one_hot_shape(indices, axis, depth));
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    const auto* values = context.input<std::byte>(2);
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / static_cast<int64_t>(inner * bytes + 1));
    context.pool->parallel_for(outer * depth, grain, [&](int64_t begin, int64_t end) {
      // Off everywhere, then on where an index says so.
      auto* const to = static_cast<std::byte*>(y);
      nn::fill_elements(to + begin * inner * static_cast<int64_t>(bytes), values, bytes, (end - begin) * inner);
      for (int64_t o = begin / depth; o * depth < end; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
          int64_t index = read(context.inputs[0], o * inner + i);
          if (index < 0) index += depth;
          const int64_t row = o * depth + index;
          if (index >= 0 && index < depth && row >= begin && row < end)
            std::memcpy(to + (row * inner + i) * bytes, values + bytes, bytes);
        }
      }
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_compress(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  Shape x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const std::optional<int> named, read_compress_axis(*node.node, x.rank()));
  const int axis = named.value_or(0);
  if (!named) x = Shape{x.element_count()};
  TENON_INVALID_IF(node.inputs[1].type != DataType::kBool, "Compress has a condition of {}.",
                   data_type_name(node.inputs[1].type));
  const int64_t length = std::min(node.inputs[1].shape.element_count(), x[axis]);
  const AxisSpan span = axis_span(x, axis);
  const int64_t inner = span.inner * static_cast<int64_t>(data_type_size(node.inputs[0].type));
  RefImpl impl;
  impl.run = [x, axis, length, outer = span.outer, inner,
              out = output_spec(node, 0)](KernelContext& context) -> Status {
    const auto* condition = context.input<uint8_t>(1);
    // Threads take parts of the condition, and each needs the number of elements before its own.
    constexpr int64_t kParts = 64, kPiece = 256;
    const int64_t pieces = (length + kPiece - 1) / kPiece;
    const int64_t part = std::max<int64_t>(1, (pieces + kParts - 1) / kParts) * kPiece;
    const int64_t parts = (length + part - 1) / part;
    std::array<int64_t, kParts + 1> before{};
    for (int64_t i = 0; i < parts; ++i) {
      const uint8_t* const first = condition + i * part;
      before[i + 1] =
          before[i] + std::count_if(first, first + std::min(part, length - i * part), [](uint8_t v) { return v != 0; });
    }
    Shape shape = x;
    const int64_t kept = before[parts], all = x[axis];
    shape[axis] = kept;
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (part * inner + 1));
    context.pool->parallel_for(outer * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t o = task / parts, which = task % parts, last = std::min(length, (which + 1) * part);
        const std::byte* const from = context.input<std::byte>(0) + o * all * inner;
        auto* to = static_cast<std::byte*>(y) + (o * kept + before[which]) * inner;
        // Places first: the copies would wait for wrong guesses of what comes next.
        std::array<int64_t, kPiece> places;
        for (int64_t first = which * part; first < last; first += kPiece) {
          int64_t count = 0;
          for (int64_t i = first; i < std::min(last, first + kPiece); ++i) {
            places[count] = i;
            count += condition[i] != 0 ? 1 : 0;
          }
          for (int64_t i = 0; i < count; ++i, to += inner) std::memcpy(to, from + places[i] * inner, inner);
        }
      }
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_gather>("Gather", 1),
    ref_row<~TypeSet{0}, &make_gather_elements>("GatherElements", 11),
    ref_row<~TypeSet{0}, &make_gather_nd>("GatherND", 11),
    ref_row<~TypeSet{0}, &make_lookup>("LookupOrDefault", 1, kAnyVersion, "tenon"),
    ref_row<kNumericSet, &make_one_hot>("OneHot", 9),
    ref_row<~TypeSet{0}, &make_compress>("Compress", 9),
};

}  // namespace

std::span<const KernelEntry> ref_gather_rows() { return kRows; }

}  // namespace tenon::cpu::ref
