// The tiles of AttentionOp (op.cc).
#include "ep/cuda/ops/attention/tiles.cuh"

// TENON_TILED_ATTENTION(type, T, head, tiles, query warps, key warps, bytes, blocks of a processor)
#define TENON_TILED_ATTENTION(type, T, head, tiles, queries, keys, bytes, blocks)      \
  extern "C" __global__ void __launch_bounds__(32 * (queries) * (keys), blocks)        \
      attention_##type##_##head##_##tiles##x##queries##x##keys(                        \
          const __grid_constant__ tenon::cuda::AttentionParams p) {                    \
    tenon::cuda::device::TiledAttention<T, head, tiles, queries, keys, bytes>::run(p); \
  }
#define TENON_TILED_ATTENTIONS(type, T)              \
  TENON_TILED_ATTENTION(type, T, 24, 1, 4, 1, 8, 3)  \
  TENON_TILED_ATTENTION(type, T, 24, 2, 4, 1, 8, 1)  \
  TENON_TILED_ATTENTION(type, T, 24, 1, 1, 4, 8, 1)  \
  TENON_TILED_ATTENTION(type, T, 32, 1, 4, 1, 16, 3) \
  TENON_TILED_ATTENTION(type, T, 32, 1, 1, 4, 16, 1) \
  TENON_TILED_ATTENTION(type, T, 40, 1, 4, 1, 16, 3) \
  TENON_TILED_ATTENTION(type, T, 40, 2, 4, 1, 16, 1) \
  TENON_TILED_ATTENTION(type, T, 40, 1, 1, 4, 16, 1) \
  TENON_TILED_ATTENTION(type, T, 64, 1, 4, 1, 16, 3) \
  TENON_TILED_ATTENTION(type, T, 64, 1, 1, 4, 16, 1) \
  TENON_TILED_ATTENTION(type, T, 80, 1, 4, 1, 16, 2) \
  TENON_TILED_ATTENTION(type, T, 80, 1, 1, 4, 16, 1) \
  TENON_TILED_ATTENTION(type, T, 128, 1, 4, 1, 16, 2)

TENON_TILED_ATTENTIONS(f16, __half)
TENON_TILED_ATTENTIONS(bf16, __nv_bfloat16)
