// The tiles of attention/tiles.cuh, as host and device know them.
#pragma once

namespace tenon::cuda {

// A warp has 16 * `tiles` queries; the warps of a block share its queries (`query_warps`) or its keys (`key_warps`).
// Heads have up to `head` elements, a multiple of 8.
struct AttentionTile {
  int head = 0, tiles = 1, query_warps = 4, key_warps = 1;

  constexpr int warps() const { return query_warps * key_warps; }
  constexpr int threads() const { return 32 * warps(); }
  constexpr int queries_a_warp() const { return 16 * tiles; }
  constexpr int queries() const { return queries_a_warp() * query_warps; }
  constexpr int keys_a_warp() const { return key_warps == 1 ? 64 : 32; }
  constexpr int keys() const { return keys_a_warp() * key_warps; }
  // Of the products of queries and keys, of 16 elements.
  constexpr int steps() const { return (head + 15) / 16; }
  // 16 more bytes a row spread the rows over the banks of shared memory.
  constexpr int row_bytes() const { return steps() * 32 + 16; }
  // Of a warp's results where they are joined; then come two numbers a query.
  constexpr int join_row() const { return head + 2; }
  constexpr int join_bytes() const { return key_warps == 1 ? 0 : warps() * queries_a_warp() * (join_row() + 2) * 4; }
  constexpr int shared_bytes() const {
    const int tensors = (queries() + 4 * keys()) * row_bytes();
    return tensors > join_bytes() ? tensors : join_bytes();
  }
};

}  // namespace tenon::cuda
