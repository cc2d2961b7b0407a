#include "abi/plugin_stream.h"

#include <utility>

#include "abi/slots.h"
#include "base/log.h"

namespace tenon::abi {

namespace {

class PluginNotification final : public DeviceNotification {
 public:
  PluginNotification(std::string who, OrtSyncNotificationImpl* impl, OrtSyncStream& producer,
                     std::shared_ptr<const void> keep)
      : keep_(std::move(keep)),
        who_(std::move(who)),
        impl_(impl),
        producer_(producer),
        release_(TENON_MEMBER(impl, OrtSyncNotificationImpl, Release)),
        activate_(TENON_MEMBER(impl, OrtSyncNotificationImpl, Activate)),
        wait_on_device_(TENON_MEMBER(impl, OrtSyncNotificationImpl, WaitOnDevice)),
        wait_on_host_(TENON_MEMBER(impl, OrtSyncNotificationImpl, WaitOnHost)) {}

  ~PluginNotification() override {
    if (release_.absent()) return;
    const Status status = call_value(who_, release_, impl_);
    if (!status.ok()) log_warning("plugin", "{}", status.message());
  }

  Status activate() override {
    TENON_TRY(call(who_, activate_, impl_));
    sync_id_ = next_sync_id();
    producer_.sync_id.store(sync_id_, std::memory_order_relaxed);
    return {};
  }

  Status wait_on_device(DeviceStream& waiter) override {
    OrtSyncStream* consumer = to_ort(&waiter);
    if (consumer == nullptr) return wait_on_host();
    TENON_TRY(call(who_, wait_on_device_, impl_, consumer));
    (*consumer->waited.lock())[&producer_] = sync_id_;
    return {};
  }

  Status wait_on_host() override { return call(who_, wait_on_host_, impl_); }

 private:
  const std::shared_ptr<const void> keep_;
  const std::string who_;
  OrtSyncNotificationImpl* const impl_;
  OrtSyncStream& producer_;
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
                                                           const OrtMemoryDevice& device,
                                                           std::shared_ptr<const void> keep) {
  TENON_TRY(check_object(who, "OrtSyncStreamImpl", impl, "CreateSyncStreamForDevice"));
  std::unique_ptr<PluginStream> stream(new PluginStream(std::move(who), impl, device, std::move(keep)));
  TENON_TRY(stream->create_notification_.check(stream->who_));
  return stream;
}

PluginStream::PluginStream(std::string who, OrtSyncStreamImpl* impl, const OrtMemoryDevice& device,
                           std::shared_ptr<const void> keep)
    : keep_(std::move(keep)),
      who_(std::move(who)),
      release_(TENON_MEMBER(impl, OrtSyncStreamImpl, Release)),
      get_handle_(TENON_MEMBER(impl, OrtSyncStreamImpl, GetHandle)),
      create_notification_(TENON_MEMBER(impl, OrtSyncStreamImpl, CreateNotification)),
      flush_(TENON_MEMBER(impl, OrtSyncStreamImpl, Flush)),
      end_run_(TENON_MEMBER(impl, OrtSyncStreamImpl, OnSessionRunEnd)) {
  ort_.impl = impl;
  ort_.stream = this;
  ort_.device = device;
}

PluginStream::~PluginStream() {
  if (release_.absent()) return;
  const Status status = call_value(who_, release_, ort_.impl);
  if (!status.ok()) log_warning("plugin", "{}", status.message());
}

Result<std::unique_ptr<DeviceNotification>> PluginStream::create_notification() {
  OrtSyncNotificationImpl* impl = nullptr;
  TENON_TRY(call(who_, create_notification_, ort_.impl, &impl));
  TENON_TRY(check_object(who_, "OrtSyncNotificationImpl", impl, create_notification_.name));
  return std::unique_ptr<DeviceNotification>(std::make_unique<PluginNotification>(who_, impl, ort_, keep_));
}

Status PluginStream::flush() { return flush_.absent() ? Status() : call(who_, flush_, ort_.impl); }
Status PluginStream::end_run() { return end_run_.absent() ? Status() : call(who_, end_run_, ort_.impl); }

void* PluginStream::native_handle() const {
  if (get_handle_.absent()) return nullptr;
  const Result<void*> handle = call_value(who_, get_handle_, ort_.impl);
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
