#include "ep/cuda/compute/template_op.h"

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
  return Status();
}

Status TemplateOp::queue(const QueueContext& context) const {
  if (kernel_.shape.grid_x == 0) return Status();
  if (kernel_.nothing_in_place && context.addresses.of(reads()[0]) == context.addresses.of(writes()[0]))
    return Status();
  std::vector<CUdeviceptr> addresses;
  addresses.reserve(arguments_.size());
  for (TensorId id : arguments_) addresses.push_back(id == kNoTensor ? 0 : context.addresses.of(id));
  std::vector<void*> pointers;
  pointers.reserve(addresses.size() + 1);
  pointers.push_back(const_cast<std::byte*>(kernel_.params.data()));
  for (CUdeviceptr& address : addresses) pointers.push_back(&address);
  return queue_kernel(*context.device, function_, kernel_.shape, 1, context.stream, pointers.data());
}

std::string CopyOp::description(const Program&) const { return format("copy {} bytes", size_bytes_); }

Status CopyOp::queue(const QueueContext& context) const {
  if (size_bytes_ == 0) return Status();
  TENON_CUDA_TRY(context.device->driver(), MemcpyDtoDAsync, context.addresses.of(writes()[0]),
                 context.addresses.of(reads()[0]), size_bytes_, context.stream);
  return Status();
}

}  // namespace tenon::cuda
