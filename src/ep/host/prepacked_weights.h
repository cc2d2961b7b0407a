// OrtSharedPrePackedWeightCache: what OrtKernelImpl::PrePackWeight hands over so that kernels of the same weight may
// share it (SetSharedPrePackedWeight).
//
// Ownership: the cache frees what was stored with the allocator that PrePackWeight got.
// Threads: the loading thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstddef>
#include <vector>

struct OrtSharedPrePackedWeightCache {
  explicit OrtSharedPrePackedWeightCache(OrtAllocator* of) : allocator(of) {}
  ~OrtSharedPrePackedWeightCache();
  OrtSharedPrePackedWeightCache(const OrtSharedPrePackedWeightCache&) = delete;
  OrtSharedPrePackedWeightCache& operator=(const OrtSharedPrePackedWeightCache&) = delete;

  OrtAllocator* const allocator;
  std::vector<void*> buffers;
  std::vector<size_t> sizes;
};
