#include "abi/objects/threading_options.h"

#include <string_view>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

OrtStatus* ort_api::CreateThreadingOptions(OrtThreadingOptions** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateThreadingOptions", {{"out", out}})) return bad;
  return make_object(out);
}

void ort_api::ReleaseThreadingOptions(OrtThreadingOptions* input) noexcept { delete input; }

OrtStatus* ort_api::SetGlobalIntraOpNumThreads(OrtThreadingOptions* tp_options, int intra_op_num_threads) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalIntraOpNumThreads", {{"tp_options", tp_options}})) return bad;
  tp_options->intra_op_threads = intra_op_num_threads;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalInterOpNumThreads(OrtThreadingOptions* tp_options, int inter_op_num_threads) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalInterOpNumThreads", {{"tp_options", tp_options}})) return bad;
  tp_options->inter_op_threads = inter_op_num_threads;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalSpinControl(OrtThreadingOptions* tp_options, int allow_spinning) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalSpinControl", {{"tp_options", tp_options}})) return bad;
  if (allow_spinning != 0 && allow_spinning != 1)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Received invalid value for allow_spinning. Valid values are 0 or 1");
  tp_options->allow_spinning = allow_spinning == 1;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalCustomCreateThreadFn(OrtThreadingOptions* tp_options,
                                                  OrtCustomCreateThreadFn ort_custom_create_thread_fn) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalCustomCreateThreadFn", {{"tp_options", tp_options}})) return bad;
  tp_options->create_thread = ort_custom_create_thread_fn;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalCustomThreadCreationOptions(OrtThreadingOptions* tp_options,
                                                         void* ort_custom_thread_creation_options) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalCustomThreadCreationOptions", {{"tp_options", tp_options}})) return bad;
  tp_options->thread_creation_options = ort_custom_thread_creation_options;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalCustomJoinThreadFn(OrtThreadingOptions* tp_options,
                                                OrtCustomJoinThreadFn ort_custom_join_thread_fn) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalCustomJoinThreadFn", {{"tp_options", tp_options}})) return bad;
  tp_options->join_thread = ort_custom_join_thread_fn;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalDenormalAsZero(OrtThreadingOptions* tp_options) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalDenormalAsZero", {{"tp_options", tp_options}})) return bad;
  tp_options->denormal_as_zero = true;
  return nullptr;
}

OrtStatus* ort_api::SetGlobalIntraOpThreadAffinity(OrtThreadingOptions* tp_options,
                                                   const char* affinity_string) noexcept {
  if (OrtStatus* bad = check_pointers("SetGlobalIntraOpThreadAffinity",
                                      {{"tp_options", tp_options}, {"affinity_string", affinity_string}}))
    return bad;
  constexpr size_t kMaxBytes = 4096;
  const std::string_view text = affinity_string;
  if (text.empty() || text.size() > kMaxBytes)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Size of affinity string must be between 1 and 4096");
  return guarded([&]() -> OrtStatus* {
    tp_options->affinity = text;
    return nullptr;
  });
}

}  // namespace tenon::abi
