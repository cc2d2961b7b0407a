// Functions that Tenon's host has for EPs beyond ONNX Runtime's C ABI, in one table. An EP looks it up once:
//
//   auto get = reinterpret_cast<GetEpHostApiFn>(ort->GetExperimentalFunction(kGetEpHostApi));   // API 28 and newer
//   const EpHostApi* api = get != nullptr ? get(kEpHostApiVersion) : nullptr;
//
// Null in every other host: the EP then asks the standard functions. Structs only grow at their ends, and each begins
// with its size. An EP passes the size of the struct that it was built with; the host refuses a size that is below the
// struct's first version or above its own (INVALID_ARGUMENT, with both sizes).
//
// Ownership: all that the functions give is the host's and valid until the EP's function that got the context or the
// options returns. Semaphores stay the program's; an EP that uses one after OnRunStart holds its own import of it.
// Threads: any thread of the call.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenon {

inline constexpr const char* kGetEpHostApi = "TenonGetEpHostApi";
inline constexpr uint32_t kEpHostApiVersion = 1;

extern "C" {

// One input or output of a call of a kernel or compiled node.
struct TensorDescriptor {
  ONNXTensorElementDataType element_type;  // UNDEFINED: absent, or an output whose shape only the kernel knows
  OrtMemoryInfoDeviceType device_type;
  void* data;           // null only where byte_size is 0; strings have none
  const int64_t* dims;  // `rank` numbers
  size_t rank;
  size_t byte_size;
  OrtDeviceMemoryType memory_type;
  uint32_t vendor_id;
  uint32_t device_id;
  uint32_t alignment;  // `data` is a multiple of so many bytes: a power of two up to 4096
};

struct KernelTensors {
  uint32_t size_bytes;        // of this struct in this host
  uint32_t descriptor_bytes;  // from one descriptor to the next
  const TensorDescriptor* inputs;
  const TensorDescriptor* outputs;  // an UNDEFINED one is made with KernelContext_GetOutput
  size_t input_count;
  size_t output_count;
  OrtSyncStream* stream;                 // null: a synchronous call
  const OrtSyncStreamImpl* stream_impl;  // as SyncStream_GetImpl gives it
};

// A semaphore that the EP's importer made, by the EP's own handle, and a value of it.
struct RunFence {
  OrtExternalSemaphoreHandle* semaphore;
  uint64_t value;
};

// The fences that the EP waits for and signals in a run (docs/how-to/plugins.md, "Fences of a run").
struct RunFences {
  uint32_t size_bytes;  // of this struct in this host
  uint32_t calls;       // how often the host calls the EP's kernels in this run; 0: it does not know
  const RunFence* waits;
  const RunFence* signals;
  size_t wait_count;
  size_t signal_count;
};

struct EpHostApi {
  uint32_t size_bytes;
  uint32_t version;
  // During Compute: every tensor of the call.
  OrtStatus*(ORT_API_CALL* KernelContext_GetTensors)(const OrtKernelContext* context, size_t size_bytes,
                                                     const KernelTensors** out)NO_EXCEPTION;
  // During OnRunStart: the run's fences. Null, with success: the host orders the run itself.
  OrtStatus*(ORT_API_CALL* RunOptions_GetFences)(const OrtRunOptions* options, size_t size_bytes,
                                                 const RunFences** out)NO_EXCEPTION;
  // Any time: a status with a code of <tenon/status.h> besides `code`, which programs get, so that Tenon's own codes
  // pass through the C ABI unchanged (a run out of time, memory that is exhausted). Null for StatusCode::kOk.
  OrtStatus*(ORT_API_CALL* CreateStatus)(OrtErrorCode code, uint32_t status_code, const char* message)NO_EXCEPTION;
  // The code of <tenon/status.h> of a status that this host or an EP has made; 0 for null.
  uint32_t(ORT_API_CALL* GetStatusCode)(const OrtStatus* status) NO_EXCEPTION;
};

typedef const EpHostApi*(ORT_API_CALL* GetEpHostApiFn)(uint32_t version)NO_EXCEPTION;

}  // extern "C"

// The sizes of the first version, which every host takes.
inline constexpr size_t kFirstKernelTensorsBytes = sizeof(KernelTensors);
inline constexpr size_t kFirstRunFencesBytes = sizeof(RunFences);
static_assert(std::is_standard_layout_v<KernelTensors> && std::is_standard_layout_v<RunFences>);
static_assert(sizeof(KernelTensors) == 56 && sizeof(TensorDescriptor) == 56 && sizeof(RunFences) == 40);

}  // namespace tenon
