// The CPU device in the C ABI: its importer, and its streams, which are ordered queues on the host (S1.5).
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <memory>

#include "abi/objects/interop_api_importer.h"
#include "abi/objects/sync_stream.h"
#include "base/deadline.h"
#include "device/device.h"
#include "device/stream.h"

namespace tenon::abi {

std::shared_ptr<DeviceImporter> make_cpu_importer();
// A semaphore of that importer without an import.
std::shared_ptr<DeviceSemaphore> make_cpu_semaphore(std::shared_ptr<Timeline> timeline);

// A stream of the CPU device with the C ABI's face: programs reach it by SyncStream_GetImpl as they reach a plugin's.
// Native handle: null. Destroying it does not wait: what has not begun is cancelled, and its signals are poisoned.
// Errors: what fails on the stream (a wait whose peer has died) fails each notification after it, for good: make a new
// stream then.
class CpuStream final : public DeviceStream {
 public:
  static Result<std::unique_ptr<CpuStream>> create();
  ~CpuStream() override;

  Result<std::unique_ptr<DeviceNotification>> create_notification() override;
  Status flush() override;
  Status end_run() override;
  void* native_handle() const override { return nullptr; }

  Stream& queue() { return *queue_; }
  // Null for a stream of another device.
  static CpuStream* from(const OrtSyncStream& stream);

 private:
  explicit CpuStream(std::unique_ptr<Stream> queue);
  std::unique_ptr<Stream> queue_;
};

// Returns when all that is queued on `stream` is done: a run whose options have a stream comes after it. kCancelled
// when `cancel` (may be null) is set meanwhile, kTimeout when `deadline` passes; only waits for the CPU's own streams
// look at them. Errors: the failure of the work that was queued.
Status wait_for_stream(OrtSyncStream& stream, const std::atomic<bool>* cancel,
                       const Deadline& deadline = Deadline::after(-1));

// True when `timeline` reaches `value`, false when `timeout_ns` passes first. Errors: what else a wait gives.
Result<bool> wait_until(Timeline& timeline, uint64_t value, int64_t timeout_ns);

// True when all that is queued on `stream` is done, false when `timeout_ns` passes first. Errors: the failure of that
// work, which stays; kUnsupported for a deadline where the stream's device waits without one.
Result<bool> drain(OrtSyncStream& stream, int64_t timeout_ns);

// The stream of CreateSyncStreamForEpDevice for the CPU EP's device; released with ReleaseSyncStream, which deletes it.
// There are no options: any entry is an error that names it.
Result<std::unique_ptr<OrtSyncStream>> create_cpu_sync_stream(const OrtKeyValuePairs* options);

}  // namespace tenon::abi
