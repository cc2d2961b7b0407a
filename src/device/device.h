// Interfaces of a device other than the host: its allocators, its transfers and its streams.
//
// Ownership: stated at each class. Lifetime: allocators, transfers and streams outlive the tensors and plans that use
// them (a session keeps its providers). Threads: allocators and transfers from any thread; a stream from one run at a
// time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <tenon/tensor.h>
#include <tenon/types.h>

#include "base/status.h"

namespace tenon {

class DeviceStream;

// A point on a stream that another stream, or the host, can wait for. Activated again, it is a later point; what waited
// for the earlier one has passed it by then.
class DeviceNotification {
 public:
  virtual ~DeviceNotification() = default;
  // The point is what was enqueued on the stream so far.
  virtual Status activate() = 0;
  // Later work on `waiter` runs after the point; returns at once.
  virtual Status wait_on_device(DeviceStream& waiter) = 0;
  // Returns when the point is passed. Errors: the failure of the work before it.
  virtual Status wait_on_host() = 0;
};

// An ordered queue of a device. What is enqueued may run only when something waits for it.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual Result<std::unique_ptr<DeviceNotification>> create_notification() = 0;
  // Hands all enqueued work to the device; may wait for it, as plugins' streams do.
  virtual Status flush() = 0;
  // The run that used the stream is over (OrtSyncStreamImpl::OnSessionRunEnd).
  virtual Status end_run() = 0;
  // The device's own handle (a cudaStream_t, say); null when there is none.
  virtual void* native_handle() const = 0;
  // No other stream of the process has or had it.
  uint64_t id() const { return id_; }

 private:
  static uint64_t next_id() {
    static std::atomic<uint64_t> last = 0;
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  const uint64_t id_ = next_id();
};

// Memory of one memory space.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  virtual const MemorySpace& space() const = 0;
  // True: what allocate() gives is the name of a buffer and no address (a WGPUBuffer, say), so nothing is added to it,
  // and each tensor has a buffer of its own.
  virtual bool gives_handles() const { return false; }
  // At least `size_bytes`; freed with the last reference, which keeps the allocator alive. Contents are undefined.
  // `stream` may be null: the memory is then usable by everyone at once.
  virtual Result<std::shared_ptr<void>> allocate(size_t size_bytes, DeviceStream* stream) = 0;
};

// Copies bytes between memory spaces of which the host cannot address at least one. Only device/copy.cc calls copy().
class DataTransfer {
 public:
  virtual ~DataTransfer() = default;
  virtual bool can_copy(const MemorySpace& src, const MemorySpace& dst) const = 0;
  // With a stream the copy is enqueued there and the call may return before it ran; without, it is done on return.
  virtual Status copy(const Tensor& dst, const Tensor& src, DeviceStream* stream) = 0;
};

}  // namespace tenon
