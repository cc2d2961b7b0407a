#include "ep/host/plugin_stream.h"

#include <utility>

#include "abi/objects/slots.h"
#include "base/log.h"
#include "ep/host/plugin_factory.h"

namespace tenon::abi {

namespace {

class PluginNotification final : public DeviceNotification {
 public:
  PluginNotification(std::shared_ptr<PluginStream::Made> producer, OrtSyncNotificationImpl* impl)
      : producer_(std::move(producer)),
        impl_(impl),
        release_(TENON_MEMBER(impl, OrtSyncNotificationImpl, Release)),
        activate_(TENON_MEMBER(impl, OrtSyncNotificationImpl, Activate)),
        wait_on_device_(TENON_MEMBER(impl, OrtSyncNotificationImpl, WaitOnDevice)),
        wait_on_host_(TENON_MEMBER(impl, OrtSyncNotificationImpl, WaitOnHost)) {}

  ~PluginNotification() override {
    if (release_.absent()) return;
    const Status status = call_value(producer_->who, release_, impl_);
    if (!status.ok()) log_warning("plugin", "{}", status.message());
  }

  Status activate() override {
    TENON_TRY(call(producer_->who, activate_, impl_));
    sync_id_ = next_sync_id();
    producer_->ort.sync_id.store(sync_id_, std::memory_order_relaxed);
    return {};
  }

  Status wait_on_device(DeviceStream& waiter) override {
    OrtSyncStream* consumer = to_ort(&waiter);
    // A plugin knows its own streams only.
    if (consumer == nullptr || consumer->library != producer_->ort.library) return wait_on_host();
    TENON_TRY(call(producer_->who, wait_on_device_, impl_, consumer));
    (*consumer->waited.lock())[&producer_->ort] = sync_id_;
    return {};
  }

  Status wait_on_host() override { return call(producer_->who, wait_on_host_, impl_); }

 private:
  const std::shared_ptr<PluginStream::Made> producer_;
  OrtSyncNotificationImpl* const impl_;
  uint64_t sync_id_ = 0;
  PluginMember<decltype(OrtSyncNotificationImpl::Release)> release_;
  PluginMember<decltype(OrtSyncNotificationImpl::Activate)> activate_;
  PluginMember<decltype(OrtSyncNotificationImpl::WaitOnDevice)> wait_on_device_;
  PluginMember<decltype(OrtSyncNotificationImpl::WaitOnHost)> wait_on_host_;
};

}  // namespace

uint64_t next_sync_id() {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

OrtSyncStream* to_ort(DeviceStream* stream) noexcept {
  auto* plugin = dynamic_cast<PluginStream*>(stream);
  return plugin != nullptr ? plugin->ort() : nullptr;
}

Result<std::unique_ptr<PluginStream>> PluginStream::create(std::string who, OrtSyncStreamImpl* impl,
                                                           const OrtMemoryDevice& device, PluginFactory& factory,
                                                           std::shared_ptr<const void> keep) {
  TENON_TRY(check_object(who, "OrtSyncStreamImpl", impl, "CreateSyncStreamForDevice"));
  auto made = std::make_shared<Made>(std::move(who), impl, device, factory, std::move(keep));
  std::unique_ptr<PluginStream> stream(new PluginStream(std::move(made)));
  TENON_TRY(stream->create_notification_.check(stream->made_->who));
  return stream;
}

PluginStream::Made::Made(std::string name, OrtSyncStreamImpl* impl, const OrtMemoryDevice& device,
                         PluginFactory& factory, std::shared_ptr<const void> keep_alive)
    : keep(std::move(keep_alive)),
      use(factory.use_of(device), UseKind::kStream),
      who(std::move(name)),
      release(TENON_MEMBER(impl, OrtSyncStreamImpl, Release)) {
  ort.impl = impl;
  ort.device = device;
  ort.library = &factory.library();
  ort.who = who;
}

PluginStream::Made::~Made() {
  if (release.absent()) return;
  const Status status = call_value(who, release, ort.impl);
  if (!status.ok()) log_warning("plugin", "{}", status.message());
}

PluginStream::PluginStream(std::shared_ptr<Made> made)
    : made_(std::move(made)),
      get_handle_(TENON_MEMBER(made_->ort.impl, OrtSyncStreamImpl, GetHandle)),
      create_notification_(TENON_MEMBER(made_->ort.impl, OrtSyncStreamImpl, CreateNotification)),
      flush_(TENON_MEMBER(made_->ort.impl, OrtSyncStreamImpl, Flush)),
      end_run_(TENON_MEMBER(made_->ort.impl, OrtSyncStreamImpl, OnSessionRunEnd)) {
  made_->ort.stream = this;
}

PluginStream::~PluginStream() { made_->ort.stream = nullptr; }

Result<std::unique_ptr<DeviceNotification>> PluginStream::create_notification() {
  OrtSyncNotificationImpl* impl = nullptr;
  TENON_TRY(call(made_->who, create_notification_, made_->ort.impl, &impl));
  TENON_TRY(check_object(made_->who, "OrtSyncNotificationImpl", impl, create_notification_.name));
  return std::unique_ptr<DeviceNotification>(std::make_unique<PluginNotification>(made_, impl));
}

Status PluginStream::flush() { return flush_.absent() ? Status() : call(made_->who, flush_, made_->ort.impl); }
Status PluginStream::end_run() { return end_run_.absent() ? Status() : call(made_->who, end_run_, made_->ort.impl); }

void* PluginStream::native_handle() const {
  if (get_handle_.absent()) return nullptr;
  const Result<void*> handle = call_value(made_->who, get_handle_, made_->ort.impl);
  return handle.ok() ? *handle : nullptr;
}

const OrtSyncStreamImpl* ep_api::SyncStream_GetImpl(const OrtSyncStream* stream) noexcept {
  return stream != nullptr ? stream->impl : nullptr;
}

uint64_t ep_api::SyncStream_GetSyncId(const OrtSyncStream* stream) noexcept {
  return stream != nullptr ? stream->sync_id.load(std::memory_order_relaxed) : 0;
}

uint64_t ep_api::GetSyncIdForLastWaitOnSyncStream(const OrtSyncStream* producer_stream,
                                                  const OrtSyncStream* consumer_stream) noexcept {
  if (producer_stream == nullptr || consumer_stream == nullptr) return 0;
  const auto waited = consumer_stream->waited.lock();
  const auto found = waited->find(producer_stream);
  return found != waited->end() ? found->second : 0;
}

}  // namespace tenon::abi
