// Profiling through the C ABI, and the options that a session's EPs take while it lives.
#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"

namespace tenon::abi {

OrtStatus* ort_api::SessionEndProfiling(OrtSession* session, OrtAllocator* allocator, char** out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("SessionEndProfiling", {{"session", session}, {"allocator", allocator}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (session->profile == nullptr) return copy_text(allocator, "", out);
    for (const auto& profiler : session->plugins.profilers) profiler->end();
    const Result<std::string> name = session->profile->write();
    return name.ok() ? copy_text(allocator, *name, out) : to_ort(name.status());
  });
}

OrtStatus* ort_api::SessionGetProfilingStartTimeNs(const OrtSession* session, uint64_t* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("SessionGetProfilingStartTimeNs", {{"session", session}, {"out", out}}))
    return bad;
  if (session->profile != nullptr) *out = session->profile->start_ns();
  return nullptr;
}

OrtStatus* ort_api::SetEpDynamicOptions(OrtSession* sess, const char* const* keys, const char* const* values,
                                        size_t kv_len) noexcept {
  if (OrtStatus* bad = check_pointers("SetEpDynamicOptions", {{"sess", sess}})) return bad;
  if (kv_len == 0) return make_ort_status(ORT_INVALID_ARGUMENT, "no inputs were passed");
  if (OrtStatus* bad = check_pointers("SetEpDynamicOptions", {{"keys", keys}, {"values", values}})) return bad;
  for (size_t i = 0; i < kv_len; ++i) {
    if (keys[i] == nullptr || *keys[i] == '\0' || values[i] == nullptr)
      return ort_error(ORT_INVALID_ARGUMENT, "Dynamic option {} has no key or no value.", i);
  }
  // The CPU EP has no such option, and ignores those that it does not know, as the reference does.
  return guarded([&] { return to_ort(sess->plugins.set_dynamic_options({keys, kv_len}, {values, kv_len})); });
}

// Success also when no EP captures graphs, as in the reference.
OrtStatus* ort_api::SessionReleaseCapturedGraph(OrtSession* session, int graph_annotation_id) noexcept {
  if (OrtStatus* bad = check_pointers("SessionReleaseCapturedGraph", {{"session", session}})) return bad;
  return guarded([&] { return to_ort(session->plugins.release_graph(graph_annotation_id)); });
}

}  // namespace tenon::abi
