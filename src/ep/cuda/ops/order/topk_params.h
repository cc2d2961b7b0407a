// The parameters of order/topk.cu, as host and device read them.
#pragma once

#include <cstdint>

namespace tenon::cuda {

// The most elements of a row that are gathered and sorted in a block's shared memory.
constexpr int kMaxTopK = 2048;

// Rows of `count` elements that are `inner` apart; k of each.
struct TopKParams {
  const void* x = nullptr;
  void* y = nullptr;           // may be null
  int64_t* indices = nullptr;  // may be null
  int32_t count = 0, k = 0;
  int64_t inner = 1;
  int32_t largest = 1;
};

}  // namespace tenon::cuda
