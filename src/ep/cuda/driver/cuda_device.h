// A CUDA device of this process: its properties and its context, which every session on it shares: the primary one, or
// one inside a graphics API's (S1.9); modules of kernels, and launches.
//
// Lifetime: modules hold their device; the context goes when the last of them does.
// Threads: every function from any thread. A ContextScope belongs to the thread that made it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ep/cuda/driver/cuda_driver.h"

namespace tenon::cuda {

class CudaDevice {
 public:
  // The device is not used before this: no context is made by looking at the others.
  // `graphics`: makes the context inside this command queue's, which must stay until the device goes.
  static Result<std::shared_ptr<CudaDevice>> open(const CudaDriver& driver, int ordinal,
                                                  const CUctxCigParam* graphics = nullptr);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice native() const { return device_; }
  CUcontext context() const { return context_; }
  bool in_graphics() const { return in_graphics_; }
  int compute_capability() const { return compute_capability_; }  // 90 for 9.0
  int multiprocessors() const { return multiprocessors_; }
  // 0 when the driver does not know the attribute.
  int attribute(CUdevice_attribute attribute) const;

 private:
  CudaDevice(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  const CudaDriver& driver_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool in_graphics_ = false;
  int compute_capability_ = 0;
  int multiprocessors_ = 0;
};

// The properties of a device that are known without making a context on it.
struct CudaDeviceInfo {
  int ordinal = 0;
  std::string name;
  int compute_capability = 0;
  std::array<uint8_t, 16> uuid{};
  std::optional<std::array<uint8_t, 8>> luid;  // of the DXGI adapter; Windows only
  bool integrated = false;                     // it works in the host's memory
  std::string pci_bus_id;                      // "0000:65:00.0"
  size_t memory_bytes = 0;
};
Result<CudaDeviceInfo> describe_device(const CudaDriver& driver, int ordinal);

// The device's context is this thread's current one until the scope ends; then the one before is again.
class ContextScope {
 public:
  static Result<ContextScope> enter(const CudaDevice& device);
  ContextScope(ContextScope&& other) noexcept : device_(std::exchange(other.device_, nullptr)) {}
  ContextScope& operator=(ContextScope&&) = delete;
  ~ContextScope();

 private:
  explicit ContextScope(const CudaDevice* device) : device_(device) {}
  const CudaDevice* device_;
};

class CudaModule {
 public:
  // `image`: a fatbin or cubin; it is copied. Errors: kUnsupported when it has no code for the device.
  static Result<std::shared_ptr<CudaModule>> load(std::shared_ptr<CudaDevice> device, std::span<const std::byte> image);
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  // Valid while the module is.
  Result<CUfunction> function(const char* name) const;
  const std::shared_ptr<CudaDevice>& device() const { return device_; }

 private:
  CudaModule(std::shared_ptr<CudaDevice> device, CUmodule module) : device_(std::move(device)), module_(module) {}
  const std::shared_ptr<CudaDevice> device_;
  const CUmodule module_;
};

struct LaunchShape {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
};

// Queues a kernel with arguments as its parameters declare them: the types must match exactly, for the driver cannot
// check them. The device's context must be current.
template <typename... Arguments>
Status launch(const CudaDriver& driver, CUfunction function, const LaunchShape& shape, CUstream stream,
              const Arguments&... arguments) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  TENON_CUDA_TRY(driver, LaunchKernel, function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y,
                 shape.block_z, shape.shared_bytes, stream, pointers, nullptr);
  return Status();
}

}  // namespace tenon::cuda
