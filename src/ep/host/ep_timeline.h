// A timeline of another API that an EP has imported, for a run's fences. Where the EP takes fences of runs, it waits
// and signals itself; everybody else waits through a stream of the device, or through what the program gave for the
// host.
//
// Ownership: holds the import. Threads: any.
// Errors: without the program's own functions, asking for the value, or waiting with a deadline, is kUnsupported:
// devices say only that a value is reached.
#pragma once

#include <tenon/fence.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "abi/objects/interop_api_importer.h"
#include "base/guarded.h"
#include "ep/host/plugin_stream.h"

namespace tenon::abi {

class EpTimeline final : public Timeline {
 public:
  // `on_host` may be null.
  static Result<std::shared_ptr<EpTimeline>> create(std::string name, const OrtEpDevice& device,
                                                    std::shared_ptr<DeviceSemaphore> semaphore,
                                                    std::shared_ptr<Timeline> on_host);

  Result<uint64_t> value() override;
  Status wait(uint64_t value, int64_t timeout_ns) override;
  Status signal(uint64_t value) override;
  // A value that the EP has promised to signal is only remembered as failed, unless its device is lost.
  void poison(uint64_t value, const Status& why) override;
  Status status() override { return state_.lock()->poison; }
  std::string name() const override { return name_; }

  const OrtEpDevice& device() const { return device_; }
  // The plugin's own.
  OrtExternalSemaphoreHandle* handle() const { return semaphore_->native(); }
  // The EP signals `value` by itself, whatever happens.
  void promise(uint64_t value);

 private:
  EpTimeline(std::string name, const OrtEpDevice& device, std::shared_ptr<DeviceSemaphore> semaphore,
             std::shared_ptr<Timeline> on_host);
  struct State {
    Status poison;
    uint64_t poisoned_from = std::numeric_limits<uint64_t>::max();
    uint64_t promised = 0;
  };
  // Queues on a stream of this timeline's own, and returns when the stream has passed it.
  Status on_stream(uint64_t value, Status (DeviceSemaphore::*queue)(OrtSyncStream&, uint64_t));
  Status poison_at(uint64_t value) const;

  const std::string name_;
  const OrtEpDevice& device_;  // of the library that the import holds
  const std::shared_ptr<DeviceSemaphore> semaphore_;
  const std::shared_ptr<Timeline> on_host_;
  Guarded<std::vector<std::unique_ptr<PluginStream>>> idle_streams_;
  Guarded<State> state_;
};

}  // namespace tenon::abi
