// Pad in all its modes. Negative pads crop first; the modes then repeat the remaining elements.
#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/moves/fill.h"
#include "ep/cpu/ops/pad/fill.h"
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

// Rows [begin, end) of the output: each coordinate is mapped on its own, but the elements that are kept are one copy.
template <size_t bytes>
void fill_rows(const Shape& in, const PadDesc& pad, const std::byte* x, const std::byte* value, std::byte* y,
               int64_t begin, int64_t end) {
  const int rank = in.rank(), last = rank - 1;
  const Strides strides = dense_strides(in);
  const PadAxis& row = pad.axes[last];
  const int64_t width = pad.output[last];
  const int64_t kept_begin = std::clamp<int64_t>(row.begin, 0, width);
  const int64_t kept_end = std::clamp<int64_t>(row.begin + row.kept, kept_begin, width);
  // Where the elements beside the kept ones come from is the same in each row, and is found once if they are few.
  constexpr int64_t kRoom = 64;
  std::array<int64_t, kRoom> sources;
  const int64_t after = width - kept_end, edges = kept_begin + after;
  const auto source_of = [&](int64_t i) { return source(pad.mode, i - row.begin, row.kept); };
  const auto edge = [&](int64_t i) { return i < kept_begin ? i : i - kept_begin + kept_end; };
  for (int64_t i = 0; i < std::min(edges, kRoom); ++i) sources[i] = source_of(edge(i));
  Strides at{};
  for (int64_t d = last - 1, rest = begin; d >= 0; --d) {
    at[d] = rest % pad.output[static_cast<int>(d)];
    rest /= pad.output[static_cast<int>(d)];
  }
  for (int64_t r = begin; r < end; ++r) {
    std::byte* const to = y + r * width * bytes;
    int64_t offset = row.crop;
    bool inside = true;
    for (int d = last - 1; d >= 0; --d) {
      const PadAxis& axis = pad.axes[d];
      const int64_t from = source(pad.mode, at[d] - axis.begin, axis.kept);
      inside &= from >= 0;
      offset += (from + axis.crop) * strides[d];
    }
    for (int d = last - 1; d >= 0; --d) {
      if (++at[d] < pad.output[d]) break;
      at[d] = 0;
    }
    if (!inside) {
      if constexpr (bytes <= 16) {
        nn::fill_elements(to, value, bytes, width);
      } else {
        for (int64_t i = 0; i < width; ++i) std::memcpy(to + i * bytes, value, bytes);
      }
      continue;
    }
    const std::byte* const from = x + offset * bytes;
    for (int64_t i = 0; i < edges; ++i) {
      const int64_t source = i < kRoom ? sources[i] : source_of(edge(i));
      std::memcpy(to + edge(i) * bytes, source >= 0 ? from + source * bytes : value, bytes);
    }
    if (kept_end > kept_begin)
      std::memcpy(to + kept_begin * bytes, from + (kept_begin - row.begin) * bytes, (kept_end - kept_begin) * bytes);
  }
}

// The last axes that stay as they are become part of the one before them, where all padding is one value: rows get
// longer. Of an image with channels last they would be single pixels.
void join_whole_axes(Shape& in, PadDesc& pad) {
  while (in.rank() > 1) {
    const int last = in.rank() - 1;
    const int64_t size = in[last];
    if (pad.mode != PadMode::kConstant || pad.axes[last].crop != 0 || pad.axes[last].begin != 0 ||
        pad.axes[last].kept != size || pad.output[last] != size)
      return;
    in = Shape(in.dims().first(last));
    pad.output = Shape(pad.output.dims().first(last));
    in[last - 1] *= size;
    pad.output[last - 1] *= size;
    PadAxis& axis = pad.axes[last - 1];
    axis = {.crop = axis.crop * size, .kept = axis.kept * size, .begin = axis.begin * size};
  }
}

}  // namespace

void fill_padded(Shape in, PadDesc pad, size_t bytes, const std::byte* x, const std::byte* value, std::byte* y,
                 ThreadPool& pool) {
  if (in.rank() == 0) {
    std::memcpy(y, x, bytes);
    return;
  }
  join_whole_axes(in, pad);
  const int64_t count = pad.output.element_count(), width = pad.output[in.rank() - 1];
  if (count == 0) return;
  constexpr int64_t kGrainBytes = 64 << 10;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / static_cast<int64_t>(width * bytes));
  auto* rows = &fill_rows<1>;
  if (bytes == 2) rows = &fill_rows<2>;
  if (bytes == 4) rows = &fill_rows<4>;
  if (bytes == 8) rows = &fill_rows<8>;
  if (bytes == 16) rows = &fill_rows<16>;
  if (bytes == 32) rows = &fill_rows<32>;
  pool.parallel_for(count / width, grain, [&](int64_t begin, int64_t end) { rows(in, pad, x, value, y, begin, end); });
}

namespace {

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
    fill_padded(in, pad, bytes, context.input<std::byte>(0), value != nullptr ? value : fallback.data(),
                static_cast<std::byte*>(y), *context.pool);
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {ref_row<~TypeSet{0}, &make_pad>("Pad", 2)};

}  // namespace

std::span<const KernelEntry> ref_pad_rows() { return kRows; }

}  // namespace tenon::cpu::ref
