#include "ep/cuda/compute/kernel_template.h"

namespace tenon::cuda {

std::string compute_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return "float";
    case DataType::kDouble:
      return "double";
    case DataType::kInt64:
      return "long long";
    case DataType::kUint64:
      return "unsigned long long";
    case DataType::kInt32:
    case DataType::kInt16:
    case DataType::kInt8:
      return "int";
    case DataType::kUint32:
    case DataType::kUint16:
    case DataType::kUint8:
      return "unsigned";
    case DataType::kBool:
      return "bool";
    default:
      return "";
  }
}

std::string storage_type(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return "half_bits";
    case DataType::kBfloat16:
      return "bfloat_bits";
    case DataType::kBool:
    case DataType::kUint8:
      return "unsigned char";
    case DataType::kInt8:
      return "signed char";
    case DataType::kInt16:
      return "short";
    case DataType::kUint16:
      return "unsigned short";
    default:
      return compute_type(type);
  }
}

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
