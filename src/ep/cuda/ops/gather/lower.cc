// Operators that choose elements by computed indices, or by their coordinates alone.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"
#include "ops/gather.h"
#include "ops/generate.h"
#include "ops/order.h"

namespace tenon::cuda {

Status lower_gather_elements(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId data, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId index, to.plain(node.inputs[1]));
  const Shape from = to.program().tensor(data).shape, shape = to.program().tensor(index).shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(node, from, shape));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  MapKernel kernel(to, node, "gather_elements");
  kernel.map().dims = dims_of(shape);
  kernel.read(data, "a");
  kernel.read(index, "x");
  kernel.write(out, "y");
  // A bad index reads the nearest element: the host's operators check it, here nobody can be told.
  kernel.body() =
      index_text("g", "x[flat]", from[axis], format("g = g < 0 ? 0 : {};", std::max<int64_t>(from[axis] - 1, 0)));
  std::vector<std::string> names = index_names(static_cast<size_t>(from.rank()));
  names[static_cast<size_t>(axis)] = "g";
  kernel.body() += format("  y[flat] = a[{}];\n", dense_address(names, dims_of(from)));
  TENON_INVALID_IF(from.element_count() == 0 && shape.element_count() != 0, "{} takes elements of nothing.",
                   to.label(node));
  return kernel.add();
}

Status lower_gather_nd(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId data, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId index, to.plain(node.inputs[1]));
  const Shape from = to.program().tensor(data).shape, by = to.program().tensor(index).shape;
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(node, from, by));
  const auto width = static_cast<size_t>(desc.width);
  const int64_t slice = desc.slice;
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  MapKernel kernel(to, node, "gather_nd");
  kernel.map().dims = {desc.batch, desc.batch == 0 ? 0 : desc.tuples, slice};
  kernel.read(data, "a");
  kernel.read(index, "x");
  kernel.write(out, "y");
  kernel.body() = format("  const index_t tuple = flat / {}u * {}u;\n", slice == 0 ? 1 : slice, width);
  std::string at = "i0";
  for (size_t d = 0; d < width; ++d) {
    const int64_t limit = from[desc.batch_rank + static_cast<int>(d)];
    kernel.body() += index_text(format("g{}", d), format("x[tuple + {}]", d), limit,
                                format("g{0} = g{0} < 0 ? 0 : {1};", d, std::max<int64_t>(limit - 1, 0)));
    at = format("({} * {} + g{})", at, limit, d);
  }
  kernel.body() += format("  y[flat] = a[{} * {} + i2];\n", at, slice);
  TENON_INVALID_IF(from.element_count() == 0 && to.program().tensor(out).shape.element_count() != 0,
                   "{} takes elements of nothing.", to.label(node));
  return kernel.add();
}

Status lower_one_hot(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId index, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId values, to.plain(node.inputs[2]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const Shape shape = to.program().tensor(out).shape;
  TENON_TRY_ASSIGN(const int axis, read_one_hot_axis(node, shape.rank() - 1));
  TENON_INVALID_IF(to.program().tensor(values).shape.element_count() != 2, "{} has values of {}.", to.label(node),
                   to.program().tensor(values).shape.to_string());
  MapKernel kernel(to, node, "one_hot");
  kernel.read(index, "x");
  kernel.read(values, "v");
  kernel.write(out, "y");
  kernel.map().dims = dims_of(shape);
  std::vector<std::string> names = index_names(static_cast<size_t>(shape.rank()));
  std::vector<int64_t> dims = dims_of(shape);
  names.erase(names.begin() + axis);
  dims.erase(dims.begin() + axis);
  const DataType type = to.program().tensor(index).type;
  kernel.body() = index_text("g", loaded(type, format("x[{}]", dense_address(names, dims))), shape[axis], "g = -1;");
  kernel.body() += format("  y[flat] = v[g == (long long)i{} ? 1 : 0];\n", axis);
  return kernel.add();
}

Status lower_trilu(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  const int rank = tensor.shape.rank();
  TENON_INVALID_IF(rank < 2, "{} takes a triangle of {}.", to.label(node), tensor.shape.to_string());
  MapKernel kernel(to, node, "trilu");
  kernel.map().dims = dims_of(tensor.shape);
  kernel.read(from, "a");
  std::string shift = "0";
  if (node.input(1) != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId k, to.plain(node.inputs[1]));
    TENON_INVALID_IF(to.program().tensor(k).shape.element_count() != 1, "{} has {} for its diagonal.", to.label(node),
                     to.program().tensor(k).shape.to_string());
    kernel.read(k, "k");
    shift = "k[0]";
  }
  kernel.write(out, "y");
  kernel.body() = format(
      "  const {0} nothing = {{}};\n  y[flat] = (long long)i{1} - (long long)i{3} {2} {4} ? a[flat] : nothing;\n",
      storage_type(tensor.type), rank - 1, read_trilu_upper(node) ? ">=" : "<=", rank - 2, shift);
  return kernel.add();
}

Status lower_eye_like(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(out);
  TENON_INVALID_IF(tensor.shape.rank() != 2, "{} makes {}.", to.label(node), tensor.shape.to_string());
  MapKernel kernel(to, node, "eye_like");
  kernel.map().dims = dims_of(tensor.shape);
  kernel.write(out, "y");
  const std::string one = tensor.type == DataType::kBool ? "true" : "1";
  kernel.body() = format("  const {0} value = (long long)i1 - (long long)i0 == {1} ? {2} : 0;\n  y[flat] = {3};\n",
                         compute_type(tensor.type), read_eye_diagonal(node), one, stored(tensor.type, "value"));
  return kernel.add();
}

Status lower_reverse_sequence(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId lengths, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const Shape shape = to.program().tensor(from).shape;
  TENON_TRY_ASSIGN(const ReverseSequenceDesc desc,
                   read_reverse_sequence(node, shape, to.program().tensor(lengths).shape));
  const int batch = desc.batch_axis, time = desc.time_axis;
  MapKernel kernel(to, node, "reverse_sequence");
  kernel.map().dims = dims_of(shape);
  kernel.read(from, "a");
  kernel.read(lengths, "n");
  kernel.write(out, "y");
  std::vector<std::string> names = index_names(static_cast<size_t>(shape.rank()));
  names[static_cast<size_t>(time)] = "t";
  kernel.body() = format(
      "  long long t = i{0}, length = n[i{1}];\n  if (length > {2}) length = {2};\n"
      "  if (t < length) t = length - 1 - t;\n  y[flat] = a[{3}];\n",
      time, batch, shape[time], dense_address(names, dims_of(shape)));
  return kernel.add();
}

}  // namespace tenon::cuda
