// Convolutions of other than one or two spatial dimensions. Those of three are convolutions of two: what the window
// sees along the depth becomes further channels. For the others an output element has a thread.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"
#include "ep/cuda/ops/conv/lower.h"
#include "ep/cuda/ops/elementwise/lower.h"

namespace tenon::cuda {

namespace {

// [O,I,D,H,W] as [O][H][W][D][I], the last two padded with zeros to `padded` in all.
void pack_volume(const Constant& from, int64_t padded, DataType type, bool tf32, std::byte* out) {
  const std::vector<float> w = floats_of(from);
  const int64_t outputs = from.shape[0], channels = from.shape[1], depth = from.shape[2];
  const int64_t area = from.shape[3] * from.shape[4];
  std::vector<float> packed(static_cast<size_t>(outputs * area * padded));
  size_t next = 0;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t d = 0; d < depth; ++d)
        for (int64_t k = 0; k < area; ++k)
          packed[static_cast<size_t>((o * area + k) * padded + d * channels + c)] = w[next++];
  round_weights(packed, type, tf32);
  store_floats(packed, type, out);
}

// [N, output depth, H, W, padded]: of each pixel what the window sees of it along the depth, by place and channel.
Result<TensorId> unfold_depth(Lowering& to, const Node& node, const Shape& x, const WindowAxis& depth, int64_t padded) {
  const DataType type = to.type_of(node.inputs[0]);
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));
  // Whole vectors where they are one place's; otherwise elements, wherever they lie.
  const bool packs = x[1] % vector == 0;
  TENON_TRY_ASSIGN(const TensorId from, packs ? to.channels_last(node.inputs[0]) : to.any(node.inputs[0]));
  const std::vector<int64_t> strides = to.program().tensor(from).strides();
  TENON_TRY_ASSIGN(const TensorId unfolded, to.program().add_tensor(type, Shape{x[0] * depth.out, padded, x[3], x[4]},
                                                                    DeviceLayout::kChannelsLast));
  MapKernel kernel(to, node, "unfold_depth");
  // A thread writes a whole vector.
  kernel.map().dims = {x[0], depth.out, x[3], x[4], padded / vector};
  kernel.read(from, "a");
  kernel.write(unfolded, "y");
  const std::string element = format("Pack<{}, {}>", storage_type(type), vector);
  const std::string place = format("  const place_t p = (place_t)i1 * {} - {} + (place_t)tap * {};\n", depth.stride,
                                   depth.pad_begin, depth.dilation);
  const std::string inside = format("tap < {}u && p >= 0 && p < {}", depth.kernel, depth.in);
  const std::string read = format("a + i0 * {} + p * {} + i2 * {} + i3 * {} + channel * {}", strides[0], strides[2],
                                  strides[3], strides[4], strides[1]);
  kernel.body() = format("  {} v = {{}};\n", element);
  if (packs) {
    kernel.body() +=
        format("  const index_t tap = i4 / {0}u, channel = i4 % {0}u * {1}u;\n{2}  if ({3}) v = *(const {4}*)({5});\n",
               x[1] / vector, vector, place, inside, element, read);
  } else {
    kernel.body() += format(
        "#pragma unroll\n  for (index_t j = 0; j < {0}u; ++j) {{\n    const index_t at = i4 * {0}u + j;\n"
        "    const index_t tap = at / {1}u, channel = at % {1}u;\n  {2}    if ({3}) v.v[j] = *({4});\n  }}\n",
        vector, x[1], place, inside, read);
  }
  kernel.body() += format("  *({}*)(y + flat * {}u) = v;\n", element, vector);
  TENON_TRY(kernel.add());
  return unfolded;
}

// Nothing where the numbers are too many for the kernels of two dimensions.
Result<bool> lower_volume(Lowering& to, const Node& node, const Epilogue& epilogue, const ConvDesc& conv) {
  const Shape x = to.value(node.inputs[0]).shape(), w = to.value(node.inputs[1]).shape();
  const Shape y = to.value(node.outputs[0]).shape();
  const std::vector<WindowAxis>& axes = conv.window.axes;
  const DataType type = to.type_of(node.inputs[0]);
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));
  const WindowAxis& depth = axes[0];
  const int64_t padded = (depth.kernel * x[1] + vector - 1) / vector * vector;
  const int64_t images = x[0] * depth.out, pixels = images * y[3] * y[4];
  if (images * x[3] * x[4] * padded > INT32_MAX || pixels > INT32_MAX || w[0] * w[3] * w[4] * padded > INT32_MAX)
    return false;
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  ConvParams params;
  params.pixels = narrow(pixels), params.channels = narrow(w[0]), params.depth = narrow(w[3] * w[4] * padded);
  params.in_h = narrow(x[3]), params.in_w = narrow(x[4]), params.in_c = narrow(padded);
  params.out_h = narrow(y[3]), params.out_w = narrow(y[4]);
  params.kernel_h = narrow(w[3]), params.kernel_w = narrow(w[4]);
  params.stride_h = narrow(axes[1].stride), params.stride_w = narrow(axes[2].stride);
  params.pad_h = narrow(axes[1].pad_begin), params.pad_w = narrow(axes[2].pad_begin);
  params.dilation_h = narrow(axes[1].dilation), params.dilation_w = narrow(axes[2].dilation);
  ConvTensors tensors;
  const bool flat = depth.kernel == 1 && depth.stride == 1 && depth.pad_begin == 0 && padded == x[1];
  TENON_TRY_ASSIGN(tensors.x, flat ? to.channels_last(node.inputs[0]) : unfold_depth(to, node, x, depth, padded));
  const bool tf32 = rounds_to_tf32(to.options().tf32, pixels);
  TENON_TRY_ASSIGN(tensors.w, to.packed_constant(node.inputs[1], format("volume {}{}", padded, tf32 ? " tf32" : ""),
                                                 type, Shape{w[0], w[3] * w[4], padded},
                                                 [padded, type, tf32](const Constant& from, std::byte* out) {
                                                   pack_volume(from, padded, type, tf32, out);
                                                 }));
  TENON_TRY(finish_conv(to, node, params, epilogue, tensors, [padded](const Constant& from, std::byte* out) {
    pack_volume(from, padded, DataType::kFloat, false, out);
  }));
  return true;
}

}  // namespace

Status lower_plain_conv(Lowering& to, const Node& node, const ConvDesc& conv) {
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), w = to.value(node.inputs[1]).shape();
  const Shape y = to.value(node.outputs[0]).shape();
  TENON_UNSUPPORTED_IF(compute_type(type) != "float", "{} is computed in {}.", to.label(node), data_type_name(type));
  if (x.rank() == 5 && conv.group == 1 && to.constant(node.inputs[1]) != nullptr && x.element_count() != 0 &&
      w.element_count() != 0) {
    TENON_TRY_ASSIGN(const bool done, lower_volume(to, node, epilogue, conv));
    if (done) return Status();
  }
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(node.inputs[1]));
  MapKernel kernel(to, node, "plain_conv");
  kernel.map().dims = dims_of(y);
  kernel.read(from, "a");
  kernel.read(weights, "w");
  std::string& body = kernel.body();
  body = format("  float sum = 0;\n  const index_t first = i0 * {} + i1 / {}u * {}u, row = i1 * {}u;\n", x[1],
                std::max<int64_t>(conv.group_outputs(), 1), w[1], w[1]);
  body += format("  for (index_t c = 0; c < {}u; ++c) {{\n", w[1]);
  std::string indent = "    ", place = "(first + c)", tap = "(row + c)";
  for (int d = 2; d < x.rank(); ++d) {
    const WindowAxis& axis = conv.axis(d - 2);
    body += format(
        "{0}for (int k{1} = 0; k{1} < {2}; ++k{1}) {{\n{0}  const place_t p{1} = (place_t)i{1} * {3} - {4} + k{1} * "
        "{5};\n"
        "{0}  if (p{1} < 0 || p{1} >= {6}) continue;\n",
        indent, d, w[d], axis.stride, axis.pad_begin, axis.dilation, x[d]);
    indent += "  ";
    place = format("({} * {} + p{})", place, x[d], d);
    tap = format("({} * {} + k{})", tap, w[d], d);
  }
  body += format("{}sum += {} * {};\n", indent, loaded(type, "a[" + place + "]"), loaded(type, "w[" + tap + "]"));
  for (int d = x.rank() - 1; d >= 1; --d) body += std::string(static_cast<size_t>(2 * d), ' ') + "}\n";
  if (node.input(2) != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId bias, to.plain(node.inputs[2]));
    kernel.read(bias, "b");
    body += format("  sum += {};\n", loaded(to.program().tensor(bias).type, "b[i1]"));
  }
  std::string residual;
  if (node.input(3) != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId other, to.plain(node.inputs[3]));
    kernel.read(other, "r");
    residual = format("  sum += {};\n", loaded(to.program().tensor(other).type, "r[flat]"));
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  kernel.write(out, "y");
  if (!epilogue.residual_after) body += residual;
  if (epilogue.activation != Activation::kNone) body += format("  sum = {};\n", activation_expression(epilogue, "sum"));
  if (epilogue.residual_after) body += residual;
  body += format("  y[flat] = {};\n", stored(type, "sum"));
  return kernel.add();
}

}  // namespace tenon::cuda
