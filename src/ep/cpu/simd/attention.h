// Attention of few queries on f32, keys and values read where they lie: the loops of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct AttentionTable {
  // scores[s] = factor * (q . k[s]) for n keys of `depth` elements, k[s] being k + s * row.
  void (*scores)(const float* q, const float* k, int64_t row, int64_t n, int64_t depth, float factor, float* scores);
  // y[i] = y_factor * y[i] + the sum of weights[s] * v[s * row + i], i below `width`. With y_factor 0 y is not read.
  void (*weighted_sum)(const float* weights, const float* v, int64_t row, int64_t n, int64_t width, float y_factor,
                       float* y);
};

const AttentionTable& attention_table();

}  // namespace tenon::cpu
