#include <utility>

#include "abi/interop_cpu.h"
#include "abi/objects/key_value_pairs.h"
#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

// A point on a CPU stream: a value of a timeline of its own.
class CpuNotification final : public DeviceNotification {
 public:
  CpuNotification(Stream& stream, std::shared_ptr<Timeline> timeline)
      : stream_(stream), fence_{std::move(timeline), 0} {}

  Status activate() override {
    ++fence_.value;
    return stream_.signal(fence_);
  }

  Status wait_on_device(DeviceStream& waiter) override {
    TENON_TRY(check_activated());
    auto* cpu = dynamic_cast<CpuStream*>(&waiter);
    return cpu != nullptr ? cpu->queue().wait(fence_) : wait_on_host();
  }

  Status wait_on_host() override {
    TENON_TRY(check_activated());
    return fence_.wait();
  }

 private:
  Status check_activated() const {
    TENON_INVALID_IF(fence_.value == 0, "A notification of {} is waited for before it is activated.", stream_.name());
    return Status();
  }

  Stream& stream_;
  Fence fence_;
};

// The C ABI's faces. Their tables begin the objects, so that a table's address is the object's.
struct NotificationFace : OrtSyncNotificationImpl {
  explicit NotificationFace(std::unique_ptr<DeviceNotification> made)
      : OrtSyncNotificationImpl{}, notification(std::move(made)) {
    ort_version_supported = ORT_API_VERSION;
    OrtSyncNotificationImpl::Release = [](OrtSyncNotificationImpl* self) noexcept { delete of(self); };
    OrtSyncNotificationImpl::Activate = [](OrtSyncNotificationImpl* self) noexcept -> OrtStatus* {
      return guarded([&] { return to_ort(of(self)->notification->activate()); });
    };
    OrtSyncNotificationImpl::WaitOnDevice = [](OrtSyncNotificationImpl* self,
                                               OrtSyncStream* consumer) noexcept -> OrtStatus* {
      if (OrtStatus* bad = check_pointers("WaitOnDevice", {{"consumer_stream", consumer}})) return bad;
      return guarded([&] { return to_ort(of(self)->notification->wait_on_device(*consumer->stream)); });
    };
    OrtSyncNotificationImpl::WaitOnHost = [](OrtSyncNotificationImpl* self) noexcept -> OrtStatus* {
      return guarded([&] { return to_ort(of(self)->notification->wait_on_host()); });
    };
  }
  static NotificationFace* of(OrtSyncNotificationImpl* self) { return static_cast<NotificationFace*>(self); }
  std::unique_ptr<DeviceNotification> notification;
};

struct StreamFace : OrtSyncStreamImpl {
  explicit StreamFace(std::unique_ptr<CpuStream> made) : OrtSyncStreamImpl{}, stream(std::move(made)) {
    ort_version_supported = ORT_API_VERSION;
    // The OrtSyncStream owns this.
    OrtSyncStreamImpl::Release = [](OrtSyncStreamImpl*) noexcept {};
    OrtSyncStreamImpl::GetHandle = [](OrtSyncStreamImpl* self) noexcept { return of(self)->stream->native_handle(); };
    OrtSyncStreamImpl::CreateNotification = [](OrtSyncStreamImpl* self,
                                               OrtSyncNotificationImpl** out) noexcept -> OrtStatus* {
      clear(out);
      if (OrtStatus* bad = check_pointers("CreateNotification", {{"notification", out}})) return bad;
      return guarded([&]() -> OrtStatus* {
        Result<std::unique_ptr<DeviceNotification>> notification = of(self)->stream->create_notification();
        if (!notification.ok()) return to_ort(notification.status());
        *out = new NotificationFace(std::move(*notification));
        return nullptr;
      });
    };
    OrtSyncStreamImpl::Flush = [](OrtSyncStreamImpl* self) noexcept { return to_ort(of(self)->stream->flush()); };
    OrtSyncStreamImpl::OnSessionRunEnd = [](OrtSyncStreamImpl* self) noexcept {
      return to_ort(of(self)->stream->end_run());
    };
  }
  static StreamFace* of(OrtSyncStreamImpl* self) { return static_cast<StreamFace*>(self); }
  std::unique_ptr<CpuStream> stream;
};

}  // namespace

Result<std::unique_ptr<CpuStream>> CpuStream::create() {
  TENON_TRY_ASSIGN(auto queue, Stream::create("cpu"));
  return std::unique_ptr<CpuStream>(new CpuStream(std::move(queue)));
}

CpuStream::CpuStream(std::unique_ptr<Stream> queue) : queue_(std::move(queue)) {}
CpuStream::~CpuStream() = default;

Result<std::unique_ptr<DeviceNotification>> CpuStream::create_notification() {
  TENON_TRY_ASSIGN(auto timeline, make_host_timeline("notification"));
  return std::unique_ptr<DeviceNotification>(std::make_unique<CpuNotification>(*queue_, std::move(timeline)));
}

// The queue's thread works without being asked, and a run on the CPU is done when it returns.
Status CpuStream::flush() { return Status(); }
Status CpuStream::end_run() { return Status(); }

CpuStream* CpuStream::from(const OrtSyncStream& stream) { return dynamic_cast<CpuStream*>(stream.stream); }

namespace {

// Passed when all that is queued on the stream now is done.
Result<Fence> end_of_queue(CpuStream& stream) {
  TENON_TRY_ASSIGN(auto timeline, make_host_timeline("end of the queue"));
  Fence reached{std::move(timeline), 1};
  TENON_TRY(stream.queue().signal(reached));
  return reached;
}

Status wait_on_host(DeviceStream& stream) {
  TENON_TRY_ASSIGN(const auto notification, stream.create_notification());
  TENON_TRY(notification->activate());
  TENON_TRY(stream.flush());
  return notification->wait_on_host();
}

}  // namespace

Result<bool> wait_until(Timeline& timeline, uint64_t value, int64_t timeout_ns) {
  Status waited = timeline.wait(value, timeout_ns);
  if (waited.ok()) return true;
  if (waited.code() != StatusCode::kTimeout) return waited;
  // Who poisoned the timeline may have said kTimeout too.
  if (timeline.status().message() == waited.message()) return waited;
  return false;
}

Status wait_for_stream(OrtSyncStream& stream, const std::atomic<bool>* cancel, const Deadline& deadline) {
  constexpr int64_t kSliceNs = 10'000'000;
  CpuStream* cpu = CpuStream::from(stream);
  if (cpu == nullptr) return wait_on_host(*stream.stream);
  TENON_TRY_ASSIGN(const Fence end, end_of_queue(*cpu));
  while (true) {
    TENON_TRY_ASSIGN(const bool reached, wait_until(*end.timeline, end.value, deadline.remaining_ns(kSliceNs)));
    if (reached) return Status();
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed))
      return cancelled("The run is cancelled while it waits for {}.", cpu->queue().name());
    if (deadline.passed())
      return timed_out("The time for the run (tenon.timeout_ms) is over while it waits for {}.", cpu->queue().name());
  }
}

Result<bool> drain(OrtSyncStream& stream, int64_t timeout_ns) {
  if (CpuStream* cpu = CpuStream::from(stream)) {
    TENON_INVALID_IF(timeout_ns < kWaitForever, "The timeout of a wait for {} ({} ns) is negative.",
                     cpu->queue().name(), timeout_ns);
    TENON_TRY_ASSIGN(const Fence end, end_of_queue(*cpu));
    return wait_until(*end.timeline, end.value, timeout_ns);
  }
  TENON_UNSUPPORTED_IF(timeout_ns != kWaitForever,
                       "A stream of {} cannot be waited for with a deadline ({} ns): give TENON_WAIT_FOREVER.",
                       stream.who, timeout_ns);
  TENON_TRY(wait_on_host(*stream.stream));
  return true;
}

Result<std::unique_ptr<OrtSyncStream>> create_cpu_sync_stream(const OrtKeyValuePairs* options) {
  if (options != nullptr && !options->entries().empty())
    return invalid_argument("A stream of the CPU device has no option \"{}\".", options->entries().begin()->first);
  TENON_TRY_ASSIGN(auto stream, CpuStream::create());
  auto face = std::make_shared<StreamFace>(std::move(stream));
  auto made = std::make_unique<OrtSyncStream>();
  made->impl = face.get();
  made->stream = face->stream.get();
  made->owned = std::move(face);
  return made;
}

}  // namespace tenon::abi
