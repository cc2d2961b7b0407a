#include "ep/cpu/ops/ml/scores.h"

#include <algorithm>

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
