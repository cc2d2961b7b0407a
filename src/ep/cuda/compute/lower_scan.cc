// Sums and products along an axis.
#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"

namespace tenon::cuda {

// A thread a line; a long line has a block, whose threads first add up their parts.
Status lower_scan(Lowering& to, const Node& node) {
  const bool product = node.op_type == "CumProd";
  TENON_TRY_ASSIGN(const std::vector<int64_t> axes, to.integers(node, 1));
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_INVALID_IF(axes.size() != 1, "{} has {} axes.", to.label(node), axes.size());
  TENON_UNSUPPORTED_IF(tensor.type == DataType::kBool, "{} adds up truth values.", to.label(node));
  TENON_TRY_ASSIGN(const int axis, axis_of(to, node, axes[0], tensor.shape.rank()));
  const int64_t length = tensor.shape[axis];
  const bool exclusive = node.int_or("exclusive", 0) != 0;
  MapKernel kernel(to, node, product ? "cum_prod" : "cum_sum");
  std::vector<int64_t> dims = dims_of(tensor.shape);
  std::vector<std::string> names = index_names(dims.size());
  dims[static_cast<size_t>(axis)] = length == 0 ? 0 : 1;
  names[static_cast<size_t>(axis)] = node.int_or("reverse", 0) != 0 ? format("({}u - k)", length - 1) : "k";
  kernel.map().dims = dims;
  kernel.map().by_block = length >= 256;
  kernel.read(from, "a");
  kernel.write(out, "y");
  const std::string type = compute_type(tensor.type), operation = product ? "*" : "+";
  const std::string at = format("  const index_t at = {};\n", dense_address(names, dims_of(tensor.shape)));
  const std::string take = format("  acc = acc {} {};\n", operation, loaded(tensor.type, "a[at]"));
  const std::string put = format("  y[at] = {};\n", stored(tensor.type, "acc"));
  const std::string walk =
      "  for (index_t k = first; k < last; ++k) {\n" + at + (exclusive ? put + take : take + put) + "  }\n";
  std::string& body = kernel.body();
  if (!kernel.map().by_block) {
    body = format("  const index_t first = 0, last = {}u;\n  {} acc = {};\n{}", length, type, product ? 1 : 0, walk);
    return kernel.add();
  }
  const int64_t part = (length + kGeneratedThreads - 1) / kGeneratedThreads;
  body = format(
      "  __shared__ {0} parts[{1}];\n  index_t first = threadIdx.x * {2}u, last = first + {2}u;\n"
      "  if (first > {3}u) first = {3}u;\n  if (last > {3}u) last = {3}u;\n  {0} acc = {4};\n"
      "  for (index_t k = first; k < last; ++k) {{\n{5}{6}  }}\n"
      "  parts[threadIdx.x] = acc;\n  __syncthreads();\n"
      "  acc = {4};\n  for (unsigned n = 0; n < threadIdx.x; ++n) acc = acc {7} parts[n];\n{8}",
      type, kGeneratedThreads, part, length, product ? 1 : 0, at, take, operation, walk);
  return kernel.add();
}

}  // namespace tenon::cuda
