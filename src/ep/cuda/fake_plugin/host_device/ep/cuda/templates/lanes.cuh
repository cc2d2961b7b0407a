// Sums and maxima over neighbouring threads on the host, instead of the plugin's file of this name.
#pragma once

namespace tenon::cuda::device {

static float lane_values[kMostFibers];

// combine() of this thread's value and that of the thread `step` apart.
template <typename Combine>
static float exchange(float v, int step, const Combine& combine) {
  // Blocks have whole warps where lanes exchange.
  const unsigned mine = fiber;
  lane_values[mine] = v;
  __syncthreads();
  v = combine(v, lane_values[mine ^ step]);
  __syncthreads();
  return v;
}
template <int kLanes>
static float lane_sum(float v) {
  for (int step = kLanes / 2; step > 0; step /= 2) v = exchange(v, step, [](float a, float b) { return a + b; });
  return v;
}
template <int kLanes, int kCount>
static void lane_sums(float (&v)[kCount]) {
  for (float& one : v) one = lane_sum<kLanes>(one);
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
template <int kLanes, int kCount>
static void group_sums(float (&v)[kCount]) {
  for (float& one : v) one = group_sum<kLanes>(one);
}
template <int kLanes, int kCount>
static void group_maxima(float (&v)[kCount]) {
  for (float& one : v)
    for (int step = 16; step >= kLanes; step /= 2)
      one = exchange(one, step, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace tenon::cuda::device
