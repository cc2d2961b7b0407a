// The CUDA driver's functions, found when the plugin runs. Each row names a function and the version of its signature,
// so that a newer driver cannot hand out another one under the same name.
//
// Threads: the table is immutable once loaded; its functions as the driver says.
// Errors: TENON_CUDA_TRY turns a CUresult into a status that names the call.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "base/fault.h"
#include "base/status.h"

namespace tenon::cuda {

// Without these there is no device.
#define TENON_CUDA_REQUIRED(X)                             \
  X(DriverGetVersion, 2020)                                \
  X(Init, 2000)                                            \
  X(GetErrorName, 6000)                                    \
  X(GetErrorString, 6000)                                  \
  X(DeviceGetCount, 2000)                                  \
  X(DeviceGet, 2000)                                       \
  X(DeviceGetName, 2000)                                   \
  X(DeviceGetAttribute, 2000)                              \
  X(DeviceGetUuid, 11040)                                  \
  X(DeviceGetPCIBusId, 4010)                               \
  X(DeviceTotalMem, 3020)                                  \
  X(DevicePrimaryCtxRetain, 7000)                          \
  X(DevicePrimaryCtxRelease, 11000)                        \
  X(CtxPushCurrent, 4000)                                  \
  X(CtxPopCurrent, 4000)                                   \
  X(CtxGetCurrent, 4000)                                   \
  X(CtxSynchronize, 2000)                                  \
  X(MemGetInfo, 3020)                                      \
  X(MemAlloc, 3020)                                        \
  X(MemFree, 3020)                                         \
  X(MemFreeAsync, 11020)                                   \
  X(MemAllocFromPoolAsync, 11020)                          \
  X(MemPoolCreate, 11020)                                  \
  X(MemPoolDestroy, 11020)                                 \
  X(MemPoolSetAttribute, 11020)                            \
  X(MemPoolTrimTo, 11020)                                  \
  X(MemHostAlloc, 2020)                                    \
  X(MemFreeHost, 2000)                                     \
  X(MemHostRegister, 6050)                                 \
  X(MemHostUnregister, 4000)                               \
  X(MemHostGetDevicePointer, 3020)                         \
  X(MemGetAddressRange, 3020)                              \
  X(Memcpy, 4000)                                          \
  X(MemcpyAsync, 4000)                                     \
  X(MemcpyHtoDAsync, 3020)                                 \
  X(MemcpyDtoHAsync, 3020)                                 \
  X(MemcpyDtoDAsync, 3020)                                 \
  X(MemcpyPeerAsync, 4000)                                 \
  X(MemsetD8Async, 3020)                                   \
  X(StreamCreateWithPriority, 5050)                        \
  X(StreamDestroy, 4000)                                   \
  X(StreamQuery, 2000)                                     \
  X(StreamSynchronize, 2000)                               \
  X(StreamWaitEvent, 3020)                                 \
  X(StreamGetCtx, 9020)                                    \
  X(StreamBeginCapture, 10010)                             \
  X(StreamEndCapture, 10000)                               \
  X(StreamIsCapturing, 10000)                              \
  X(LaunchHostFunc, 10000)                                 \
  X(EventCreate, 2000)                                     \
  X(EventDestroy, 4000)                                    \
  X(EventRecord, 2000)                                     \
  X(EventQuery, 2000)                                      \
  X(EventSynchronize, 2000)                                \
  X(EventElapsedTime, 2000)                                \
  X(ModuleLoadData, 2000)                                  \
  X(ModuleUnload, 2000)                                    \
  X(ModuleGetFunction, 2000)                               \
  X(FuncSetAttribute, 9000)                                \
  X(LaunchKernel, 4000)                                    \
  X(LaunchKernelEx, 11060)                                 \
  X(GraphCreate, 10000)                                    \
  X(GraphDestroy, 10000)                                   \
  X(GraphAddChildGraphNode, 10000)                         \
  X(GraphInstantiateWithFlags, 11040)                      \
  X(GraphExecDestroy, 10000)                               \
  X(GraphLaunch, 10000)                                    \
  X(GraphAddExternalSemaphoresSignalNode, 11020)           \
  X(GraphAddExternalSemaphoresWaitNode, 11020)             \
  X(GraphExecExternalSemaphoresSignalNodeSetParams, 11020) \
  X(GraphExecExternalSemaphoresWaitNodeSetParams, 11020)   \
  X(ImportExternalMemory, 10000)                           \
  X(ExternalMemoryGetMappedBuffer, 10000)                  \
  X(DestroyExternalMemory, 10000)                          \
  X(ImportExternalSemaphore, 10000)                        \
  X(WaitExternalSemaphoresAsync, 10000)                    \
  X(SignalExternalSemaphoresAsync, 10000)                  \
  X(DestroyExternalSemaphore, 10000)                       \
  X(IpcGetMemHandle, 4010)                                 \
  X(IpcOpenMemHandle, 11000)                               \
  X(IpcCloseMemHandle, 4010)                               \
  X(MemAddressReserve, 10020)                              \
  X(MemAddressFree, 10020)                                 \
  X(MemCreate, 10020)                                      \
  X(MemRelease, 10020)                                     \
  X(MemMap, 10020)                                         \
  X(MemUnmap, 10020)                                       \
  X(MemSetAccess, 10020)                                   \
  X(MemGetAllocationGranularity, 10020)                    \
  X(MemExportToShareableHandle, 10020)                     \
  X(MemImportFromShareableHandle, 10020)                   \
  X(MemGetAllocationPropertiesFromHandle, 10020)

// Null where the driver, or its system, does not have them.
#define TENON_CUDA_OPTIONAL(X) \
  X(CtxCreate, 12050)          \
  X(DeviceGetLuid, 10000)      \
  X(CtxDestroy, 4000)

struct CudaDriver {
#define TENON_CUDA_MEMBER_(name, version) PFN_cu##name##_v##version name = nullptr;
  TENON_CUDA_REQUIRED(TENON_CUDA_MEMBER_)
  TENON_CUDA_OPTIONAL(TENON_CUDA_MEMBER_)
#undef TENON_CUDA_MEMBER_
  int version = 0;  // 13000: CUDA 13.0

  // Finds every function with the driver's own lookup, initialises the driver, and refuses one that is too old for the
  // kernels of this build.
  static Result<CudaDriver> load_with(PFN_cuGetProcAddress_v12000 lookup);
};

// The machine's driver; the first call loads it and every later one gives the same answer.
// Errors: kNotFound without a driver, kUnsupported for an old one, kDeviceError when it cannot start.
Result<const CudaDriver*> cuda_driver();

// The status of a failed call: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory".
Status cuda_error(const CudaDriver& driver, CUresult result, const char* call);
inline Status cuda_status(const CudaDriver& driver, CUresult result, const char* call) {
  return result == CUDA_SUCCESS ? Status() : cuda_error(driver, result, call);
}

// The same for an import of somebody else's handle: what the driver says of a handle that is none, or of another kind,
// is an error of the caller's.
Status import_status(const CudaDriver& driver, CUresult result, const char* call);

}  // namespace tenon::cuda

// TENON_CUDA_TRY(driver, MemAlloc, &pointer, size): each use is a fault point.
#define TENON_CUDA_TRY(driver, function, ...)                                                                   \
  do {                                                                                                          \
    TENON_FAULT_POINT("cu" #function);                                                                          \
    if (const CUresult tenon_cuda_result_ = (driver).function(__VA_ARGS__); tenon_cuda_result_ != CUDA_SUCCESS) \
      return ::tenon::cuda::cuda_error((driver), tenon_cuda_result_, "cu" #function);                           \
  } while (false)
