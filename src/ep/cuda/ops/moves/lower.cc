// Lowers operators that reinterpret, join, split or fill tensors.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/moves/concat_params.h"
#include "ep/cuda/ops/moves/pad_params.h"
#include "ops/axes.h"
#include "ops/concat.h"
#include "ops/depth_to_space.h"
#include "ops/generate.h"
#include "ops/pad.h"
#include "ops/reshape.h"
#include "ops/split.h"

namespace tenon::cuda {

Status lower_reshape(Lowering& to, const Node& node) {
  for (size_t i = 1; i < node.outputs.size(); ++i)
    TENON_UNSUPPORTED_IF(node.outputs[i] != kNoValue, "{} has a second output.", to.label(node));
  // Dropout trains where its third input says so.
  if (const ValueId training = node.op_type == "Dropout" ? node.input(2) : kNoValue; training != kNoValue) {
    const ConstantRef& held = to.constant(training);
    TENON_UNSUPPORTED_IF(held == nullptr || held->size_bytes != 1 || held->data[0] != std::byte{0},
                         "{} may drop elements.", to.label(node));
  }
  TENON_UNSUPPORTED_IF(!to.value(node.outputs[0]).fully_known(), "The shape of {} is only known at run time.",
                       to.label(node));
  const Shape shape = to.value(node.outputs[0]).shape();
  TENON_TRY_ASSIGN(const TensorId whole, to.any(node.inputs[0]));
  const Shape whole_shape = to.program().tensor(whole).shape;
  // Images and their channels stay what they are: so they may lie with channels last.
  const bool same_channels = whole_shape == shape || (whole_shape.rank() >= 3 && shape.rank() >= 3 &&
                                                      whole_shape[0] == shape[0] && whole_shape[1] == shape[1]);
  TensorId from = whole;
  if (!same_channels) {
    TENON_TRY_ASSIGN(from, to.plain(node.inputs[0]));
  }
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_INVALID_IF(tensor.shape.element_count() != shape.element_count(), "{} makes {} of {}.", to.label(node),
                   shape.to_string(), tensor.shape.to_string());
  to.alias(node.outputs[0], to.program().add_view(from, tensor.type, shape, tensor.layout));
  return Status();
}

// Tensors that the host leaves to the device: large ones, and those of types that shapes and masks are not computed in.
Status lower_constant_of_shape(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(out);
  if (tensor.shape.element_count() == 0) return Status();
  const ConstantRef value = read_fill_value(node);
  const DataType type = tensor.type;
  TENON_INVALID_IF(value != nullptr && value->shape.element_count() != 1, "{} is to be filled with {} values.",
                   to.label(node), value->shape.element_count());
  std::vector<std::byte> bits(data_type_size(type));  // zero is zero in each type
  if (value != nullptr && value->type == type) {
    std::memcpy(bits.data(), value->data, bits.size());
  } else if (value != nullptr) {
    TENON_UNSUPPORTED_IF(value->type != DataType::kFloat, "{} fills {} with {}.", to.label(node), data_type_name(type),
                         data_type_name(value->type));
    convert_floats(*value, type, bits.data());
  }
  std::string key = "fill:" + std::string(data_type_name(type));
  for (const std::byte byte : bits) key += format(":{}", static_cast<int>(byte));
  TENON_TRY_ASSIGN(const TensorId number,
                   to.program().add_constant(type, Shape{}, std::move(key),
                                             [bits](std::byte* to) { std::copy(bits.begin(), bits.end(), to); }));
  return to.add_generated(node, "fill",
                          {.dims = {tensor.shape.begin(), tensor.shape.end()},
                           .type = type,
                           .strides = tensor.strides(),
                           .leaves = {{.type = type, .strides = std::vector<int64_t>(tensor.shape.rank(), 0)}}},
                          {number}, {}, out);
}

namespace {

// Joins tensors that lie as the result does, from the element `first` of its rows on: what is inside the axis, and the
// axis, is a row.
Status join_rows(Lowering& to, const Node& node, int axis, std::span<const TensorId> parts, int64_t first,
                 TensorId out) {
  const auto row_of = [&](TensorId id) {
    const DeviceTensor& tensor = to.program().tensor(id);
    return tensor.shape[axis] * tensor.strides()[axis];
  };
  const DeviceTensor whole = to.program().tensor(out);
  const auto element = static_cast<int64_t>(data_type_size(whole.type));
  // The widest vector that all rows consist of.
  int64_t bytes = 16;
  const auto fit = [&](int64_t value) {
    while (value % bytes != 0) bytes /= 2;
  };
  fit(first * element);
  fit(row_of(out) * element);
  for (TensorId part : parts) {
    fit(row_of(part) * element);
    fit(static_cast<int64_t>(to.program().tensor(part).offset_bytes));
  }
  const auto vectors = [&](int64_t elements) { return elements * element / bytes; };
  ConcatParams params{.row = vectors(row_of(out)), .first = vectors(first)};
  int64_t width = 0;
  for (size_t n = 0; n < parts.size(); ++n) {
    params.begins[n] = width;
    params.widths[n] = vectors(row_of(parts[n]));
    width += params.widths[n];
  }
  params.width = make_divisor(width);
  params.count = whole.shape.element_count() / row_of(out) * width;
  const DataType word = bytes == 1 ? DataType::kUint8 : bytes == 2 ? DataType::kUint16 : DataType::kUint32;
  const int64_t words = std::max<int64_t>(bytes / 4, 1);
  std::string types;
  for (size_t n = 0; n < parts.size(); ++n) types += (n == 0 ? "" : ", ") + template_type(word);
  const std::string instance = template_instance("concat", word, words, is_wide(to, {}, {out}), types);
  return add_map(to, node, "concat", "ep/cuda/ops/moves/concat.cuh", instance, params, params.count,
                 {parts.begin(), parts.end()}, {out});
}

}  // namespace

Status lower_concat(Lowering& to, const Node& node) {
  const Shape shape = to.value(node.outputs[0]).shape();
  TENON_TRY_ASSIGN(const int axis, read_concat_axis(node, shape.rank()));
  const bool channels_last = shape.rank() >= 3 && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                               return to.constant(id) == nullptr && to.is_channels_last(id);
                             });
  const DeviceLayout layout = channels_last ? DeviceLayout::kChannelsLast : DeviceLayout::kPlain;
  std::vector<TensorId> parts;
  for (ValueId id : node.inputs) {
    TENON_TRY_ASSIGN(const TensorId part, to.any(id));
    if (to.program().tensor(part).shape.element_count() != 0) parts.push_back(part);
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], layout));
  const DeviceTensor whole = to.program().tensor(out);
  const std::vector<int64_t> strides = whole.strides();
  const auto lies_so = [&](TensorId id) { return shape.rank() < 3 || to.program().tensor(id).layout == layout; };
  int64_t at = 0;
  for (size_t first = 0; first < parts.size();) {
    size_t count = 0;
    int64_t length = 0;
    while (count < kMostJoined && first + count < parts.size() && lies_so(parts[first + count]))
      length += to.program().tensor(parts[first + count++]).shape[axis];
    if (count >= 2) {
      TENON_TRY(join_rows(to, node, axis, std::span(parts).subspan(first, count), at * strides[axis], out));
    } else {
      count = 1;
      const DeviceTensor tensor = to.program().tensor(parts[first]);
      length = tensor.shape[axis];
      TENON_TRY(to.add_generated(node, "concat",
                                 {.dims = {tensor.shape.begin(), tensor.shape.end()},
                                  .type = tensor.type,
                                  .strides = strides,
                                  .offset = at * strides[axis],
                                  .leaves = {{.type = tensor.type, .strides = tensor.strides()}}},
                                 {parts[first]}, {}, out));
    }
    at += length;
    first += count;
  }
  return Status();
}

namespace {

// Kernels and libraries read tensors from such addresses on.
constexpr size_t kPartAlignment = 256;

// Whether only elementwise steps read the value: they may read it where it lies within another tensor.
bool is_read_by_steps(const Lowering& to, ValueId id) {
  const auto& readers = to.readers(id);
  return !to.is_output(id) && !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    static constexpr auto kMoves = std::to_array<std::string_view>(
        {"Transpose", "Slice", "Gather", "Pad", "BatchNormalization", "QuantizeLinear", "DequantizeLinear"});
    const Node& node = to.graph().nodes[reader];
    return is_elementwise(to.graph(), node) && std::find(kMoves.begin(), kMoves.end(), node.op_type) == kMoves.end();
  });
}

}  // namespace

Status lower_split(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY_ASSIGN(const int axis, read_split_axis(node, tensor.shape.rank()));
  const std::vector<int64_t> strides = tensor.strides();
  // Everything before the axis is one element: the parts lie whole.
  const bool whole_parts = tensor.layout == DeviceLayout::kPlain && span_product(tensor.shape, 0, axis) == 1;
  int64_t at = 0;
  for (ValueId id : node.outputs) {
    if (id == kNoValue) return unsupported("{} lacks an output.", to.label(node));
    const Shape shape = to.value(id).shape();
    const int64_t offset = at * strides[axis];
    if (const auto bytes = static_cast<size_t>(offset) * data_type_size(tensor.type);
        whole_parts && bytes % kPartAlignment == 0 && !to.is_output(id) && shape.element_count() != 0) {
      to.alias(id, to.program().add_view(from, tensor.type, shape, tensor.layout, bytes));
      at += shape[axis];
      continue;
    }
    if (is_read_by_steps(to, id)) {
      to.add_part(id, {from, strides, offset});
      at += shape[axis];
      continue;
    }
    TENON_TRY_ASSIGN(const TensorId out, to.make(id, tensor.layout));
    const GeneratedElementwise kernel{.dims = {shape.begin(), shape.end()},
                                      .type = tensor.type,
                                      .strides = to.program().tensor(out).strides(),
                                      .leaves = {{.type = tensor.type, .strides = strides, .offset = offset}}};
    at += shape[axis];
    if (shape.element_count() != 0) TENON_TRY(to.add_generated(node, "split", kernel, {from}, {}, out));
  }
  return Status();
}

namespace {

// A move between parts of dimensions: each has a size, and strides of the output and of the input.
class PartMove {
 public:
  PartMove(DataType type) {
    kernel_.type = type;
    kernel_.leaves = {{.type = type}};
  }
  void part(int64_t size, int64_t written, int64_t read) {
    kernel_.dims.push_back(size);
    kernel_.strides.push_back(written);
    kernel_.leaves[0].strides.push_back(read);
  }
  Status add(Lowering& to, const Node& node, TensorId from, TensorId out) {
    if (to.program().tensor(out).shape.element_count() == 0) return Status();
    return to.add_generated(node, node.op_type, kernel_, {from}, {}, out);
  }

 private:
  GeneratedElementwise kernel_;
};

}  // namespace

Status lower_tile(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const std::vector<int64_t> repeats, to.integers(node, 1));
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY(tiled(tensor.shape, repeats).status());
  const std::vector<int64_t> read = tensor.strides(), written = to.program().tensor(out).strides();
  PartMove move(tensor.type);
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t size = tensor.shape[static_cast<int>(d)];
    move.part(repeats[d], size * written[d], 0);
    move.part(size, written[d], read[d]);
  }
  return move.add(to, node, from, out);
}

// DepthToSpace and SpaceToDepth.
Status lower_blocks(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY_ASSIGN(const DepthToSpaceDesc desc, read_depth_to_space(node, tensor.shape.dims()));
  const int64_t block = desc.block, channels = desc.channels, step = desc.depth_first ? channels : 1;
  const bool spread = desc.to_space;
  // The deep side has the block in its channels, the wide side in its pixels.
  const std::vector<int64_t> read = tensor.strides(), written = to.program().tensor(out).strides();
  const std::vector<int64_t>&of_deep = spread ? read : written, &of_wide = spread ? written : read;
  PartMove move(tensor.type);
  const auto part = [&](int64_t size, int64_t in_deep, int64_t in_wide) {
    move.part(size, spread ? in_wide : in_deep, spread ? in_deep : in_wide);
  };
  part(desc.batch, of_deep[0], of_wide[0]);
  part(channels, of_deep[1] * (desc.depth_first ? 1 : block * block), of_wide[1]);
  part(desc.height, of_deep[2], of_wide[2] * block);
  part(block, of_deep[1] * block * step, of_wide[2]);
  part(desc.width, of_deep[3], of_wide[3] * block);
  part(block, of_deep[1] * step, of_wide[3]);
  return move.add(to, node, from, out);
}

// Pad by what is there: its edge, its mirror, or from the other side. Negative pads crop first: `kept` elements from
// `crop` on are what is repeated.
Status lower_mirror_pad(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  const Shape x = to.program().tensor(from).shape;
  TENON_TRY_ASSIGN(const PadDesc pad, read_pad(node, x, to.integers_of(node)));
  TENON_UNSUPPORTED_IF(pad.mode == PadMode::kConstant, "{} pads with a constant.", to.label(node));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const Shape y = to.program().tensor(out).shape;
  if (y.element_count() == 0) return Status();
  TENON_UNSUPPORTED_IF(x.rank() > kMostRank, "{} pads rank {}; kernels take {}.", to.label(node), x.rank(), kMostRank);
  const DeviceTensor tensor = to.program().tensor(from);
  const std::vector<int64_t> strides = tensor.strides();
  MirrorPadParams params{.count = y.element_count()};
  for (int d = 0; d < x.rank(); ++d) {
    const PadAxis& axis = pad.axes[d];
    // A mirror image does not repeat the elements at its ends.
    const int64_t period = pad.mode == PadMode::kReflect ? std::max<int64_t>(2 * (axis.kept - 1), 1) : axis.kept;
    params.dims[d] = make_divisor(y[d]);
    params.axes[d] = {.begin = axis.begin,
                      .size = axis.kept,
                      .crop = axis.crop,
                      .stride = strides[d],
                      .period = make_divisor(std::max<int64_t>(period, 1)),
                      .shift = period <= 0 ? 0 : (period - axis.begin % period) % period};
  }
  const TemplateEnum mode{.type = "tenon::cuda::MirrorPad",
                          .value = static_cast<int>(pad.mode == PadMode::kEdge      ? MirrorPad::kEdge
                                                    : pad.mode == PadMode::kReflect ? MirrorPad::kReflect
                                                                                    : MirrorPad::kWrap)};
  const std::string instance =
      template_instance("mirror_pad", mode, tensor.type, std::max(x.rank(), 1), is_wide(to, {}, {from, out}));
  return add_map(to, node, "pad", "ep/cuda/ops/moves/pad.cuh", instance, params, params.count, {from}, {out});
}

// The same bits as another type.
Status lower_bit_cast(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  const DataType type = to.type_of(node.outputs[0]);
  TENON_UNSUPPORTED_IF(data_type_size(type) != data_type_size(tensor.type), "{} makes {} of {}.", to.label(node),
                       data_type_name(type), data_type_name(tensor.type));
  to.alias(node.outputs[0], to.program().add_view(from, type, tensor.shape, tensor.layout));
  return Status();
}

}  // namespace tenon::cuda
