// One step of a decoder, a token a batch: attention over a cache, which gets the token's key and value in the same
// kernel. A block has a part of the keys for all heads of queries that share them; the blocks of a head of keys are a
// cluster, whose sums meet in shared memory.
//
// The kernel is short for each thread, because nothing hides how long it takes: keys and values come to shared memory
// before the kernels ahead have ended, threads share the work on the new rows, and warps need each other at the end
// alone. A group of kLanes threads makes the score of a key, then the lanes of its warp have the elements of a value.
#pragma once

#include "ep/cuda/ops/attention/cached.cuh"
#include "ep/cuda/ops/attention/cached_params.h"
#include "ep/cuda/templates/cluster.cuh"
#include "ep/cuda/templates/kernel.cuh"
#include "ep/cuda/templates/lanes.cuh"

namespace tenon::cuda::device {

struct KeyRange {
  int first, last;
};

template <typename T, int kHeads, int kRow, int kHeld>
struct StepMemory {
  static constexpr int kWarps = kStepThreads / 32, kParts = sizeof(T) / 2;  // of 16 bytes, of eight elements
  // Keys and values: what each thread has copied, which is whole rows in the order of the keys.
  Pack<unsigned, 4> rows[2][kHeld][kParts][kStepThreads];
  float queries[kHeads][kRow];
  Pack<unsigned, 4> own[2][kRow / 8][kParts];  // the token's key and value
  float weights[kWarps][kHeads][kHeld * 256 / kRow];
  float sums[kWarps][kHeads][kRow], ends[kWarps][kHeads][2];
  // From all blocks of the cluster: their sums for this block's part of the result, and the largest score and the sum
  // of weights of all their keys.
  float gathered[kHeads * kRow + kMostStepSplits], all_ends[kMostStepSplits][kHeads][2];
};

// kHeld: the keys that a group has at once. kPlain: there is no mask, sink or cap of the scores. `early`: the caches,
// where nothing that runs before this kernel writes them, or the cosines; else null.
template <typename T, int kHeads, int kLanes, int kHeld, bool kPlain, bool kTurn, bool kInterleaved>
__global__ void __launch_bounds__(kStepThreads)
    attend_step(StepParams s, const T* q, const T* new_k, const T* new_v, const T* cosines, const T* sines,
                const T* mask, const T* sink, const int* lengths, const int* total, const long long* positions, T* k,
                T* v, T* y, const T* early) {
  constexpr int kGroups = kStepThreads / kLanes, kWarps = kStepThreads / 32, kTileKeys = kHeld * kGroups;
  constexpr int kRow = kLanes * 8, kWarpGroups = 32 / kLanes;
  using Memory = StepMemory<T, kHeads, kRow, kHeld>;
  constexpr int kParts = Memory::kParts;
  static_assert(sizeof(Memory) <= kStepMemoryBytes);
  __shared__ Memory shared;
  Memory& memory = memory_of_block(shared);
  const CachedParams& p = s.attention;
  const int thread = threadIdx.x, lane = thread % kLanes, group = thread / kLanes;
  const int warp = thread / 32, warp_lane = thread % 32;
  const int sharing = p.heads / p.kv_heads, turns = (sharing + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.x / turns, first_head = kv_head * sharing + blockIdx.x % turns * kHeads;
  const int heads = (kv_head + 1) * sharing - first_head < kHeads ? (kv_head + 1) * sharing - first_head : kHeads;
  const int batch = blockIdx.y, split = blockIdx.z;
  const bool whole = lane * 8 < p.depth;
  if (p.splits > 1) announce_block();
  let_next_kernel_start();

  // Memory may change before the wait: what is read there is read again behind it, past the processor's own cache.
  const int* const largest_length = total != nullptr ? total : lengths + batch;
  const auto keys_from = [&](int last, int largest) -> BatchKeys {
    return {last + 1, (total != nullptr ? largest : p.at.known_total) == 1 ? 0 : last};
  };
  const auto position_of = [&](const BatchKeys& keys) {
    const long long position = positions != nullptr ? load_now(positions + batch) : keys.before;
    return (int)(position < 0 ? 0 : position >= s.cos_rows ? s.cos_rows - 1 : position);
  };
  // The keys that the block has of those that the token sees.
  const auto range_of = [&](const BatchKeys& keys) {
    KeyRange range{p.left >= 0 && keys.before - p.left > 0 ? keys.before - p.left : 0, keys.keys};
    if (range.last > p.mask_keys) range.last = p.mask_keys;
    if (p.causal && range.last > keys.before + 1) range.last = keys.before + 1;
    const int split_first = split * p.split_keys, split_last = split_first + p.split_keys;
    if (range.first < split_first) range.first = split_first;
    if (range.last > split_last) range.last = split_last;
    if (range.last > s.room) range.last = s.room;
    return range;
  };
  T* const k_head = k + batch * p.k_batch + kv_head * p.k_head + lane * 8;
  T* const v_head = v + batch * p.v_batch + kv_head * p.v_head + lane * 8;
  const auto copy_rows = [&](const KeyRange& range, int tile) {
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      const int key = tile + n * kGroups + group;
      const bool there = whole && key < range.last;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const long long at = part * 4;
        copy_to_shared<16>(&memory.rows[0][n][part][thread], k_head + (there ? key * p.k_row + at : 0), there);
        copy_to_shared<16>(&memory.rows[1][n][part][thread], v_head + (there ? key * p.v_row + at : 0), there);
      }
    }
  };
  // The new rows, an element a thread: kHeads queries, the key and the value. An element is turned with another one;
  // the factors of queries have the scale of the scores, in powers of two.
  constexpr int kTurns = ((kHeads + 2) * kRow + kStepThreads - 1) / kStepThreads;
  constexpr float kPowers = 1.44269504f;
  const int half = s.turned / 2;
  const float scale = p.scale * (kPlain ? kPowers : 1.0f);
  const T *own[kTurns], *other[kTurns];
  float factors[kTurns], other_factors[kTurns] = {};
#pragma unroll
  for (int n = 0; n < kTurns; ++n) {
    const int row = (thread + n * kStepThreads) / kRow, d = (thread + n * kStepThreads) % kRow;
    const T* const from = row < kHeads    ? q + batch * p.q_batch + (first_head + row) * p.q_head
                          : row == kHeads ? new_k + batch * s.new_k_batch + kv_head * p.depth
                                          : new_v + batch * s.new_v_batch + kv_head * p.depth;
    const bool there = d < p.depth && (row < heads || row >= kHeads) && row < kHeads + 2;
    const bool turned = kTurn && there && d < s.turned && row <= kHeads;
    own[n] = there ? from + d : nullptr;
    other[n] = turned ? from + (kInterleaved ? d ^ 1 : d < half ? d + half : d - half) : nullptr;
    factors[n] = row < kHeads ? scale : 1.0f;
  }
  const auto load_angles = [&](int position) {
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      const int row = (thread + n * kStepThreads) / kRow, d = (thread + n * kStepThreads) % kRow;
      if (other[n] == nullptr) continue;
      const bool second = kInterleaved ? d % 2 != 0 : d >= half;
      const long long at = (long long)position * half + (kInterleaved ? d / 2 : second ? d - half : d);
      const float unit = row < kHeads ? scale : 1.0f;
      factors[n] = (float)load(cosines[at]) * unit;
      other_factors[n] = (float)load(sines[at]) * (second ? unit : -unit);
    }
  };
  KeyRange guessed{-1, -1};
  int guessed_position = -1;
  if (early != nullptr) {
    const BatchKeys keys = keys_from(load_now(lengths + batch), load_now(largest_length));
    guessed = range_of(keys);
    copy_rows(guessed, guessed.first);
    if constexpr (kTurn) load_angles(guessed_position = position_of(keys));
  }
  wait_for_previous_kernel();

  // All loads are on their way before the first one is waited for.
  T elements[kTurns] = {}, others[kTurns] = {};
#pragma unroll
  for (int n = 0; n < kTurns; ++n) {
    if (own[n] != nullptr) elements[n] = *own[n];
    if (kTurn && other[n] != nullptr) others[n] = *other[n];
  }
  const int last = load_now(lengths + batch), largest = load_now(largest_length);
  const BatchKeys keys = keys_from(last, largest);
  const KeyRange range = range_of(keys);
  if (range.first != guessed.first || range.last != guessed.last) {
    wait_for_copies();
    copy_rows(range, range.first);
  }
  if constexpr (kTurn)
    if (const int position = position_of(keys); position != guessed_position) load_angles(position);
#pragma unroll
  for (int n = 0; n < kTurns; ++n) {
    const int row = (thread + n * kStepThreads) / kRow, d = (thread + n * kStepThreads) % kRow;
    float element = (float)load(elements[n]) * factors[n];
    if constexpr (kTurn) element += (float)load(others[n]) * other_factors[n];
    if (row < kHeads) {
      memory.queries[row][d] = element;
    } else if (row < kHeads + 2) {
      reinterpret_cast<T*>(memory.own[row - kHeads])[d] = store<T>(element);
    }
  }
  wait_for_copies();
  __syncthreads();

  const int place = keys.before;
  // How many neighbouring elements of values a lane has, and how many of them are loaded at once.
  constexpr int kEach = kRow < 32 ? 1 : kRow / 32, kVector = kEach < 16 / (int)sizeof(T) ? kEach : 16 / (int)sizeof(T);
  const int first_element = warp_lane * kEach;
  float out[kHeads][kEach] = {}, most[kHeads], all[kHeads] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) most[h] = -infinity_();
  for (int tile = range.first; tile < range.last; tile += kTileKeys) {
    if (tile != range.first) {
      __syncwarp();
      copy_rows(range, tile);
      wait_for_copies();
    }
    // The token's own key and value, which the block of their place also stores.
    const int from_tile = place - tile;
    if (from_tile >= 0 && from_tile < kTileKeys && place < range.last && from_tile % kGroups == group && whole) {
      const int n = from_tile / kGroups;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Pack<unsigned, 4> key = memory.own[0][lane][part], value = memory.own[1][lane][part];
        memory.rows[0][n][part][thread] = key;
        memory.rows[1][n][part][thread] = value;
        if (blockIdx.x % turns != 0) continue;
        reinterpret_cast<Pack<unsigned, 4>*>(k_head + place * p.k_row)[part] = key;
        reinterpret_cast<Pack<unsigned, 4>*>(v_head + place * p.v_row)[part] = value;
      }
    }
    __syncwarp();
    // Sums and maxima over lanes are made together, so that none waits for another one.
    float scores[kHeld * kHeads], now[kHeads];
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      float row[8];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        constexpr int kPart = 8 / kParts;
        const auto pack = *reinterpret_cast<const Pack<T, kPart>*>(&memory.rows[0][n][part][thread]);
#pragma unroll
        for (int i = 0; i < kPart; ++i) row[part * kPart + i] = (float)load(pack.v[i]);
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const auto* const query = reinterpret_cast<const Pack<float, 4>*>(&memory.queries[h][lane * 8]);
        float score = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) score += query[i / 4].v[i % 4] * row[i];
        scores[n * kHeads + h] = score;
      }
    }
    lane_sums<kLanes>(scores);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      now[h] = most[h];
#pragma unroll
      for (int n = 0; n < kHeld; ++n) {
        const int key = tile + n * kGroups + group;
        float& score = scores[n * kHeads + h];
        if constexpr (!kPlain) {
          if (p.softcap > 0) score = p.softcap * tanh_of(score / p.softcap);
          if (mask != nullptr && key < range.last && h < heads)
            score += (float)load(
                mask[batch * p.mask_strides[0] + (first_head + h) * p.mask_strides[1] + key * p.mask_strides[3]]);
          score *= kPowers;
        }
        if (key >= range.last) score = -infinity_();
        now[h] = fmaxf(now[h], score);
      }
    }
    group_maxima<kLanes>(now);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float base = now[h] == -infinity_() ? 0.0f : now[h], factor = power_of_two(most[h] - base);
      most[h] = now[h];
      all[h] *= factor;
#pragma unroll
      for (int e = 0; e < kEach; ++e) out[h][e] *= factor;
#pragma unroll
      for (int n = 0; n < kHeld; ++n) {
        const float weight = power_of_two(scores[n * kHeads + h] - base);
        all[h] += weight;
        if (lane == 0) memory.weights[warp][h][n * kWarpGroups + group % kWarpGroups] = weight;
      }
    }
    __syncwarp();
    if (first_element >= kRow) continue;
#pragma unroll
    for (int n = 0; n < kHeld; ++n)
#pragma unroll 4
      for (int one = 0; one < kWarpGroups; ++one) {
        float value[kEach];
#pragma unroll
        for (int e = 0; e < kEach; e += kVector) {
          const int d = first_element + e, part = d % 8 / (8 / kParts);
          const auto* const slot = &memory.rows[1][n][part][warp * 32 + one * kLanes + d / 8];
          const auto pack =
              *reinterpret_cast<const Pack<T, kVector>*>(reinterpret_cast<const T*>(slot) + d % (8 / kParts));
#pragma unroll
          for (int i = 0; i < kVector; ++i) value[e + i] = (float)load(pack.v[i]);
        }
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float weight = memory.weights[warp][h][n * kWarpGroups + one];
#pragma unroll
          for (int e = 0; e < kEach; ++e) out[h][e] += weight * value[e];
        }
      }
  }
  group_sums<kLanes>(all);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (warp_lane == 0) memory.ends[warp][h][0] = most[h], memory.ends[warp][h][1] = all[h];
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      if (first_element < kRow) memory.sums[warp][h][first_element + e] = out[h][e];
  }
  __syncthreads();

  // The warps of the block; each result goes to the block that makes it, which has neighbouring ones.
  constexpr int kResults = kHeads * kRow;
  const int part = kResults / p.splits;
  const auto largest_of = [&](int h) {
    float now = memory.ends[0][h][0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) now = fmaxf(now, memory.ends[w][h][0]);
    return now;
  };
  if (p.splits > 1) await_announced();
#pragma unroll 1
  for (int at = thread; at < kResults; at += kStepThreads) {
    const int h = at / kRow, to = at * p.splits / kResults;
    const float now = largest_of(h), base = now == -infinity_() ? 0.0f : now;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += memory.sums[w][h][at % kRow] * power_of_two(memory.ends[w][h][0] - base);
    store_at(to, &memory.gathered[split * part + at - to * part], sum);
  }
  // The last threads, which have fewer results.
  static_assert(kHeads * kMostStepSplits <= kStepThreads);
  if (const int at = kStepThreads - 1 - thread; at < kHeads * p.splits) {
    const int to = at / kHeads, h = at % kHeads;
    const float now = largest_of(h), base = now == -infinity_() ? 0.0f : now;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += memory.ends[w][h][1] * power_of_two(memory.ends[w][h][0] - base);
    store_at(to, &memory.all_ends[split][h][0], now);
    store_at(to, &memory.all_ends[split][h][1], sum);
  }
  if (p.splits > 1) {
    sync_cluster();
  } else {
    __syncthreads();
  }
  // A thread a block of the cluster for each result.
#pragma unroll 1
  for (int first = 0; first < part; first += kStepThreads / kMostStepSplits) {
    const int at = first + thread / kMostStepSplits, from = thread % kMostStepSplits;
    const int h = (split * part + at) / kRow, element = (split * part + at) % kRow;
    const bool mine = at < part && h < heads && element < p.depth, there = mine && from < p.splits;
    float extra = -infinity_();
    if (!kPlain && sink != nullptr) extra = (float)load(sink[first_head + (mine ? h : 0)]) * kPowers;
    const float largest = there ? memory.all_ends[from][h][0] : -infinity_();
    float now = lane_max<kMostStepSplits>(largest);
    const bool empty = now == -infinity_();
    now = fmaxf(now, extra);
    const float base = now == -infinity_() ? 0.0f : now, factor = power_of_two(largest - base);
    float both[] = {there ? memory.gathered[from * part + at] * factor : 0.0f,
                    there ? memory.all_ends[from][h][1] * factor : 0.0f};
    lane_sums<kMostStepSplits>(both);
    float weights = both[1];
    if (!kPlain) weights += power_of_two(extra - base);
    if (mine && from == 0)
      y[batch * p.y_batch + (first_head + h) * p.y_head + element] = store<T>(empty ? 0.0f : both[0] / weights);
  }
}

}  // namespace tenon::cuda::device
