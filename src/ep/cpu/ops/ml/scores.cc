#include "ep/cpu/ops/ml/scores.h"

#include <algorithm>

#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/norm.h"

namespace tenon::cpu::ref {

namespace {

// Winitzki's approximation of the inverse error function.
float inverse_erf(float x) {
  const float sign = x < 0 ? -1.0f : 1.0f;
  const float log = std::log((1 - x) * (1 + x));
  const float a = 2 / (3.14159f * 0.147f) + 0.5f * log;
  return sign * std::sqrt(-a + std::sqrt(a * a - 1 / 0.147f * log));
}

void softmax(std::span<float> scores, bool keeps_zeros) {
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) {
    if (keeps_zeros && score <= 1e-7f && score >= -1e-7f) {
      score *= std::exp(-most);
      continue;
    }
    score = std::exp(score - most);
    sum += score;
  }
  for (float& score : scores) score /= sum;
}

void softmax_rows(float* scores, int64_t rows, int64_t n) {
  constexpr int64_t kFewScores = 16, kRows = 64;
  if (n > kFewScores || rows == 1) return norm_table().softmax_rows(scores, scores, rows, n, false);
  // Rows shorter than a vector are columns of a matrix, several rows a vector.
  uint32_t columns[kFewScores * kRows];
  auto* const values = reinterpret_cast<float*>(columns);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    auto* const block = reinterpret_cast<uint32_t*>(scores + first * n);
    eltwise_table().transpose32(block, n, columns, count, count, n);
    norm_table().softmax_columns(values, values, n, count, 0, count, false);
    eltwise_table().transpose32(columns, count, block, n, n, count);
  }
}

}  // namespace

float probit(float value) { return 1.41421356f * inverse_erf(2 * value - 1); }

void transform_scores(std::span<float> scores, PostTransform transform) {
  if (scores.empty()) return;
  switch (transform) {
    case PostTransform::kNone:
      break;
    case PostTransform::kLogistic:
      for (float& score : scores) score = logistic(score);
      break;
    case PostTransform::kSoftmax:
    case PostTransform::kSoftmaxZero:
      softmax(scores, transform == PostTransform::kSoftmaxZero);
      break;
    case PostTransform::kProbit:
      for (float& score : scores) score = probit(score);
      break;
  }
}

void transform_rows(float* scores, int64_t rows, int64_t n, PostTransform transform) {
  if (n == 0 || transform == PostTransform::kNone) return;
  if (transform == PostTransform::kSoftmax) return softmax_rows(scores, rows, n);
  if (transform == PostTransform::kLogistic) {
    eltwise_table().unary[static_cast<int>(Unary::kSigmoid)](scores, scores, rows * n, 0, 0);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) transform_scores({scores + r * n, static_cast<size_t>(n)}, transform);
}

void expand_score(std::span<float> scores, SecondClass second, PostTransform transform) {
  const float score = scores[0];
  if (transform == PostTransform::kLogistic) {
    scores[0] = logistic(-score);
    scores[1] = logistic(score);
  } else if (transform == PostTransform::kProbit) {
    scores[0] = probit(1 - score);
    scores[1] = probit(score);
  } else {
    scores[0] = second == SecondClass::kComplement ? 1 - score : -score;
    scores[1] = score;
  }
}

}  // namespace tenon::cpu::ref
