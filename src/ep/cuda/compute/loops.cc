#include "ep/cuda/compute/loops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace tenon::cuda {

Loops join_dims(std::vector<int64_t> dims, const std::vector<std::vector<int64_t>>& strides, size_t order_by) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[order_by][a] > strides[order_by][b]; });
  Loops loops{.dims = {}, .strides = std::vector<std::vector<int64_t>>(strides.size())};
  for (size_t d : order) {
    if (dims[d] == 1) continue;
    bool joins = !loops.dims.empty();
    for (size_t s = 0; joins && s < strides.size(); ++s) joins = loops.strides[s].back() == strides[s][d] * dims[d];
    if (joins) {
      loops.dims.back() *= dims[d];
      for (size_t s = 0; s < strides.size(); ++s) loops.strides[s].back() = strides[s][d];
    } else {
      loops.dims.push_back(dims[d]);
      for (size_t s = 0; s < strides.size(); ++s) loops.strides[s].push_back(strides[s][d]);
    }
  }
  return loops;
}

int64_t count_of(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

bool needs_wide_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t offset) {
  constexpr double kMost = 2147483647.0;
  double count = 1, reach = std::fabs(static_cast<double>(offset));
  for (size_t d = 0; d < dims.size(); ++d) {
    count *= static_cast<double>(dims[d]);
    if (d < strides.size()) reach += static_cast<double>(dims[d]) * std::fabs(static_cast<double>(strides[d]));
  }
  return count > kMost || reach > kMost;
}

Result<unsigned> blocks_of(int64_t count, int64_t a_block) {
  const int64_t blocks = (count + a_block - 1) / a_block;
  TENON_UNSUPPORTED_IF(blocks > INT32_MAX, "A kernel has at most {} blocks; {} elements take {}.", INT32_MAX, count,
                       blocks);
  return static_cast<unsigned>(blocks);
}

}  // namespace tenon::cuda
