// The fake driver as a library that programs find in the driver's place.
#include <cuda.h>

#include <cstdio>

#include "ep/cuda/fake/fake_control.h"
#include "ep/cuda/fake/fake_cuda.h"

#undef cuGetProcAddress

namespace fake = tenon::cuda::fake;

namespace {

// The configuration for whole programs, until they change it (fake_control.h).
fake::Config& config() {
  static fake::Config current = [] {
    fake::Config initial;
    initial.abort_on_violation = true;
    fake::configure(initial);
    return initial;
  }();
  return current;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** out,
                                                                               int version, cuuint64_t flags,
                                                                               CUdriverProcAddressQueryResult* answer) {
  (void)config();
  return fake::get_proc_address(name, out, version, flags, answer);
}

namespace {

void show_devices(int count) {
  config().devices = count;
  fake::configure(config());
}

void show_version(int version) {
  config().version = version;
  fake::configure(config());
}

void show_capability(int compute_capability) {
  config().compute_capability = compute_capability;
  fake::configure(config());
}

void show_graphics() {
  config().graphics = true;
  fake::configure(config());
}

size_t graphics_contexts() { return fake::graphics_contexts().size(); }

void* make_nt_fence() {
  auto timeline = tenon::make_host_timeline("NT fence");
  return timeline.ok() ? fake::make_nt_fence(*std::move(timeline)) : nullptr;
}
uint64_t nt_fence_value(void* handle) { return fake::nt_timeline(handle)->value().value(); }
void signal_nt_fence(void* handle, uint64_t value) { (void)fake::nt_timeline(handle)->signal(value); }

void fail_at(int64_t nth, int result) { fake::fail_at(nth, static_cast<CUresult>(result)); }

bool failed(char* name, size_t room) {
  const std::string call = fake::failed_call();
  std::snprintf(name, room, "%s", call.c_str());
  return !call.empty();
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] extern const fake::FakeControl tenon_fake_cuda_control;
const fake::FakeControl tenon_fake_cuda_control = {&show_devices,
                                                   &fail_at,
                                                   &failed,
                                                   &fake::live_objects,
                                                   &show_version,
                                                   &show_graphics,
                                                   &graphics_contexts,
                                                   &fake::make_nt_memory,
                                                   &fake::nt_view,
                                                   &make_nt_fence,
                                                   &nt_fence_value,
                                                   &signal_nt_fence,
                                                   &fake::nt_is_open,
                                                   &show_capability};
}
