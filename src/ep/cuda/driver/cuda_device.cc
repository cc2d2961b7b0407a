#include "ep/cuda/driver/cuda_device.h"

#include <cstring>

namespace tenon::cuda {

Result<CudaDeviceInfo> describe_device(const CudaDriver& driver, int ordinal) {
  CudaDeviceInfo info{.ordinal = ordinal};
  CUdevice device = 0;
  TENON_CUDA_TRY(driver, DeviceGet, &device, ordinal);
  char name[256] = {};
  TENON_CUDA_TRY(driver, DeviceGetName, name, sizeof(name) - 1, device);
  info.name = name;
  int major = 0, minor = 0;
  TENON_CUDA_TRY(driver, DeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  TENON_CUDA_TRY(driver, DeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  info.compute_capability = 10 * major + minor;
  CUuuid uuid{};
  TENON_CUDA_TRY(driver, DeviceGetUuid, &uuid, device);
  std::memcpy(info.uuid.data(), uuid.bytes, info.uuid.size());
  std::array<uint8_t, 8> luid{};
  unsigned int node_mask = 0;
  // Drivers of other systems answer that they have none.
  if (driver.DeviceGetLuid != nullptr &&
      driver.DeviceGetLuid(reinterpret_cast<char*>(luid.data()), &node_mask, device) == CUDA_SUCCESS)
    info.luid = luid;
  int integrated = 0;
  TENON_CUDA_TRY(driver, DeviceGetAttribute, &integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device);
  info.integrated = integrated != 0;
  char bus_id[32] = {};
  TENON_CUDA_TRY(driver, DeviceGetPCIBusId, bus_id, sizeof(bus_id) - 1, device);
  info.pci_bus_id = bus_id;
  TENON_CUDA_TRY(driver, DeviceTotalMem, &info.memory_bytes, device);
  return info;
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(const CudaDriver& driver, int ordinal,
                                                     const CUctxCigParam* graphics) {
  std::shared_ptr<CudaDevice> device(new CudaDevice(driver, ordinal));
  TENON_CUDA_TRY(driver, DeviceGet, &device->device_, ordinal);
  device->compute_capability_ = 10 * device->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                device->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device->multiprocessors_ = device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  CUcontext context = nullptr;
  if (graphics != nullptr) {
    CUctxCigParam shared = *graphics;
    CUctxCreateParams parameters{};
    parameters.cigParams = &shared;
    TENON_CUDA_TRY(driver, CtxCreate, &context, &parameters, 0, device->device_);
    CUcontext popped = nullptr;
    (void)driver.CtxPopCurrent(&popped);  // it has become this thread's
    device->in_graphics_ = true;
  } else {
    TENON_CUDA_TRY(driver, DevicePrimaryCtxRetain, &context, device->device_);
  }
  device->context_ = context;
  return device;
}

CudaDevice::~CudaDevice() {
  // At the process's end the driver may be gone already; what it answers then does not matter.
  if (context_ == nullptr) return;
  if (in_graphics_) {
    (void)driver_.CtxDestroy(context_);
  } else {
    (void)driver_.DevicePrimaryCtxRelease(device_);
  }
}

int CudaDevice::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  return driver_.DeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS ? value : 0;
}

Result<ContextScope> ContextScope::enter(const CudaDevice& device) {
  TENON_CUDA_TRY(device.driver(), CtxPushCurrent, device.context());
  return ContextScope(&device);
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (device_ != nullptr) (void)device_->driver().CtxPopCurrent(&popped);
}

Result<std::shared_ptr<CudaModule>> CudaModule::load(std::shared_ptr<CudaDevice> device,
                                                     std::span<const std::byte> image) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device));
  CUmodule module = nullptr;
  TENON_CUDA_TRY(device->driver(), ModuleLoadData, &module, image.data());
  return std::shared_ptr<CudaModule>(new CudaModule(std::move(device), module));
}

CudaModule::~CudaModule() {
  if (const auto scope = ContextScope::enter(*device_); scope.ok()) (void)device_->driver().ModuleUnload(module_);
}

Result<CUfunction> CudaModule::function(const char* name) const {
  CUfunction function = nullptr;
  TENON_CUDA_TRY(device_->driver(), ModuleGetFunction, &function, module_, name);
  return function;
}

}  // namespace tenon::cuda
