// A plugin's streams, notifications, allocators and data transfers behind the core's interfaces (device/device.h).
//
// Ownership: each object releases what the plugin made, and holds `keep`: the library, and the EP if it came from one.
// Threads and errors: as device/device.h says; a member that is missing is a status that names it.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>

#include "abi/objects/sync_stream.h"
#include "device/device.h"
#include "ep/host/device_use.h"
#include "ep/host/plugin_member.h"

namespace tenon::abi {

class PluginFactory;

class PluginStream final : public DeviceStream {
 public:
  // Takes `impl` over on success. `factory` is the plugin's, whose library `keep` keeps loaded.
  static Result<std::unique_ptr<PluginStream>> create(std::string who, OrtSyncStreamImpl* impl,
                                                      const OrtMemoryDevice& device, PluginFactory& factory,
                                                      std::shared_ptr<const void> keep);
  ~PluginStream() override;

  Result<std::unique_ptr<DeviceNotification>> create_notification() override;
  Status flush() override;
  Status end_run() override;
  void* native_handle() const override;
  OrtSyncStream* ort() { return &made_->ort; }
  const OrtMemoryDevice& device() const { return made_->ort.device; }
  // Whether `owner` is what the stream keeps alive.
  bool is_kept_by(const void* owner) const { return made_->keep.get() == owner; }

  // The stream that the plugin made, released by the last holder: notifications may outlive it, and a plugin's need not
  // be able to.
  struct Made {
    Made(std::string who, OrtSyncStreamImpl* impl, const OrtMemoryDevice& device, PluginFactory& factory,
         std::shared_ptr<const void> keep);
    ~Made();

    const std::shared_ptr<const void> keep;
    const DeviceUse::Use use;
    const std::string who;
    OrtSyncStream ort;
    PluginMember<decltype(OrtSyncStreamImpl::Release)> release;
  };

 private:
  explicit PluginStream(std::shared_ptr<Made> made);

  const std::shared_ptr<Made> made_;
  PluginMember<decltype(OrtSyncStreamImpl::GetHandle)> get_handle_;
  PluginMember<decltype(OrtSyncStreamImpl::CreateNotification)> create_notification_;
  PluginMember<decltype(OrtSyncStreamImpl::Flush)> flush_;
  PluginMember<decltype(OrtSyncStreamImpl::OnSessionRunEnd)> end_run_;
};

// The next id of a stream's notifications. Of the process, so that an id never fits a later stream at the same address.
uint64_t next_sync_id();

}  // namespace tenon::abi
