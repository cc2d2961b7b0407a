// Pad in all its modes. Negative pads crop first; the modes then repeat the remaining elements.
#include <algorithm>
#include <cstring>

#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

namespace {

enum class Mode : uint8_t { kConstant, kEdge, kReflect, kWrap };

// Where coordinate `i` (outside [0, n) too) reads from; -1 for the constant. n >= 1.
int64_t source(Mode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case Mode::kConstant:
      return -1;
    case Mode::kEdge:
      return i < 0 ? 0 : n - 1;
    case Mode::kWrap:
      return (i % n + n) % n;
    case Mode::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      const int64_t phase = (i % period + period) % period;
      return phase < n ? phase : period - phase;
    }
  }
  return -1;
}

struct Frame {
  Shape in, out;
  // Each axis of `in` after cropping: [crop, crop + kept). Coordinate 0 of it is at `begin` of the
  // output.
  std::array<int64_t, Shape::kMaxRank> begin{}, crop{}, kept{};
  Mode mode = Mode::kConstant;
  size_t bytes = 0;
};

// The out box row by row: each coordinate is mapped on its own.
void fill(const Frame& frame, const std::byte* x, const std::byte* value, std::byte* y) {
  const int rank = frame.out.rank();
  const Strides strides = dense_strides(frame.in);
  const int64_t count = frame.out.element_count(), last = rank > 0 ? frame.out[rank - 1] : 1;
  const auto bytes = static_cast<int64_t>(frame.bytes);
  std::array<int64_t, Shape::kMaxRank> at{};
  for (int64_t row = 0; row < count; row += last) {
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d + 1 < rank; ++d) {
      const auto u = static_cast<size_t>(d);
      const int64_t from = source(frame.mode, at[u] - frame.begin[u], frame.kept[u]);
      inside &= from >= 0;
      offset += (from + frame.crop[u]) * strides[u];
    }
    const auto u = static_cast<size_t>(rank > 0 ? rank - 1 : 0);
    for (int64_t i = 0; i < last; ++i) {
      const int64_t from = rank == 0 ? 0 : source(frame.mode, i - frame.begin[u], frame.kept[u]);
      const std::byte* element = inside && from >= 0 ? x + (offset + frame.crop[u] + from) * bytes : value;
      std::memcpy(y + (row + i) * bytes, element, frame.bytes);
    }
    for (int d = rank - 2; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < frame.out[d]) break;
      at[static_cast<size_t>(d)] = 0;
    }
  }
}

Result<RefImpl> make_pad(RefNode& node) {
  const bool attributes = node.node->since_version < 11;
  TENON_TRY(require_inputs(node, attributes ? 1 : 2));
  const TensorSpec& x = node.inputs[0];
  const std::string_view name = node.node->string_or("mode", "constant");
  Frame frame;
  frame.in = x.shape;
  frame.bytes = data_type_size(x.type);
  if (name == "edge") {
    frame.mode = Mode::kEdge;
  } else if (name == "reflect") {
    frame.mode = Mode::kReflect;
  } else if (name == "wrap") {
    frame.mode = Mode::kWrap;
  } else {
    TENON_INVALID_IF(name != "constant", "Pad has the unknown mode \"{}\".", name);
  }
  const TensorSpec& value = input_spec(node, 2);
  TENON_INVALID_IF(value.present() && (value.type != x.type || value.shape.element_count() != 1),
                   "Pad's value is {}{}, not one {}.", data_type_name(value.type), value.shape.to_string(),
                   data_type_name(x.type));
  std::array<std::byte, 16> fallback{};
  TENON_TRY_ASSIGN(const ShortVector attribute, short_vector(node.node->ints("pads")));
  if (attributes && node.node->has("value")) {
    using Store = void (*)(std::byte*, float);
    const Store store = select(FloatTypes(), x.type, []<typename T>() -> Store {
      return [](std::byte* to, float v) {
        const T element(v);
        std::memcpy(to, &element, sizeof(T));
      };
    });
    TENON_UNSUPPORTED_IF(store == nullptr, "Pad {} is for floats, not {}.", node.node->since_version,
                         data_type_name(x.type));
    store(fallback.data(), node.node->float_or("value", 0));
  }
  RefImpl impl;
  impl.run = [frame, fallback, attribute, attributes, pads_spec = attributes ? TensorSpec() : node.inputs[1],
              axes_spec = input_spec(node, 3), out = output_spec(node, 0)](KernelContext& context) -> Status {
    Frame run = frame;
    ShortVector pads = attribute, axes;
    if (!attributes) {
      TENON_TRY_ASSIGN(pads, read_ints(context, 1, pads_spec));
    }
    const bool has_axes = axes_spec.present();
    if (has_axes) {
      TENON_TRY_ASSIGN(axes, read_ints(context, 3, axes_spec));
    }
    const int count = has_axes ? axes.count : run.in.rank();
    TENON_INVALID_IF(pads.count != 2 * count || count > run.in.rank(), "Pad has {} pads for {} axes of {}.", pads.count,
                     count, run.in.to_string());
    run.out = run.in;
    for (int d = 0; d < run.in.rank(); ++d) run.kept[static_cast<size_t>(d)] = run.in[d];
    for (int i = 0; i < count; ++i) {
      int axis = i;
      if (has_axes) {
        TENON_TRY_ASSIGN(axis, resolve_axis(axes.values[static_cast<size_t>(i)], run.in.rank()));
      }
      const int64_t begin = pads.values[static_cast<size_t>(i)], end = pads.values[static_cast<size_t>(i + count)];
      int64_t dim = 0;
      TENON_INVALID_IF(
          __builtin_add_overflow(run.in[axis], begin, &dim) || __builtin_add_overflow(dim, end, &dim) || dim < 0,
          "Pad has pads {} and {} for axis {} of {}.", begin, end, axis, run.in.to_string());
      // Cropping more than there is takes the rest from the padding of the other side.
      const auto u = static_cast<size_t>(axis);
      const auto cropped = [size = run.in[axis]](int64_t pad) {
        return pad < -size ? size : std::max<int64_t>(0, -pad);
      };
      run.crop[u] = cropped(begin);
      run.kept[u] = std::max<int64_t>(0, run.in[axis] - run.crop[u] - cropped(end));
      TENON_INVALID_IF(run.kept[u] == 0 && dim != 0 && run.mode != Mode::kConstant,
                       "Pad with {} and {} has nothing to repeat on axis {} of {}.", begin, end, axis,
                       run.in.to_string());
      run.begin[u] = run.kept[u] > 0 ? begin + run.crop[u] : 0;
      run.out[axis] = dim;
    }
    TENON_TRY(run.out.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, run.out));
    const auto* value = context.input<std::byte>(2);
    fill(run, context.input<std::byte>(0), value != nullptr ? value : fallback.data(), static_cast<std::byte*>(y));
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {ref_row<~TypeSet{0}, &make_pad>("Pad", 2)};

}  // namespace

std::span<const KernelEntry> ref_pad_rows() { return kRows; }

}  // namespace tenon::cpu::ref
