#include "abi/objects/ep_context.h"

#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

MakingSession::Making& MakingSession::current() {
  static thread_local Making making;
  return making;
}

MakingSession::MakingSession(const OrtSessionOptions& options, PluginSession& plugins) : outer_(current()) {
  current() = {&options, &plugins};
}
MakingSession::~MakingSession() { current() = outer_; }
const OrtSessionOptions* MakingSession::options() { return current().options; }
PluginSession* MakingSession::plugins() { return current().plugins; }

OrtStatus* ort_api::SessionOptionsSetWeightlessSourceModelBuffer(OrtSessionOptions* options,
                                                                 const void* source_model_data,
                                                                 size_t source_model_data_length) noexcept {
  if (OrtStatus* bad = check_pointers("SessionOptionsSetWeightlessSourceModelBuffer", {{"options", options}}))
    return bad;
  if (source_model_data == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid source model: data pointer is null");
  if (source_model_data_length == 0)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid source model: data size is 0");
  options->source_model = {source_model_data, source_model_data_length};
  return nullptr;
}

OrtStatus* ep_api::SessionOptionsGetWeightlessSourceModelBuffer(const OrtSessionOptions* session_options,
                                                                const void** source_model_data,
                                                                size_t* source_model_data_length) noexcept {
  clear(source_model_data);
  clear(source_model_data_length);
  if (OrtStatus* bad = check_pointers("SessionOptionsGetWeightlessSourceModelBuffer",
                                      {{"session_options", session_options},
                                       {"source_model_data", source_model_data},
                                       {"source_model_data_length", source_model_data_length}}))
    return bad;
  *source_model_data = session_options->source_model.data;
  *source_model_data_length = session_options->source_model.size_bytes;
  return nullptr;
}

OrtStatus* ort_api::SessionOptionsSetEpContextDataReadFunc(OrtSessionOptions* options, OrtReadNamedBufferFunc read_func,
                                                           void* state) noexcept {
  if (OrtStatus* bad = check_pointers("SessionOptionsSetEpContextDataReadFunc", {{"options", options}})) return bad;
  options->ep_context.read = read_func;
  options->ep_context.read_state = state;
  return nullptr;
}

OrtStatus* ep_api::SessionOptionsGetEpContextConfig(const OrtSessionOptions* session_options,
                                                    OrtEpContextConfig** config) noexcept {
  clear(config);
  if (OrtStatus* bad = check_pointers("SessionOptionsGetEpContextConfig",
                                      {{"session_options", session_options}, {"config", config}}))
    return bad;
  return make_object(config, session_options->ep_context);
}

void ep_api::ReleaseEpContextConfig(OrtEpContextConfig* input) noexcept { delete input; }

OrtStatus* ep_api::EpContextConfigGetEpContextDataReadFunc(const OrtEpContextConfig* config,
                                                           OrtReadNamedBufferFunc* read_func, void** state) noexcept {
  clear(read_func);
  clear(state);
  if (OrtStatus* bad = check_pointers("EpContextConfigGetEpContextDataReadFunc",
                                      {{"config", config}, {"read_func", read_func}, {"state", state}}))
    return bad;
  *read_func = config->read;
  *state = config->read_state;
  return nullptr;
}

OrtStatus* ep_api::EpContextConfigGetEpContextDataWriteFunc(const OrtEpContextConfig* config,
                                                            OrtWriteNamedBufferFunc* write_func,
                                                            void** state) noexcept {
  clear(write_func);
  clear(state);
  if (OrtStatus* bad = check_pointers("EpContextConfigGetEpContextDataWriteFunc",
                                      {{"config", config}, {"write_func", write_func}, {"state", state}}))
    return bad;
  *write_func = config->write;
  *state = config->write_state;
  return nullptr;
}

}  // namespace tenon::abi
