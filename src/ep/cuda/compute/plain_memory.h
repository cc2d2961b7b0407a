// Device memory straight from the driver, for tests and benchmarks.
#pragma once

#include <memory>
#include <utility>

#include "ep/cuda/driver/cuda_device.h"
#include "ep/sdk/scratch.h"

namespace tenon::cuda {

class PlainMemory final : public plugin::ScratchSource {
 public:
  explicit PlainMemory(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  Result<void*> allocate(size_t size_bytes) override {
    CUdeviceptr address = 0;
    TENON_CUDA_TRY(device_->driver(), MemAlloc, &address, size_bytes);
    return reinterpret_cast<void*>(address);
  }
  void free(void* memory) override { (void)device_->driver().MemFree(reinterpret_cast<CUdeviceptr>(memory)); }

 private:
  const std::shared_ptr<CudaDevice> device_;
};

}  // namespace tenon::cuda
