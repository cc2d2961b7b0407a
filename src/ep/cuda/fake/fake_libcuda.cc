// The fake driver as a library that programs find in the driver's place.
#include <cuda.h>

#include <cstdio>

#include "ep/cuda/fake/fake_control.h"
#include "ep/cuda/fake/fake_cuda.h"

#undef cuGetProcAddress

namespace fake = tenon::cuda::fake;

namespace {

// What holds for whole programs, until they say otherwise.
void configure_once() {
  static const bool configured = [] {
    fake::configure({.abort_on_violation = true});
    return true;
  }();
  (void)configured;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** out,
                                                                               int version, cuuint64_t flags,
                                                                               CUdriverProcAddressQueryResult* answer) {
  configure_once();
  return fake::get_proc_address(name, out, version, flags, answer);
}

namespace {

void show_devices(int count) {
  configure_once();
  fake::configure({.devices = count, .abort_on_violation = true});
}

void fail_at(int64_t nth, int result) { fake::fail_at(nth, static_cast<CUresult>(result)); }

bool failed(char* name, size_t room) {
  const std::string call = fake::failed_call();
  std::snprintf(name, room, "%s", call.c_str());
  return !call.empty();
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] extern const fake::FakeControl tenon_fake_cuda_control;
const fake::FakeControl tenon_fake_cuda_control = {&show_devices, &fail_at, &failed, &fake::live_objects};
}
