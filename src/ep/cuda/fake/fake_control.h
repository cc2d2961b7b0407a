// What the fake driver's library lets the program over it ask for: dlsym(kFakeControl) gives the table.
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
};

inline constexpr const char* kFakeControl = "tenon_fake_cuda_control";

}  // namespace tenon::cuda::fake
