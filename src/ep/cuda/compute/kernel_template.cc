#include "ep/cuda/compute/kernel_template.h"

namespace tenon::cuda {

std::string template_type(DataType type) {
  if (type == DataType::kBool) return "tenon::cuda::device::bool_bits";
  const std::string name = storage_type(type);
  return name.ends_with("_bits") ? "tenon::cuda::device::" + name : name;
}

Result<LaunchShape> map_launch(int64_t count) {
  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(count, kMapThreads));
  return LaunchShape{.grid_x = blocks, .block_x = kMapThreads};
}

Status check_loops(const Loops& loops) {
  TENON_UNSUPPORTED_IF(loops.dims.size() > kMostRank,
                       "A kernel has at most {} nested loops over dimensions; {} are needed.", kMostRank,
                       loops.dims.size());
  return Status();
}

}  // namespace tenon::cuda
