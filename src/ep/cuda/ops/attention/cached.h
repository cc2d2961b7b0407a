// Attention of a few queries over keys that lie anywhere (cached.cuh).
#pragma once

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/attention/cached_params.h"

namespace tenon::cuda {

struct CachedTensors {
  TensorId q = kNoTensor, k = kNoTensor, v = kNoTensor;
  TensorId mask = kNoTensor;     // added to the scores
  TensorId sink = kNoTensor;     // [heads], one more score of each query
  TensorId lengths = kNoTensor;  // int32 [batch], the last position
  TensorId total = kNoTensor;    // int32
  TensorId y = kNoTensor;
};

// Whether the kernel has heads of so many elements.
bool takes_cached(int64_t depth);
// `most_keys`: that a batch may have. The kernel chooses its splits from sizes alone.
Status add_cached_attention(Lowering& to, const Node& node, DataType type, CachedParams params,
                            const CachedTensors& tensors, int64_t most_keys);

// The same by that kernel or, for many queries, by AttentionOp.
Status add_attention(Lowering& to, const Node& node, DataType type, const CachedParams& params,
                     const CachedTensors& tensors, int64_t most_keys);

}  // namespace tenon::cuda
