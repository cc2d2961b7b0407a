// CUDA inside a graphics context (S1.9): checks the configuration of InitGraphicsInterop and converts it to CUDA's.
#pragma once

#include "ep/cuda/driver/cuda_device.h"
#include "ep/sdk/plugin_host.h"

namespace tenon::cuda {

// D3D12: the configuration's command queue. Vulkan: what vkGetExternalComputeQueueDataNV wrote, whose address is the
// additional option "VkExternalComputeQueueDataParamsNV_data", as ONNX Runtime's own EP for NVIDIA takes it.
// Errors: kInvalidArgument names the field or option; kUnsupported says that the device, named by `who`, has no
// contexts inside that API.
Result<CUctxCigParam> read_graphics_config(const CudaDriver& driver, int ordinal, const std::string& who,
                                           const OrtGraphicsInteropConfig& config, const plugin::TextPairs& options);

}  // namespace tenon::cuda
