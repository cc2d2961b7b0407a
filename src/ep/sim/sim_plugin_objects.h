// The simulated EP's allocators, data transfer, streams and profiler, as the plugin hands them to the host.
#pragma once

#include <memory>
#include <string>

#include "ep/sdk/plugin_memory.h"
#include "ep/sdk/plugin_profiler.h"
#include "ep/sdk/plugin_stream.h"
#include "ep/sim/sim_device.h"
#include "ep/sim/sim_executor.h"

namespace tenon::sim {

inline constexpr uint32_t kSimVendorId = 0x544E;

// Steps that may fail for the process and, where one is given, for a session.
using StepHook = std::function<Status(SimStep)>;
using FailureHook = std::function<void(const Status&)>;

class SimAllocator final : public plugin::Allocator {
 public:
  SimAllocator(const plugin::HostApi& host, const OrtMemoryInfo* info, std::shared_ptr<SimDevice> device,
               SimMemory::Kind kind);

 private:
  void* allocate(size_t size_bytes) override;
  void free(void* memory) override;
  plugin::TextPairs stats() const override;

  const std::shared_ptr<SimDevice> device_;
  const SimMemory::Kind kind_;
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> live_{0};
  SimCounters::Live counted_{counters().allocators};
};

class SimDataTransfer final : public plugin::DataTransfer {
 public:
  SimDataTransfer(const plugin::HostApi& host, std::vector<std::shared_ptr<SimDevice>> devices);

 private:
  bool can_copy(const MemorySpace& src, const MemorySpace& dst) const override;
  Status copy(const void* src, const MemorySpace& src_space, void* dst, const MemorySpace& dst_space, size_t size_bytes,
              OrtSyncStream* stream) override;
  // Null for a space that is not ours.
  SimDevice* device_of(const MemorySpace& space) const;

  const std::vector<std::shared_ptr<SimDevice>> devices_;
  SimCounters::Live counted_{counters().data_transfers};
};

// The native handle is the SimStream.
class SimSyncStream final : public plugin::SyncStream {
 public:
  // `on_failure` gets what a flush or notification fails with: hosts only log it. May be empty.
  SimSyncStream(const plugin::HostApi& host, std::shared_ptr<SimDevice> device, std::string name, StepHook hook,
                FailureHook on_failure = {});

  ~SimSyncStream() override;

  void* handle() override { return stream_.get(); }
  const std::shared_ptr<SimStream>& stream() const { return stream_; }

 private:
  Result<std::unique_ptr<plugin::SyncNotification>> create_notification() override;
  Status flush() override;
  Status on_session_run_end() override;

  const std::shared_ptr<SimDevice> device_;
  std::shared_ptr<SimStream> stream_;
  const StepHook hook_;
  const FailureHook on_failure_;
};

class SimProfiler final : public plugin::Profiler {
 public:
  SimProfiler(const plugin::HostApi& host, std::shared_ptr<SimRuntime> runtime);

 private:
  Status start() override;
  Status start_event(uint64_t correlation_id) override;
  Status stop_event(uint64_t correlation_id) override;
  Result<std::vector<plugin::ProfiledEvent>> end() override;

  const std::shared_ptr<SimRuntime> runtime_;
  SimCounters::Live counted_{counters().profilers};
};

}  // namespace tenon::sim
