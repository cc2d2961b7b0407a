// Pools of any rank and type, and those that say where their elements came from: an output element has a thread.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"

namespace tenon::cuda {

Status lower_general_pool(Lowering& to, const Node& node, const PoolDesc& pool) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  const Shape x = tensor.shape, y = to.value(node.outputs[0]).shape();
  TENON_UNSUPPORTED_IF(tensor.type == DataType::kBool, "{} pools truth values.", to.label(node));
  const std::vector<WindowAxis>& axes = pool.window.axes;
  const bool average = pool.kind == PoolDesc::Kind::kAverage, power = pool.kind == PoolDesc::Kind::kLp,
             most = !average && !power;
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
  std::string& body = kernel.body();
  body = format("  {} acc = 0;\n  long long where = 0;\n  int inside = 0, padded = 0;\n", type);
  std::string indent = "  ", address = "i0 * " + format("{}", x[1]) + " + i1", outside, counts;
  std::string place = format("((long long)i0 * {} + i1)", x[1]), reversed = "0";
  for (size_t d = 0; d < axes.size(); ++d) {
    const WindowAxis& axis = axes[d];
    body += format(
        "{0}for (int k{1} = 0; k{1} < {2}; ++k{1}) {{\n{0}const place_t p{1} = (place_t)i{3} * {4} - {5} + k{1} * "
        "{6};\n",
        indent, d, axis.kernel, d + 2, axis.stride, axis.pad_begin, axis.dilation);
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
                   pool.column_major ? place + " + " + reversed : "(long long)at", indent);
  } else if (average) {
    body += indent + "acc += v; ++inside;\n";
  } else {
    const std::string size = type == "double" ? "fabs(v)" : "fabsf(v)";
    body += format("{}acc += {}; ++inside;\n", indent,
                   pool.p == 1   ? size
                   : pool.p == 2 ? std::string("v * v")
                                 : format("power({}, ({}){})", size, type, pool.p));
  }
  for (size_t d = axes.size(); d > 0; --d) body += std::string(2 * d, ' ') + "}\n";
  if (most)
    body += format("  if (inside == 0) acc = {};\n", type == "float" || type == "double" ? "-infinity_()" : "0");
  if (average) body += format("  acc /= ({})({});\n", type, pool.count_include_pad ? "padded" : "inside");
  if (power) {
    if (pool.p == 2) body += format("  acc = {}(acc);\n", type == "double" ? "sqrt" : "sqrtf");
    if (pool.p != 1 && pool.p != 2) body += format("  acc = power(acc, ({})(1.0 / {}));\n", type, pool.p);
  }
  body += format("  y[flat] = {};\n", stored(tensor.type, "acc"));
  if (indices) body += "  z[flat] = where;\n";
  return kernel.add();
}

}  // namespace tenon::cuda
