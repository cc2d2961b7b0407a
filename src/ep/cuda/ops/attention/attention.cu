// softmax(Q K^T * scale + mask) V of float32 without the scores in memory, and a plain kernel for what no other one
// serves (16 bits: tiles.cuh). A block takes some queries of one head; its warps share the queries (kQueryWarps) or the
// keys (kKeyWarps), the latter join their partial results at the end.
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/attention/common.cuh"

namespace tenon::cuda::device {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
// Heads have up to kHead elements; what they lack counts as zeros.
// kPrecise: products are three of TF32 each, and what they add up is added in small parts (conv/gemm.cuh).
template <int kHead, int kKeyWarps, bool kPrecise>
struct Attention {
  static constexpr int kQueryWarps = kWarps / kKeyWarps;
  // Two blocks of keys are in shared memory: the next one arrives while this one is used.
  static constexpr int kKeysAWarp = kKeyWarps == 1 && kHead * sizeof(float) <= 128 ? 64 : 32;
  static constexpr int kBuffers = kKeyWarps == 1 ? 2 : 1;
  static constexpr int kQueries = 16 * kQueryWarps, kKeys = kKeysAWarp * kKeyWarps;
  // 16 more bytes a row spread the rows over the banks.
  static constexpr int kRowBytes = kHead * sizeof(float) + 16;
  static constexpr int kChunks = kHead * sizeof(float) / 16, kVector = 16 / sizeof(float);
  static constexpr int kSteps = kHead * sizeof(float) / 32;  // of 32 bytes
  // A block's masks: a row a query, spread over the banks too.
  static constexpr int kMaskRowBytes = kKeys * sizeof(float) + 16, kMaskBytes = kQueries * kMaskRowBytes;
  static constexpr int kTileBytes = (kQueries + 2 * kBuffers * kKeys) * kRowBytes + kBuffers * kMaskBytes;
  static constexpr int kJoinBytes = kKeyWarps == 1 ? 0 : kKeyWarps * 16 * (kHead + 2 + 2) * 4;
  static constexpr int kSharedBytes = kTileBytes > kJoinBytes ? kTileBytes : kJoinBytes;

  static __device__ __forceinline__ void load_rows(uint32_t to, const float* from, int64_t row_stride, int first,
                                                   int rows, int all, int elements, bool halves) {
    // Heads of 8, 24, 40, .. bytes: rows are multiples of 8 bytes only.
    if (halves) {
      for (int i = threadIdx.x; i < rows * kChunks * 2; i += kThreads) {
        const int row = i / (kChunks * 2), half = i % (kChunks * 2);
        const bool valid = first + row < all && half * (kVector / 2) < elements;
        copy_async_half(to + row * kRowBytes + half * 8,
                        from + (valid ? static_cast<int64_t>(first + row) * row_stride + half * (kVector / 2) : 0),
                        valid);
      }
      return;
    }
    for (int i = threadIdx.x; i < rows * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool valid = first + row < all && chunk * kVector < elements;
      copy_async(to + row * kRowBytes + chunk * 16,
                 from + (valid ? static_cast<int64_t>(first + row) * row_stride + chunk * kVector : 0), valid);
    }
  }

  static __device__ void run(const AttentionParams& p) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int query_warp = warp / kKeyWarps, key_warp = warp % kKeyWarps;
    const int head = blockIdx.y % p.heads, image = blockIdx.y / p.heads;
    const int first_query = blockIdx.x * kQueries;
    const float* const q = static_cast<const float*>(p.q) + image * p.q_batch + head * p.q_head;
    const float* const k = static_cast<const float*>(p.k) + image * p.k_batch + head / p.sharing * p.k_head;
    const float* const v = static_cast<const float*>(p.v) + image * p.v_batch + head / p.sharing * p.v_head;
    const float* const mask =
        p.mask != nullptr ? static_cast<const float*>(p.mask) + image * p.mask_batch + head * p.mask_head : nullptr;
    const uint32_t shared_q = shared_address(shared), shared_blocks = shared_q + kQueries * kRowBytes,
                   shared_masks = shared_blocks + 2 * kBuffers * kKeys * kRowBytes;
    int all_keys = p.keys, before = p.before;
    const auto load_block = [&](int block) {
      const uint32_t to = shared_blocks + block % kBuffers * 2 * kKeys * kRowBytes;
      load_rows(to, k, p.k_row, block * kKeys, kKeys, all_keys, p.head_size, p.half_vectors != 0);
      load_rows(to + kKeys * kRowBytes, v, p.v_row, block * kKeys, kKeys, all_keys, p.head_size, p.half_vectors != 0);
      if (mask != nullptr && p.mask_vectors)
        load_masks(shared_masks + block % kBuffers * kMaskBytes, p, mask, first_query, block * kKeys);
    };
    wait_for_previous_kernel();
    let_next_kernel_start();
    if (p.lengths != nullptr) {
      const BatchKeys of = keys_of(p, image);
      all_keys = of.keys, before = of.before;
    }
    // No query of the block sees what is behind its last one.
    if (p.causal != 0) all_keys = max(min(all_keys, before + first_query + kQueries), 0);
    load_rows(shared_q, q, p.q_row, first_query, kQueries, p.queries, p.head_size, p.half_vectors != 0);
    load_block(0);
    commit_copies();
    const float scale = p.scale * kLog2e;

    uint32_t fragment_q[kSteps][4];
    float out[kHead / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    const int row = first_query + query_warp * 16 + lane / 4;  // and row + 8
    for (int first_key = 0; first_key < all_keys; first_key += kKeys) {
      const int block = first_key / kKeys;
      if (kBuffers == 2 && first_key + kKeys < all_keys) {
        load_block(block + 1);
        commit_copies();
        wait_for_copies<1>();
      } else {
        wait_for_copies<0>();
      }
      __syncthreads();
      const uint32_t shared_k = shared_blocks + block % kBuffers * 2 * kKeys * kRowBytes,
                     shared_v = shared_k + kKeys * kRowBytes;
      if (first_key == 0) {
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          load_matrices(fragment_q[s], shared_q + (query_warp * 16 + lane % 16) * kRowBytes + (2 * s + lane / 16) * 16);
          if constexpr (!kPrecise)
            for (uint32_t& bits : fragment_q[s]) bits = round_to_tf32(bits);
        }
      }
      float score[kKeysAWarp / 8][4] = {};
      const uint32_t keys = shared_k + key_warp * kKeysAWarp * kRowBytes;
#pragma unroll
      for (int s = 0; s < kSteps; ++s)
#pragma unroll
        for (int n = 0; n < kKeysAWarp / 16; ++n) {
          uint32_t b[4];
          load_matrices(b, keys + (n * 16 + lane % 8 + lane / 16 * 8) * kRowBytes + (2 * s + lane / 8 % 2) * 16);
          if constexpr (kPrecise) {
            uint32_t rest_b[4], a[4], rest_a[4];
            split_all(b, b, rest_b);
            split_all(fragment_q[s], a, rest_a);
            multiply_precisely(score[2 * n], a, rest_a, b[0], b[1], rest_b[0], rest_b[1]);
            multiply_precisely(score[2 * n + 1], a, rest_a, b[2], b[3], rest_b[2], rest_b[3]);
          } else {
            for (uint32_t& bits : b) bits = round_to_tf32(bits);
            multiply<float>(score[2 * n], fragment_q[s], b[0], b[1]);
            multiply<float>(score[2 * n + 1], fragment_q[s], b[2], b[3]);
          }
        }
      // Rows row (elements 0, 1) and row + 8 (2, 3); columns 2 * (lane % 4) + {0, 1} of each eight.
      const auto add_masks = [&](auto mask_pair) {
#pragma unroll
        for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float2 pair = mask_pair(key_warp * kKeysAWarp + n * 8 + lane % 4 * 2, i);
            score[n][2 * i] = score[n][2 * i] * scale + pair.x;
            score[n][2 * i + 1] = score[n][2 * i + 1] * scale + pair.y;
          }
      };
      if (mask == nullptr) {
        add_masks([](int, int) { return make_float2(0.0f, 0.0f); });
      } else if (p.mask_vectors) {
        const int mask_row = p.mask_query != 0 ? kMaskRowBytes : 0;
        const unsigned char* const masks = shared + (shared_masks - shared_q) + block % kBuffers * kMaskBytes +
                                           (query_warp * 16 + lane / 4) * mask_row;
        add_masks([&](int column, int i) { return scaled_pair(masks + i * 8 * mask_row + column * sizeof(float)); });
      } else {
        add_masks([&](int column, int i) { return load_mask(p, mask, row + i * 8, first_key + column); });
      }
      if (first_key + kKeys > all_keys) {
#pragma unroll
        for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (first_key + key_warp * kKeysAWarp + n * 8 + lane % 4 * 2 + i % 2 >= all_keys) score[n][i] = -INFINITY;
      }
      if (p.causal != 0 && first_key + kKeys > before + first_query) {
#pragma unroll
        for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (first_key + key_warp * kKeysAWarp + n * 8 + lane % 4 * 2 + i % 2 > before + row + i / 2 * 8)
              score[n][i] = -INFINITY;
      }
      float block_largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
      for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) block_largest[i / 2] = fmaxf(block_largest[i / 2], score[n][i]);
      float factor[2], base[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        block_largest[i] = fmaxf(block_largest[i], __shfl_xor_sync(~0u, block_largest[i], 1));
        block_largest[i] = fmaxf(block_largest[i], __shfl_xor_sync(~0u, block_largest[i], 2));
        const float now = fmaxf(largest[i], block_largest[i]);
        base[i] = now == -INFINITY ? 0.0f : now;  // nothing but masked keys so far
        factor[i] = power_of_two(largest[i] - base[i]);
        largest[i] = now;
        total[i] *= factor[i];
      }
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
#pragma unroll
      for (int n = 0; n < kKeysAWarp / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          score[n][i] = power_of_two(score[n][i] - base[i / 2]);
          total[i / 2] += score[n][i];
        }
      accumulate(out, score, shared + (shared_v - shared_q) + key_warp * kKeysAWarp * kRowBytes, lane);
      if (first_key + kKeys < all_keys) {
        __syncthreads();  // nobody reads this block any more
        if (kBuffers == 1) {
          load_block(block + 1);
          commit_copies();
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      total[i] += __shfl_xor_sync(~0u, total[i], 1);
      total[i] += __shfl_xor_sync(~0u, total[i], 2);
    }
    if constexpr (kKeyWarps == 1) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (row + i * 8 >= p.queries) continue;
        const bool zero = is_zero_row(p, total[i]);
        const float inverse = 1.0f / total[i];
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n) {
          const float pair[2] = {zero ? 0.0f : out[n][2 * i] * inverse, zero ? 0.0f : out[n][2 * i + 1] * inverse};
          const int column = n * 8 + lane % 4 * 2;
          if (column < p.value_size) store_values<float>(p, image, head, row + i * 8, column, pair);
        }
      }
    } else {
      join(p, image, head, reinterpret_cast<float*>(shared), out, largest, total, first_query, key_warp, lane);
    }
  }

 private:
  // TF32 numbers, and the rests that rounding left.
  static __device__ __forceinline__ void split_all(const uint32_t (&exact)[4], uint32_t (&rounded)[4],
                                                   uint32_t (&rest)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t bits = exact[i];
      rounded[i] = round_to_tf32(bits);
      rest[i] = tf32_rest(bits, rounded[i]);
    }
  }
  static __device__ __forceinline__ void multiply_precisely(float (&sum)[4], const uint32_t (&a)[4],
                                                            const uint32_t (&rest_a)[4], uint32_t b0, uint32_t b1,
                                                            uint32_t rest_b0, uint32_t rest_b1) {
    multiply<float>(sum, rest_a, b0, b1);
    multiply<float>(sum, a, rest_b0, rest_b1);
    multiply<float>(sum, a, b0, b1);
  }

  static __device__ __forceinline__ void load_masks(uint32_t to, const AttentionParams& p, const float* mask,
                                                    int first_query, int first_key) {
    constexpr int kMaskChunks = kKeys / kVector;
    // One row where all queries have the same mask.
    const int rows = p.mask_query != 0 ? kQueries : 1;
    for (int i = threadIdx.x; i < rows * kMaskChunks; i += kThreads) {
      const int row = i / kMaskChunks, key = first_key + i % kMaskChunks * kVector;
      const bool valid = first_query + row < p.queries && key < p.keys;
      copy_async(to + row * kMaskRowBytes + i % kMaskChunks * 16,
                 mask + (valid ? (first_query + row) * p.mask_query + key : 0), valid);
    }
  }

  static __device__ __forceinline__ float2 scaled_pair(const unsigned char* at) {
    const float2 pair = *reinterpret_cast<const float2*>(at);
    return make_float2(scaled_mask<float>(pair.x), scaled_mask<float>(pair.y));
  }

  // The mask of keys `key` and `key` + 1 for the scores as powers of two.
  static __device__ __forceinline__ float2 load_mask(const AttentionParams& p, const float* mask, int row, int key) {
    if (row >= p.queries) return make_float2(0, 0);
    const float* const at = mask + row * p.mask_query + key * p.mask_key;
    return make_float2(key < p.keys ? scaled_mask<float>(at[0]) : 0.0f,
                       key + 1 < p.keys ? scaled_mask<float>(at[p.mask_key]) : 0.0f);
  }

  // out += probabilities * V.
  static __device__ __forceinline__ void accumulate(float (&out)[kHead / 8][4], float (&score)[kKeysAWarp / 8][4],
                                                    const unsigned char* values, int lane) {
    // A thread holds columns 2t and 2t + 1 of the probabilities where the product wants t and t + 4: the sum over
    // keys has no order, so V's rows are taken in the same one.
    constexpr int kRow = kRowBytes / 4;
    const float* const v = reinterpret_cast<const float*>(values) + lane % 4 * 2 * kRow + lane / 4;
    constexpr int kSteps8 = kKeysAWarp / 8;
    if constexpr (kPrecise) {
      uint32_t a[kSteps8][4], rest_a[kSteps8][4];
#pragma unroll
      for (int s = 0; s < kSteps8; ++s) {
        const uint32_t exact[4] = {__float_as_uint(score[s][0]), __float_as_uint(score[s][2]),
                                   __float_as_uint(score[s][1]), __float_as_uint(score[s][3])};
        split_all(exact, a[s], rest_a[s]);
      }
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n) {
        float part[4] = {};
#pragma unroll
        for (int s = 0; s < kSteps8; ++s) {
          const float* const rows = v + s * 8 * kRow + n * 8;
          const uint32_t exact[2] = {__float_as_uint(rows[0]), __float_as_uint(rows[kRow])};
          const uint32_t b[2] = {round_to_tf32(exact[0]), round_to_tf32(exact[1])};
          multiply_precisely(part, a[s], rest_a[s], b[0], b[1], tf32_rest(exact[0], b[0]), tf32_rest(exact[1], b[1]));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] += part[i];
      }
    } else {
#pragma unroll
      for (int s = 0; s < kSteps8; ++s) {
        const uint32_t a[4] = {round_to_tf32(__float_as_uint(score[s][0])), round_to_tf32(__float_as_uint(score[s][2])),
                               round_to_tf32(__float_as_uint(score[s][1])),
                               round_to_tf32(__float_as_uint(score[s][3]))};
        const float* const rows = v + s * 8 * kRow;
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n)
          multiply<float>(out[n], a, round_to_tf32(__float_as_uint(rows[n * 8])),
                          round_to_tf32(__float_as_uint(rows[kRow + n * 8])));
      }
    }
  }

  static __device__ __forceinline__ void join(const AttentionParams& p, int image, int head, float* shared,
                                              float (&out)[kHead / 8][4], float (&largest)[2], float (&total)[2],
                                              int first_query, int key_warp, int lane) {
    constexpr int kRow = kHead + 2;
    float* const sums = shared + key_warp * 16 * kRow;
    float* const ends = shared + kKeyWarps * 16 * kRow;  // largest and total of each row and warp
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + i * 8;
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n)
        *reinterpret_cast<float2*>(sums + r * kRow + n * 8 + lane % 4 * 2) =
            make_float2(out[n][2 * i], out[n][2 * i + 1]);
      if (lane % 4 == 0) *reinterpret_cast<float2*>(ends + (key_warp * 16 + r) * 2) = make_float2(largest[i], total[i]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * kHead; i += kThreads) {
      const int r = i / kHead, column = i % kHead;
      if (first_query + r >= p.queries || column >= p.value_size) continue;
      float top = -INFINITY;
      for (int w = 0; w < kKeyWarps; ++w) top = fmaxf(top, ends[(w * 16 + r) * 2]);
      if (top == -INFINITY) top = 0;
      float value = 0, all = 0;
      for (int w = 0; w < kKeyWarps; ++w) {
        const float factor = power_of_two(ends[(w * 16 + r) * 2] - top);
        all += ends[(w * 16 + r) * 2 + 1] * factor;
        value += shared[(w * 16 + r) * kRow + column] * factor;
      }
      const float result[1] = {is_zero_row(p, all) ? 0.0f : value / all};
      store_values<float>(p, image, head, first_query + r, column, result);
    }
  }
};

// Any type and head size: a warp a query, the scores twice.
template <typename T>
__device__ void attention_plain(const AttentionParams& p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int lane = threadIdx.x % 32;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (item >= static_cast<int64_t>(p.batch) * p.heads * p.queries) return;
  const int query = item % p.queries, head = item / p.queries % p.heads, image = item / p.queries / p.heads;
  const T* const q = static_cast<const T*>(p.q) + image * p.q_batch + query * p.q_row + head * p.q_head;
  const T* const k = static_cast<const T*>(p.k) + image * p.k_batch + head / p.sharing * p.k_head;
  const T* const v = static_cast<const T*>(p.v) + image * p.v_batch + head / p.sharing * p.v_head;
  const BatchKeys of = keys_of(p, image);
  const int keys = p.causal != 0 ? max(min(of.keys, of.before + query + 1), 0) : of.keys;
  const T* const mask = static_cast<const T*>(p.mask);
  const auto score = [&](int key) {
    float sum = 0;
    for (int d = 0; d < p.head_size; ++d) sum += to_float(q[d]) * to_float(k[key * p.k_row + d]);
    sum *= p.scale;
    if (mask != nullptr)
      sum += to_float(mask[image * p.mask_batch + head * p.mask_head + query * p.mask_query + key * p.mask_key]);
    return sum;
  };
  float largest = -INFINITY;
  for (int key = lane; key < keys; key += 32) largest = fmaxf(largest, score(key));
  largest = warp_max(largest);
  float total = 0;
  for (int key = lane; key < keys; key += 32) total += expf(score(key) - largest);
  total = warp_sum(total);
  for (int first = 0; first < p.value_size; first += 32) {
    float sum = 0;
    for (int key0 = 0; key0 < keys; key0 += 32) {
      const float mine = key0 + lane < keys ? expf(score(key0 + lane) - largest) : 0.0f;
      for (int i = 0; i < 32 && key0 + i < keys; ++i) {
        const float weight = __shfl_sync(~0u, mine, i);
        if (first + lane < p.value_size) sum += weight * to_float(v[(key0 + i) * p.v_row + first + lane]);
      }
    }
    if (first + lane >= p.value_size) continue;
    const float result[1] = {is_zero_row(p, total) ? 0.0f : sum / total};
    store_values<T>(p, image, head, query, first + lane, result);
  }
}

}  // namespace tenon::cuda::device

#define TENON_ATTENTION_KERNEL(name, ...)                                                                          \
  extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ tenon::cuda::AttentionParams p) { \
    tenon::cuda::device::Attention<__VA_ARGS__>::run(p);                                                           \
  }
#define TENON_ATTENTION_TILES(type, precise)                      \
  TENON_ATTENTION_KERNEL(attention_##type##_32_1, 32, 1, precise) \
  TENON_ATTENTION_KERNEL(attention_##type##_32_4, 32, 4, precise) \
  TENON_ATTENTION_KERNEL(attention_##type##_64_1, 64, 1, precise) \
  TENON_ATTENTION_KERNEL(attention_##type##_64_4, 64, 4, precise) \
  TENON_ATTENTION_KERNEL(attention_##type##_128_1, 128, 1, precise)
#define TENON_ATTENTION_PLAIN(type, T)                                                                        \
  extern "C" __global__ void attention_plain_##type(const __grid_constant__ tenon::cuda::AttentionParams p) { \
    tenon::cuda::device::attention_plain<T>(p);                                                               \
  }

TENON_ATTENTION_TILES(tf32, false)
TENON_ATTENTION_TILES(f32, true)
TENON_ATTENTION_PLAIN(f16, __half)
TENON_ATTENTION_PLAIN(bf16, __nv_bfloat16)
TENON_ATTENTION_PLAIN(f32, float)
