// Imports and exports DLPack 1.0 tensors without the DLPack header: structs of <dlpack/dlpack.h> are passed by pointer.
#pragma once

#include "tenon/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tenon {

// A view of the producer's memory. Takes `managed` on success: its deleter is called exactly once, when the last Tensor
// that views it is gone. On error it stays the caller's. Devices: kDLCPU and kDLCUDAHost are host memory, kDLCUDA is
// DEFAULT and kDLCUDAManaged HOST_ACCESSIBLE memory of the GPU with this number (vendor 0x10de, Tensor::space); for
// these two the caller has waited for the work that writes the memory. Refused with the values named: other devices,
// strides that are not dense and row-major, lanes other than 1, unknown types, a version with another major number, a
// read-only tensor unless `allow_read_only`.
TENON_API Result<Tensor> tensor_from_dlpack(DLManagedTensor* managed);
TENON_API Result<Tensor> tensor_from_dlpack(DLManagedTensorVersioned* managed, bool allow_read_only = false);

// A DLPack tensor that shares `tensor`'s memory and keeps it alive until the consumer calls its deleter: kDLCPU for all
// that the host can address, kDLCUDA for other memory of an NVIDIA GPU. Memory of other devices is refused.
TENON_API Result<DLManagedTensor*> tensor_to_dlpack(const Tensor& tensor);
TENON_API Result<DLManagedTensorVersioned*> tensor_to_dlpack_versioned(const Tensor& tensor);

}  // namespace tenon
