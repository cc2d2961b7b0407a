// The CPU device's stream: an ordered queue of work, waits and signals, with one thread that executes it (S1.5).
//
// Ownership: the stream shares the timelines of the fences that it was given until it is done with them.
// Threads: every function from any thread; what one thread enqueues runs in that order.
// Errors: a call returns before its work runs. The first failure of an item stays: later work is skipped and later
// signals poison their fences with it, so that no wait hangs, until synchronize() has reported it.
#pragma once

#include <tenon/fence.h>

#include <functional>
#include <memory>
#include <string>

namespace tenon {

class Stream {
 public:
  // Items that may be queued at once; more are refused with kResourceExhausted.
  static constexpr size_t kMaxItems = 65536;

  static Result<std::unique_ptr<Stream>> create(std::string name);
  // Does not wait for fences: what has not begun is cancelled, and its signals poison their fences with kCancelled.
  // Work that runs is waited for.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Status enqueue(std::function<Status()> work);
  // Later items run after the fence has passed. kTimeout becomes the stream's failure when `timeout_ns` (counted from
  // when the stream comes to it) passes first.
  Status wait(Fence fence, int64_t timeout_ns = kWaitForever);
  // Signalled when all earlier items are done; poisoned when one of them failed.
  Status signal(Fence fence);
  // Returns when everything that was enqueued before is done: the first failure since the last call, which is then
  // forgotten. kTimeout when the timeout passes first (the failure is kept). Not from work on the stream itself.
  Status synchronize(int64_t timeout_ns = kWaitForever);
  // "stream \"2\""
  const std::string& name() const;

 private:
  struct Impl;
  explicit Stream(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with the thread, which may outlive a stream that its own work destroys
};

}  // namespace tenon
