// The state [depth,width] of a head of linear attention: read by a row, or changed and then read. One head of one
// thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct StateTable {
  // y[width] = scale * sum over d of x[d] * state[d][.].
  void (*read)(const float* state, const float* x, float scale, int64_t depth, int64_t width, float* y);
  // state[d][.] = factor[d] * state[d][.] + k[d] * v[.]; then y[.] = scale * sum over d of q[d] * state[d][.].
  void (*update)(float* state, const float* factor, const float* k, const float* v, const float* q, float scale,
                 int64_t depth, int64_t width, float* y);
};

const StateTable& state_table();

}  // namespace tenon::cpu
