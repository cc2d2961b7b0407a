#include "ep/cuda/compute/context.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>
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

namespace {

// Fills the buffers of `wanted`, each as one piece of work for the threads that are free. False when memory ran out.
bool fill_all(std::span<const DeviceConstant> constants, const std::vector<size_t>& wanted,
              std::vector<std::vector<std::byte>>& buffers) {
  constexpr size_t kMaxThreads = 8;
  std::atomic<size_t> next{0};
  std::atomic<bool> filled{true};
  const auto work = [&]() noexcept {
    for (size_t i = next++; i < wanted.size(); i = next++) {
      const DeviceConstant& constant = constants[wanted[i]];
      try {
        buffers[i].resize(constant.size_bytes);
        if (constant.size_bytes != 0) constant.fill(buffers[i].data());
      } catch (const std::bad_alloc&) {
        filled = false;
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min({kMaxThreads, wanted.size(), size_t{std::thread::hardware_concurrency()}});
  threads.reserve(count);
  try {
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer threads do the same work.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return filled;
}

}  // namespace

Result<std::vector<DeviceBlockRef>> ComputeContext::constants(std::span<const DeviceConstant> constants) {
  const CudaDriver& driver = device_->driver();
  std::vector<DeviceBlockRef> blocks(constants.size());
  // Some at a time, so that the host holds no second copy of all weights.
  constexpr size_t kBatchBytes = size_t{256} << 20;
  for (size_t first = 0; first < constants.size();) {
    std::vector<size_t> wanted;
    size_t bytes = 0;
    for (; first < constants.size() && bytes < kBatchBytes; ++first) {
      const auto known = constants_.find(constants[first].key);
      if (known != constants_.end()) {
        blocks[first] = known->second;
        continue;
      }
      wanted.push_back(first);
      bytes += constants[first].size_bytes;
    }
    std::vector<std::vector<std::byte>> buffers(wanted.size());
    if (!fill_all(constants, wanted, buffers))
      return resource_exhausted("The host has no memory to pack {} bytes of weights.", bytes);
    for (size_t i = 0; i < wanted.size(); ++i) {
      TENON_TRY_ASSIGN(DeviceBlockRef block, allocate(buffers[i].size()));
      if (!buffers[i].empty())
        TENON_CUDA_TRY(driver, MemcpyHtoDAsync, block->address(), buffers[i].data(), buffers[i].size(), stream_);
      blocks[wanted[i]] = block;
      constants_.emplace(constants[wanted[i]].key, std::move(block));
    }
    TENON_CUDA_TRY(driver, StreamSynchronize, stream_);
  }
  return blocks;
}

}  // namespace tenon::cuda
