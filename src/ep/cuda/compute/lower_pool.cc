// Pools of any rank and type, and those that say where their elements came from: an output element has a thread.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"

namespace tenon::cuda {

namespace {

struct PoolAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, pad_end = 0;
};

Result<std::vector<PoolAxis>> read_axes(const Lowering& to, const Node& node, const Shape& x, const Shape& y) {
  const auto kernel = node.ints("kernel_shape"), strides = node.ints("strides"), pads = node.ints("pads"),
             dilations = node.ints("dilations");
  const std::string_view auto_pad = node.string_or("auto_pad", "NOTSET");
  const auto spatial = static_cast<size_t>(x.rank() - 2);
  TENON_INVALID_IF(kernel.size() != spatial, "{} has a kernel of {} dimensions for {}.", to.label(node), kernel.size(),
                   x.to_string());
  std::vector<PoolAxis> axes;
  for (size_t i = 0; i < spatial; ++i) {
    const int at = static_cast<int>(i) + 2;
    PoolAxis axis{.in = x[at], .out = y[at], .kernel = kernel[i]};
    if (i < strides.size()) axis.stride = strides[i];
    if (i < dilations.size()) axis.dilation = dilations[i];
    TENON_INVALID_IF(axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1, "{} has a bad window.", to.label(node));
    if (auto_pad.starts_with("SAME")) {
      const int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
      const int64_t total = std::max<int64_t>(0, (axis.out - 1) * axis.stride + reach - axis.in);
      axis.pad = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
      axis.pad_end = total - axis.pad;
    } else if (pads.size() == 2 * spatial && auto_pad == "NOTSET") {
      axis.pad = pads[i];
      axis.pad_end = pads[i + spatial];
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Status lower_general_pool(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  const Shape x = tensor.shape, y = to.value(node.outputs[0]).shape();
  TENON_INVALID_IF(x.rank() < 3 || y.rank() != x.rank(), "{} pools {}.", to.label(node), x.to_string());
  TENON_UNSUPPORTED_IF(tensor.type == DataType::kBool, "{} pools truth values.", to.label(node));
  TENON_TRY_ASSIGN(const std::vector<PoolAxis> axes, read_axes(to, node, x, y));
  const bool average = node.op_type == "AveragePool", power = node.op_type == "LpPool", most = !average && !power;
  const std::string type = compute_type(tensor.type);
  TENON_UNSUPPORTED_IF(!most && type != "float" && type != "double", "{} pools {}.", to.label(node),
                       data_type_name(tensor.type));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  MapKernel kernel(to, node, "pool");
  kernel.map().dims = dims_of(y);
  kernel.read(from, "a");
  kernel.write(out, "y");
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  if (indices) {
    TENON_UNSUPPORTED_IF(!most, "{} gives indices.", to.label(node));
    TENON_TRY_ASSIGN(const TensorId index, to.make(node.outputs[1]));
    kernel.write(index, "z");
  }
  const bool columns = node.int_or("storage_order", 0) != 0;
  std::string& body = kernel.body();
  body = format("  {} acc = 0;\n  long long where = 0;\n  int inside = 0, padded = 0;\n", type);
  std::string indent = "  ", address = "i0 * " + format("{}", x[1]) + " + i1", outside, counts;
  std::string place = format("((long long)i0 * {} + i1)", x[1]), reversed = "0";
  for (size_t d = 0; d < axes.size(); ++d) {
    const PoolAxis& axis = axes[d];
    body += format(
        "{0}for (int k{1} = 0; k{1} < {2}; ++k{1}) {{\n{0}const place_t p{1} = (place_t)i{3} * {4} - {5} + k{1} * "
        "{6};\n",
        indent, d, axis.kernel, d + 2, axis.stride, axis.pad, axis.dilation);
    indent += "  ";
    counts += format("{}p{} < {}", d == 0 ? "" : " && ", d, axis.in + axis.pad_end);
    outside += format("{0}p{1} < 0 || p{1} >= {2}", d == 0 ? "" : " || ", d, axis.in);
    address = format("({}) * {} + p{}", address, axis.in, d);
    place += format(" * {}", axis.in);
  }
  // Where an element is among those of its image, counted along columns.
  for (size_t d = axes.size(); d-- > 0;) reversed = format("({} * {} + p{})", reversed, axes[d].in, d);
  body += format("{0}padded += {1};\n{0}if ({2}) continue;\n{0}const index_t at = {3};\n{0}const {4} v = {5};\n",
                 indent, counts, outside, address, type, loaded(tensor.type, "a[at]"));
  if (most) {
    body += format("{}if (inside == 0 || v > acc || v != v) {{ acc = v; where = {}; }}\n{}++inside;\n", indent,
                   columns ? place + " + " + reversed : "(long long)at", indent);
  } else if (average) {
    body += indent + "acc += v; ++inside;\n";
  } else {
    const int64_t p = node.int_or("p", 2);
    const std::string size = type == "double" ? "fabs(v)" : "fabsf(v)";
    body += format("{}acc += {}; ++inside;\n", indent,
                   p == 1   ? size
                   : p == 2 ? std::string("v * v")
                            : format("power({}, ({}){})", size, type, p));
  }
  for (size_t d = axes.size(); d > 0; --d) body += std::string(2 * d, ' ') + "}\n";
  if (most)
    body += format("  if (inside == 0) acc = {};\n", type == "float" || type == "double" ? "-infinity_()" : "0");
  if (average)
    body += format("  acc /= ({})({});\n", type, node.int_or("count_include_pad", 0) != 0 ? "padded" : "inside");
  if (power) {
    const int64_t p = node.int_or("p", 2);
    if (p == 2) body += format("  acc = {}(acc);\n", type == "double" ? "sqrt" : "sqrtf");
    if (p != 1 && p != 2) body += format("  acc = power(acc, ({})(1.0 / {}));\n", type, p);
  }
  body += format("  y[flat] = {};\n", stored(tensor.type, "acc"));
  if (indices) body += "  z[flat] = where;\n";
  return kernel.add();
}

}  // namespace tenon::cuda
