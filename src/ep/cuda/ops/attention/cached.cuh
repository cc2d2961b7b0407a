// Attention of a few queries over many keys: the keys are split between blocks, and a block computes all heads of
// queries that share a head of keys, so that each key is read once. `attend_split` writes its part of the sum, with the
// largest score and the sum of the weights; `join_splits` puts the parts together, in the order of the splits.
#pragma once

#include "ep/cuda/ops/attention/cached_params.h"
#include "ep/cuda/templates/kernel.cuh"
#include "ep/cuda/templates/lanes.cuh"

namespace tenon::cuda::device {

struct BatchKeys {
  int keys, before;  // keys of the batch, and the position of its first query
};
__device__ __forceinline__ BatchKeys keys_of(const KeyPositions& at, int batch, const int* lengths, const int* total) {
  if (lengths == nullptr) return {at.known_keys, at.known_before};
  const int keys = lengths[batch] + 1;
  const int largest = total != nullptr ? *total : at.known_total;
  return {keys, largest == at.tokens ? 0 : keys - at.tokens};
}

// A thread a pack of kVector elements of the cache [batch, kv_heads, room, depth].
template <typename T, int kVector>
__global__ void __launch_bounds__(kMapThreads)
    keep_past(PastParams p, const T* past, const int* lengths, const int* total, T* cache) {
  using Vector = Pack<T, kVector>;
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x, packs = p.depth / kVector;
  begin_kernel();
  if (at >= p.count) return;
  const unsigned d = at % packs * kVector, row = at / packs, heads = row / p.room;
  const int position = (int)(row % p.room);
  const bool kept = position < keys_of(p.at, (int)(heads / p.kv_heads), lengths, total).before && position < p.past;
  Vector pack{};
  if (kept) pack = *reinterpret_cast<const Vector*>(past + ((long long)heads * p.past + position) * p.depth + d);
  *reinterpret_cast<Vector*>(cache + (long long)at * kVector) = pack;
}

// A thread a pack of kVector elements: of q [batch, tokens, heads, depth] where it is turned, then of keys, then of
// values. Neighbouring pairs are turned with kInterleaved, otherwise elements that are half of the turned ones apart.
template <typename T, bool kTurn, bool kInterleaved, int kVector>
__global__ void __launch_bounds__(kMapThreads)
    place_heads(PlaceParams p, const T* q, const T* k, const T* v, const T* cosines, const T* sines, const int* lengths,
                const int* total, const long long* positions, T* turned_q, T* k_cache, T* v_cache) {
  using Vector = Pack<T, kVector>;
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  begin_kernel();
  if (at >= p.count) return;
  const unsigned all_heads = (kTurn ? p.heads : 0) + 2 * p.kv_heads, packs = p.depth / kVector;
  const int d = (int)(at % packs) * kVector;
  unsigned rest = at / packs;
  int head = (int)(rest % all_heads);
  rest /= all_heads;
  const int token = (int)(rest % p.at.tokens), batch = (int)(rest / p.at.tokens);
  const long long row = (long long)batch * p.at.tokens + token;
  const int queries = kTurn ? p.heads : 0;
  const int part = head < queries ? 0 : head < queries + p.kv_heads ? 1 : 2;
  head -= part == 0 ? 0 : part == 1 ? queries : queries + p.kv_heads;
  const T* const from = part == 0   ? q + row * p.q_row + (long long)head * p.depth
                        : part == 1 ? k + row * p.k_row + (long long)head * p.depth
                                    : v + row * p.v_row + (long long)head * p.depth;
  Vector pack = *reinterpret_cast<const Vector*>(from + d);
  const bool turns = kTurn && part != 2 && d < p.turned;
  const int half = p.turned / 2;
  const bool second = kInterleaved ? d % 2 != 0 : d >= half;
  // The other element of each pair: in an interleaved pack of several it is the neighbour.
  Vector others = pack;
  if (turns && (!kInterleaved || kVector == 1))
    others = *reinterpret_cast<const Vector*>(from + (kInterleaved ? d ^ 1 : second ? d - half : d + half));
  const BatchKeys keys = keys_of(p.at, batch, lengths, total);
  const int place = keys.before + token;
  if (turns) {
    constexpr int kAngles = kInterleaved && kVector > 1 ? kVector / 2 : kVector;
    using Angles = Pack<T, kAngles>;
    long long position = positions != nullptr ? positions[row] : place;
    if (position < 0) position = 0;
    if (position >= p.cos_rows) position = p.cos_rows - 1;
    const long long entry = position * half + (kInterleaved ? d / 2 : second ? d - half : d);
    const Angles cosine = *reinterpret_cast<const Angles*>(cosines + entry);
    const Angles sine = *reinterpret_cast<const Angles*>(sines + entry);
    const Vector plain = pack;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const bool in_pack = kInterleaved && kVector > 1;
      const int angle = in_pack ? i / 2 : i;
      const float other = (float)load(in_pack ? plain.v[i ^ (kVector > 1 ? 1 : 0)] : others.v[i]);
      const bool later = in_pack ? i % 2 != 0 : second;
      pack.v[i] = store<T>((float)load(plain.v[i]) * (float)load(cosine.v[angle]) +
                           (later ? other : -other) * (float)load(sine.v[angle]));
    }
  }
  if (part == 0) {
    *reinterpret_cast<Vector*>(turned_q + (row * p.heads + head) * p.depth + d) = pack;
    return;
  }
  if (place < 0 || place >= p.room) return;
  T* const cache = part == 1 ? k_cache : v_cache;
  *reinterpret_cast<Vector*>(cache + (((long long)batch * p.kv_heads + head) * p.room + place) * p.depth + d) = pack;
}

// A thread an element, counted as [batch, tokens, heads, depth]. Without positions cos and sin have a row a token.
template <typename T, bool kInterleaved>
__global__ void __launch_bounds__(kMapThreads)
    turn_heads(TurnParams p, const T* x, const T* cosines, const T* sines, const long long* positions, T* y) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  begin_kernel();
  if (at >= p.count) return;
  const int d = (int)(at % p.depth);
  const long long rest = at / p.depth, row = rest / p.heads;
  const int head = (int)(rest % p.heads), token = (int)(row % p.tokens);
  const long long from = row / p.tokens * p.batch_stride + head * p.head_stride + token * p.row_stride;
  float value = (float)load(x[from + d]);
  if (d < p.turned) {
    const int half = p.turned / 2;
    const bool second = kInterleaved ? d % 2 != 0 : d >= half;
    const int angle = kInterleaved ? d / 2 : second ? d - half : d;
    const float other = (float)load(x[from + (kInterleaved ? d ^ 1 : second ? d - half : d + half)]);
    long long position = positions == nullptr ? row : p.follows ? positions[0] + token : positions[row];
    if (position < 0) position = 0;
    if (position >= p.rows) position = p.rows - 1;
    const long long entry = position * half + angle;
    value = value * (float)load(cosines[entry]) + (second ? other : -other) * (float)load(sines[entry]);
  }
  y[from + d] = store<T>(value);
}

// Thread groups of kLanes have a key; a lane has eight elements of it. `parts` is [batch, tokens, heads, splits,
// depth], `ends` the largest score and the sum of weights of each of those; with one split they are null, and y is
// written. kTurns: the keys that a group loads at once; few where a split has few, since all of them are computed with.
template <typename T, int kHeads, int kLanes, int kTurns>
__global__ void __launch_bounds__(kCachedThreads)
    attend_split(CachedParams p, const T* q, const T* k, const T* v, const T* mask, const T* sink, const int* lengths,
                 const int* total, T* y, float* parts, float* ends) {
  constexpr int kGroups = kCachedThreads / kLanes, kWarps = kCachedThreads / 32;
  // The keys whose scores are in shared memory at once.
  constexpr int kTileKeys = kTurns * kGroups;
  // Values need not wait for the scores where registers have room for both.
  constexpr bool kEarlyValues = kTurns * sizeof(T) <= 8;
  __shared__ float scores[kHeads][kTileKeys];
  __shared__ float totals[kHeads], largests[kHeads], factors[kHeads];
  __shared__ float sums[kWarps][kHeads][kLanes * 8];
  begin_kernel();
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const int warp = threadIdx.x / 32, warp_lane = threadIdx.x % 32;
  const int sharing = p.heads / p.kv_heads, turns = (sharing + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.y / turns, first_head = kv_head * sharing + blockIdx.y % turns * kHeads;
  const int heads = (kv_head + 1) * sharing - first_head < kHeads ? (kv_head + 1) * sharing - first_head : kHeads;
  const int batch = blockIdx.z / p.at.tokens, token = blockIdx.z % p.at.tokens;
  const BatchKeys batch_keys = keys_of(p.at, batch, lengths, total);
  const int position = batch_keys.before + token;
  int first = p.left >= 0 && position - p.left > 0 ? position - p.left : 0, last = batch_keys.keys;
  if (last > p.mask_keys) last = p.mask_keys;
  if (p.causal && last > position + 1) last = position + 1;
  if (p.right >= 0 && last > position + p.right + 1) last = position + p.right + 1;
  const int split_first = blockIdx.x * p.split_keys, split_last = split_first + p.split_keys;
  if (first < split_first) first = split_first;
  if (last > split_last) last = split_last;
  const bool whole = lane * 8 < p.depth;
  float query[kHeads][8], out[kHeads][8] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    Pack<T, 8> pack{};
    if (whole && h < heads)
      pack = *reinterpret_cast<const Pack<T, 8>*>(q + batch * p.q_batch + (first_head + h) * p.q_head +
                                                  token * p.q_row + lane * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) query[h][i] = (float)load(pack.v[i]) * p.scale;
  }
  if (threadIdx.x < kHeads) {
    largests[threadIdx.x] = -infinity_();
    totals[threadIdx.x] = 0;
  }
  const T* const key_rows = k + batch * p.k_batch + kv_head * p.k_head + lane * 8;
  const T* const value_rows = v + batch * p.v_batch + kv_head * p.v_head + lane * 8;
  for (int tile = first; tile < last; tile += kTileKeys) {
    const int tile_last = tile + kTileKeys < last ? tile + kTileKeys : last;
    Pack<T, 8> rows[kTurns], values[kTurns];
    const auto load_rows = [&](const T* from, long long row, Pack<T, 8>(&to)[kTurns]) {
#pragma unroll
      for (int n = 0; n < kTurns; ++n) {
        const int key = tile + n * kGroups + group;
        to[n] = Pack<T, 8>{};
        if (whole && key < tile_last) to[n] = *reinterpret_cast<const Pack<T, 8>*>(from + key * row);
      }
    };
    load_rows(key_rows, p.k_row, rows);
    if constexpr (kEarlyValues) load_rows(value_rows, p.v_row, values);
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      const int key = tile + n * kGroups + group;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float score = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) score += query[h][i] * (float)load(rows[n].v[i]);
        score = lane_sum<kLanes>(score);
        if (lane != 0) continue;
        if (p.softcap > 0) score = p.softcap * tanh_of(score / p.softcap);
        if (mask != nullptr && key < tile_last && h < heads)
          score += (float)load(mask[batch * p.mask_strides[0] + (first_head + h) * p.mask_strides[1] +
                                    token * p.mask_strides[2] + key * p.mask_strides[3]]);
        scores[h][key - tile] = key < tile_last ? score : -infinity_();
      }
    }
    // Otherwise they come while the weights are computed.
    if constexpr (!kEarlyValues) load_rows(value_rows, p.v_row, values);
    __syncthreads();
    // A warp a head.
#pragma unroll
    for (int first_of = 0; first_of < kHeads; first_of += kWarps) {
      const int h = first_of + warp;
      const bool mine = h < kHeads;
      float most = -infinity_();
#pragma unroll
      for (int key = warp_lane; key < kTileKeys; key += 32)
        if (mine) most = fmaxf(most, scores[h][key]);
      most = lane_max<32>(most);
      const float before = mine ? largests[h] : 0.0f;
      if (most < before) most = before;
      const float base = most == -infinity_() ? 0.0f : most;
      float weights = 0;
#pragma unroll
      for (int key = warp_lane; key < kTileKeys; key += 32) {
        if (!mine) continue;
        const float weight = exp_of(scores[h][key] - base);
        scores[h][key] = weight;
        weights += weight;
      }
      weights = lane_sum<32>(weights);
      if (mine && warp_lane == 0) {
        const float factor = exp_of(before - base);
        factors[h] = factor;
        largests[h] = most;
        totals[h] = totals[h] * factor + weights;
      }
    }
    __syncthreads();
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float factor = factors[h];
#pragma unroll
      for (int i = 0; i < 8; ++i) out[h][i] *= factor;
#pragma unroll
      for (int n = 0; n < kTurns; ++n) {
        const int key = tile + n * kGroups + group;
        // Behind the last key there may be anything.
        const float weight = key < tile_last ? scores[h][key - tile] : 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) out[h][i] += weight * (float)load(values[n].v[i]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float sum = group_sum<kLanes>(out[h][i]);
      if (warp_lane < kLanes) sums[warp][h][lane * 8 + i] = sum;
    }
  __syncthreads();
  for (int at = threadIdx.x; at < heads * p.depth; at += kCachedThreads) {
    const int h = at / p.depth, d = at - h * p.depth;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += sums[w][h][d];
    const int head = first_head + h;
    if (parts == nullptr) {
      float all = totals[h];
      if (sink != nullptr) {
        const float own = (float)load(sink[head]), most = fmaxf(largests[h], own);
        const float factor = exp_of(largests[h] - most);
        sum *= factor;
        all = all * factor + exp_of(own - most);
      }
      const bool empty = largests[h] == -infinity_();
      y[batch * p.y_batch + head * p.y_head + token * p.y_row + d] = store<T>(empty ? 0.0f : sum / all);
    } else {
      const long long part = ((long long)blockIdx.z * p.heads + head) * p.splits + blockIdx.x;
      parts[part * p.depth + d] = sum;
      if (d == 0) {
        ends[part * 2] = largests[h];
        ends[part * 2 + 1] = totals[h];
      }
    }
  }
}

// A thread an element of y, counted as [batch, tokens, heads, depth].
template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    join_splits(CachedParams p, const float* parts, const float* ends, const T* sink, T* y) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  begin_kernel();
  const int d = (int)(at % p.depth);
  const long long row = at / p.depth;
  const int head = (int)(row % p.heads);
  const long long query = row / p.heads;
  const int token = (int)(query % p.at.tokens), batch = (int)(query / p.at.tokens);
  if (batch >= p.batch) return;
  const float* const end = ends + row * p.splits * 2;
  float most = -infinity_(), all = 0, sum = 0;
  // Sixteen at once: one after the other their loads would be most of the time.
  constexpr int kTogether = 16;
  for (int first = 0; first < p.splits; first += kTogether) {
    float largests[kTogether], totals[kTogether], sums[kTogether], now = most;
#pragma unroll
    for (int s = 0; s < kTogether; ++s) {
      const bool there = first + s < p.splits;
      largests[s] = there ? end[2 * (first + s)] : -infinity_();
      totals[s] = there ? end[2 * (first + s) + 1] : 0.0f;
      sums[s] = there ? parts[(row * p.splits + first + s) * p.depth + d] : 0.0f;
    }
#pragma unroll
    for (int s = 0; s < kTogether; ++s) now = fmaxf(now, largests[s]);
    if (now == -infinity_()) continue;
    const float factor = exp_of(most - now);
    all *= factor;
    sum *= factor;
#pragma unroll
    for (int s = 0; s < kTogether; ++s) {
      const float part = exp_of(largests[s] - now);
      all += totals[s] * part;
      sum += sums[s] * part;
    }
    most = now;
  }
  const bool empty = most == -infinity_();
  if (sink != nullptr && !empty) {
    const float own = (float)load(sink[head]), now = fmaxf(most, own), factor = exp_of(most - now);
    all = all * factor + exp_of(own - now);
    sum *= factor;
  }
  y[batch * p.y_batch + head * p.y_head + token * p.y_row + d] = store<T>(empty ? 0.0f : sum / all);
}

}  // namespace tenon::cuda::device
