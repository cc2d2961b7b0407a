// OrtModelCompilationOptions: a copy of session options that a compilation would use. CompileModel is not there yet.
#include "abi/objects/session_config.h"
#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

struct OrtModelCompilationOptions {
  OrtSessionOptions session;
};

namespace tenon::abi {

OrtStatus* compile_api::CreateModelCompilationOptionsFromSessionOptions(const OrtEnv* env,
                                                                        const OrtSessionOptions* session_options,
                                                                        OrtModelCompilationOptions** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateModelCompilationOptionsFromSessionOptions",
                                      {{"env", env}, {"session_options", session_options}, {"out", out}}))
    return bad;
  return make_object(out, *session_options);
}

void compile_api::ReleaseModelCompilationOptions(OrtModelCompilationOptions* input) noexcept { delete input; }

OrtStatus* compile_api::ModelCompilationOptions_SetWeightlessMode(OrtModelCompilationOptions* model_compile_options,
                                                                  OrtWeightlessSupport mode) noexcept {
  if (OrtStatus* bad = check_pointers("ModelCompilationOptions_SetWeightlessMode",
                                      {{"model_compile_options", model_compile_options}}))
    return bad;
  if (mode < OrtWeightlessSupport_NONE || mode > OrtWeightlessSupport_ALL)
    return ort_error(ORT_INVALID_ARGUMENT,
                     "Invalid weightless mode {}. Valid modes are 0 (OrtWeightlessSupport_NONE), 1 "
                     "(OrtWeightlessSupport_EXTERNAL_ONLY), and 2 (OrtWeightlessSupport_ALL).",
                     static_cast<int>(mode));
  return guarded([&]() -> OrtStatus* {
    model_compile_options->session.config_entries.set(kWeightlessModeKey, std::to_string(static_cast<int>(mode)));
    return nullptr;
  });
}

}  // namespace tenon::abi
