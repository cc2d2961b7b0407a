#include "ep/cuda/compute/context.h"

#include <filesystem>
#include <vector>

#include "base/format.h"

namespace tenon::cuda {

Result<std::shared_ptr<ComputeContext>> ComputeContext::create(std::shared_ptr<CudaDevice> device,
                                                               std::shared_ptr<plugin::ScratchSource> memory,
                                                               ComputeOptions options) {
  std::shared_ptr<ComputeContext> context(new ComputeContext(std::move(device), std::move(memory), std::move(options)));
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*context->device_));
  const CudaDriver& driver = context->device_->driver();
  TENON_CUDA_TRY(driver, StreamCreateWithPriority, &context->stream_, CU_STREAM_NON_BLOCKING, 0);
  // Without cuBLASLt our own kernels do what they can.
  if (Result<std::unique_ptr<BlasHandle>> blas = BlasHandle::create(); blas.ok()) context->blas_ = *std::move(blas);
  if (Result<std::unique_ptr<CudnnHandle>> cudnn = CudnnHandle::create(); cudnn.ok())
    context->cudnn_ = *std::move(cudnn);
  TENON_TRY_ASSIGN(const CudaDeviceInfo info, describe_device(driver, context->device_->ordinal()));
  context->algorithms_ = std::make_unique<AlgorithmCache>(
      context->options_.cache_file, format("1 {} driver {} cublaslt {} cudnn {}", info.name, driver.version,
                                           context->blas_ != nullptr ? context->blas_->version() : 0,
                                           context->cudnn_ != nullptr ? context->cudnn_->library().version : 0));
  return context;
}

ComputeContext::~ComputeContext() {
  const Result<ContextScope> scope = ContextScope::enter(*device_);
  if (stream_ != nullptr) {
    (void)device_->driver().StreamSynchronize(stream_);
    (void)device_->driver().StreamDestroy(stream_);
  }
  constants_.clear();
}

std::string ComputeContext::cache_folder() const {
  if (options_.cache_file.empty()) return "";
  return std::filesystem::path(options_.cache_file).parent_path().string();
}

Result<DeviceBlockRef> ComputeContext::allocate(size_t size_bytes) {
  TENON_TRY_ASSIGN(void* memory, memory_->allocate(std::max<size_t>(size_bytes, 256)));
  return DeviceBlockRef(std::make_shared<DeviceBlock>(memory_, memory));
}

Result<DeviceBlockRef> ComputeContext::constant(const DeviceConstant& constant) {
  DeviceBlockRef& held = constants_[constant.key];
  if (held != nullptr) return held;
  Result<DeviceBlockRef> made = [&]() -> Result<DeviceBlockRef> {
    TENON_TRY_ASSIGN(DeviceBlockRef block, allocate(constant.size_bytes));
    if (constant.size_bytes == 0) return block;
    std::vector<std::byte> bytes(constant.size_bytes);
    constant.fill(bytes.data());
    const CudaDriver& driver = device_->driver();
    TENON_CUDA_TRY(driver, MemcpyHtoDAsync, block->address(), bytes.data(), bytes.size(), stream_);
    TENON_CUDA_TRY(driver, StreamSynchronize, stream_);
    return block;
  }();
  if (!made.ok()) {
    constants_.erase(constant.key);
    return made;
  }
  held = *std::move(made);
  return held;
}

}  // namespace tenon::cuda
