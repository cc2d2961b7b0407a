// Memory and timelines of this machine's Vulkan driver, as handles for another API of the same GPU.
#pragma once

#include <tenon/fence.h>
#include <tenon/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tenon::programs {

// Ownership: everything made by it holds the device. Threads: any.
class VulkanSharing {
 public:
  // A buffer in the device's memory, with a view of the host's that is copied there and back.
  class Buffer {
   public:
    virtual ~Buffer() = default;
    virtual int fd() const = 0;     // the driver's opaque fd; -1 after release_fd()
    virtual void release_fd() = 0;  // it is somebody else's now
    virtual std::byte* view() = 0;
    virtual Status publish() = 0;  // the view into the buffer
    virtual Status refresh() = 0;  // the buffer into the view
  };
  class Semaphore {
   public:
    virtual ~Semaphore() = default;
    virtual int fd() const = 0;
    virtual void release_fd() = 0;
    virtual Timeline& timeline() = 0;  // as the Vulkan side sees it
  };

  virtual ~VulkanSharing() = default;
  virtual const std::string& device_name() const = 0;
  virtual const std::array<uint8_t, 16>& device_uuid() const = 0;
  // `dedicated`: in an allocation of its own, which the importer has to be told.
  virtual Result<std::unique_ptr<Buffer>> make_buffer(size_t size_bytes, bool dedicated) = 0;
  virtual Result<std::unique_ptr<Semaphore>> make_semaphore() = 0;  // at 0
};

// Of the best GPU; `any_device`: of a CPU too, whose timelines may not be exported. Errors: kUnsupported where there is
// no driver, or none of a GPU that exports memory and timelines.
Result<std::shared_ptr<VulkanSharing>> open_vulkan_sharing(bool any_device = false);  // demo/

}  // namespace tenon::programs
