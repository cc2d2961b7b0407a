// Operators that lay elements into an image: Col2Im, MaxUnpool and CenterCropPad.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/ops/reference_window.h"
#include "ep/cpu/simd/lines.h"
#include "ops/image.h"

namespace tenon::cpu::ref {

namespace {

// --- Col2Im

// One image: the sums of the columns' elements, which lie `components` apart (2 for complex numbers).
using AddColumns = void (*)(const Window& window, const void* columns, int64_t components, void* image);

// Positions [low, high) of an axis whose window has a tap inside the image: of position p at p * stride + shift.
struct Reach {
  int64_t low = 0, high = 1, shift = 0;

  int64_t first(const WindowAxis& axis) const { return low * axis.stride + shift; }
};

Reach reach_of(const WindowAxis& axis, int64_t tap) {
  const int64_t shift = tap * axis.dilation - axis.pad_begin;
  const int64_t low = shift >= 0 ? 0 : (-shift + axis.stride - 1) / axis.stride;
  const int64_t high = shift >= axis.in ? 0 : std::min(axis.out, (axis.in - 1 - shift) / axis.stride + 1);
  return {low, std::max(low, high), shift};
}

// Of float32: planes of columns are added where they belong, tap by tap.
void add_float_columns(const Window& window, const float* columns, float* image) {
  const int last = window.rank() - 1;
  const WindowAxis& row = window.axes[last];
  // An image of one axis is a plane of one row.
  const bool flat = last == 0;
  const WindowAxis& line = flat ? row : window.axes[last - 1];
  const int64_t plane = row.out * (flat ? 1 : line.out);
  const int64_t taps = window.kernel_count(), planes = window.out_count() / plane;
  const int64_t line_step = flat ? row.in : line.stride * row.in;
  std::fill_n(image, window.in_count(), 0.0f);
  Strides tap{};
  for (int64_t t = 0; t < taps; ++t, advance(window, &WindowAxis::kernel, tap)) {
    const Reach across = reach_of(row, tap[last]), down = flat ? Reach() : reach_of(line, tap[last - 1]);
    const int64_t rows = down.high - down.low, n = across.high - across.low;
    Strides at{};
    for (int64_t p = 0; p < planes; ++p, columns += plane) {
      int64_t to = 0;
      bool inside = n > 0 && rows > 0;
      for (int d = 0; d < last - 1; ++d) {
        const WindowAxis& axis = window.axes[d];
        const int64_t i = at[d] * axis.stride - axis.pad_begin + tap[d] * axis.dilation;
        inside &= i >= 0 && i < axis.in;
        to = to * axis.in + i;
      }
      if (inside) {
        const float* const x = columns + down.low * row.out + across.low;
        float* const y = image + (flat ? 0 : to * line.in + down.first(line)) * row.in + across.first(row);
        if (row.stride == 1) {
          line_table().add_rows(x, row.out, y, line_step, rows, n);
        } else {
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < n; ++i) y[r * line_step + i * row.stride] += x[r * row.out + i];
        }
      }
      for (int d = last - 2; d >= 0; --d) {
        if (++at[d] < window.axes[d].out) break;
        at[d] = 0;
      }
    }
  }
}

template <typename T>
void add_columns(const Window& window, const void* columns, int64_t components, void* image) {
  if constexpr (std::is_same_v<T, float>) {
    if (components == 1 && window.rank() > 0 && window.out_count() > 0)
      return add_float_columns(window, static_cast<const float*>(columns), static_cast<float*>(image));
  }
  const int64_t kernel = window.kernel_count(), positions = window.out_count(), count = window.in_count();
  const auto* const from = static_cast<const T*>(columns);
  Strides at{};  // of the image's element
  for (int64_t i = 0; i < count; ++i, advance(window, &WindowAxis::in, at)) {
    for (int64_t part = 0; part < components; ++part) {
      Accumulate<T> sum = 0;
      Strides k{};
      for (int64_t tap = 0; tap < kernel; ++tap, advance(window, &WindowAxis::kernel, k)) {
        int64_t position = 0;  // that has this element below the tap
        for (size_t d = 0; d < window.axes.size() && position >= 0; ++d) {
          const WindowAxis& axis = window.axes[d];
          const int64_t scaled = at[d] + axis.pad_begin - k[d] * axis.dilation;
          const bool there = scaled >= 0 && scaled % axis.stride == 0 && scaled / axis.stride < axis.out;
          position = there ? position * axis.out + scaled / axis.stride : -1;
        }
        if (position >= 0) {
          sum += static_cast<Accumulate<T>>(from[(tap * positions + position) * components + part]);
        }
      }
      static_cast<T*>(image)[i * components + part] = T(sum);
    }
  }
}

Result<RefImpl> make_col2im(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  DataType type = node.inputs[0].type;
  int64_t components = 1;
  if (type == DataType::kComplex64 || type == DataType::kComplex128) {
    components = 2;
    type = type == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  }
  const auto add = select(AllTypes(), type, []<typename T>() -> AddColumns { return &add_columns<T>; });
  TENON_UNSUPPORTED_IF(add == nullptr, "Col2Im is not computed on {}.", data_type_name(type));
  RefImpl impl;
  impl.run = [add, components, bytes = static_cast<int64_t>(data_type_size(type)), op = *node.node,
              x = node.inputs[0].shape, image_spec = node.inputs[1], block_spec = node.inputs[2],
              out = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector image, read_ints(context, 1, image_spec));
    TENON_TRY_ASSIGN(const ShortVector block, read_ints(context, 2, block_spec));
    TENON_TRY_ASSIGN(const Col2ImDesc desc, read_col2im(op, x, image.span(), block.span()));
    TENON_TRY(desc.output().checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, desc.output()));
    const int64_t columns = desc.window.kernel_count() * desc.window.out_count() * components * bytes;
    const int64_t elements = desc.window.in_count() * components * bytes;
    context.pool->parallel_for(desc.batch * desc.channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        add(desc.window, context.input<std::byte>(0) + i * columns, components,
            static_cast<std::byte*>(y) + i * elements);
      }
    });
    return {};
  };
  return impl;
}

// --- MaxUnpool

// y[indices[i]] = x[i] for elements of the size of a T, until an index is outside [0, whole): its place, or count.
template <typename T>
int64_t scatter(const void* x, const int64_t* indices, int64_t count, int64_t whole, void* y) {
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(y);
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(indices[i]) >= static_cast<uint64_t>(whole)) return i;
    to[indices[i]] = from[i];
  }
  return count;
}

Result<RefImpl> make_max_unpool(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(node.inputs[1].type != DataType::kInt64, "MaxUnpool has indices of {}.",
                   data_type_name(node.inputs[1].type));
  RefImpl impl;
  impl.run = [op = *node.node, x = node.inputs[0], indices = node.inputs[1].shape, given = input_spec(node, 2),
              out = output_spec(node, 0)](KernelContext& context) -> Status {
    std::optional<std::vector<int64_t>> shape;
    if (given.present()) {
      TENON_TRY_ASSIGN(const ShortVector values, read_ints(context, 2, given));
      shape.emplace(values.span().begin(), values.span().end());
    }
    TENON_TRY_ASSIGN(const MaxUnpoolDesc desc, read_max_unpool(op, x.shape, indices, shape));
    TENON_TRY(desc.output.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, desc.output));
    const auto bytes = static_cast<int64_t>(data_type_size(x.type));
    std::memset(y, 0, desc.output.element_count() * bytes);
    const int64_t count = x.shape.element_count(), whole = desc.whole.element_count();
    const auto* const given_indices = context.input<int64_t>(1);
    const auto outside = [&](int64_t i) {
      return out_of_range("Index {} of MaxUnpool is outside [0, {}).", given_indices[i], whole);
    };
    if (desc.whole == desc.output) {  // an index is then a place
      const auto place = bytes == 8 ? &scatter<uint64_t> : bytes == 4 ? &scatter<uint32_t> : &scatter<uint16_t>;
      const int64_t placed = place(context.inputs[0], given_indices, count, whole, y);
      return placed < count ? outside(placed) : Status();
    }
    const Strides strides = dense_strides(desc.output);
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0, rest = given_indices[i];
      if (rest < 0 || rest >= whole) return outside(i);
      for (int d = desc.whole.rank() - 1; rest > 0; --d) {
        offset += rest % desc.whole[d] * strides[d];
        rest /= desc.whole[d];
      }
      std::memcpy(static_cast<std::byte*>(y) + offset * bytes, context.input<std::byte>(0) + i * bytes, bytes);
    }
    return {};
  };
  return impl;
}

// --- CenterCropPad

Result<RefImpl> make_center_crop_pad(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const std::vector<int> axes, read_crop_axes(*node.node, x.rank()));
  RefImpl impl;
  impl.run = [axes, x, size_spec = node.inputs[1], out = output_spec(node, 0),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector sizes, read_ints(context, 1, size_spec));
    TENON_INVALID_IF(sizes.count != std::ssize(axes), "CenterCropPad has a shape of {} numbers for {} axes.",
                     sizes.count, axes.size());
    Shape shape = x;
    for (int i = 0; i < sizes.count; ++i) shape[axes[i]] = sizes.values[i];
    TENON_TRY_ASSIGN(const int64_t count, shape.checked_element_count());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    std::memset(y, 0, count * bytes);
    const Strides from = dense_strides(x), to = dense_strides(shape);
    Shape box = x;
    int64_t from_offset = 0, to_offset = 0;
    for (int d = 0; d < x.rank(); ++d) {
      box[d] = std::min(x[d], shape[d]);
      from_offset += (x[d] - box[d]) / 2 * from[d];
      to_offset += (shape[d] - box[d]) / 2 * to[d];
    }
    const auto size = static_cast<int64_t>(bytes);
    if (box.element_count() > 0) {
      copy_box(bytes, box, context.input<std::byte>(0) + from_offset * size, from,
               static_cast<std::byte*>(y) + to_offset * size, to);
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_center_crop_pad>("CenterCropPad", 18),
    ref_row<kAllSet | kComplexSet, &make_col2im>("Col2Im", 18),
    ref_row<kFloatSet, &make_max_unpool>("MaxUnpool", 9),
};

}  // namespace

std::span<const KernelEntry> ref_image_rows() { return kRows; }

}  // namespace tenon::cpu::ref
