// Pad in all its modes. Negative pads crop first; the modes then repeat the remaining elements.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/pad.h"

namespace tenon::cpu::ref {

namespace {

// Where coordinate `i` (outside [0, n) too) reads from; -1 for the constant. n >= 1.
int64_t source(PadMode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return i < 0 ? 0 : n - 1;
    case PadMode::kWrap:
      return (i % n + n) % n;
    case PadMode::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      const int64_t phase = (i % period + period) % period;
      return phase < n ? phase : period - phase;
    }
  }
  return -1;
}

// The out box row by row: each coordinate is mapped on its own.
void fill(const Shape& in, const PadDesc& pad, size_t element_bytes, const std::byte* x, const std::byte* value,
          std::byte* y) {
  const int rank = in.rank();
  const Strides strides = dense_strides(in);
  const int64_t count = pad.output.element_count(), last = rank > 0 ? pad.output[rank - 1] : 1;
  const auto bytes = static_cast<int64_t>(element_bytes);
  std::array<int64_t, Shape::kMaxRank> at{};
  for (int64_t row = 0; row < count; row += last) {
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d + 1 < rank; ++d) {
      const PadAxis& axis = pad.axes[d];
      const int64_t from = source(pad.mode, at[d] - axis.begin, axis.kept);
      inside &= from >= 0;
      offset += (from + axis.crop) * strides[d];
    }
    const PadAxis& axis = pad.axes[rank > 0 ? rank - 1 : 0];
    for (int64_t i = 0; i < last; ++i) {
      const int64_t from = rank == 0 ? 0 : source(pad.mode, i - axis.begin, axis.kept);
      const std::byte* element = inside && from >= 0 ? x + (offset + axis.crop + from) * bytes : value;
      std::memcpy(y + (row + i) * bytes, element, element_bytes);
    }
    for (int d = rank - 2; d >= 0; --d) {
      if (++at[d] < pad.output[d]) break;
      at[d] = 0;
    }
  }
}

Result<RefImpl> make_pad(RefNode& node) {
  const bool attributes = has_pad_attributes(*node.node);
  TENON_TRY(require_inputs(node, attributes ? 1 : 2));
  const TensorSpec& x = node.inputs[0];
  TENON_TRY_ASSIGN(const PadMode mode, read_pad_mode(*node.node));
  const TensorSpec& value = input_spec(node, 2);
  TENON_INVALID_IF(value.present() && (value.type != x.type || value.shape.element_count() != 1),
                   "Pad's value is {}{}, not one {}.", data_type_name(value.type), value.shape.to_string(),
                   data_type_name(x.type));
  std::array<std::byte, 16> fallback{};
  ShortVector attribute;
  if (attributes) {
    TENON_TRY_ASSIGN(attribute, short_vector(pad_attribute(*node.node)));
  }
  if (const float number = attributes ? pad_value_attribute(*node.node) : 0; number != 0) {
    using Store = void (*)(std::byte*, float);
    const Store store = select(FloatTypes(), x.type, []<typename T>() -> Store {
      return [](std::byte* to, float v) {
        const T element(v);
        std::memcpy(to, &element, sizeof(T));
      };
    });
    TENON_UNSUPPORTED_IF(store == nullptr, "Pad {} is for floats, not {}.", node.node->since_version,
                         data_type_name(x.type));
    store(fallback.data(), number);
  }
  RefImpl impl;
  impl.run = [mode, in = x.shape, fallback, attribute, bytes = data_type_size(x.type),
              pads_spec = attributes ? TensorSpec() : node.inputs[1], axes_spec = input_spec(node, 3),
              out = output_spec(node, 0)](KernelContext& context) -> Status {
    ShortVector pads = attribute, axes;
    if (pads_spec.present()) {
      TENON_TRY_ASSIGN(pads, read_ints(context, 1, pads_spec));
    }
    std::optional<std::span<const int64_t>> named;
    if (axes_spec.present()) {
      TENON_TRY_ASSIGN(axes, read_ints(context, 3, axes_spec));
      named = axes.span();
    }
    TENON_TRY_ASSIGN(const PadDesc pad, resolve_pad(mode, in, pads.span(), named));
    TENON_TRY(pad.output.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, pad.output));
    const auto* value = context.input<std::byte>(2);
    fill(in, pad, bytes, context.input<std::byte>(0), value != nullptr ? value : fallback.data(),
         static_cast<std::byte*>(y));
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {ref_row<~TypeSet{0}, &make_pad>("Pad", 2)};

}  // namespace

std::span<const KernelEntry> ref_pad_rows() { return kRows; }

}  // namespace tenon::cpu::ref
