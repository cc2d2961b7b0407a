// softmax(Q K^T * scale + mask) V of 16-bit heads, without the scores in memory. Tensor cores make the scores of a
// block of keys while those of the block before become probabilities.
#pragma once

#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/attention/common.cuh"
#include "ep/cuda/ops/attention/tile.h"

namespace tenon::cuda::device {

// Without a mask the scale is positive. Rows are copied kBytes at a time, 16 or 8.
template <typename T, int kHead, int kTiles, int kQueryWarps, int kKeyWarps, int kBytes, bool kMask>
struct TiledAttention {
  static constexpr AttentionTile kTile = {kHead, kTiles, kQueryWarps, kKeyWarps};
  static constexpr int kWarps = kTile.warps(), kThreads = kTile.threads(), kQueriesAWarp = kTile.queries_a_warp(),
                       kQueries = kTile.queries();
  static constexpr int kKeysAWarp = kTile.keys_a_warp(), kKeys = kTile.keys(), kSteps = kTile.steps();
  static constexpr int kRowBytes = kTile.row_bytes(), kTensorBytes = kKeys * kRowBytes, kJoinRow = kTile.join_row();

  // A thread has the same place in each row that it copies.
  struct Loader {
    static constexpr int kPlaces = kSteps * 32 / kBytes;
    static constexpr int kLanes = kPlaces <= 4 ? 4 : kPlaces <= 8 ? 8 : kPlaces <= 16 ? 16 : kPlaces <= 32 ? 32 : 64;
    static constexpr int kRowsAPass = kThreads / kLanes;
    static_assert(kThreads % kLanes == 0 && kKeys % kRowsAPass == 0);

    int row, place;
    bool reads;

    __device__ __forceinline__ explicit Loader(int head_size) {
      row = threadIdx.x / kLanes, place = threadIdx.x % kLanes;
      reads = place * kBytes < head_size * static_cast<int>(sizeof(T));
    }
    // Zeros behind the head's elements in `rows` rows at `to`: nobody writes there again.
    __device__ __forceinline__ void clear(uint32_t to, int rows) const {
      if (reads || place >= kPlaces) return;
      for (int r = row; r < rows; r += kRowsAPass) clear_shared(to + r * kRowBytes + place * kBytes);
    }
    // This thread's place in the first row that it copies.
    __device__ __forceinline__ const char* first(const T* from, int64_t row_stride) const {
      return reinterpret_cast<const char*>(from + row * row_stride) + place * kBytes;
    }
    // Copies kRows rows to `to`, `left` of which are there; zeros for the others. `at` goes on to the row behind them,
    // `step` bytes each pass.
    template <int kRows>
    __device__ __forceinline__ void rows(uint32_t to, const char*& at, int64_t step, int left) const {
      if (!reads || (kRows < kRowsAPass && row >= kRows)) return;
      to += row * kRowBytes + place * kBytes;
#pragma unroll
      for (int r = 0; r < kRows; r += kRowsAPass, at += step) copy(to + r * kRowBytes, at, row + r < left);
    }
  };

  static __device__ __forceinline__ void clear_shared(uint32_t at) {
    if constexpr (kBytes == 16)
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
    else
      asm volatile("st.shared.v2.u32 [%0], {%1, %1};" ::"r"(at), "r"(0) : "memory");
  }
  static __device__ __forceinline__ void copy(uint32_t to, const char* from, bool valid) {
    if constexpr (kBytes == 16)
      copy_async(to, from, valid);
    else
      copy_async_half(to, from, valid);
  }

  static __device__ __forceinline__ void run(const AttentionParams& p) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int query_warp = warp / kKeyWarps, key_warp = warp % kKeyWarps;
    const int head = blockIdx.y % p.heads, image = blockIdx.y / p.heads;
    // The last queries have the most keys: they begin first.
    const int first_query = (p.causal != 0 ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * kQueries;
    const T* const q = static_cast<const T*>(p.q) + image * p.q_batch + head * p.q_head + first_query * p.q_row;
    const T* const k = static_cast<const T*>(p.k) + image * p.k_batch + head / p.sharing * p.k_head;
    const T* const v = static_cast<const T*>(p.v) + image * p.v_batch + head / p.sharing * p.v_head;
    uint32_t shared_q = shared_address(shared);
    // A number from here on: else it is computed anew, from a special register, wherever it is used.
    asm volatile("" : "+r"(shared_q));
    const uint32_t shared_k = shared_q + kQueries * kRowBytes, shared_v = shared_k + 2 * kTensorBytes;
    const Loader load(p.head_size), load_v(p.value_size);
    load.clear(shared_q, kQueries + 2 * kKeys);
    load_v.clear(shared_v, 2 * kKeys);
    wait_for_previous_kernel();
    let_next_kernel_start();
    const BatchKeys of = keys_of(p, image);
    const int before = of.before;
    // No query of the block sees what is behind its last one.
    const int all_keys = p.causal != 0 ? max(min(of.keys, before + first_query + kQueries), 0) : of.keys;
    const int blocks = (all_keys + kKeys - 1) / kKeys;
    const auto step = [&](int64_t row_stride) {
      return Loader::kRowsAPass * row_stride * static_cast<int64_t>(sizeof(T));
    };
    const char *q_at = load.first(q, p.q_row), *k_at = load.first(k, p.k_row), *v_at = load.first(v, p.v_row);
    const int64_t k_step = step(p.k_row), v_step = step(p.v_row);
    // Blocks of keys, and of values, are in two buffers each.
    const auto load_keys = [&](int block, int buffer) {
      load.rows<kKeys>(shared_k + buffer * kTensorBytes, k_at, k_step, all_keys - block * kKeys);
    };
    const auto load_values = [&](int block, int buffer) {
      load_v.rows<kKeys>(shared_v + buffer * kTensorBytes, v_at, v_step, all_keys - block * kKeys);
    };
    load.rows<kQueries>(shared_q, q_at, step(p.q_row), p.queries - first_query);
    load_keys(0, 0);
    commit_copies();
    load_values(0, 0);
    if (blocks > 1) load_keys(1, 1);
    commit_copies();

    State s;
    s.scale = p.scale * kLog2e;
    s.row = first_query + query_warp * kQueriesAWarp + lane / 4;
    s.keys = all_keys, s.before = before, s.causal = p.causal != 0;
    const uint32_t warp_keys = key_warp * kKeysAWarp * kRowBytes;
    // Where the lane's rows of matrices are.
    s.keys_at = shared_k + warp_keys + (lane % 8 + lane / 16 * 8) * kRowBytes + lane / 8 % 2 * 16;
    s.values_at = shared_v + warp_keys + lane % 16 * kRowBytes + lane / 16 * 16;
    s.last_values_at = shared_v + warp_keys + lane * kRowBytes + (kHead / 8 - 1) * 16;
    s.first_key = key_warp * kKeysAWarp + lane % 4 * 2;
    if constexpr (kMask) s.mask = static_cast<const T*>(p.mask) + image * p.mask_batch + head * p.mask_head;
    // A block's masks are loaded while the scores of another one are made.
    Masks even_masks, odd_masks;
    s.load_masks(even_masks, p, 0);
    wait_for_copies<1>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int i = 0; i < kSteps; ++i)
        load_matrices(s.q[m][i], shared_q + (query_warp * kQueriesAWarp + m * 16 + lane % 16) * kRowBytes +
                                     (2 * i + lane / 16) * 16);
    // While the scores of one block become probabilities, tensor cores make those of the next one.
    Scores even, odd;
    s.multiply_keys(even, 0);
    const auto begin_block = [&](int block, int buffer) {
      wait_for_copies<0>();
      __syncthreads();
      if (block + 1 < blocks) load_values(block + 1, buffer ^ 1);
      if (block + 2 < blocks) load_keys(block + 2, buffer);
      commit_copies();
    };
    // Blocks that every query of this one sees as a whole.
    const int whole = min(all_keys, p.causal != 0 ? before + first_query + 1 : all_keys) / kKeys;
    int block = 0;
    for (; block + 1 < whole && block + 2 < blocks; block += 2) {
      begin_block(block, 0);
      s.load_masks(odd_masks, p, block + 1);
      s.multiply_keys(odd, 1);
      s.template add_block<false>(even, even_masks, block, 0);
      begin_block(block + 1, 1);
      s.load_masks(even_masks, p, block + 2);
      s.multiply_keys(even, 0);
      s.template add_block<false>(odd, odd_masks, block + 1, 1);
    }
#pragma unroll 1
    for (; block < blocks; ++block) {
      const int buffer = block % 2;
      begin_block(block, buffer);
      if (block + 1 < blocks) {
        s.load_masks(odd_masks, p, block + 1);
        s.multiply_keys(odd, buffer ^ 1);
      }
      s.template add_block<true>(even, even_masks, block, buffer);
      even_masks = odd_masks;
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) even[m][n][i] = odd[m][n][i];
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s.total[m][i] += __shfl_xor_sync(~0u, s.total[m][i], 1);
        s.total[m][i] += __shfl_xor_sync(~0u, s.total[m][i], 2);
      }
    if constexpr (kKeyWarps == 1) {
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int query = s.row + m * 16 + i * 8;
          if (query >= p.queries) continue;
          const bool zero = is_zero_row(p, s.total[m][i]);
          const float inverse = 1.0f / s.total[m][i];
#pragma unroll
          for (int n = 0; n < kHead / 8; ++n) {
            const float pair[2] = {zero ? 0.0f : s.out[m][n][2 * i] * inverse,
                                   zero ? 0.0f : s.out[m][n][2 * i + 1] * inverse};
            const int column = n * 8 + lane % 4 * 2;
            if (column < p.value_size) store_values<T>(p, image, head, query, column, pair);
          }
        }
    } else {
      wait_for_copies<0>();  // without keys nobody has waited yet
      join(p, image, head, reinterpret_cast<float*>(shared), s.out, s.base, s.total, first_query, warp, lane);
    }
  }

  using Scores = float[kTiles][kKeysAWarp / 8][4];

  // The masks of a warp's scores: two neighbouring keys in a word.
  struct MaskPairs {
    uint32_t pair[kTiles][kKeysAWarp / 8][2];
  };
  struct NoMasks {};
  using Masks = std::conditional_t<kMask, MaskPairs, NoMasks>;

  // A warp's queries and the sums that they have so far. Rows row (elements 0, 1) and row + 8 (2, 3) of each tile;
  // columns 2 * (lane % 4) + {0, 1} of each eight.
  struct State {
    uint32_t q[kTiles][kSteps][4];
    float out[kTiles][kHead / 8][4] = {};
    float base[kTiles][2], total[kTiles][2] = {};
    float scale;
    int row, keys, before, first_key;
    uint32_t keys_at, values_at, last_values_at;
    bool causal;
    const T* mask = nullptr;  // of the block's head

    __device__ __forceinline__ State() {
#pragma unroll
      for (int m = 0; m < kTiles; ++m) base[m][0] = base[m][1] = -INFINITY;
    }

    // score = Q K^T of a block's keys.
    __device__ __forceinline__ void multiply_keys(Scores& score, int buffer) const {
      const uint32_t at = keys_at + buffer * kTensorBytes;
#pragma unroll
      for (int n = 0; n < kKeysAWarp / 16; ++n)
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          uint32_t b[4];
          load_matrices(b, at + n * 16 * kRowBytes + step * 32);
#pragma unroll
          for (int m = 0; m < kTiles; ++m) {
            if (step == 0) {
#pragma unroll
              for (int i = 0; i < 4; ++i) score[m][2 * n][i] = score[m][2 * n + 1][i] = 0;
            }
            multiply<T>(score[m][2 * n], q[m][step], b[0], b[1]);
            multiply<T>(score[m][2 * n + 1], q[m][step], b[2], b[3]);
          }
        }
    }

    // Zeros where there is no key.
    __device__ __forceinline__ void load_masks(Masks& to, const AttentionParams& p, int block) const {
      if constexpr (kMask) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            // Rows behind the last query have its mask: nobody stores them.
            const T* const at = mask + min(row + m * 16 + i * 8, p.queries - 1) * p.mask_query;
#pragma unroll
            for (int n = 0; n < kKeysAWarp / 8; ++n) {
              const int key = block * kKeys + first_key + n * 8;
              uint32_t& pair = to.pair[m][n][i];
              if (p.mask_vectors != 0) {
                pair = key < p.keys ? *reinterpret_cast<const uint32_t*>(at + key) : 0;
              } else {
                const auto number = [&](int k) -> uint32_t {
                  return k < p.keys ? *reinterpret_cast<const uint16_t*>(at + k * p.mask_key) : 0;
                };
                pair = number(key) | number(key + 1) << 16;
              }
            }
          }
      }
    }

    // kEdge: some queries do not see all keys of the block.
    template <bool kEdge>
    __device__ __forceinline__ void add_block(Scores& score, const Masks& masks, int block, int buffer) {
      // Scores of a mask are powers of two from here on.
      const float unit = kMask ? 1.0f : scale;
      if constexpr (kMask) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m)
#pragma unroll
          for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const float2 pair = unpack_pair<T>(masks.pair[m][n][i]);
              score[m][n][2 * i] = fmaf(score[m][n][2 * i], scale, scaled_mask<T>(pair.x));
              score[m][n][2 * i + 1] = fmaf(score[m][n][2 * i + 1], scale, scaled_mask<T>(pair.y));
            }
      }
      if constexpr (kEdge) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            // As a column of the block.
            const int sees = (causal ? min(keys, before + row + m * 16 + i / 2 * 8 + 1) : keys) - block * kKeys;
#pragma unroll
            for (int n = 0; n < kKeysAWarp / 8; ++n)
              if (first_key + n * 8 + i % 2 >= sees) score[m][n][i] = -INFINITY;
          }
      }
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        float factor[2], subtracted[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float top = fmaxf(score[m][0][2 * i], score[m][0][2 * i + 1]);
#pragma unroll
          for (int n = 1; n < kKeysAWarp / 8; ++n) top = fmaxf(top, fmaxf(score[m][n][2 * i], score[m][n][2 * i + 1]));
          top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
          top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
          const float now = fmaxf(base[m][i], top * unit);
          subtracted[i] = now == -INFINITY ? 0.0f : now;  // nothing but masked keys so far
          factor[i] = power_of_two(base[m][i] - subtracted[i]);
          base[m][i] = now;
          total[m][i] *= factor[i];
        }
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) out[m][n][i] *= factor[i / 2];
#pragma unroll
        for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            score[m][n][i] = power_of_two(fmaf(score[m][n][i], unit, -subtracted[i / 2]));
            total[m][i / 2] += score[m][n][i];
          }
      }
      accumulate(score, buffer);
    }

    // out += probabilities * V.
    __device__ __forceinline__ void accumulate(const Scores& score, int buffer) {
#pragma unroll
      for (int s = 0; s < kKeysAWarp / 16; s += 2) {
        uint32_t a[2][kTiles][4];
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
          for (int m = 0; m < kTiles; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float* const pair = &score[m][2 * (s + j) + i / 2][i % 2 * 2];
              a[j][m][i] = pack_pair<T>(pair[0], pair[1]);
            }
#pragma unroll
        for (int n = 0; n < kHead / 16; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            uint32_t b[4];
            load_matrices_transposed(b, values_at + buffer * kTensorBytes + (s + j) * 16 * kRowBytes + n * 32);
#pragma unroll
            for (int m = 0; m < kTiles; ++m) {
              multiply<T>(out[m][2 * n], a[j][m], b[0], b[1]);
              multiply<T>(out[m][2 * n + 1], a[j][m], b[2], b[3]);
            }
          }
        if constexpr (kHead % 16 != 0) {
          // The last eight columns, of 32 keys at once.
          constexpr int kLast = kHead / 8 - 1;
          uint32_t b[4];
          load_matrices_transposed(b, last_values_at + buffer * kTensorBytes + s * 16 * kRowBytes);
#pragma unroll
          for (int m = 0; m < kTiles; ++m) {
            multiply<T>(out[m][kLast], a[0][m], b[0], b[1]);
            multiply<T>(out[m][kLast], a[1][m], b[2], b[3]);
          }
        }
      }
    }
  };

  static __device__ __forceinline__ void join(const AttentionParams& p, int image, int head, float* shared,
                                              float (&out)[kTiles][kHead / 8][4], float (&base)[kTiles][2],
                                              float (&total)[kTiles][2], int first_query, int warp, int lane) {
    float* const ends = shared + kWarps * kQueriesAWarp * kJoinRow;  // the base and total of each row and warp
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = warp * kQueriesAWarp + m * 16 + lane / 4 + i * 8;
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n)
          *reinterpret_cast<float2*>(shared + r * kJoinRow + n * 8 + lane % 4 * 2) =
              make_float2(out[m][n][2 * i], out[m][n][2 * i + 1]);
        if (lane % 4 == 0) *reinterpret_cast<float2*>(ends + r * 2) = make_float2(base[m][i], total[m][i]);
      }
    __syncthreads();
    for (int i = threadIdx.x; i < kQueries * kHead / 2; i += kThreads) {
      const int query = i / (kHead / 2), column = i % (kHead / 2) * 2;
      if (first_query + query >= p.queries || column >= p.value_size) continue;
      // The first of its key warps' rows.
      const int r = query / kQueriesAWarp * kKeyWarps * kQueriesAWarp + query % kQueriesAWarp;
      float top = -INFINITY;
#pragma unroll
      for (int w = 0; w < kKeyWarps; ++w) top = fmaxf(top, ends[(r + w * kQueriesAWarp) * 2]);
      if (top == -INFINITY) top = 0;
      float value[2] = {}, all = 0;
#pragma unroll
      for (int w = 0; w < kKeyWarps; ++w) {
        const int at = r + w * kQueriesAWarp;
        const float factor = power_of_two(ends[at * 2] - top);
        const float2 sums = *reinterpret_cast<const float2*>(shared + at * kJoinRow + column);
        all += ends[at * 2 + 1] * factor;
        value[0] += sums.x * factor, value[1] += sums.y * factor;
      }
      const bool zero = is_zero_row(p, all);
      const float result[2] = {zero ? 0.0f : value[0] / all, zero ? 0.0f : value[1] / all};
      store_values<T>(p, image, head, first_query + query, column, result);
    }
  }
};

}  // namespace tenon::cuda::device
