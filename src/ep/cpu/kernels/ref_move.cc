// Operators that copy elements elsewhere: Transpose, Concat, Split, Slice, Expand, Tile, depth to space, Trilu.
#include <algorithm>
#include <cstring>

#include "ep/cpu/kernels/ref_kernel.h"
#include "ops/depth_to_space.h"

namespace tenon::cpu::ref {

namespace {

Result<RefImpl> make_transpose(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const std::span<const int64_t> given = node.node->ints("perm");
  TENON_INVALID_IF(node.node->has("perm") && given.size() != static_cast<size_t>(x.rank()),
                   "Transpose has a perm of {} axes for {}.", given.size(), x.to_string());
  const Strides dense = dense_strides(x);
  Strides strides{};
  Shape out;
  uint32_t seen = 0;
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t axis = given.empty() ? x.rank() - 1 - d : given[static_cast<size_t>(d)];
    TENON_INVALID_IF(axis < 0 || axis >= x.rank() || ((seen >> axis) & 1) != 0,
                     "Transpose's perm names axis {} for {}: it must name every axis once.", axis, x.to_string());
    seen |= uint32_t{1} << axis;
    out.push_back(x[static_cast<int>(axis)]);
    strides[static_cast<size_t>(d)] = dense[static_cast<size_t>(axis)];
  }
  TENON_TRY(require_output(node, 0, out));
  RefImpl impl;
  impl.run = [out, strides, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    copy_box(bytes, out, context.inputs[0], strides, context.outputs[0], dense_strides(out));
    return {};
  };
  return impl;
}

Result<RefImpl> make_concat(RefNode& node) {
  TENON_TRY(require_inputs(node, std::max<size_t>(1, node.inputs.size())));
  Shape out = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const int axis, resolve_axis(node, node.node->int_or("axis", 1), out.rank()));
  out[axis] = 0;
  int64_t outer = 1, inner = static_cast<int64_t>(data_type_size(node.inputs[0].type));
  for (int d = 0; d < out.rank(); ++d) {
    if (d < axis) outer *= out[d];
    if (d > axis) inner *= out[d];
  }
  std::vector<int64_t> rows;  // bytes of one outer row of each input
  for (const TensorSpec& spec : node.inputs) {
    bool fits = spec.shape.rank() == out.rank() && spec.type == node.inputs[0].type;
    for (int d = 0; fits && d < out.rank(); ++d) fits = d == axis || spec.shape[d] == out[d];
    TENON_INVALID_IF(!fits, "Concat along axis {} joins {} {} to {} {}.", axis, data_type_name(spec.type),
                     spec.shape.to_string(), data_type_name(node.inputs[0].type), node.inputs[0].shape.to_string());
    out[axis] += spec.shape[axis];
    rows.push_back(spec.shape[axis] * inner);
  }
  TENON_TRY(require_output(node, 0, out));
  RefImpl impl;
  impl.run = [rows, outer, stride = out[axis] * inner](KernelContext& context) -> Status {
    int64_t offset = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t o = 0; o < outer && rows[i] > 0; ++o) {
        std::memcpy(context.output<std::byte>(0) + o * stride + offset, context.input<std::byte>(i) + o * rows[i],
                    static_cast<size_t>(rows[i]));
      }
      offset += rows[i];
    }
    return {};
  };
  return impl;
}

// Sizes come from the attribute, the second input, or equal parts (the last one smaller).
Result<RefImpl> make_split(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const int axis, resolve_axis(node, node.node->int_or("axis", 0), x.rank()));
  const auto parts = static_cast<int64_t>(node.outputs.size());
  const std::span<const int64_t> attribute = node.node->ints("split");
  const TensorSpec sizes = input_spec(node, 1);
  TENON_INVALID_IF(parts == 0, "Split has no output.");
  TENON_INVALID_IF(!attribute.empty() && attribute.size() != node.outputs.size(), "Split has {} sizes for {} outputs.",
                   attribute.size(), parts);
  TENON_INVALID_IF(sizes.present() && (sizes.type != DataType::kInt64 || sizes.shape.element_count() != parts),
                   "Split has sizes {}{} for {} outputs.", data_type_name(sizes.type), sizes.shape.to_string(), parts);
  int64_t outer = 1, inner = static_cast<int64_t>(data_type_size(node.inputs[0].type));
  for (int d = 0; d < x.rank(); ++d) {
    if (d < axis) outer *= x[d];
    if (d > axis) inner *= x[d];
  }
  RefImpl impl;
  impl.run = [x, axis, parts, outer, inner, has_sizes = sizes.present(),
              attribute = std::vector<int64_t>(attribute.begin(), attribute.end()),
              outputs =
                  std::vector<TensorSpec>(node.outputs.begin(), node.outputs.end())](KernelContext& context) -> Status {
    const int64_t equal = (x[axis] + parts - 1) / parts;
    const int64_t* const sizes = has_sizes ? context.input<int64_t>(1) : nullptr;
    int64_t first = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const auto u = static_cast<size_t>(i);
      const int64_t size = sizes != nullptr     ? sizes[i]
                           : !attribute.empty() ? attribute[u]
                                                : std::min(equal, x[axis] - first);
      TENON_INVALID_IF(size < 0 || size > x[axis] - first, "Split takes {} elements at {} of an axis of {}.", size,
                       first, x[axis]);
      Shape shape = x;
      shape[axis] = size;
      TENON_TRY_ASSIGN(void* const y, open_output(context, outputs[u], u, shape));
      for (int64_t o = 0; y != nullptr && o < outer && size * inner > 0; ++o) {
        std::memcpy(static_cast<std::byte*>(y) + o * size * inner,
                    context.input<std::byte>(0) + (o * x[axis] + first) * inner, static_cast<size_t>(size * inner));
      }
      first += size;
    }
    TENON_INVALID_IF(first != x[axis], "Split's sizes add up to {} for an axis of {}.", first, x[axis]);
    return {};
  };
  return impl;
}

struct SliceRange {
  int64_t start = 0, step = 1, count = 0;
};

Result<SliceRange> slice_range(int64_t start, int64_t end, int64_t step, int64_t dim) {
  TENON_INVALID_IF(step == 0, "Slice has a step of 0.");
  if (step < -std::numeric_limits<int64_t>::max()) ++step;  // so that -step exists
  // "To the end" is before the first element on the way back.
  const bool whole = end == std::numeric_limits<int32_t>::max() || end == std::numeric_limits<int64_t>::max();
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  SliceRange range{0, step, 0};
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, dim);
    end = std::clamp<int64_t>(end, 0, dim);
    if (start < end) range.count = 1 + (end - start - 1) / step;
  } else {
    start = std::min(std::max<int64_t>(start, 0), dim - 1);
    end = whole ? -1 : std::clamp<int64_t>(end, -1, std::max<int64_t>(dim - 1, -1));
    if (start > end) range.count = 1 + (start - end - 1) / -step;
  }
  range.start = range.count > 0 ? start : 0;
  return range;
}

Result<RefImpl> make_slice(RefNode& node) {
  const bool attributes = node.node->since_version < 10;
  TENON_TRY(require_inputs(node, attributes ? 1 : 3));
  std::array<ShortVector, 4> given{};  // starts, ends, axes, steps
  std::array<TensorSpec, 4> specs{};
  if (attributes) {
    TENON_TRY_ASSIGN(given[0], short_vector(node.node->ints("starts")));
    TENON_TRY_ASSIGN(given[1], short_vector(node.node->ints("ends")));
    TENON_TRY_ASSIGN(given[2], short_vector(node.node->ints("axes")));
  } else {
    for (size_t i = 0; i < 4; ++i) specs[i] = input_spec(node, i + 1);
  }
  RefImpl impl;
  impl.run = [x = node.inputs[0].shape, out = output_spec(node, 0), given, specs,
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    std::array<ShortVector, 4> values = given;
    for (size_t i = 0; i < 4; ++i) {
      if (!specs[i].present()) continue;
      TENON_TRY_ASSIGN(values[i], read_ints(context, i + 1, specs[i]));
    }
    const auto& [starts, ends, axes, steps] = values;
    TENON_INVALID_IF(starts.count != ends.count || (axes.count != 0 && axes.count != starts.count) ||
                         (steps.count != 0 && steps.count != starts.count) || starts.count > x.rank(),
                     "Slice of {} has {} starts, {} ends, {} axes and {} steps.", x.to_string(), starts.count,
                     ends.count, axes.count, steps.count);
    Strides strides = dense_strides(x);
    Shape shape = x;
    int64_t offset = 0;
    uint32_t seen = 0;
    for (size_t i = 0; i < static_cast<size_t>(starts.count); ++i) {
      TENON_TRY_ASSIGN(const int axis, resolve_axis(axes.count ? axes.values[i] : static_cast<int64_t>(i), x.rank()));
      TENON_INVALID_IF(((seen >> axis) & 1) != 0, "Slice names axis {} twice.", axis);
      seen |= uint32_t{1} << axis;
      TENON_TRY_ASSIGN(const SliceRange range,
                       slice_range(starts.values[i], ends.values[i], steps.count ? steps.values[i] : 1, x[axis]));
      const auto u = static_cast<size_t>(axis);
      offset += range.start * strides[u];
      shape[axis] = range.count;
      // A step that leaves at most one element may be too large to multiply.
      if (range.count > 1) strides[u] *= range.step;
    }
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    if (shape.element_count() == 0) return {};
    copy_box(bytes, shape, context.input<std::byte>(0) + offset * static_cast<int64_t>(bytes), strides, y,
             dense_strides(shape));
    return {};
  };
  return impl;
}

Result<RefImpl> make_expand(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  RefImpl impl;
  impl.run = [x = node.inputs[0].shape, sizes = node.inputs[1], out = output_spec(node, 0),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector values, read_ints(context, 1, sizes));
    TENON_INVALID_IF(values.count > Shape::kMaxRank, "Expand asks for rank {}; the limit is {}.", values.count,
                     Shape::kMaxRank);
    TENON_TRY_ASSIGN(const Shape shape, broadcast_shape(x, Shape(values.span())));
    TENON_TRY_ASSIGN(const Strides strides, broadcast_strides(x, shape));
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    copy_box(bytes, shape, context.inputs[0], strides, y, dense_strides(shape));
    return {};
  };
  return impl;
}

// Copies X to every tile's place.
Result<RefImpl> make_tile(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  RefImpl impl;
  impl.run = [x = node.inputs[0].shape, repeats_spec = node.inputs[1], out = output_spec(node, 0),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector repeats, read_ints(context, 1, repeats_spec));
    TENON_INVALID_IF(repeats.count != x.rank(), "Tile has {} repeats for {}.", repeats.count, x.to_string());
    Shape shape = x, tiles;
    for (int d = 0; d < x.rank(); ++d) {
      const int64_t repeat = repeats.values[static_cast<size_t>(d)];
      TENON_INVALID_IF(repeat < 0 || __builtin_mul_overflow(x[d], repeat, &shape[d]),
                       "Tile repeats axis {} of {} {} times.", d, x.to_string(), repeat);
      tiles.push_back(repeat);
    }
    TENON_TRY(shape.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    if (shape.element_count() == 0) return {};
    const Strides dense = dense_strides(shape), from = dense_strides(x);
    Strides steps{};
    for (int d = 0; d < x.rank(); ++d) steps[static_cast<size_t>(d)] = dense[static_cast<size_t>(d)] * x[d];
    const Walk walk = make_walk(tiles, {steps});
    walk.run([&](const auto& at) {
      for (int64_t i = 0; i < walk.inner; ++i) {
        auto* to = static_cast<std::byte*>(y) + (at[0] + i * walk.inner_strides[0]) * static_cast<int64_t>(bytes);
        copy_box(bytes, x, context.inputs[0], from, to, dense);
      }
      return true;
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_depth_to_space(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const DepthToSpaceDesc desc, read_depth_to_space(*node.node, x.dims()));
  const int64_t n = desc.batch, c = desc.channels, h = desc.height, w = desc.width, block = desc.block;
  TENON_TRY(require_output(node, 0, desc.output()));
  Shape box;
  Strides from{};
  if (desc.to_space) {
    const int64_t plane = h * w, block_step = desc.depth_first ? plane * c : plane,
                  channel_step = desc.depth_first ? plane : plane * block * block;
    box = Shape{n, c, h, block, w, block};
    from = {x[1] * plane, channel_step, w, block_step * block, 1, block_step};
  } else {
    const int64_t plane = x[2] * x[3];
    box = desc.depth_first ? Shape{n, block, block, c, h, w} : Shape{n, c, block, block, h, w};
    from = desc.depth_first ? Strides{c * plane, x[3], 1, plane, x[3] * block, block}
                            : Strides{c * plane, plane, x[3], 1, x[3] * block, block};
  }
  RefImpl impl;
  impl.run = [box, from, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    copy_box(bytes, box, context.inputs[0], from, context.outputs[0], dense_strides(box));
    return {};
  };
  return impl;
}

Result<RefImpl> make_trilu(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(x.rank() < 2, "Trilu needs matrices, not {}.", x.to_string());
  TENON_TRY(require_output(node, 0, x));
  const TensorSpec& k_spec = input_spec(node, 1);
  TENON_INVALID_IF(k_spec.present() && (k_spec.type != DataType::kInt64 || k_spec.shape.element_count() != 1),
                   "Trilu's k is {}{}, not one int64.", data_type_name(k_spec.type), k_spec.shape.to_string());
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  const int64_t matrices = rows * columns == 0 ? 0 : x.element_count() / (rows * columns);
  RefImpl impl;
  impl.run = [matrices, rows, columns, upper = node.node->int_or("upper", 1) != 0,
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    const int64_t k = context.input<int64_t>(1) ? std::clamp(*context.input<int64_t>(1), -rows, columns) : 0;
    for (int64_t r = 0; r < matrices * rows; ++r) {
      // Row i keeps [i + k, columns) above the diagonal, [0, i + k] below.
      const int64_t edge = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, columns);
      const int64_t begin = upper ? edge : 0, end = upper ? columns : edge;
      auto* to = context.output<std::byte>(0) + r * columns * static_cast<int64_t>(bytes);
      const auto* from = context.input<std::byte>(0) + r * columns * static_cast<int64_t>(bytes);
      std::memset(to, 0, static_cast<size_t>(columns) * bytes);
      std::memcpy(to + begin * static_cast<int64_t>(bytes), from + begin * static_cast<int64_t>(bytes),
                  static_cast<size_t>(end - begin) * bytes);
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_transpose>("Transpose", 1),
    ref_row<~TypeSet{0}, &make_concat>("Concat", 4),
    ref_row<~TypeSet{0}, &make_split>("Split", 2),
    ref_row<~TypeSet{0}, &make_slice>("Slice", 1),
    ref_row<~TypeSet{0}, &make_expand>("Expand", 8),
    ref_row<~TypeSet{0}, &make_tile>("Tile", 6),
    ref_row<~TypeSet{0}, &make_depth_to_space>("DepthToSpace", 1),
    ref_row<~TypeSet{0}, &make_depth_to_space>("SpaceToDepth", 1),
    ref_row<~TypeSet{0}, &make_trilu>("Trilu", 14),
};

}  // namespace

std::span<const KernelEntry> ref_move_rows() { return kRows; }

}  // namespace tenon::cpu::ref
