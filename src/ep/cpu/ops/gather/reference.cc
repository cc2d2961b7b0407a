// Reading by index: Gather, GatherElements, GatherND, OneHot, Compress, and LookupOrDefault of domain tenon.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
#include "ops/gather.h"

namespace tenon::cpu::ref {

namespace {

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

Result<RefImpl> make_gather_elements(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(*node.node, x, indices));
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  TENON_TRY(require_output(node, 0, indices));
  RefImpl impl;
  impl.run = [read, x, indices, axis, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    auto* to = context.output<std::byte>(0);
    return each_element(read, context.inputs[1], indices, x, axis, [&](int64_t i, int64_t offset) {
      std::memcpy(to + i * static_cast<int64_t>(bytes),
                  context.input<std::byte>(0) + offset * static_cast<int64_t>(bytes), bytes);
    });
  };
  return impl;
}

Result<RefImpl> make_gather_nd(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(*node.node, x, indices));
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  TENON_TRY(require_output(node, 0, desc.output));
  const int64_t batch_stride = span_product(x, desc.batch_rank, x.rank());
  RefImpl impl;
  impl.run = [read, desc, batch_stride, tuples = tuples_of(desc, x),
              bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    const int64_t slice = desc.slice * bytes;
    auto* to = context.output<std::byte>(0);
    for (int64_t b = 0; b < desc.batch; ++b) {
      for (int64_t r = 0; r < desc.tuples; ++r, to += slice) {
        TENON_TRY_ASSIGN(const int64_t offset, tuples.offset(read, context.inputs[1], b * desc.tuples + r));
        std::memcpy(to, context.input<std::byte>(0) + (b * batch_stride + offset) * bytes, slice);
      }
    }
    return {};
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

Result<RefImpl> make_one_hot(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const Shape indices = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const int axis, read_one_hot_axis(*node.node, indices.rank()));
  TENON_INVALID_IF(node.inputs[1].shape.element_count() != 1 || node.inputs[2].shape.element_count() != 2,
                   "OneHot has a depth of shape {} and values of shape {}.", node.inputs[1].shape.to_string(),
                   node.inputs[2].shape.to_string());
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 0));
  TENON_TRY_ASSIGN(const IndexReader read_depth, index_reader(node, 1));
  const int64_t outer = span_product(indices, 0, axis), inner = span_product(indices, axis, indices.rank());
  RefImpl impl;
  impl.run = [read, read_depth, indices, axis, outer, inner, out = output_spec(node, 0),
              bytes = data_type_size(node.inputs[2].type)](KernelContext& context) -> Status {
    const int64_t depth = read_depth(context.inputs[1], 0);
    TENON_TRY_ASSIGN(const Shape shape, one_hot_shape(indices, axis, depth));
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    const auto* values = context.input<std::byte>(2);
    auto* to = static_cast<std::byte*>(y);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < inner; ++i, to += bytes) {
          int64_t index = read(context.inputs[0], o * inner + i);
          if (index < 0) index += depth;
          std::memcpy(to, values + (index == k ? bytes : 0), bytes);
        }
      }
    }
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
    Shape shape = x;
    shape[axis] = std::count_if(condition, condition + length, [](uint8_t v) { return v != 0; });
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    auto* to = static_cast<std::byte*>(y);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < length; ++i) {
        if (condition[i] == 0) continue;
        std::memcpy(to, context.input<std::byte>(0) + (o * x[axis] + i) * inner, inner);
        to += inner;
      }
    }
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
