// Attention of ONNX, and tenon.Attention, tenon.PackedAttention and tenon.CachedAttention
// (docs/reference/internal-operators.md): Y = softmax(cap(scale * Q K^T) + mask) V for each head.
#pragma once

#include <array>

#include "ops/input_shapes.h"

namespace tenon {

// Elements from one batch, head and position to the next.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0;
};

// Where the keys before K's come from.
enum class KeyCache : uint8_t {
  kNone,
  kAppend,  // past_key and past_value stand before K and V: present is both
  kShared,  // past_key has room for more positions; the past of each batch ends where its own length says
};

// The output of a query that may attend to no key.
enum class EmptyQuery : uint8_t {
  kNaN,          // what a Softmax of -infinity gives
  kZeros,        // zeros
  kZerosForNaN,  // zeros, and where the probabilities are NaN too
};

// A value of CachedAttention's is_causal: causal, but a single query is the last position, also where the past lies in
// the keys that are given (as ONNX Runtime's MultiHeadAttention has it).
inline constexpr int64_t kCausalUnlessSingle = 2;

struct AttentionDesc {
  int64_t batch = 0, heads = 0;
  int64_t kv_heads = 0;                // of K and V: heads / kv_heads queries' heads read the same one
  int64_t queries = 0, keys = 0;       // positions of Q, and of K and V
  int64_t past = 0;                    // positions of past_key
  int64_t depth = 0, value_depth = 0;  // elements of one head of Q and K, and of V and Y
  double scale = 1;
  float softcap = 0;  // scores become cap * tanh(scores / cap); 0: they stay
  bool causal = false;
  int64_t left = -1, right = -1;  // a query's window around its own position; -1: no end
  EmptyQuery empty = EmptyQuery::kNaN;
  KeyCache cache = KeyCache::kNone;
  int64_t score_output = 0;  // of output 3: 0 products, 1 capped, 2 masked, 3 probabilities
  // Inputs of the node. PackedAttention has Q, K and V in one.
  size_t q = 0, k = 1, v = 2, mask = kNoInput, past_k = kNoInput, past_v = kNoInput;
  size_t lengths = kNoInput;  // the keys of each batch; of a shared cache with those of this run
  size_t total = kNoInput;    // the largest length, of a shared cache
  size_t sink = kNoInput;     // [heads], one more score of each query, without a value
  HeadStrides q_at, k_at, v_at, y_at;
  int64_t k_offset = 0, v_offset = 0;        // elements before the first head of a row
  std::array<int64_t, 4> mask_strides = {};  // over [batch, heads, queries, keys]; 0 where it repeats
  int64_t mask_keys = 0;                     // the keys behind those of the mask are masked
  Shape y;                                   // [batch, queries, heads * value_depth], or heads before queries
  Shape present_k, present_v;                // [batch, kv_heads, positions, ...]; a shared cache has none
  Shape scores;                              // [batch, heads, queries, total_keys]

  int64_t total_keys() const { return past + keys; }
  // Positions before the first query. `length` is that of the batch, if there are lengths.
  int64_t offset(int64_t length, bool is_first) const {
    if (cache == KeyCache::kShared) return is_first ? 0 : length - queries;
    return cache == KeyCache::kAppend ? past : lengths != kNoInput ? length - queries : 0;
  }
};

// The keys [first, last) that a query may attend to; empty where first >= last.
struct KeyRange {
  int64_t first = 0, last = 0;
};
// Of query `t` of a batch whose queries begin at position `offset`, with `keys` keys.
KeyRange key_range(const AttentionDesc& desc, int64_t t, int64_t offset, int64_t keys);

// Errors: an input is absent, an attribute is missing, shapes do not fit together or do not divide into the heads; the
// message has the shapes.
Result<AttentionDesc> read_attention(const Node& node, const InputShapes& shapes);
// The same of ai.onnx's Attention and tenon.CachedAttention.
Result<AttentionDesc> read_cached_attention(const Node& node, const InputShapes& shapes);

// tenon.CacheUpdate: new rows of keys or values take their places in a cache with room for more.
struct CacheUpdateDesc {
  int64_t batch = 0, heads = 0, rows = 0, depth = 0;
  int64_t past = 0;       // positions of the cache
  HeadStrides at;         // of the new rows
  bool has_past = false;  // input 1
  bool grows = false;     // input 3, the largest length, is there: the cache may have to become larger
};
Result<CacheUpdateDesc> read_cache_update(const Node& node, const InputShapes& shapes);

// States the attributes of a tenon.Attention in `node`.
void write_attention(int64_t heads, float scale, bool guarded, Node& node, float softcap = 0);

}  // namespace tenon
