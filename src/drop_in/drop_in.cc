// The two functions of libonnxruntime.so.1 under the version node of every older release (releases.inc, by CMake).
#include <tenon/onnxruntime_c_api.h>

#include "abi/entry.h"

extern "C" {

const OrtApiBase* tenon_api_base() noexcept { return tenon::abi::api_base(); }

OrtStatus* tenon_append_cpu(OrtSessionOptions* options, int use_arena) noexcept {
  return tenon::abi::append_cpu(options, use_arena);
}

// An alias for each release, since an assembler may take only one version of a symbol.
#define TENON_RELEASE(minor, patch)                                                                 \
  const OrtApiBase* tenon_api_base_##minor##_##patch() noexcept                                     \
      __attribute__((alias("tenon_api_base"), visibility("default")));                              \
  OrtStatus* tenon_append_cpu_##minor##_##patch(OrtSessionOptions*, int) noexcept                   \
      __attribute__((alias("tenon_append_cpu"), visibility("default")));                            \
  __asm__(".symver tenon_api_base_" #minor "_" #patch ", OrtGetApiBase@VERS_1." #minor "." #patch); \
  __asm__(".symver tenon_append_cpu_" #minor "_" #patch                                             \
          ", OrtSessionOptionsAppendExecutionProvider_CPU@VERS_1." #minor "." #patch);
#include "releases.inc"
#undef TENON_RELEASE
}
