// The CUDA EP's allocators, data transfer, streams and notifications, as the plugin hands them to the host.
#pragma once

#include <memory>

#include "ep/cuda/cuda_session.h"
#include "ep/sdk/plugin_memory.h"
#include "ep/sdk/plugin_stream.h"

namespace tenon::cuda {

inline constexpr uint32_t kNvidiaVendorId = 0x10DE;

// The memory of a device for what hosts make before anybody uses the device: it is opened with the first use, so that
// graphics interop may still begin, and stays open. Inside a graphics context (S1.9), which ends with its last user,
// only live blocks keep it open.
class LazyMemory {
 public:
  LazyMemory(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}

  // Null when there is no memory, or no device.
  void* allocate(const std::function<Result<void*>(CudaMemory&)>& take);
  void free(const std::function<void(CudaMemory&)>& give_back);
  // Null until it is opened.
  std::shared_ptr<CudaMemory> opened() const { return state_.lock()->memory; }

 private:
  struct State {
    std::shared_ptr<CudaMemory> memory;
    int64_t live = 0;
  };
  const CudaDriver& driver_;
  const int ordinal_;
  mutable Guarded<State> state_;
};

// The device's stream-ordered pool.
class PoolAllocator final : public plugin::Allocator {
 public:
  PoolAllocator(const plugin::HostApi& host, const OrtMemoryInfo* info, const CudaDriver& driver, int ordinal)
      : Allocator(host, info), memory_(driver, ordinal) {}

 private:
  void* allocate(size_t size_bytes) override;
  void* allocate_on(size_t size_bytes, OrtSyncStream* stream) override;
  void free(void* memory) override {
    memory_.free([memory](CudaMemory& device) { device.free(memory); });
  }
  plugin::TextPairs stats() const override;
  LazyMemory memory_;
};

class PinnedAllocator final : public plugin::Allocator {
 public:
  PinnedAllocator(const plugin::HostApi& host, const OrtMemoryInfo* info, const CudaDriver& driver, int ordinal)
      : Allocator(host, info), memory_(driver, ordinal) {}

 private:
  void* allocate(size_t size_bytes) override;
  void free(void* memory) override {
    memory_.free([memory](CudaMemory& device) { device.free_pinned(memory); });
  }
  plugin::TextPairs stats() const override;
  LazyMemory memory_;
};

// The allocator of a session with a memory limit or with the program's allocator.
class SessionAllocator final : public plugin::Allocator {
 public:
  SessionAllocator(const plugin::HostApi& host, const OrtMemoryInfo* info, const std::shared_ptr<CudaSession>& session)
      : Allocator(host, info), memory_(session->device_memory()), session_(session) {}

 private:
  void* allocate(size_t size_bytes) override;
  void* allocate_on(size_t size_bytes, OrtSyncStream* stream) override;
  void* reserve(size_t size_bytes) override;
  void free(void* memory) override { memory_->free(memory); }
  plugin::TextPairs stats() const override;
  void* reported(Result<void*> memory);
  const std::shared_ptr<SessionMemory> memory_;
  const std::weak_ptr<CudaSession> session_;  // for its log only: tensors may outlive the session
};

class CudaDataTransfer final : public plugin::DataTransfer {
 public:
  CudaDataTransfer(const plugin::HostApi& host, const CudaDriver& driver, std::vector<int> ordinals)
      : DataTransfer(host), driver_(driver), ordinals_(std::move(ordinals)) {}

 private:
  bool can_copy(const MemorySpace& src, const MemorySpace& dst) const override;
  Status copy(const void* src, const MemorySpace& src_space, void* dst, const MemorySpace& dst_space, size_t size_bytes,
              OrtSyncStream* stream) override;
  bool on_device(const MemorySpace& space) const;
  // A device is opened with the first copy, and stays open, unless it is inside a graphics context.
  Result<std::shared_ptr<CudaMemory>> memory_of(int ordinal) const;

  const CudaDriver& driver_;
  const std::vector<int> ordinals_;
  mutable Guarded<std::vector<std::shared_ptr<CudaMemory>>> opened_;
};

// The native handle is the CUstream.
class CudaSyncStream final : public plugin::SyncStream {
 public:
  CudaSyncStream(const plugin::HostApi& host, std::shared_ptr<CudaStream> stream, std::shared_ptr<CudaSession> session)
      : SyncStream(host), stream_(std::move(stream)), session_(std::move(session)) {}
  // A stream that the program asked the device for. It keeps the device's memory, which knows whom to wait for.
  CudaSyncStream(const plugin::HostApi& host, std::shared_ptr<CudaMemory> memory, std::shared_ptr<CudaStream> stream)
      : SyncStream(host), memory_(std::move(memory)), stream_(std::move(stream)) {}

  void* handle() override { return stream_->native(); }
  const std::shared_ptr<CudaStream>& stream() const { return stream_; }

 private:
  Result<std::unique_ptr<plugin::SyncNotification>> create_notification() override;
  Status flush() override;
  Status on_session_run_end() override;

  const std::shared_ptr<CudaMemory> memory_;
  const std::shared_ptr<CudaStream> stream_;
  const std::shared_ptr<CudaSession> session_;
};

}  // namespace tenon::cuda
