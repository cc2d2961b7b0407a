// OrtEpApi: packed weights that kernels share.
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/prepacked_weights.h"

OrtSharedPrePackedWeightCache::~OrtSharedPrePackedWeightCache() {
  for (void* buffer : buffers)
    if (buffer != nullptr) allocator->Free(allocator, buffer);
}

namespace tenon::abi {

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

}  // namespace tenon::abi
