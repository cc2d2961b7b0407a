// The functions of the fake driver's library for tests: dlsym(kFakeControl) gives the table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cuda::fake {

struct FakeControl {
  // Before the plugin looks for devices; else there is one.
  void (*show_devices)(int count);
  // The nth call from now that can fail at all fails once with this CUresult; 0: none does.
  void (*fail_at)(int64_t nth, int result);
  // Whether one did; its name goes to `name`.
  bool (*failed)(char* name, size_t room);
  int64_t (*live_objects)();
  // Before the plugin looks for the driver; else it is as new as the plugin needs. 12040 is 12.4.
  void (*show_version)(int version);
  // Before graphics interop begins: devices take contexts inside those of graphics APIs.
  void (*show_graphics)();
  size_t (*graphics_contexts)();
  // NT handles of memory and of a fence, as D3D12 gives them out (fake_cuda.h).
  void* (*make_nt_memory)(size_t size_bytes);
  std::byte* (*nt_view)(void* handle);
  void* (*make_nt_fence)();
  uint64_t (*nt_fence_value)(void* handle);
  void (*signal_nt_fence)(void* handle, uint64_t value);
  bool (*nt_is_open)(void* handle);
  // Before the plugin looks for devices; else they are of 9.0: 75 is 7.5.
  void (*show_capability)(int compute_capability);
};

inline constexpr const char* kFakeControl = "tenon_fake_cuda_control";

}  // namespace tenon::cuda::fake
