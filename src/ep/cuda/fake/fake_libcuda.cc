// The fake driver as a library that programs find in the driver's place.
#include <cuda.h>

#include "ep/cuda/fake/fake_cuda.h"

#undef cuGetProcAddress

extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** out,
                                                                               int version, cuuint64_t flags,
                                                                               CUdriverProcAddressQueryResult* answer) {
  static const bool configured = [] {
    tenon::cuda::fake::configure({.abort_on_violation = true});
    return true;
  }();
  (void)configured;
  return tenon::cuda::fake::get_proc_address(name, out, version, flags, answer);
}
