#include "ep/sdk/plugin_stream.h"

#include "base/guarded.h"
#include "base/system.h"

namespace tenon::plugin {

namespace {

// The streams of this library that live, each linked to the next. Looking a stream up here reads nothing of it: 1.28
// hands AllocOnStream streams of its own, of which SyncStream_GetImpl gives whatever lies where the implementation
// would be. A list of links allocates nothing, so that nothing is left when the host unloads the library.
Guarded<SyncStream*> live_streams;

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
    return notification.host_.guarded([&] {
      const bool ours = SyncStream::from(notification.host_, consumer) != nullptr;
      return ours ? notification.wait_on_device(consumer) : notification.wait_on_host();
    });
  };
  OrtSyncNotificationImpl::WaitOnHost = [](OrtSyncNotificationImpl* table) noexcept -> OrtStatus* {
    auto& notification = *static_cast<SyncNotification*>(table);
    return notification.host_.guarded([&] { return notification.wait_on_host(); });
  };
}

OrtSyncNotificationImpl* SyncNotification::release_to_host(std::unique_ptr<SyncNotification> notification) {
  return notification.release();
}

SyncStream::SyncStream(const HostApi& host) : OrtSyncStreamImpl{}, host_(host) {
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
  auto first = live_streams.lock();
  next_ = *first;
  if (next_ != nullptr) next_->previous_ = this;
  *first = this;
}

SyncStream::~SyncStream() {
  auto first = live_streams.lock();
  (previous_ == nullptr ? *first : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

OrtSyncStreamImpl* SyncStream::release_to_host(std::unique_ptr<SyncStream> stream) { return stream.release(); }

SyncStream* SyncStream::from(const OrtSyncStreamImpl* implementation) {
  auto first = live_streams.lock();
  SyncStream* live = *first;
  while (live != nullptr && live != implementation) live = live->next_;
  return live;
}

SyncStream* SyncStream::from(const HostApi& host, const OrtSyncStream* stream) {
  return stream != nullptr ? from(host.ep().SyncStream_GetImpl(stream)) : nullptr;
}

Status SyncStream::check_own(const HostApi& host, const OrtSyncStream* stream, std::string_view user) {
  if (stream == nullptr || from(host, stream) != nullptr) return Status();
  return foreign(host.ep().SyncStream_GetImpl(stream), user);
}

Status SyncStream::foreign(const OrtSyncStreamImpl* implementation, std::string_view user) {
  const std::string ours = library_at(reinterpret_cast<const void*>(&live_streams));
  const auto address = reinterpret_cast<uintptr_t>(implementation);
  TENON_INVALID_IF(address < 4096 || address % alignof(OrtSyncStreamImpl) != 0,
                   "The stream has no implementation of an EP library; {} of {} takes its own only.", user, ours);
  return invalid_argument("The stream belongs to another EP library, {}; {} of {} takes its own only.",
                          library_at(reinterpret_cast<const void*>(implementation->Release)), user, ours);
}

}  // namespace tenon::plugin
