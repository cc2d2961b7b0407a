// Bounds of the weights of products: the scales of split f16 products follow from them (matmul/split_product_op.h),
// when that has to be known before anything runs.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/guarded.h"
#include "graph/graph.h"

namespace tenon::cuda {

// Of the columns of a product, each of `depth` weights.
struct WeightBound {
  float largest = 0;        // magnitude of all
  float least_largest = 0;  // of the columns that are not all zeros, the smallest of their largest magnitudes
  double norm = 0;          // the largest Euclidean norm
  bool finite = true;       // whether all weights are

  bool operator==(const WeightBound&) const = default;
};

// Of weights [depth, columns], or with `rows` [columns, depth], of float32; what was asked for before is known while
// the constants live.
class WeightBounds {
 public:
  WeightBound of(const ConstantRef& weights, bool rows);
  // Finds those of several that are not known, on several threads. `rows` as above for each.
  struct Wanted {
    ConstantRef weights;
    bool rows = false;
  };
  void find(std::span<const Wanted> wanted);

 private:
  struct Known {
    std::weak_ptr<const Constant> weights;
    WeightBound bound;
  };
  Guarded<std::map<std::pair<const Constant*, bool>, Known>> known_;
};

// Times 2^this, numbers of at most this magnitude are below 2^15 and, unless that takes them out of float32, not below
// 2^14. The same power of two as in ops/matmul/split.cu.
int32_t split_shift(float largest);

}  // namespace tenon::cuda
