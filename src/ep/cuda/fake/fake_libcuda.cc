// The fake driver as a library that programs find in the driver's place.
//   TENON_FAKE_CUDA_DEVICES   how many it shows; 1
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#include "ep/cuda/fake/fake_control.h"
#include "ep/cuda/fake/fake_cuda.h"

#undef cuGetProcAddress

namespace fake = tenon::cuda::fake;

extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** out,
                                                                               int version, cuuint64_t flags,
                                                                               CUdriverProcAddressQueryResult* answer) {
  static const bool configured = [] {
    const char* devices = std::getenv("TENON_FAKE_CUDA_DEVICES");
    fake::configure({.devices = devices != nullptr ? std::atoi(devices) : 1, .abort_on_violation = true});
    return true;
  }();
  (void)configured;
  return fake::get_proc_address(name, out, version, flags, answer);
}

namespace {

void fail_at(int64_t nth, int result) { fake::fail_at(nth, static_cast<CUresult>(result)); }

bool failed(char* name, size_t room) {
  const std::string call = fake::failed_call();
  std::snprintf(name, room, "%s", call.c_str());
  return !call.empty();
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] extern const fake::FakeControl tenon_fake_cuda_control;
const fake::FakeControl tenon_fake_cuda_control = {&fail_at, &failed, &fake::live_objects};
}
