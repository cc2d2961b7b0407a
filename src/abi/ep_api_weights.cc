// OrtEpApi: packed weights that kernels share, and kernels that run subgraphs.
#include "abi/prepacked_weights.h"
#include "abi/slots.h"
#include "abi/view_arguments.h"

OrtSharedPrePackedWeightCache::~OrtSharedPrePackedWeightCache() {
  for (void* buffer : buffers)
    if (buffer != nullptr) allocator->Free(allocator, buffer);
}

namespace tenon::abi {

namespace {

// Plugins make these kernels from the host's, which runs the subgraph; Tenon's CPU EP has none to give.
OrtStatus* no_control_flow(const char* op_type, const OrtKernelInfo* info, OrtKernelImpl** out) noexcept {
  clear(out);
  if (info == nullptr) return null_argument("kernel_info");
  if (out == nullptr) return null_argument("kernel_out");
  return ort_error(
      ORT_NOT_IMPLEMENTED,
      "Tenon has no {} kernel for plugin EPs. Leave the node to the host: do not claim it in GetCapability.", op_type);
}

}  // namespace

// Takes the buffers over when the call succeeds. Once for each weight.
OrtStatus* ep_api::SharedPrePackedWeightCache_StoreWeightData(OrtSharedPrePackedWeightCache* prepacked_weight_cache,
                                                              void** buffer_data_ptrs, size_t* buffer_data_sizes,
                                                              size_t num_buffers) noexcept {
  if (prepacked_weight_cache == nullptr) return null_argument("prepacked_weight_cache");
  if (num_buffers == 0) return ort_error(ORT_INVALID_ARGUMENT, "'num_buffers' argument should be > 0");
  if (buffer_data_ptrs == nullptr) return null_argument("buffer_data_ptrs");
  if (buffer_data_sizes == nullptr) return null_argument("buffer_data_sizes");
  if (!prepacked_weight_cache->buffers.empty())
    return ort_error(ORT_INVALID_ARGUMENT, "The weight's packed data is stored already ({} buffers).",
                     prepacked_weight_cache->buffers.size());
  return guarded([&]() -> OrtStatus* {
    prepacked_weight_cache->sizes.assign(buffer_data_sizes, buffer_data_sizes + num_buffers);
    prepacked_weight_cache->buffers.assign(buffer_data_ptrs, buffer_data_ptrs + num_buffers);
    return nullptr;
  });
}

OrtStatus* ep_api::CreateIfKernel(const OrtKernelInfo* kernel_info, OrtKernelImpl** kernel_out) noexcept {
  return no_control_flow("If", kernel_info, kernel_out);
}

OrtStatus* ep_api::CreateLoopKernel(const OrtKernelInfo* kernel_info, OrtLoopKernelHelper*,
                                    OrtKernelImpl** kernel_out) noexcept {
  return no_control_flow("Loop", kernel_info, kernel_out);
}

OrtStatus* ep_api::CreateScanKernel(const OrtKernelInfo* kernel_info, OrtScanKernelHelper*,
                                    OrtKernelImpl** kernel_out) noexcept {
  return no_control_flow("Scan", kernel_info, kernel_out);
}

}  // namespace tenon::abi
