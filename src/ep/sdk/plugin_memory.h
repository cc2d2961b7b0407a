// A plugin's allocators and data transfers as C++ classes behind OrtAllocator and OrtDataTransferImpl.
//
// Ownership: the host owns what a factory or EP creates, and releases it through the ABI; release_to_host() hands over.
// Threads: the host calls every function from any thread.
#pragma once

#include <memory>

#include "ep/sdk/plugin_host.h"

namespace tenon::plugin {

class Allocator : private OrtAllocator {
 public:
  // `info` is the OrtMemoryInfo that the factory keeps; it outlives the allocator.
  Allocator(const HostApi& host, const OrtMemoryInfo* info);
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  static OrtAllocator* release_to_host(std::unique_ptr<Allocator> allocator);
  // Null gives null. The allocator must be one of ours.
  static std::unique_ptr<Allocator> take_back(OrtAllocator* allocator);

 protected:
  // Null when memory is exhausted; the ABI has no place for a reason.
  virtual void* allocate(size_t size_bytes) = 0;
  // Memory that is first used by work of `stream`; `stream` may be null, and is this plugin's otherwise.
  virtual void* allocate_on(size_t size_bytes, OrtSyncStream* stream) { return (void)stream, allocate(size_bytes); }
  // Memory that stays for long, such as initializers.
  virtual void* reserve(size_t size_bytes) { return allocate(size_bytes); }
  // Null is allowed. Work that the host has already queued may still use the memory.
  virtual void free(void* memory) = 0;
  virtual TextPairs stats() const { return {}; }
  const HostApi& host() const { return host_; }

 private:
  const HostApi host_;
  const OrtMemoryInfo* const info_;
};

// The memory of an OrtMemoryDevice, as Tenon's own value.
MemorySpace memory_space(const HostApi& host, const OrtMemoryDevice* device);
MemorySpace memory_space(OrtMemoryInfoDeviceType device_type, OrtDeviceMemoryType memory_type, uint32_t vendor_id,
                         uint32_t device_id);

class DataTransfer : private OrtDataTransferImpl {
 public:
  explicit DataTransfer(const HostApi& host);
  virtual ~DataTransfer() = default;
  DataTransfer(const DataTransfer&) = delete;
  DataTransfer& operator=(const DataTransfer&) = delete;

  // Null gives null: the factory has no data transfer.
  static OrtDataTransferImpl* release_to_host(std::unique_ptr<DataTransfer> transfer);

 protected:
  virtual bool can_copy(const MemorySpace& src, const MemorySpace& dst) const = 0;
  // Queued on `stream`, which is this plugin's, when it is not null; finished on return when it is. Sizes are equal and
  // not 0.
  virtual Status copy(const void* src, const MemorySpace& src_space, void* dst, const MemorySpace& dst_space,
                      size_t size_bytes, OrtSyncStream* stream) = 0;
  const HostApi& host() const { return host_; }

 private:
  Status copy_tensors(const OrtValue** src, OrtValue** dst, OrtSyncStream** streams, size_t count);
  const HostApi host_;
};

}  // namespace tenon::plugin
