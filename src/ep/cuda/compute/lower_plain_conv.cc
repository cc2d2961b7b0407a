// Convolutions of other than one or two spatial dimensions: an output element has a thread.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/elementwise.h"
#include "ep/cuda/compute/lowering_maps.h"

namespace tenon::cuda {

Status lower_plain_conv(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(node.inputs[1]));
  const DataType type = to.program().tensor(from).type;
  const Shape x = to.program().tensor(from).shape, w = to.program().tensor(weights).shape;
  const Shape y = to.value(node.outputs[0]).shape();
  TENON_UNSUPPORTED_IF(compute_type(type) != "float", "{} is computed in {}.", to.label(node), data_type_name(type));
  TENON_INVALID_IF(x.rank() < 3 || w.rank() != x.rank() || y.rank() != x.rank(), "{} has weights of {} for {}.",
                   to.label(node), w.to_string(), x.to_string());
  const int64_t group = node.int_or("group", 1);
  TENON_INVALID_IF(group < 1 || w[0] % group != 0 || w[1] * group != x[1], "{} has {} channels in {} groups.",
                   to.label(node), x[1], group);
  const auto strides = node.ints("strides"), dilations = node.ints("dilations"), pads = node.ints("pads");
  const std::string_view auto_pad = node.string_or("auto_pad", "NOTSET");
  MapKernel kernel(to, node, "plain_conv");
  kernel.map().dims = dims_of(y);
  kernel.read(from, "a");
  kernel.read(weights, "w");
  std::string& body = kernel.body();
  body = format("  float sum = 0;\n  const index_t first = i0 * {} + i1 / {}u * {}u, row = i1 * {}u;\n", x[1],
                std::max<int64_t>(w[0] / group, 1), w[1], w[1]);
  body += format("  for (index_t c = 0; c < {}u; ++c) {{\n", w[1]);
  std::string indent = "    ", place = "(first + c)", tap = "(row + c)";
  for (int d = 2; d < x.rank(); ++d) {
    const auto at = static_cast<size_t>(d - 2);
    const int64_t stride = at < strides.size() ? strides[at] : 1, dilation = at < dilations.size() ? dilations[at] : 1;
    int64_t pad = at < pads.size() && auto_pad == "NOTSET" ? pads[at] : 0;
    if (auto_pad.starts_with("SAME")) {
      const int64_t total = std::max<int64_t>(0, (y[d] - 1) * stride + (w[d] - 1) * dilation + 1 - x[d]);
      pad = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
    }
    body += format(
        "{0}for (int k{1} = 0; k{1} < {2}; ++k{1}) {{\n{0}  const place_t p{1} = (place_t)i{1} * {3} - {4} + k{1} * "
        "{5};\n"
        "{0}  if (p{1} < 0 || p{1} >= {6}) continue;\n",
        indent, d, w[d], stride, pad, dilation, x[d]);
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
