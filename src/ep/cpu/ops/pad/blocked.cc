// Pad and Slice of spatial dimensions on the blocked layout, where pixels of 8 channels move.
#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/pad/fill.h"
#include "ops/slice.h"

namespace tenon::cpu {

namespace {

class BlockedPad final : public Kernel {
 public:
  BlockedPad(std::string_view name, const Shape& x, PadDesc pad, float value) : name_(name), x_(x), pad_(pad) {
    value_.fill(value);
    const int64_t blocks = (x[1] + 7) / 8;
    x_[1] = pad_.output[1] = pad_.axes[1].kept = blocks;
  }

  Status run(KernelContext& context) const override {
    ref::fill_padded(x_, pad_, sizeof(value_), context.input<std::byte>(0),
                     reinterpret_cast<const std::byte*>(value_.data()), context.output<std::byte>(0), *context.pool);
    return {};
  }
  bool reads(size_t input) const override { return input == 0; }
  std::string_view name() const override { return name_; }

 private:
  std::string_view name_;
  Shape x_;  // in pixels of 8 channels
  PadDesc pad_;
  std::array<float, 8> value_;
};

Status match_layouts(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3, "Rank {} is below 3.", x.shape.rank());
  TENON_UNSUPPORTED_IF(x.shape.element_count() == 0 || y.shape.element_count() == 0, "A tensor is empty.");
  TENON_TRY(expect_layout(x, Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(y, Layout::kBlocked8, "The output"));
  for (size_t i = 1; i < node.inputs.size(); ++i)
    TENON_UNSUPPORTED_IF(node.inputs[i].present() && node.constants[i] == nullptr, "Input {} is not constant.", i);
  return {};
}

// The number around the tensor. Channels that only fill up the last block have to stay zero.
Result<float> pad_number(const KernelNode& node) {
  float number = 0;
  if (has_pad_attributes(*node.node)) {
    number = pad_value_attribute(*node.node);
  } else if (node.inputs.size() > 2 && node.inputs[2].present()) {
    TENON_TRY_ASSIGN(const std::span<const float> value, constant_floats(node, 2, 1));
    number = value[0];
  }
  TENON_UNSUPPORTED_IF(number != 0 && node.inputs[0].shape[1] % 8 != 0, "{} channels are no whole blocks of 8.",
                       node.inputs[0].shape[1]);
  return number;
}

bool leaves_channels(const PadDesc& pad, const Shape& x) {
  const PadAxis& channels = pad.axes[1];
  return channels.crop == 0 && channels.begin == 0 && channels.kept == x[1] && pad.output[1] == x[1];
}

Result<PadDesc> pad_of(const KernelNode& node) {
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const PadDesc pad, read_pad(*node.node, x, constant_integers(*node.graph, *node.node)));
  TENON_UNSUPPORTED_IF(!leaves_channels(pad, x), "Channels are padded.");
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
  TENON_UNSUPPORTED_IF(!leaves_channels(pad, x), "Channels are taken away.");
  return pad;
}

}  // namespace

Status match_blocked_pad(const KernelNode& node) {
  TENON_TRY(match_layouts(node));
  TENON_TRY(pad_number(node).status());
  return pad_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_blocked_pad(const KernelNode& node) {
  TENON_TRY_ASSIGN(const PadDesc pad, pad_of(node));
  TENON_TRY_ASSIGN(const float number, pad_number(node));
  return std::unique_ptr<Kernel>(std::make_unique<BlockedPad>("blocked_pad", node.inputs[0].shape, pad, number));
}

Status match_blocked_slice(const KernelNode& node) {
  TENON_TRY(match_layouts(node));
  return slice_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_blocked_slice(const KernelNode& node) {
  TENON_TRY_ASSIGN(const PadDesc pad, slice_of(node));
  return std::unique_ptr<Kernel>(std::make_unique<BlockedPad>("blocked_slice", node.inputs[0].shape, pad, 0.0f));
}

}  // namespace tenon::cpu
