// com.microsoft.nchwc: what ONNX Runtime writes with all of its optimizations. Tensors lie in blocks of channels there,
// and weights in the order of these blocks. Here the tensors stay plain: only weights change back, and channels that
// fill up a block stay what they are, zeros.
#include "plan/expand.h"

namespace tenon::expand {

namespace {

constexpr std::string_view kDomain = "com.microsoft.nchwc";

// ONNX Runtime's blocks on the CPU that runs it: the model does not say for which it was written.
int64_t block_of_this_cpu() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 0;
#endif
}

// Channels of a block: 8 if some convolution has outputs that are no multiple of 16.
int64_t block_of(Expansion& to) {
  for (const Node& node : to.graph().nodes) {
    if (node.domain != kDomain || node.op_type != "Conv" || node.input(1) == kNoValue) continue;
    const ConstantRef& weights = to.value(node.input(1)).constant;
    if (weights != nullptr && weights->shape.rank() > 0 && weights->shape[0] % 16 != 0) return 8;
  }
  return block_of_this_cpu();
}

// Weights [outputs, inputs, height, width] whose elements lie by blocks of outputs, and of inputs if there are as many.
ValueId plain_weights(Expansion& to, const Shape& shape, int64_t block) {
  const int64_t outputs = shape[0], inputs = shape[1], height = shape[2], width = shape[3];
  const ValueId whole = to.constant(shape.dims());
  if (inputs >= block) {
    const ValueId apart = to.reshape(to.in(1), {outputs / block, inputs / block, height, width, block, block});
    return to.add("Reshape", {to.transpose(apart, {0, 5, 1, 4, 2, 3}), whole});
  }
  const ValueId apart = to.reshape(to.in(1), {outputs / block, inputs, height, width, block});
  return to.add("Reshape", {to.transpose(apart, {0, 4, 1, 2, 3}), whole});
}

// X with `channels` of them, those behind its own are zeros.
ValueId filled(Expansion& to, ValueId x, int64_t channels) {
  const int64_t own = to.known_size(x, 1);
  if (own < 0 || own >= channels) return x;
  return to.add("Pad", {x, to.constant({0, 0, 0, 0, 0, channels - own, 0, 0})});
}

void convolve(Expansion& to) {
  const ConstantRef& weights = to.value(to.in(1)).constant;
  const int64_t block = block_of(to);
  const int64_t group = to.attributes().integer("group");
  if (weights == nullptr || weights->shape.rank() != 4) {
    to.fail(unsupported("A convolution in blocks needs constant weights of 4 dimensions."));
  } else if (block == 0) {
    to.fail(unsupported("The model was written by ONNX Runtime for one kind of machine, and does not say which."));
  } else if (weights->shape[0] % block != 0 || (weights->shape[1] >= block && weights->shape[1] % block != 0)) {
    to.fail(invalid_argument("The weights {} are not in blocks of {} channels.", weights->shape.to_string(), block));
  }
  if (!to.status().ok()) return;
  const Shape& shape = weights->shape;
  const ValueId plain = plain_weights(to, shape, block);
  // Conv refuses groups that do not divide the outputs.
  const bool divides = group > 0 && group <= shape[0];
  const ValueId x = divides ? filled(to, to.in(0), shape[1] * group) : to.in(0);
  ValueId y = to.add("Conv", {x, plain, to.in(2)},
                     window_attributes(to, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (to.has(3)) y = to.add("Add", {y, filled(to, to.in(3), shape[0])});
  const std::span<const float> parameters = to.attributes().numbers("activation_params");
  activate(to, y, to.attributes().find_text("activation").value_or(""), {parameters.begin(), parameters.end()},
           to.out(0));
}

void pool(Expansion& to) {
  to.add(to.node().op_type, {to.in(0)},
         window_attributes(to, {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads",
                                "storage_order", "strides"}),
         to.out(0));
}

void reorder_input(Expansion& to) {
  if (to.attributes().flag("channels_last")) {
    to.transpose(to.in(0), {0, 3, 1, 2}, to.out(0));
  } else {
    to.add("Identity", {to.in(0)}, {}, to.out(0));
  }
}

void reorder_output(Expansion& to) {
  const int64_t channels = to.attributes().integer("channels"), own = to.known_size(to.in(0), 1);
  const bool last = to.attributes().flag("channels_last");
  ValueId y = to.in(0);
  if (channels < 0 || (own >= 0 && channels > own)) {
    to.fail(invalid_argument("ReorderOutput keeps {} channels of {}.", channels, own));
    return;
  }
  if (channels > 0 && own != channels)
    y = to.add("Slice", {y, to.constant({0}), to.constant({channels}), to.constant({1})});
  if (last) {
    to.transpose(y, {0, 2, 3, 1}, to.out(0));
  } else {
    to.add("Identity", {y}, {}, to.out(0));
  }
}

void upsample(Expansion& to) {
  const Attributes attributes = to.attributes();
  const std::string_view mode = attributes.text("mode");
  SetAttributes set{
      text("mode", std::string(mode)),
      text("coordinate_transformation_mode", std::string(attributes.text("coordinate_transformation_mode")))};
  if (mode == "nearest") set.push_back(text("nearest_mode", "floor"));
  const std::span<const int64_t> scales = attributes.integers("scales");
  const std::vector<float> factors(scales.begin(), scales.end());
  to.add("Resize", {to.in(0), kNoValue, to.numbers(factors)}, set, to.out(0));
}

constexpr Row kRows[] = {
    {kDomain, "AveragePool", &pool},
    {kDomain, "Conv", &convolve},
    {kDomain, "GlobalAveragePool", &pool},
    {kDomain, "GlobalMaxPool", &pool},
    {kDomain, "MaxPool", &pool},
    {kDomain, "ReorderInput", &reorder_input},
    {kDomain, "ReorderOutput", &reorder_output},
    {kDomain, "Upsample", &upsample},
};

}  // namespace

std::span<const Row> blocked_rows() { return kRows; }

}  // namespace tenon::expand
