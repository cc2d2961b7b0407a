// A plugin's streams and notifications as C++ classes behind OrtSyncStreamImpl and OrtSyncNotificationImpl.
//
// Ownership: the host owns both and releases them through the ABI. A notification may outlive its stream.
// Threads: one thread at a time enqueues on a stream; waiting on the host is allowed from any.
#pragma once

#include <memory>
#include <string_view>

#include "ep/sdk/plugin_host.h"

namespace tenon::plugin {

class SyncNotification : private OrtSyncNotificationImpl {
 public:
  explicit SyncNotification(const HostApi& host);
  virtual ~SyncNotification() = default;
  SyncNotification(const SyncNotification&) = delete;
  SyncNotification& operator=(const SyncNotification&) = delete;

  static OrtSyncNotificationImpl* release_to_host(std::unique_ptr<SyncNotification> notification);

 protected:
  // Marks the point that the producer's stream has reached in its queue.
  virtual Status activate() = 0;
  // Later work of `consumer` runs after that point. `consumer` belongs to this plugin. Hosts also ask for a wait on the
  // device when the consumer runs on the CPU and has no stream, or has a stream of another EP library: the SDK makes
  // that a wait on the host.
  virtual Status wait_on_device(OrtSyncStream* consumer) = 0;
  virtual Status wait_on_host() = 0;
  const HostApi& host() const { return host_; }

 private:
  const HostApi host_;
};

class SyncStream : private OrtSyncStreamImpl {
 public:
  explicit SyncStream(const HostApi& host);
  virtual ~SyncStream();
  SyncStream(const SyncStream&) = delete;
  SyncStream& operator=(const SyncStream&) = delete;

  static OrtSyncStreamImpl* release_to_host(std::unique_ptr<SyncStream> stream);
  // The implementation behind a stream of this plugin; null for null, for a stream of another EP library, and for one
  // without an implementation.
  static SyncStream* from(const HostApi& host, const OrtSyncStream* stream);
  static SyncStream* from(const OrtSyncStreamImpl* implementation);
  // kInvalidArgument for a stream that from() gives null for, but for null itself: it names the stream's library, and
  // this one as `user`'s.
  static Status check_own(const HostApi& host, const OrtSyncStream* stream, std::string_view user);
  // The error that check_own() returns for such a stream's implementation.
  static Status foreign(const OrtSyncStreamImpl* implementation, std::string_view user);

  // The native handle that the host hands to kernels and to applications.
  virtual void* handle() = 0;

 protected:
  virtual Result<std::unique_ptr<SyncNotification>> create_notification() = 0;
  // Returns when everything queued before is done; its first failure.
  virtual Status flush() = 0;
  virtual Status on_session_run_end() = 0;
  const HostApi& host() const { return host_; }

 private:
  const HostApi host_;
  // The library's other live streams; guarded by the lock of the list (plugin_stream.cc).
  SyncStream* next_ = nullptr;
  SyncStream* previous_ = nullptr;
};

}  // namespace tenon::plugin
