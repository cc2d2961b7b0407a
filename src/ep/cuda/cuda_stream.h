// A stream of a CUDA device: the session's own, or the program's, which is borrowed and never destroyed or waited for
// as a whole; and events that mark points of it.
//
// Lifetime: a stream holds its device. What was queued on it keeps running when the object is gone. The program's must
// live until give_back(); after that the object stands for what was queued by then.
// Threads: one thread at a time enqueues; points may be asked for from any.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/guarded.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/sdk/scratch.h"

namespace tenon::cuda {

class CudaEvent {
 public:
  static Result<CudaEvent> create(std::shared_ptr<CudaDevice> device);
  CudaEvent(CudaEvent&& other) noexcept
      : device_(std::move(other.device_)), event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  ~CudaEvent();

  CUevent native() const { return event_; }
  Status record(CUstream stream) const;
  // True also after a failure of the device: nothing runs there any more.
  bool passed() const;
  // Returns when it is passed: polls, with naps after a while. Errors: kTimeout after the deadline.
  Status synchronize(const Deadline& deadline = Deadline::after(-1)) const;

 private:
  CudaEvent(std::shared_ptr<CudaDevice> device, CUevent event) : device_(std::move(device)), event_(event) {}
  std::shared_ptr<CudaDevice> device_;
  CUevent event_ = nullptr;
};

class CudaStream final : public plugin::StreamProgress, public std::enable_shared_from_this<CudaStream> {
 public:
  static Result<std::shared_ptr<CudaStream>> create(std::shared_ptr<CudaDevice> device);
  static std::shared_ptr<CudaStream> borrow(std::shared_ptr<CudaDevice> device, CUstream stream);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Not after give_back().
  CUstream native() const { return stream_; }
  bool borrowed() const { return borrowed_; }
  const std::shared_ptr<CudaDevice>& device() const { return device_; }

  // Everything queued before is done on return, or the device's failure. A borrowed stream is waited for through an
  // event (S4.1). Errors: kTimeout when this thread's run has a deadline that passes. Such a stream is given up:
  // until its work is done after all, nobody waits for it again.
  Status synchronize() const;
  // Errors: kTimeout for a stream that is given up.
  Status usable() const;
  // The same for who cannot wait for ever. Errors: kTimeout after the deadline; the stream is not given up.
  Status synchronize(const Deadline& deadline) const;
  // Later work on this stream runs after the work that `other` has queued so far. Only the first call for `other`
  // allocates.
  Status wait_for(const CudaStream& other) const;
  Status wait_for(const CudaEvent& event) const;

  // True when everything queued so far is done; false also while the program captures the stream.
  bool idle() const;

  // The program may destroy its stream from now on: the driver is asked about an event behind its work instead.
  void give_back() const;
  bool given_back() const { return borrowed_ && end_.lock()->given_back; }
  // Calls `queue` with the native stream, which is there until that returns. Errors: kCancelled when it is given back.
  Status queue(const std::function<Status(CUstream)>& queue) const;

  // For scratch memory: a point is an event's number.
  uint64_t queued() const override;
  bool passed(uint64_t point) const override;

 private:
  CudaStream(std::shared_ptr<CudaDevice> device, CUstream stream, bool borrowed)
      : device_(std::move(device)), stream_(stream), borrowed_(borrowed) {}
  Result<std::shared_ptr<const CudaEvent>> mark() const;

  struct End {
    bool given_back = false;
    std::shared_ptr<const CudaEvent> event;  // null: it could not be recorded, and nothing is known of the stream
  };
  struct Points {
    uint64_t last = 0;
    uint64_t passed = 0;
    std::deque<std::pair<uint64_t, CudaEvent>> pending;
    std::vector<CudaEvent> spare;
  };
  static void retire(Points& points);

  const std::shared_ptr<CudaDevice> device_;
  const CUstream stream_;
  const bool borrowed_;
  mutable std::atomic<bool> given_up_{false};
  Guarded<Points> points_;
  mutable Guarded<std::optional<CudaEvent>> order_;  // recorded anew for each wait_for() of another stream
  Guarded<End> end_;                                 // of a borrowed stream; held while its native one is used
};

// The streams of a device, so that a native handle finds its object, and memory that anyone may still use waits for all
// of them. A stream that nobody holds any more stays until its work is done.
class StreamList {
 public:
  void add(const std::shared_ptr<CudaStream>& stream);
  // Null when there is none with this handle, or it is given back.
  std::shared_ptr<CudaStream> find(CUstream native) const;
  std::vector<std::shared_ptr<CudaStream>> all() const;
  bool idle() const;

 private:
  using Streams = std::vector<std::shared_ptr<CudaStream>>;
  static void drop_done(Streams& streams);
  Guarded<Streams> streams_;
};

}  // namespace tenon::cuda
