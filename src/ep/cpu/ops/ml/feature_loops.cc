#include "ep/cpu/ops/ml/feature_loops.h"

#include "ep/cpu/ops/loops.h"

namespace tenon::cpu::ref {

namespace {

template <typename T>
void read_as_float(const void* x, int64_t first, int64_t count, float* to) {
  const T* from = static_cast<const T*>(x) + first;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

template <typename T>
void binarize(const void* x, void* y, int64_t first, int64_t n, float threshold) {
  const T* const from = static_cast<const T*>(x) + first;
  T* const to = static_cast<T*>(y) + first;
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i] > threshold ? 1 : 0);
}

template <typename T>
void impute(const void* x, void* y, int64_t first, int64_t n, const void* replaced, const void* values,
            int64_t stride) {
  const T* const from = static_cast<const T*>(x) + first;
  const T* const instead = static_cast<const T*>(values);
  T* const to = static_cast<T*>(y) + first;
  const T gone = *static_cast<const T*>(replaced);
  const bool nan = gone != gone;
  const auto loop = [&](const auto& value_of) {
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
      const T x_i = from[i], value = value_of(i);
      to[i] = (x_i == gone) | ((x_i != x_i) & nan) ? value : x_i;
    }
  };
  if (stride == 0) return loop([value = *instead](int64_t) { return value; });
  loop([instead](int64_t i) { return instead[i]; });
}

}  // namespace

FeatureLoops feature_loops(DataType type) {
  const FeatureLoops* const found = select(FeatureTypes(), type, []<typename T>() -> const FeatureLoops* {
    static constexpr FeatureLoops kLoops = {&read_as_float<T>, &binarize<T>, &impute<T>};
    return &kLoops;
  });
  return found != nullptr ? *found : FeatureLoops();
}

}  // namespace tenon::cpu::ref
