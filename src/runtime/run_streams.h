// The streams of one run: one for each EP that has streams, with the notifications that order them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "ep/api/device_provider.h"

namespace tenon {

// Lifetime: the providers outlive it, and it outlives no stream that it borrows. Threads: one run at a time.
class RunStreams {
 public:
  explicit RunStreams(DeviceProviders providers) : providers_(providers), streams_(providers.size()) {}

  IdRange<EpId> eps() const { return streams_.ids(); }
  // Null when the EP has none.
  DeviceStream* stream(EpId ep) const { return at(ep).lane().stream; }
  // False when the EP has none.
  Result<bool> make_stream(EpId ep);
  // The EP's work goes to `stream`, which is the caller's, until give_back().
  void borrow(EpId ep, DeviceStream& stream);
  void give_back();
  // Whether work went to a stream that is not borrowed, since the last give_back().
  bool used_own() const { return used_own_; }
  // Makes what is missing of the stream and notifications for its first `points` points. Once made, they stay.
  Status prepare(EpId ep, size_t points);
  // `point` is the one after what was enqueued so far.
  Status notify(EpId ep, PointId point);
  Status wait_on_host(EpId ep, PointId point);
  Status wait_on_device(EpId ep, PointId point, EpId waiter);
  // Returns when everything that was enqueued since the last call is done, or was found to have failed.
  Status synchronize();
  // Instead of synchronize(), for a stream that is left to work: the point after all that was enqueued. `earlier` (may
  // be null): one that the stream was left with before, and that nobody looks at any more. It serves again, so that
  // a frame makes and destroys nothing.
  Result<std::unique_ptr<DeviceNotification>> leave(EpId ep, std::unique_ptr<DeviceNotification> earlier);
  // For every stream that was used since the last call.
  Status end_run();
  void mark_used(EpId ep) {
    One& one = at(ep);
    one.busy = one.used = true;
    used_own_ = used_own_ || one.borrowed.stream == nullptr;
  }

 private:
  // A stream and the points on it.
  struct Lane {
    DeviceStream* stream = nullptr;
    IdVector<PointId, std::unique_ptr<DeviceNotification>> notifications;
    std::unique_ptr<DeviceNotification> end;
  };
  struct One {
    std::unique_ptr<DeviceStream> owned;
    Lane own, borrowed;
    Lane kept;  // of the borrowed stream that was left to work last, without the stream
    uint64_t kept_id = 0;
    bool left = false;
    bool busy = false;  // there may be work that nobody has waited for
    bool used = false;
    Lane& lane() { return borrowed.stream != nullptr ? borrowed : own; }
    const Lane& lane() const { return borrowed.stream != nullptr ? borrowed : own; }
  };
  One& at(EpId ep) { return streams_[ep]; }
  const One& at(EpId ep) const { return streams_[ep]; }

  DeviceProvider& owner(EpId ep) const { return *providers_[ep]; }

  DeviceProviders providers_;
  PerDeviceEp<One> streams_;
  bool used_own_ = false;
};

// The streams of a session that no run uses. Threads: any.
class StreamPool {
 public:
  // Lifetime: the providers outlive the pool.
  explicit StreamPool(DeviceProviders providers) : providers_(providers) {}
  std::unique_ptr<RunStreams> take();
  void give(std::unique_ptr<RunStreams> streams) { idle_.lock()->push_back(std::move(streams)); }

 private:
  const DeviceProviders providers_;
  Guarded<std::vector<std::unique_ptr<RunStreams>>> idle_;
};

}  // namespace tenon
