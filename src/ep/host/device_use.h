// Counts the live objects of an EP device: streams, importers, allocations and sessions. The graphics API of S1.9 has
// to be told of before the first of them, and may leave when there is none.
//
// Ownership: shared by the device's OrtEpDevice and by each Use. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace tenon::abi {

enum class UseKind : uint8_t { kStream, kImporter, kAllocation, kSession };

class DeviceUse {
 public:
  // One object of the device, counted from here to the destructor. Empty: counts nothing.
  class Use {
   public:
    Use() = default;
    Use(std::shared_ptr<DeviceUse> device, UseKind kind);
    ~Use();
    Use(Use&& other) noexcept = default;
    Use& operator=(Use&& other) noexcept;
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::shared_ptr<DeviceUse> device_;
    UseKind kind_ = UseKind::kStream;
  };

  // OK while nothing has been made since the device is known, or since reset(): what is gone may have left memory or
  // contexts behind in the plugin. Errors: kInvalidArgument that names `who` and counts.
  Status check_untouched(const std::string& who) const;
  // OK while nothing lives. Errors: as above.
  Status check_idle(const std::string& who) const;
  void reset();

 private:
  static constexpr size_t kKinds = 4;
  using Counts = std::array<std::atomic<uint64_t>, kKinds>;
  // "2 stream(s), 1 importer(s)"; empty when all are 0.
  static std::string text(const Counts& counts);

  Counts made_{};
  Counts live_{};
};

}  // namespace tenon::abi
