// Random numbers: RandomNormal (1), RandomUniform (1), their Like forms, Bernoulli (15) and Multinomial (7).
#pragma once

#include <cstdint>
#include <optional>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Numbers around `mean` with the deviation `scale`, or evenly from [low, high).
struct RandomDesc {
  bool normal = false;
  float mean = 0, scale = 1;
  float low = 0, high = 1;
};
// Of RandomNormal, RandomUniform and their Like forms.
RandomDesc read_random(const Node& node);

// Of all operators here. Nothing: each run draws other numbers.
std::optional<float> read_seed(const Node& node);

// Draws `samples` classes for each row of [batch, classes], whose entries are logarithms of weights.
struct MultinomialDesc {
  int64_t batch = 0, classes = 0, samples = 1;
};
// Errors: an input that is no matrix, fewer than 0 samples, rows without a class to draw.
Result<MultinomialDesc> read_multinomial(const Node& node, const Shape& weights);

// True for the operators here, whose result is no function of their inputs.
bool is_random_operator(const Node& node);

}  // namespace tenon
