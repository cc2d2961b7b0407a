// OrtModelEditorApi: sessions of models that a program made or changed.
#include <filesystem>
#include <memory>
#include <utility>

#include "abi/edited_model.h"
#include "abi/model_editor.h"
#include "abi/objects/prepacked.h"
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "abi/session.h"
#include "graph/schema.h"
#include "graph/writer.h"
#include "runtime/session_impl.h"
#include "runtime/session_model.h"

namespace tenon::abi {

namespace {

Status save(const Model& model, const OrtSessionOptions& options) {
  TENON_TRY_ASSIGN(const std::string bytes, write_model(model.graph, {.info = &model.info, .notes = &model.notes}));
  return save_model(options, std::as_bytes(std::span(bytes)));
}

// Other mistakes are found when the model is finished; custom operators are known then.
Status check_operators(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const int opset = graph.opset(node.domain);
    TENON_INVALID_IF(node.since_version == 0 && (opset == 0 || newest_opset(node.domain) > 0),
                     "Node {} is of no operator that domain \"{}\" has at opset {}.", node.label(graph), node.domain,
                     opset);
  }
  return {};
}

OrtStatus* editor_session(const OrtEnv* env, const OrtSessionOptions* options, const std::string& load_prefix,
                          const std::function<Result<Model>(const SessionOptions&)>& read, OrtSession** out) {
  auto session = std::make_unique<OrtSession>();
  session->env = current_env();
  if (session->env.get() != env) return make_ort_status(ORT_INVALID_ARGUMENT, "The env was released.");
  if (options != nullptr) session->options = *options;
  SessionOptions core_options;
  if (OrtStatus* bad = to_core(session->options, *session->env, core_options)) return bad;
  Result<Model> model = read(core_options);
  if (!model.ok()) return load_error(model.status(), load_prefix);
  if (session->options.custom_op_domains.empty()) {
    if (Status bad = check_operators(model->graph); !bad.ok()) return load_error(bad, load_prefix);
  }
  Result<std::shared_ptr<EditedModel>> edited = EditedModel::create(*std::move(model), core_options);
  if (!edited.ok()) return load_error(edited.status(), load_prefix);
  session->main = std::make_shared<CoreSession>(*std::move(edited));
  describe_memory(*session);
  *out = session.release();
  return nullptr;
}

// As in ONNX Runtime, EPs come from the options of the end, and all else from those of the beginning.
void take_eps(const OrtSessionOptions& from, OrtSessionOptions& to) {
  to.eps = from.eps;
  to.has_cpu_ep = from.has_cpu_ep;
  to.azure_eps = from.azure_eps;
  to.ep_policy = from.ep_policy;
  to.has_ep_policy = from.has_ep_policy;
  to.ep_delegate = from.ep_delegate;
  to.ep_delegate_state = from.ep_delegate_state;
}

}  // namespace

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
    if (OrtStatus* bad = make_session(
            env, options, "",
            [shared](const SessionOptions& core_options) { return SessionImpl::create(Model(*shared), core_options); },
            out))
      return bad;
    if (options == nullptr || options->optimized_model_path.empty()) return nullptr;
    const Status saved = save(*shared, *options);
    if (!saved.ok()) delete std::exchange(*out, nullptr);
    return saved_status(saved);
  });
}

OrtStatus* model_editor_api::CreateModelEditorSession(const OrtEnv* env, const ORTCHAR_T* model_path,
                                                      const OrtSessionOptions* options, OrtSession** out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("CreateModelEditorSession", {{"env", env}, {"model_path", model_path}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const std::string file = model_path, prefix = "Load model from " + file + " failed:";
    std::error_code error;
    if (!std::filesystem::exists(file, error))
      return ort_error(ORT_NO_SUCHFILE, "{}Load model {} failed. File doesn't exist", prefix, file);
    if (std::filesystem::is_directory(file, error))
      return ort_error(ORT_INVALID_ARGUMENT, "{}The model path is a directory; a model is one file.", prefix);
    return editor_session(
        env, options, prefix, [&](const SessionOptions& core) { return read_session_model(file, core); }, out);
  });
}

OrtStatus* model_editor_api::CreateModelEditorSessionFromArray(const OrtEnv* env, const void* model_data,
                                                               size_t model_data_length,
                                                               const OrtSessionOptions* options,
                                                               OrtSession** out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("CreateModelEditorSessionFromArray", {{"env", env}, {"model_data", model_data}, {"out", out}}))
    return bad;
  return guarded([&] {
    const std::span bytes(static_cast<const std::byte*>(model_data), model_data_length);
    return editor_session(
        env, options, "",
        [&](const SessionOptions& core) { return read_session_model(bytes, core, external_folder(options)); }, out);
  });
}

// Unlike the reference, a change that fails leaves the session as it was.
OrtStatus* model_editor_api::ApplyModelToModelEditorSession(OrtSession* session, OrtModel* model) noexcept {
  if (OrtStatus* bad = check_pointers("ApplyModelToModelEditorSession", {{"session", session}, {"model", model}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<EditedModel> edited = edited_model(session->main->core);
    if (edited == nullptr) return make_ort_status(ORT_MODEL_LOADED, "This session has already been initialized.");
    Result<std::shared_ptr<EditedModel>> changed = edited->with(*model);
    if (!changed.ok()) return load_error(changed.status(), "");
    session->main = std::make_shared<CoreSession>(*std::move(changed));
    describe_memory(*session);
    return nullptr;
  });
}

// A session that is finished stays as it is, as in the reference. One that cannot be finished can be tried again.
OrtStatus* model_editor_api::FinalizeModelEditorSession(
    OrtSession* session, const OrtSessionOptions* options,
    OrtPrepackedWeightsContainer* prepacked_weights_container) noexcept {
  if (OrtStatus* bad = check_pointers("FinalizeModelEditorSession", {{"session", session}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<EditedModel> edited = edited_model(session->main->core);
    if (edited == nullptr) return nullptr;
    take_eps(options != nullptr ? *options : OrtSessionOptions(), session->options);
    if (prepacked_weights_container != nullptr) session->options.packed_weights = prepacked_weights_container->weights;
    session->plugins = {};
    session->core_options = {};
    if (OrtStatus* bad = fill_session(*session, "", [edited](const SessionOptions& core_options) {
          return SessionImpl::create(Model(edited->model()), core_options);
        }))
      return bad;
    if (session->options.optimized_model_path.empty()) return nullptr;
    return saved_status(save(edited->model(), session->options));
  });
}

OrtStatus* model_editor_api::SessionGetOpsetForDomain(const OrtSession* session, const char* domain,
                                                      int* opset) noexcept {
  clear(opset);
  if (OrtStatus* bad =
          check_pointers("SessionGetOpsetForDomain", {{"session", session}, {"domain", domain}, {"opset", opset}}))
    return bad;
  const auto* edited = dynamic_cast<const EditedModel*>(&session->core());
  const Graph& graph =
      edited != nullptr ? edited->model().graph : static_cast<const SessionImpl&>(session->core()).graph();
  *opset = graph.opset(domain);
  return *opset != 0 ? nullptr : ort_error(ORT_FAIL, "Domain not used by model.");
}

}  // namespace tenon::abi
