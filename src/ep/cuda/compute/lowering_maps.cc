#include "ep/cuda/compute/lowering_maps.h"

#include <algorithm>

#include "base/format.h"

namespace tenon::cuda {

Result<int> axis_of(const Lowering& to, const Node& node, int64_t axis, int rank) {
  const int64_t wrapped = axis < 0 ? axis + rank : axis;
  TENON_INVALID_IF(wrapped < 0 || wrapped >= rank, "{} has axis {} of rank {}.", to.label(node), axis, rank);
  return static_cast<int>(wrapped);
}

std::vector<int64_t> dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

Result<TensorId> plain_or_none(Lowering& to, const Node& node, size_t input) {
  if (node.input(input) == kNoValue) return kNoTensor;
  return to.plain(node.inputs[input]);
}

void MapKernel::note(TensorId tensor) {
  map_.wide = map_.wide || to_.program().tensor(tensor).shape.element_count() > INT32_MAX;
}

void MapKernel::read(TensorId tensor, std::string name) {
  note(tensor);
  reads_.push_back(tensor);
  map_.reads.emplace_back(to_.program().tensor(tensor).type, std::move(name));
}

void MapKernel::write(TensorId tensor, std::string name) {
  note(tensor);
  writes_.push_back(tensor);
  map_.writes.emplace_back(to_.program().tensor(tensor).type, std::move(name));
}

Status MapKernel::add() {
  if (std::find(map_.dims.begin(), map_.dims.end(), 0) != map_.dims.end()) return Status();
  TENON_TRY_ASSIGN(GeneratedKernel kernel, generate_map(map_));
  return to_.add_kernel(node_, map_.name, std::move(kernel), std::move(reads_), std::move(writes_));
}

std::string index_text(const std::string& variable, const std::string& read, int64_t limit,
                       const std::string& otherwise) {
  return format("  long long {0} = (long long){1};\n  if ({0} < 0) {0} += {2};\n  if ({0} < 0 || {0} >= {2}) {3}\n",
                variable, read, limit, otherwise);
}

}  // namespace tenon::cuda
