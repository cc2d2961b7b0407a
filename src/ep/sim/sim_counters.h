// Counters of live objects and steps of the simulated device. Tests compare them before and after to find leaks, and
// make the nth step fail.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::sim {

// Live objects, then totals.
// clang-format off
#define TENON_SIM_COUNTERS(X)                                                                                         \
  X(factories)                                                                                                        \
  X(eps)                                                                                                              \
  X(compiled_nodes) X(compute_states) X(kernels) X(allocators) X(data_transfers) X(streams) X(notifications)          \
      X(importers) X(imported_memories) X(imported_semaphores) X(imported_tensors) X(profilers) X(nt_handles)         \
          X(device_blocks) X(device_bytes) X(host_blocks) X(host_bytes) X(total_runs) X(total_items) X(total_kernels) \
              X(total_copies) X(total_copied_bytes) X(total_scratch_takes) X(total_order_violations)                  \
                  X(total_sync_stream_reads) X(total_old_stream_reads) X(total_host_waits) X(total_device_waits)      \
                      X(total_faults) X(total_synchronous_calls) X(total_overlapping_runs) X(graphics_interops)       \
                          X(total_graphics_inits) X(total_graphics_deinits)
// clang-format on

struct SimCounters {
#define X(name) std::atomic<int64_t> name{0};
  TENON_SIM_COUNTERS(X)
#undef X
  // -1 for a name that is none.
  int64_t value(std::string_view name) const;
  // Adds 1 while it lives.
  class Live {
   public:
    explicit Live(std::atomic<int64_t>& counter) : counter_(counter) { ++counter_; }
    ~Live() { --counter_; }
    Live(const Live&) = delete;
    Live& operator=(const Live&) = delete;

   private:
    std::atomic<int64_t>& counter_;
  };
};

// The process's; objects of all simulated devices count there.
SimCounters& counters();

// Every place that can fail. Names are what the option fail_at and the test interface take.
// clang-format off
#define TENON_SIM_STEPS(X)                                                                                          \
  X(create_ep)                                                                                                      \
  X(get_capability)                                                                                                 \
  X(compile) X(create_state) X(compute) X(on_run_start) X(on_run_end) X(sync) X(initialization_end)                 \
      X(create_allocator) X(allocate) X(allocate_host) X(create_stream) X(flush) X(create_notification) X(activate) \
          X(wait_on_device) X(wait_on_host) X(create_data_transfer) X(copy) X(kernel) X(create_kernel)              \
              X(kernel_registry) X(create_importer) X(import_memory) X(map) X(create_tensor) X(import_semaphore)    \
                  X(wait_semaphore) X(signal_semaphore) X(create_profiler) X(start_profiling) X(end_profiling)      \
                      X(write_context) X(read_context) X(init_graphics) X(deinit_graphics)
// clang-format on

enum class SimStep : uint8_t {
#define X(name) name,
  TENON_SIM_STEPS(X)
#undef X
};
const char* step_name(SimStep step);
// Null for a name that is none.
const SimStep* find_step(std::string_view name);
// "a, b, c": all of them.
std::string step_names();

// Makes the nth visit of one step, or of any step, fail once. Threads: any.
class SimFaults {
 public:
  // `step` null: any. `nth` counts from 1; 0 disarms.
  void arm(const SimStep* step, int64_t nth);
  void disarm() { arm(nullptr, 0); }
  bool fired() const;
  // kDeviceError naming the step when its turn has come. Also a fault point of base/fault.h.
  Status hit(SimStep step);

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> armed_{false};
  bool any_ = false;
  bool fired_ = false;
  SimStep step_{};
  int64_t left_ = 0;
};

// The process's, for tests; a session's option fail_at has one of its own.
SimFaults& process_faults();

}  // namespace tenon::sim
