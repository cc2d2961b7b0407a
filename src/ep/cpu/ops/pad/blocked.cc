// Pad of spatial dimensions, and Slice, on the blocked layout, where pixels of 8 channels move.
#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/pad/fill.h"
#include "ops/slice.h"

namespace tenon::cpu {

namespace {

using PadElement = std::array<std::byte, sizeof(float)>;  // or its first byte

class BlockedPad final : public Kernel {
 public:
  BlockedPad(std::string_view name, const TensorSpec& x, PadDesc pad, PadElement value)
      : name_(name), x_(x.shape), pad_(pad), pixel_bytes_(8 * data_type_size(x.type)) {
    const size_t size = data_type_size(x.type);
    for (size_t i = 0; i < pixel_bytes_; ++i) value_[i] = value[i % size];
    for (int64_t* channels : {&x_[1], &pad_.output[1], &pad_.axes[1].kept, &pad_.axes[1].crop})
      *channels = (*channels + 7) / 8;
  }

  Status run(KernelContext& context) const override {
    ref::fill_padded(x_, pad_, pixel_bytes_, context.input<std::byte>(0), value_.data(), context.output<std::byte>(0),
                     *context.pool);
    return {};
  }
  bool reads(size_t input) const override { return input == 0; }
  std::string_view name() const override { return name_; }

 private:
  std::string_view name_;
  Shape x_;  // in pixels of 8 channels
  PadDesc pad_;
  size_t pixel_bytes_;
  std::array<std::byte, 8 * sizeof(float)> value_{};
};

Status match_layouts(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_TRY(expect_blocked_type(x));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3, "Rank {} is below 3.", x.shape.rank());
  TENON_UNSUPPORTED_IF(x.shape.element_count() == 0 || y.shape.element_count() == 0, "A tensor is empty.");
  TENON_TRY(expect_layout(x, Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(y, Layout::kBlocked8, "The output"));
  for (size_t i = 1; i < node.inputs.size(); ++i)
    TENON_UNSUPPORTED_IF(node.inputs[i].present() && node.constants[i] == nullptr, "Input {} is not constant.", i);
  return {};
}

// The number around the tensor. Channels of float32 that only fill up the last block have to stay zero.
Result<PadElement> pad_element(const KernelNode& node) {
  const TensorSpec& x = node.inputs[0];
  PadElement element{};
  if (is_byte_type(x.type)) {
    TENON_UNSUPPORTED_IF(has_pad_attributes(*node.node), "Pad of this version is for floats.");
    if (node.inputs.size() < 3 || !node.inputs[2].present()) return element;
    const Constant& value = *node.constants[2];
    TENON_INVALID_IF(value.type != x.type || value.size_bytes != 1, "Pad's value is {}{}, not one {}.",
                     data_type_name(value.type), value.shape.to_string(), data_type_name(x.type));
    element[0] = *value.data.read().get();
    return element;
  }
  float number = 0;
  if (has_pad_attributes(*node.node)) {
    number = pad_value_attribute(*node.node);
  } else if (node.inputs.size() > 2 && node.inputs[2].present()) {
    TENON_TRY_ASSIGN(const std::span<const float> value, constant_floats(node, 2, 1));
    number = value[0];
  }
  TENON_UNSUPPORTED_IF(number != 0 && x.shape[1] % 8 != 0, "{} channels are no whole blocks of 8.", x.shape[1]);
  std::memcpy(element.data(), &number, sizeof(number));
  return element;
}

Result<PadDesc> pad_of(const KernelNode& node) {
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const PadDesc pad, read_pad(*node.node, x, constant_integers(*node.graph, *node.node)));
  const PadAxis& channels = pad.axes[1];
  TENON_UNSUPPORTED_IF(channels.crop != 0 || channels.begin != 0 || channels.kept != x[1] || pad.output[1] != x[1],
                       "Channels are padded.");
  return pad;
}

// A slice is a pad that only takes away.
Result<PadDesc> slice_of(const KernelNode& node) {
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const SliceDesc slice, read_slice(*node.node, x, constant_integers(*node.graph, *node.node)));
  PadDesc pad{.output = slice.output};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const SliceRange& range = slice.ranges[axis];
    TENON_UNSUPPORTED_IF(range.step != 1, "A step of {} is not served.", range.step);
    pad.axes[axis] = {.crop = range.start, .kept = range.count};
  }
  const int64_t begin = slice.ranges[1].start, end = begin + slice.ranges[1].count;
  TENON_UNSUPPORTED_IF(begin % 8 != 0 || (end % 8 != 0 && end != x[1]), "Channels {} to {} are no whole blocks of 8.",
                       begin, end);
  return pad;
}

}  // namespace

Status match_blocked_pad(const KernelNode& node) {
  TENON_TRY(match_layouts(node));
  TENON_TRY(pad_element(node).status());
  return pad_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_blocked_pad(const KernelNode& node) {
  TENON_TRY_ASSIGN(const PadDesc pad, pad_of(node));
  TENON_TRY_ASSIGN(const PadElement value, pad_element(node));
  return std::unique_ptr<Kernel>(std::make_unique<BlockedPad>("blocked_pad", node.inputs[0], pad, value));
}

Status match_blocked_slice(const KernelNode& node) {
  TENON_TRY(match_layouts(node));
  return slice_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_blocked_slice(const KernelNode& node) {
  TENON_TRY_ASSIGN(const PadDesc pad, slice_of(node));
  return std::unique_ptr<Kernel>(std::make_unique<BlockedPad>("blocked_slice", node.inputs[0], pad, PadElement{}));
}

}  // namespace tenon::cpu
