// The scores of classifiers and regressors: transforms, and what one score says of two classes.
#pragma once

#include <cmath>
#include <span>

#include "ops/ml.h"

namespace tenon::cpu::ref {

inline float logistic(float value) {
  const float v = 1 / (1 + std::exp(-std::fabs(value)));
  return value < 0 ? 1 - v : v;
}
// As ONNX Runtime approximates it.
float probit(float value);

// In place, over one row of scores.
void transform_scores(std::span<float> scores, PostTransform transform);

// The same for `rows` rows of n scores, side by side.
void transform_rows(float* scores, int64_t rows, int64_t n, PostTransform transform);

// How one score becomes those of two classes.
enum class SecondClass : uint8_t {
  kComplement,  // 1 - s and s
  kOpposite,    // -s and s
};
// `scores` has two elements, of which the first is s. The logistic function acts on -s and s, the inverse of the normal
// distribution on 1 - s and s; one score is no distribution for softmax.
void expand_score(std::span<float> scores, SecondClass second, PostTransform transform);

}  // namespace tenon::cpu::ref
