// The parameters of attention over caches of keys and values, as host and device read them.
#pragma once

#include <cstdint>

namespace tenon::cuda {

inline constexpr int kCachedThreads = 128;

// How many keys each batch has: `lengths` (a word a batch: the last position) or `known_keys`, and where its queries
// begin: behind the others, but at 0 in a first run, whose tokens are as many as `total` (the largest length) says.
struct KeyPositions {
  int32_t tokens = 0;        // queries of a batch
  int32_t known_keys = 0;    // where there are no lengths
  int32_t known_total = -1;  // -1: it is read, or there are no lengths
  int32_t known_before = 0;  // where there are no lengths: the position of the first query
};

// Queries and keys are turned by their position; keys and values take their places in the cache.
struct PlaceParams {
  KeyPositions at;
  int32_t batch = 0, heads = 0, kv_heads = 0, depth = 0;
  int32_t turned = 0;                       // elements of a head that are turned
  int32_t cos_rows = 0;                     // positions that cos and sin have
  int32_t room = 0;                         // positions of the cache
  int32_t q_row = 0, k_row = 0, v_row = 0;  // elements from one token to the next
  int64_t count = 0;                        // packs of elements of all heads of queries, keys and values
};

// The keys or values of a past, in a cache of their own: zeros are behind them.
struct PastParams {
  KeyPositions at;
  int32_t kv_heads = 0, depth = 0;
  int32_t past = 0, room = 0;  // positions of the past and of the cache
  int64_t count = 0;           // packs of elements of the cache
};

// RotaryEmbedding. Strides are in elements, from one batch, head and token to the next.
struct TurnParams {
  int32_t tokens = 0, heads = 0, depth = 0, turned = 0;
  int32_t rows = 0;     // of cos and sin
  int32_t follows = 0;  // there is the position of the first token alone
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  int64_t count = 0;
};

// Strides are in elements.
struct CachedParams {
  KeyPositions at;
  int32_t batch = 0, heads = 0, kv_heads = 0, depth = 0;
  int32_t splits = 1, split_keys = 0;  // a block has the keys of a split
  int32_t causal = 0, left = -1, right = -1;
  int32_t mask_keys = 0;  // keys behind those of the mask are masked
  float scale = 1, softcap = 0;
  int64_t q_batch = 0, q_head = 0, q_row = 0, k_batch = 0, k_head = 0, k_row = 0, v_batch = 0, v_head = 0, v_row = 0;
  int64_t y_batch = 0, y_head = 0, y_row = 0;
  int64_t mask_strides[4] = {};  // over [batch, heads, queries, keys]
};

inline constexpr int kStepThreads = 256, kMostStepSplits = 16, kStepMemoryBytes = 48 * 1024;

// A token a batch, whose key and value take their places: they are turned by their position as the query is.
struct StepParams {
  CachedParams attention;
  int32_t turned = 0;                        // elements of a head that are turned
  int32_t cos_rows = 0;                      // positions that cos and sin have
  int32_t room = 0;                          // positions of the cache
  int64_t new_k_batch = 0, new_v_batch = 0;  // elements from one batch's key to the next
};

}  // namespace tenon::cuda
