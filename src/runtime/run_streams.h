// The streams of one run: one for each EP that has streams, with the notifications that order them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "ep/kit/device_provider.h"

namespace tenon {

// Lifetime: the providers outlive it. Threads: one run at a time.
class RunStreams {
 public:
  explicit RunStreams(size_t providers) : streams_(providers) {}

  // Of provider `provider` (counted from 1); null when it has none.
  DeviceStream* stream(int32_t provider) const { return at(provider).stream.get(); }
  // False when the provider has none.
  Result<bool> make_stream(DeviceProvider& owner, int32_t provider);
  // Makes what is missing of the stream and its first `notifications` notifications. Once made, they stay.
  Status prepare(DeviceProvider& owner, int32_t provider, int32_t notifications);
  // The point after what was enqueued so far gets the number `slot`.
  Status notify(int32_t provider, int32_t slot);
  Status wait_on_host(int32_t provider, int32_t slot);
  Status wait_on_device(int32_t provider, int32_t slot, int32_t waiter);
  // Returns when everything that was enqueued since the last call is done, or was found to have failed.
  Status synchronize();
  // For every stream that was used since the last call.
  Status end_run();
  void mark_used(int32_t provider) {
    One& one = at(provider);
    one.busy = one.used = true;
  }

 private:
  struct One {
    std::string ep_name;
    std::unique_ptr<DeviceStream> stream;
    std::vector<std::unique_ptr<DeviceNotification>> notifications;
    std::unique_ptr<DeviceNotification> end;
    bool busy = false;  // there may be work that nobody has waited for
    bool used = false;
  };
  One& at(int32_t provider) { return streams_[static_cast<size_t>(provider - 1)]; }
  const One& at(int32_t provider) const { return streams_[static_cast<size_t>(provider - 1)]; }

  std::vector<One> streams_;
};

}  // namespace tenon
