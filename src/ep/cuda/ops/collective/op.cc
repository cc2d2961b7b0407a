#include "ep/cuda/ops/collective/op.h"

#include "base/format.h"
#include "ep/cuda/communicator.h"

namespace tenon::cuda {

Result<NcclType> nccl_type(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return NcclType::kFloat16;
    case DataType::kFloat:
      return NcclType::kFloat32;
    case DataType::kDouble:
      return NcclType::kFloat64;
    case DataType::kInt64:
      return NcclType::kInt64;
    case DataType::kBool:
      return NcclType::kUint8;
    default:
      return unsupported("Ranks exchange no tensors of {}.", data_type_name(type));
  }
}

std::string CollectiveOp::description(const Program&) const {
  const char* const name = kind_ == CollectiveDesc::Kind::kAllReduce   ? "all_reduce"
                           : kind_ == CollectiveDesc::Kind::kAllGather ? "all_gather"
                                                                       : "all_to_all";
  return format("{} {} {} of {} ranks", name, data_type_name(type_), count_, ranks_);
}

Status CollectiveOp::queue(const QueueContext& context) const {
  if (context.communicator == nullptr) return Status();
  Communicator& ranks = *context.communicator;
  const CUdeviceptr x = context.addresses.of(reads()[0]), y = context.addresses.of(writes()[0]);
  TENON_TRY_ASSIGN(const NcclType type, nccl_type(type_));
  const auto count = static_cast<size_t>(count_);
  switch (kind_) {
    case CollectiveDesc::Kind::kAllReduce:
      return ranks.all_reduce(x, y, count, type, context.stream);
    case CollectiveDesc::Kind::kAllGather:
      return ranks.all_gather(x, y, count, type, context.stream);
    case CollectiveDesc::Kind::kAllToAll:
      return ranks.all_to_all(x, y, count, type, data_type_size(type_), context.stream);
  }
  return Status();
}

}  // namespace tenon::cuda
