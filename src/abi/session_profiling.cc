// Profiling through the C ABI, and the options that a session's EPs take while it lives.
#include "abi/allocator.h"
#include "abi/session.h"
#include "abi/slots.h"
#include "abi/status.h"

namespace tenon::abi {

OrtStatus* ort_api::SessionEndProfiling(OrtSession* session, OrtAllocator* allocator, char** out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("SessionEndProfiling", {{"session", session}, {"allocator", allocator}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (session->profile == nullptr) return copy_text(allocator, "", out);
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

}  // namespace tenon::abi
