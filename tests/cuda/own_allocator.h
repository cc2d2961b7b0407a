// Allocators of a program's for sessions (gpu_external_alloc, gpu_external_free, gpu_external_empty_cache): two of
// them, each with functions of its own, over the CUDA driver. A block that comes back is handed out again at once, as
// caching allocators do. They count, and complain of a call without the device's context, of a block of the other
// allocator, and of one that comes back twice.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/format.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::test {

class OwnAllocator {
 public:
  // Before the first session.
  static Status use(const cuda::CudaDriver& driver) {
    TENON_TRY_ASSIGN(state().device, cuda::CudaDevice::open(driver, 0));
    return Status();
  }

  // After the last.
  static void end() {
    const std::lock_guard lock(state().mutex);
    const std::shared_ptr<cuda::CudaDevice> device = std::exchange(state().device, nullptr);
    const auto scope = cuda::ContextScope::enter(*device);
    for (Counts& counts : state().counts)
      for (const auto& [size_bytes, memory] : std::exchange(counts.kept, {}))
        (void)device->driver().MemFree(static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(memory)));
  }

  // A session's options. Which: 0 or 1.
  template <int Which>
  static std::map<std::string, std::string> options() {
    const auto address = [](auto* function) { return format("{}", reinterpret_cast<uintptr_t>(function)); };
    return {{"gpu_external_alloc", address(&alloc<Which>)},
            {"gpu_external_free", address(&free<Which>)},
            {"gpu_external_empty_cache", address(&empty_cache<Which>)}};
  }

  static int64_t taken(int which) { return read(which, &Counts::taken); }
  static int64_t emptied(int which) { return read(which, &Counts::emptied); }
  static int64_t refused(int which) { return read(which, &Counts::refused); }
  static int64_t live(int which) {
    const std::lock_guard lock(state().mutex);
    return static_cast<int64_t>(state().counts[which].live.size());
  }
  static int64_t wrong() {
    const std::lock_guard lock(state().mutex);
    return state().wrong;
  }
  // The next `count` requests get nothing.
  static void refuse(int which, int64_t count) {
    const std::lock_guard lock(state().mutex);
    state().counts[which].refuse = count;
  }

 private:
  struct Counts {
    std::map<void*, size_t> live;
    std::multimap<size_t, void*> kept;
    int64_t taken = 0, emptied = 0, refuse = 0, refused = 0;
  };
  struct State {
    std::mutex mutex;
    std::shared_ptr<cuda::CudaDevice> device;
    Counts counts[2];
    int64_t wrong = 0;
  };
  static State& state() {
    static State all;
    return all;
  }
  static int64_t read(int which, int64_t Counts::* count) {
    const std::lock_guard lock(state().mutex);
    return state().counts[which].*count;
  }
  static void complain(const char* what) {
    std::printf("FAILED: %s\n", what);
    ++state().wrong;
  }
  static bool in_context(const char* function) {
    CUcontext current = nullptr;
    (void)state().device->driver().CtxGetCurrent(&current);
    if (current == state().device->context()) return true;
    complain(format("{} is called without the device's context.", function).c_str());
    return false;
  }

  template <int Which>
  static void* alloc(size_t size_bytes) {
    const std::lock_guard lock(state().mutex);
    Counts& counts = state().counts[Which];
    if (counts.refuse > 0) {
      --counts.refuse;
      ++counts.refused;
      return nullptr;
    }
    if (!in_context("gpu_external_alloc")) return nullptr;
    void* block = nullptr;
    if (const auto kept = counts.kept.find(size_bytes); kept != counts.kept.end()) {
      block = kept->second;
      counts.kept.erase(kept);
    } else {
      CUdeviceptr memory = 0;
      if (state().device->driver().MemAlloc(&memory, size_bytes) != CUDA_SUCCESS) return nullptr;
      block = reinterpret_cast<void*>(static_cast<uintptr_t>(memory));
    }
    counts.live[block] = size_bytes;
    ++counts.taken;
    return block;
  }
  template <int Which>
  static void free(void* memory) {
    const std::lock_guard lock(state().mutex);
    (void)in_context("gpu_external_free");
    Counts& counts = state().counts[Which];
    const auto live = counts.live.find(memory);
    if (live == counts.live.end()) return complain("A block comes back that is not this allocator's.");
    counts.kept.emplace(live->second, memory);
    counts.live.erase(live);
  }
  template <int Which>
  static void empty_cache() {
    const std::lock_guard lock(state().mutex);
    (void)in_context("gpu_external_empty_cache");
    ++state().counts[Which].emptied;
  }
};

}  // namespace tenon::test
