// The loops over features of each type, apart from the operators around them, which are compiled to be small.
#pragma once

#include "ep/cpu/ops/ml/features.h"

namespace tenon::cpu::ref {

struct FeatureLoops {
  ReadFeatures read = nullptr;
  // y = x > threshold ? 1 : 0, elements [first, first + n). y may be x.
  void (*binarize)(const void* x, void* y, int64_t first, int64_t n, float threshold) = nullptr;
  // y = values[i * stride] where x[i] is `replaced` (any NaN is one), x elsewhere; i counts from `first` on. y may be
  // x.
  void (*impute)(const void* x, void* y, int64_t first, int64_t n, const void* replaced, const void* values,
                 int64_t stride) = nullptr;
};

// Null pointers for another type than FeatureTypes has.
FeatureLoops feature_loops(DataType type);

}  // namespace tenon::cpu::ref
