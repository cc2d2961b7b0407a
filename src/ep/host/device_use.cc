#include "ep/host/device_use.h"

#include <utility>

namespace tenon::abi {

DeviceUse::Use::Use(std::shared_ptr<DeviceUse> device, UseKind kind) : device_(std::move(device)), kind_(kind) {
  if (device_ == nullptr) return;
  ++device_->made_[static_cast<size_t>(kind_)];
  ++device_->live_[static_cast<size_t>(kind_)];
}

DeviceUse::Use::~Use() {
  if (device_ != nullptr) --device_->live_[static_cast<size_t>(kind_)];
}

DeviceUse::Use& DeviceUse::Use::operator=(Use&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(kind_, other.kind_);
  return *this;
}

std::string DeviceUse::text(const Counts& counts) {
  constexpr const char* kNames[kKinds] = {"stream(s)", "importer(s)", "allocation(s)", "session(s)"};
  std::string text;
  for (size_t i = 0; i < kKinds; ++i) {
    const uint64_t count = counts[i];
    if (count > 0) text += format("{}{} {}", text.empty() ? "" : ", ", count, kNames[i]);
  }
  return text;
}

Status DeviceUse::check_untouched(const std::string& who) const {
  const std::string made = text(made_);
  TENON_INVALID_IF(!made.empty(),
                   "Graphics interop of {} has to be initialised before the device's first stream, importer, "
                   "allocation or session; made so far: {}.",
                   who, made);
  return {};
}

Status DeviceUse::check_idle(const std::string& who) const {
  const std::string alive = text(live_);
  TENON_INVALID_IF(!alive.empty(), "Graphics interop of {} cannot end while the device is in use; alive: {}.", who,
                   alive);
  return {};
}

void DeviceUse::reset() {
  for (size_t i = 0; i < kKinds; ++i) made_[i] = live_[i].load();
}

}  // namespace tenon::abi
