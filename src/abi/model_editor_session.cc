// OrtModelEditorApi: sessions of models that a program made.
#include <memory>
#include <utility>

#include "abi/model_editor.h"
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "abi/session.h"
#include "runtime/session_impl.h"

namespace tenon::abi {

// The model stays the caller's. The session shares its initializers, which stay when the model is released; those that
// view memory of the program need it as long as the session lives.
OrtStatus* model_editor_api::CreateSessionFromModel(const OrtEnv* env, const OrtModel* model,
                                                    const OrtSessionOptions* options, OrtSession** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateSessionFromModel", {{"env", env}, {"model", model}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    Result<Model> made = to_core(*model);
    if (!made.ok()) return load_error(made.status(), "");
    const auto shared = std::make_shared<const Model>(*std::move(made));
    return make_session(
        env, options, "",
        [shared](const SessionOptions& core_options) { return SessionImpl::create(Model(*shared), core_options); },
        out);
  });
}

OrtStatus* model_editor_api::SessionGetOpsetForDomain(const OrtSession* session, const char* domain,
                                                      int* opset) noexcept {
  clear(opset);
  if (OrtStatus* bad =
          check_pointers("SessionGetOpsetForDomain", {{"session", session}, {"domain", domain}, {"opset", opset}}))
    return bad;
  const auto& core = static_cast<const SessionImpl&>(session->core());
  *opset = core.graph().opset(domain);
  return *opset != 0 ? nullptr : ort_error(ORT_FAIL, "Domain not used by model.");
}

}  // namespace tenon::abi
