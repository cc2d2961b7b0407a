// Shared by the operator families whose kernels are maps (codegen_map.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ep/cuda/compute/codegen_map.h"
#include "ep/cuda/compute/lowering.h"
#include "ops/pool.h"

namespace tenon::cuda {

// A dimension by the node's attribute, counted from the end where negative.
Result<int> axis_of(const Lowering& to, const Node& node, int64_t axis, int rank);

std::vector<int64_t> dims_of(const Shape& shape);

// An input with channels first, or kNoTensor where the node leaves it out.
Result<TensorId> plain_or_none(Lowering& to, const Node& node, size_t input);

// Builds one map kernel: names its tensors, and adds it.
class MapKernel {
 public:
  MapKernel(Lowering& to, const Node& node, std::string name) : to_(to), node_(node) { map_.name = std::move(name); }

  GeneratedMap& map() { return map_; }
  std::string& body() { return map_.body; }
  // A tensor as the parameter `name`; its type is the tensor's.
  void read(TensorId tensor, std::string name);
  void write(TensorId tensor, std::string name);
  // Nothing is added where there are no elements.
  Status add();

 private:
  void note(TensorId tensor);

  Lowering& to_;
  const Node& node_;
  GeneratedMap map_;
  std::vector<TensorId> reads_, writes_;
};

// Text that makes `variable` (long long) the index that `read` gives, from the end where negative; `otherwise` where it
// is outside of [0, limit).
std::string index_text(const std::string& variable, const std::string& read, int64_t limit,
                       const std::string& otherwise);

// A pool of any rank and type.
Status lower_general_pool(Lowering& to, const Node& node, const PoolDesc& pool);

}  // namespace tenon::cuda
