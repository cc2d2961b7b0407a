#include "ep/cuda/compute/template_op.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/kernel_cache.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

TemplateOp::TemplateOp(std::string label, std::string what, TemplateKernel kernel, std::vector<TensorId> reads,
                       std::vector<TensorId> writes)
    : DeviceOp(std::move(label), present(reads), present(writes)),
      what_(std::move(what)),
      kernel_(std::move(kernel)),
      arguments_(std::move(reads)) {
  arguments_.insert(arguments_.end(), writes.begin(), writes.end());
}

std::string TemplateOp::description(const Program&) const { return what_; }

Status TemplateOp::prepare(const PrepareContext& context) {
  if (kernel_.shape.grid_x == 0) return Status();
  if (context.compiled == nullptr) return internal_error("{} has no compiled kernels.", label());
  TENON_TRY_ASSIGN(function_, context.compiled->function(kernel_.instance));
  constexpr unsigned kPortableBlocks = 8;
  if (kernel_.cluster_z > kPortableBlocks)
    TENON_CUDA_TRY(context.device->driver(), FuncSetAttribute, function_,
                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  return Status();
}

std::vector<CUdeviceptr> TemplateOp::arguments(const Addresses& addresses, bool alone) const {
  std::vector<CUdeviceptr> result;
  result.reserve(arguments_.size());
  for (TensorId id : arguments_) result.push_back(id == kNoTensor ? 0 : addresses.of(id));
  const auto in_place = [&](const TemplateKernel::EarlyRead& read) {
    return addresses.of(read.input) == addresses.of(read.cache);
  };
  if (alone && !kernel_.early.empty() && std::all_of(kernel_.early.begin(), kernel_.early.end(), in_place))
    result.back() = addresses.of(kernel_.early[0].cache);
  return result;
}

Status TemplateOp::queue(const QueueContext& context) const {
  if (kernel_.shape.grid_x == 0) return Status();
  if (kernel_.nothing_in_place && context.addresses.of(reads()[0]) == context.addresses.of(writes()[0]))
    return Status();
  std::vector<CUdeviceptr> addresses = arguments(context.addresses, context.alone);
  std::vector<void*> pointers;
  pointers.reserve(addresses.size() + 1);
  pointers.push_back(const_cast<std::byte*>(kernel_.params.data()));
  for (CUdeviceptr& address : addresses) pointers.push_back(&address);
  return queue_kernel(*context.device, function_, kernel_.shape, kernel_.cluster_z, context.stream, pointers.data());
}

std::string CopyOp::description(const Program&) const { return format("copy {} bytes", size_bytes_); }

Status CopyOp::queue(const QueueContext& context) const {
  if (size_bytes_ == 0) return Status();
  TENON_CUDA_TRY(context.device->driver(), MemcpyDtoDAsync, context.addresses.of(writes()[0]),
                 context.addresses.of(reads()[0]), size_bytes_, context.stream);
  return Status();
}

}  // namespace tenon::cuda
