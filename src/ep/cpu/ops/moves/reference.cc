// Operators that copy elements elsewhere: Transpose, Concat, Split, Slice, Expand, Tile, depth to space, Trilu.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/concat.h"
#include "ops/depth_to_space.h"
#include "ops/generate.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/split.h"
#include "ops/transpose.h"

namespace tenon::cpu::ref {

namespace {

// copy_box over the threads of a pool.
void copy_box(size_t element_bytes, const Shape& dims, const void* src, const Strides& src_strides, void* dst,
              const Strides& dst_strides, ThreadPool& pool) {
  const auto strides = [&](const Strides& all) { return std::span<const int64_t>(all).first(dims.rank()); };
  const nn::StridedCopy copy(element_bytes, dims.dims(), strides(src_strides), strides(dst_strides), 0, 0);
  copy.run(static_cast<const std::byte*>(src), static_cast<std::byte*>(dst), pool);
}

Result<RefImpl> make_transpose(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_perm(*node.node, x.rank()));
  const Strides dense = dense_strides(x);
  Strides strides{};
  for (size_t d = 0; d < perm.size(); ++d) strides[d] = dense[perm[d]];
  const Shape out = transposed_shape(x, perm);
  TENON_TRY(require_output(node, 0, out));
  RefImpl impl;
  impl.run = [out, strides, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    copy_box(bytes, out, context.inputs[0], strides, context.outputs[0], dense_strides(out), *context.pool);
    return {};
  };
  return impl;
}

Result<RefImpl> make_concat(RefNode& node) {
  TENON_TRY(require_inputs(node, std::max<size_t>(1, node.inputs.size())));
  std::vector<Shape> shapes;
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.type != node.inputs[0].type, "Concat joins {} to {}.", data_type_name(spec.type),
                     data_type_name(node.inputs[0].type));
    shapes.push_back(spec.shape);
  }
  TENON_TRY_ASSIGN(const ConcatDesc desc, read_concat(*node.node, shapes));
  TENON_TRY(require_output(node, 0, desc.output));
  const int64_t inner = desc.span.inner * static_cast<int64_t>(data_type_size(node.inputs[0].type));
  std::vector<int64_t> rows;  // bytes of one outer row of each input
  rows.reserve(desc.lengths.size());
  for (int64_t length : desc.lengths) rows.push_back(length * inner);
  RefImpl impl;
  impl.run = [rows, outer = desc.span.outer, stride = desc.span.length * inner](KernelContext& context) -> Status {
    int64_t offset = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t o = 0; o < outer && rows[i] > 0; ++o) {
        std::memcpy(context.output<std::byte>(0) + o * stride + offset, context.input<std::byte>(i) + o * rows[i],
                    rows[i]);
      }
      offset += rows[i];
    }
    return {};
  };
  return impl;
}

// Sizes come from the attribute, the second input unless it is empty, or equal parts (the last one smaller).
Result<RefImpl> make_split(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const TensorSpec sizes = input_spec(node, 1);
  const bool stated = sizes.present() && sizes.shape.element_count() != 0;
  Node split = *node.node;
  if (!stated) split.inputs.resize(1);
  TENON_TRY_ASSIGN(const SplitDesc desc, read_split(split, x));
  const size_t parts = node.outputs.size();
  TENON_INVALID_IF(
      stated && (sizes.type != DataType::kInt64 || sizes.shape.element_count() != static_cast<int64_t>(parts)),
      "Split has sizes {}{} for {} outputs.", data_type_name(sizes.type), sizes.shape.to_string(), parts);
  const int64_t inner = desc.span.inner * static_cast<int64_t>(data_type_size(node.inputs[0].type));
  RefImpl impl;
  impl.run = [x, desc, parts, inner, outputs = std::vector<TensorSpec>(node.outputs.begin(), node.outputs.end())](
                 KernelContext& context) -> Status {
    const int64_t length = desc.span.length;
    std::span<const int64_t> sizes = desc.sizes;
    if (const int64_t* given = desc.sizes.empty() ? context.input<int64_t>(1) : nullptr) {
      sizes = {given, parts};
      TENON_TRY(check_split_sizes(sizes, parts, length));
    }
    int64_t first = 0;
    for (size_t i = 0; i < parts; ++i) {
      const int64_t size = sizes[i];
      Shape shape = x;
      shape[desc.span.axis] = size;
      TENON_TRY_ASSIGN(void* const y, open_output(context, outputs[i], i, shape));
      for (int64_t o = 0; y != nullptr && o < desc.span.outer && size * inner > 0; ++o) {
        std::memcpy(static_cast<std::byte*>(y) + o * size * inner,
                    context.input<std::byte>(0) + (o * length + first) * inner, size * inner);
      }
      first += size;
    }
    return {};
  };
  return impl;
}

Result<RefImpl> make_slice(RefNode& node) {
  const bool attributes = has_slice_attributes(*node.node);
  TENON_TRY(require_inputs(node, attributes ? 1 : 3));
  std::array<std::optional<ShortVector>, 4> given{};  // starts, ends, axes, steps
  std::array<TensorSpec, 4> specs{};
  if (attributes) {
    const SliceBounds bounds = slice_attributes(*node.node);
    TENON_TRY_ASSIGN(given[0], short_vector(bounds.starts));
    TENON_TRY_ASSIGN(given[1], short_vector(bounds.ends));
    if (bounds.axes) {
      TENON_TRY_ASSIGN(given[2], short_vector(*bounds.axes));
    }
  } else {
    for (size_t i = 0; i < 4; ++i) specs[i] = input_spec(node, i + 1);
  }
  RefImpl impl;
  impl.run = [x = node.inputs[0].shape, out = output_spec(node, 0), given, specs,
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    std::array<std::optional<ShortVector>, 4> values = given;
    for (size_t i = 0; i < 4; ++i) {
      if (!specs[i].present()) continue;
      TENON_TRY_ASSIGN(values[i], read_ints(context, i + 1, specs[i]));
    }
    SliceBounds bounds{.starts = values[0]->span(), .ends = values[1]->span(), .axes = {}, .steps = {}};
    if (values[2]) bounds.axes = values[2]->span();
    if (values[3]) bounds.steps = values[3]->span();
    TENON_TRY_ASSIGN(const SliceDesc slice, resolve_slice(x, bounds));
    Strides strides = dense_strides(x);
    int64_t offset = 0;
    for (int d = 0; d < x.rank(); ++d) {
      const SliceRange& range = slice.ranges[d];
      offset += range.start * strides[d];
      // A step that leaves at most one element may be too large to multiply.
      if (range.count > 1) strides[d] *= range.step;
    }
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, slice.output));
    if (slice.output.element_count() == 0) return {};
    copy_box(bytes, slice.output, context.input<std::byte>(0) + offset * static_cast<int64_t>(bytes), strides, y,
             dense_strides(slice.output), *context.pool);
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
    copy_box(bytes, shape, context.inputs[0], strides, y, dense_strides(shape), *context.pool);
    return {};
  };
  return impl;
}

// Copies X to every tile.
Result<RefImpl> make_tile(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  RefImpl impl;
  impl.run = [x = node.inputs[0].shape, repeats_spec = node.inputs[1], out = output_spec(node, 0),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector repeats, read_ints(context, 1, repeats_spec));
    TENON_TRY_ASSIGN(const Shape shape, tiled(x, repeats.span()));
    const Shape tiles(repeats.span());
    TENON_TRY(shape.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    if (shape.element_count() == 0) return {};
    const Strides dense = dense_strides(shape), from = dense_strides(x);
    // Blocks of the output are copied from the first one of their axis; with threads that would be one axis after
    // the other.
    constexpr int64_t kBlockBytes = 512;
    const auto block = [&](int d) { return dense[d] * x[d] * static_cast<int64_t>(bytes); };
    const auto copies = [&](int d) { return tiles[d] > 1 && context.pool->threads() == 1 && block(d) >= kBlockBytes; };
    // One box of the repeats and the sizes of all axes; repeats for which it has no room are walked around it.
    Shape box, around;
    Strides source{}, target{}, steps{};
    for (int d = 0; d < x.rank(); ++d) {
      const bool room = box.rank() + 2 * (x.rank() - d) <= Shape::kMaxRank;
      if (room) {
        target[box.rank()] = dense[d] * x[d];
        box.push_back(copies(d) ? 1 : tiles[d]);
      } else {
        steps[around.rank()] = dense[d] * x[d];
        around.push_back(copies(d) ? 1 : tiles[d]);
      }
      source[box.rank()] = from[d];
      target[box.rank()] = dense[d];
      box.push_back(x[d]);
    }
    const Walk walk = make_walk(around, {steps});
    walk.run([&](const auto& at) {
      for (int64_t i = 0; i < walk.inner; ++i) {
        auto* to = static_cast<std::byte*>(y) + (at[0] + i * walk.inner_strides[0]) * static_cast<int64_t>(bytes);
        copy_box(bytes, box, context.inputs[0], source, to, target, *context.pool);
      }
      return true;
    });
    for (int d = x.rank() - 1; d >= 0; --d) {
      if (!copies(d)) continue;
      const Walk firsts = make_walk(Shape(x.dims().first(d)), {dense});
      firsts.run([&](const auto& at) {
        for (int64_t i = 0; i < firsts.inner; ++i) {
          auto* const to =
              static_cast<std::byte*>(y) + (at[0] + i * firsts.inner_strides[0]) * static_cast<int64_t>(bytes);
          for (int64_t copy = 1; copy < tiles[d]; ++copy) std::memcpy(to + copy * block(d), to, block(d));
        }
        return true;
      });
    }
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
    copy_box(bytes, box, context.inputs[0], from, context.outputs[0], dense_strides(box), *context.pool);
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
  impl.run = [matrices, rows, columns, upper = read_trilu_upper(*node.node),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    const int64_t k = context.input<int64_t>(1) ? std::clamp(*context.input<int64_t>(1), -rows, columns) : 0;
    for (int64_t r = 0; r < matrices * rows; ++r) {
      // Row i keeps [i + k, columns) above the diagonal, [0, i + k] below.
      const int64_t edge = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, columns);
      const int64_t begin = upper ? edge : 0, end = upper ? columns : edge;
      auto* to = context.output<std::byte>(0) + r * columns * static_cast<int64_t>(bytes);
      const auto* from = context.input<std::byte>(0) + r * columns * static_cast<int64_t>(bytes);
      std::memset(to, 0, columns * bytes);
      std::memcpy(to + begin * static_cast<int64_t>(bytes), from + begin * static_cast<int64_t>(bytes),
                  (end - begin) * bytes);
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
