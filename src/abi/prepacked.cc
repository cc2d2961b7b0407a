// Containers of weights that sessions share. Tenon packs weights when a plan needs them, for each session, so that a
// container stays empty: sessions made with one behave as those made without.
#include <tenon/onnxruntime_c_api.h>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"

struct OrtPrepackedWeightsContainer {};

namespace tenon::abi {

OrtStatus* ort_api::CreatePrepackedWeightsContainer(OrtPrepackedWeightsContainer** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreatePrepackedWeightsContainer", {{"out", out}})) return bad;
  return make_object(out);
}

void ort_api::ReleasePrepackedWeightsContainer(OrtPrepackedWeightsContainer* input) noexcept { delete input; }

OrtStatus* ort_api::CreateSessionWithPrepackedWeightsContainer(
    const OrtEnv* env, const ORTCHAR_T* model_path, const OrtSessionOptions* options,
    OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out) noexcept {
  (void)prepacked_weights_container;  // may be null, as in the reference
  return CreateSession(env, model_path, options, out);
}

OrtStatus* ort_api::CreateSessionFromArrayWithPrepackedWeightsContainer(
    const OrtEnv* env, const void* model_data, size_t model_data_length, const OrtSessionOptions* options,
    OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out) noexcept {
  (void)prepacked_weights_container;  // may be null, as in the reference
  return CreateSessionFromArray(env, model_data, model_data_length, options, out);
}

}  // namespace tenon::abi
