// The EPs that sessions of this process can use: the built-in CPU EP and those of registered libraries.
//
// Lifetime: a session holds the factory of each EP that it uses, and so the library. Threads: any.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tenon/ep.h>

#include "base/guarded.h"
#include "ep/api/device_provider.h"

namespace tenon {

struct SessionOptions;

// One EP of one library. Implemented over ONNX Runtime's C ABI in src/abi, and by tests in plain C++.
class EpFactory {
 public:
  virtual ~EpFactory() = default;
  virtual const std::string& name() const = 0;
  // With the library's name filled in; the same order each time.
  virtual std::span<const EpDevice> devices() const = 0;
  // False for an EP that works on the host itself: sessions may use it though it offers no device.
  virtual bool needs_device() const { return true; }
  // `devices` are indices into devices(). The provider keeps the factory alive.
  virtual Result<std::unique_ptr<DeviceProvider>> create_provider(const EpChoice& choice,
                                                                  std::span<const size_t> devices,
                                                                  const SessionOptions& options) = 0;
  // Allocators that are shared by all sessions, one for each of the device's memory spaces; may be empty.
  virtual std::vector<std::shared_ptr<DeviceAllocator>> shared_allocators(size_t device) = 0;
  virtual DataTransfer* transfer() = 0;
};

// Threads: any. Factories are asked with no lock held.
class EpRegistry {
 public:
  static EpRegistry& instance();
  // kInvalidArgument when the name is taken.
  Status add(const std::string& library, std::vector<std::shared_ptr<EpFactory>> factories);
  Status remove(const std::string& library);
  std::vector<EpDevice> devices() const;
  // kNotFound names the EP and those that are there.
  Result<std::shared_ptr<EpFactory>> find(const std::string& ep_name) const;
  // A transfer of any registered EP that can move bytes from `src` to `dst`; null when there is none.
  std::shared_ptr<DataTransfer> find_transfer(const MemorySpace& src, const MemorySpace& dst) const;
  // A shared allocator of any registered EP for `space`; null when there is none.
  std::shared_ptr<DeviceAllocator> find_allocator(const MemorySpace& space) const;

 private:
  struct Library {
    std::string name;
    std::vector<std::shared_ptr<EpFactory>> factories;
  };
  using Libraries = std::vector<Library>;
  // As they are now. A library that is removed meanwhile stays loaded as long as the list lives.
  std::shared_ptr<const Libraries> libraries() const { return *libraries_.lock(); }

  Guarded<std::shared_ptr<const Libraries>> libraries_{std::in_place, std::make_shared<const Libraries>()};
};

}  // namespace tenon
