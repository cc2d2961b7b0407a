#include "ep/kit/plugin_stream.h"

#include <unordered_set>

#include "base/guarded.h"

namespace tenon::plugin {

namespace {

// The streams of this library that are alive. Never destroyed: hosts release streams late.
Guarded<std::unordered_set<const OrtSyncStreamImpl*>>& live_streams() {
  static auto* const all = new Guarded<std::unordered_set<const OrtSyncStreamImpl*>>;
  return *all;
}

}  // namespace

SyncNotification::SyncNotification(const HostApi& host) : OrtSyncNotificationImpl{}, host_(host) {
  ort_version_supported = host.version();
  OrtSyncNotificationImpl::Release = [](OrtSyncNotificationImpl* table) noexcept {
    delete static_cast<SyncNotification*>(table);
  };
  OrtSyncNotificationImpl::Activate = [](OrtSyncNotificationImpl* table) noexcept -> OrtStatus* {
    auto& notification = *static_cast<SyncNotification*>(table);
    return notification.host_.guarded([&] { return notification.activate(); });
  };
  OrtSyncNotificationImpl::WaitOnDevice = [](OrtSyncNotificationImpl* table,
                                             OrtSyncStream* consumer) noexcept -> OrtStatus* {
    auto& notification = *static_cast<SyncNotification*>(table);
    return notification.host_.guarded(
        [&] { return consumer != nullptr ? notification.wait_on_device(consumer) : notification.wait_on_host(); });
  };
  OrtSyncNotificationImpl::WaitOnHost = [](OrtSyncNotificationImpl* table) noexcept -> OrtStatus* {
    auto& notification = *static_cast<SyncNotification*>(table);
    return notification.host_.guarded([&] { return notification.wait_on_host(); });
  };
}

OrtSyncNotificationImpl* SyncNotification::release_to_host(std::unique_ptr<SyncNotification> notification) {
  return notification.release();
}

SyncStream::~SyncStream() { live_streams().lock()->erase(this); }

SyncStream::SyncStream(const HostApi& host) : OrtSyncStreamImpl{}, host_(host) {
  live_streams().lock()->insert(this);
  ort_version_supported = host.version();
  OrtSyncStreamImpl::Release = [](OrtSyncStreamImpl* table) noexcept { delete static_cast<SyncStream*>(table); };
  OrtSyncStreamImpl::GetHandle = [](OrtSyncStreamImpl* table) noexcept -> void* {
    return static_cast<SyncStream*>(table)->handle();
  };
  OrtSyncStreamImpl::CreateNotification = [](OrtSyncStreamImpl* table,
                                             OrtSyncNotificationImpl** out) noexcept -> OrtStatus* {
    auto& stream = *static_cast<SyncStream*>(table);
    return stream.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(out == nullptr, "The result pointer of CreateNotification is null.");
      *out = nullptr;
      TENON_TRY_ASSIGN(auto notification, stream.create_notification());
      *out = SyncNotification::release_to_host(std::move(notification));
      return Status();
    });
  };
  OrtSyncStreamImpl::Flush = [](OrtSyncStreamImpl* table) noexcept -> OrtStatus* {
    auto& stream = *static_cast<SyncStream*>(table);
    return stream.host_.guarded([&] { return stream.flush(); });
  };
  OrtSyncStreamImpl::OnSessionRunEnd = [](OrtSyncStreamImpl* table) noexcept -> OrtStatus* {
    auto& stream = *static_cast<SyncStream*>(table);
    return stream.host_.guarded([&] { return stream.on_session_run_end(); });
  };
}

OrtSyncStreamImpl* SyncStream::release_to_host(std::unique_ptr<SyncStream> stream) { return stream.release(); }

SyncStream* SyncStream::from(const HostApi& host, const OrtSyncStream* stream) {
  if (stream == nullptr) return nullptr;
  const OrtSyncStreamImpl* table = host.ep().SyncStream_GetImpl(stream);
  if (!live_streams().lock()->contains(table)) return nullptr;
  return static_cast<SyncStream*>(const_cast<OrtSyncStreamImpl*>(table));
}

}  // namespace tenon::plugin
