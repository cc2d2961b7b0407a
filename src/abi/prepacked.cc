// Containers of packed weights, and sessions that share those of one.
#include "abi/objects/prepacked.h"

#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

// `options` may be null, and so may the container, as in the reference.
OrtSessionOptions with_container(const OrtSessionOptions* options, const OrtPrepackedWeightsContainer* container) {
  OrtSessionOptions made = options != nullptr ? *options : OrtSessionOptions();
  if (container != nullptr) made.packed_weights = container->weights;
  return made;
}

}  // namespace

OrtStatus* ort_api::CreatePrepackedWeightsContainer(OrtPrepackedWeightsContainer** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreatePrepackedWeightsContainer", {{"out", out}})) return bad;
  return make_object(out);
}

void ort_api::ReleasePrepackedWeightsContainer(OrtPrepackedWeightsContainer* input) noexcept { delete input; }

OrtStatus* ort_api::CreateSessionWithPrepackedWeightsContainer(
    const OrtEnv* env, const ORTCHAR_T* model_path, const OrtSessionOptions* options,
    OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out) noexcept {
  clear(out);
  return guarded([&] {
    const OrtSessionOptions shared = with_container(options, prepacked_weights_container);
    return CreateSession(env, model_path, &shared, out);
  });
}

OrtStatus* ort_api::CreateSessionFromArrayWithPrepackedWeightsContainer(
    const OrtEnv* env, const void* model_data, size_t model_data_length, const OrtSessionOptions* options,
    OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out) noexcept {
  clear(out);
  return guarded([&] {
    const OrtSessionOptions shared = with_container(options, prepacked_weights_container);
    return CreateSessionFromArray(env, model_data, model_data_length, &shared, out);
  });
}

}  // namespace tenon::abi
