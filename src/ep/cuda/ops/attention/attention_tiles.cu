// The tiles of AttentionOp (op.cc).
#include "ep/cuda/ops/attention/tiles.cuh"

// TENON_TILED_ATTENTION(name, T, head, tiles, query warps, key warps, bytes, with a mask, blocks of a processor)
#define TENON_TILED_ATTENTION(name, T, head, tiles, queries, keys, bytes, mask, blocks)                      \
  extern "C" __global__ void __launch_bounds__(32 * (queries) * (keys), blocks)                              \
      name##_##head##_##tiles##x##queries##x##keys(const __grid_constant__ tenon::cuda::AttentionParams p) { \
    tenon::cuda::device::TiledAttention<T, head, tiles, queries, keys, bytes, mask>::run(p);                 \
  }
#define TENON_TILED_ATTENTIONS(name, T, mask, blocks)           \
  TENON_TILED_ATTENTION(name, T, 24, 1, 4, 1, 8, mask, 3)       \
  TENON_TILED_ATTENTION(name, T, 24, 1, 1, 4, 8, mask, 1)       \
  TENON_TILED_ATTENTION(name, T, 32, 1, 4, 1, 16, mask, 3)      \
  TENON_TILED_ATTENTION(name, T, 32, 1, 1, 4, 16, mask, 1)      \
  TENON_TILED_ATTENTION(name, T, 40, 1, 4, 1, 16, mask, blocks) \
  TENON_TILED_ATTENTION(name, T, 40, 1, 1, 4, 16, mask, 1)      \
  TENON_TILED_ATTENTION(name, T, 64, 1, 4, 1, 16, mask, blocks) \
  TENON_TILED_ATTENTION(name, T, 64, 1, 1, 4, 16, mask, 1)      \
  TENON_TILED_ATTENTION(name, T, 80, 1, 4, 1, 16, mask, 2)      \
  TENON_TILED_ATTENTION(name, T, 80, 1, 1, 4, 16, mask, 1)      \
  TENON_TILED_ATTENTION(name, T, 128, 1, 4, 1, 16, mask, 2)     \
  TENON_TILED_ATTENTION(name, T, 160, 1, 4, 1, 16, mask, 1)
// Many queries, with no mask.
#define TENON_TALL_ATTENTIONS(name, T)                     \
  TENON_TILED_ATTENTION(name, T, 24, 2, 4, 1, 8, false, 1) \
  TENON_TILED_ATTENTION(name, T, 40, 2, 4, 1, 16, false, 1)

TENON_TILED_ATTENTIONS(attention_f16, __half, false, 3)
TENON_TILED_ATTENTIONS(attention_bf16, __nv_bfloat16, false, 3)
TENON_TILED_ATTENTIONS(attention_mask_f16, __half, true, 2)
TENON_TILED_ATTENTIONS(attention_mask_bf16, __nv_bfloat16, true, 2)
TENON_TALL_ATTENTIONS(attention_f16, __half)
TENON_TALL_ATTENTIONS(attention_bf16, __nv_bfloat16)
