// OrtPrepackedWeightsContainer: the packed weights that sessions made with it share.
//
// Ownership: sessions keep what they use, also after the container is released. Threads: any.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/packed_weights.h>

#include <memory>

struct OrtPrepackedWeightsContainer {
  const std::shared_ptr<tenon::PackedWeights> weights = tenon::PackedWeights::create();
};
