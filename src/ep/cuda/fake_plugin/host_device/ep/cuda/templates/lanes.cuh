// Sums and maxima over neighbouring threads on the host, instead of the plugin's file of this name.
#pragma once

namespace tenon::cuda::device {

static float lane_values[1024];

// combine() of this thread's value and that of the thread `step` apart.
template <typename Combine>
static float exchange(float v, int step, const Combine& combine) {
  lane_values[threadIdx.x] = v;
  __syncthreads();
  v = combine(v, lane_values[threadIdx.x ^ step]);
  __syncthreads();
  return v;
}
template <int kLanes>
static float lane_sum(float v) {
  for (int step = kLanes / 2; step > 0; step /= 2) v = exchange(v, step, [](float a, float b) { return a + b; });
  return v;
}
template <int kLanes>
static float lane_max(float v) {
  for (int step = kLanes / 2; step > 0; step /= 2) v = exchange(v, step, [](float a, float b) { return fmaxf(a, b); });
  return v;
}
template <int kLanes>
static float group_sum(float v) {
  for (int step = 16; step >= kLanes; step /= 2) v = exchange(v, step, [](float a, float b) { return a + b; });
  return v;
}

}  // namespace tenon::cuda::device
