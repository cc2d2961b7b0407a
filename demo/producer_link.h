// The link from the Tenon side to the Vulkan side: in another process, or on a thread of this one.
//
// Ownership: destroying a link ends the Vulkan side and leaves nothing behind. Threads: one thread at a time.
#pragma once

#include <tenon/external_memory.h>
#include <tenon/fence.h>

#include <array>
#include <memory>
#include <vector>

#include "demo/messages.h"

namespace tenon::demo {

// One buffer to import.
struct BufferHandle {
  OwnedHandle handle;
  ExternalMemoryKind kind = ExternalMemoryKind::kVulkanOpaqueFd;
  size_t offset_bytes = 0;
};

struct ProducerSide {
  std::string device;
  FenceRoute fence = FenceRoute::kBridged;
  std::vector<BufferHandle> inputs;
  std::vector<BufferHandle> outputs;
  std::shared_ptr<Timeline> drawn;
  std::shared_ptr<Timeline> released;
  int64_t pid = 0;
  // Buffers in the device's own memory: dedicated allocations of these sizes. The timelines are then also here as the
  // driver's own fds, for an EP to import.
  bool on_device = false;
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  std::array<uint8_t, 16> device_uuid = {};
  OwnedHandle drawn_fd;
  OwnedHandle released_fd;
};

class ProducerLink {
 public:
  virtual ~ProducerLink() = default;
  // Once: where everything is. Blocks until the Vulkan side is ready.
  virtual Result<ProducerSide> connect() = 0;
  // The next frame's result, in order. Errors: the Vulkan side's own failure; kDeviceLost when it died.
  virtual Result<FrameMessage> next_frame() = 0;
  // The cause of a failed wait for the Vulkan side: that side's own error, that it died, or `seen`, the wait's status.
  virtual Status explain(Status seen) = 0;
  // After the last frame: waits for its end.
  virtual Status finish() = 0;
};

Result<std::unique_ptr<ProducerLink>> make_process_link(const StartMessage& start);
Result<std::unique_ptr<ProducerLink>> make_thread_link(const StartMessage& start);

}  // namespace tenon::demo
