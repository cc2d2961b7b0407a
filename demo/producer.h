// The Vulkan side: draws frames, waits for their results, finds the boxes in the map, and starts the next frame.
//
// Threads: run() on one thread; the timelines may be used from any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "demo/detect.h"
#include "demo/messages.h"
#include "demo/readback.h"
#include "demo/renderer.h"
#include "demo/vulkan_device.h"

namespace tenon::demo {

class Producer {
 public:
  // `export_timelines`: timelines that another process can import, where the driver has them.
  static Result<std::unique_ptr<Producer>> create(const StartMessage& start, bool export_timelines);

  const VulkanDevice& device() const { return *device_; }
  const SharedBuffer& input(size_t buffer) const { return *inputs_[buffer]; }
  const SharedBuffer& output(size_t buffer) const { return *outputs_[buffer]; }
  size_t buffers() const { return inputs_.size(); }
  // Reaches k when frame k (1, 2, ...) is drawn.
  const std::shared_ptr<VulkanTimeline>& drawn() const { return drawn_; }
  // Reaches k when frame k's result is written, and with it its input may be drawn over.
  const std::shared_ptr<VulkanTimeline>& released() const { return released_; }

  // Draws all frames; hands each frame's result to `on_frame`. `keep_waiting` is asked while it waits.
  Status run(const std::function<Status()>& keep_waiting, const std::function<Status(const FrameMessage&)>& on_frame);

 private:
  explicit Producer(const StartMessage& start) : start_(start) {}
  Status begin_frame(uint64_t frame);
  Status finish_frame(uint64_t frame, int64_t seen_ns, FrameMessage* message);
  // The host's views of the frame's map and of its input, once its result is written.
  Result<const float*> map_of(uint64_t frame);
  Result<const float*> picture_of(uint64_t frame);

  StartMessage start_;
  std::shared_ptr<VulkanDevice> device_;
  std::vector<std::unique_ptr<SharedBuffer>> inputs_;
  std::vector<std::unique_ptr<SharedBuffer>> outputs_;
  std::shared_ptr<VulkanTimeline> drawn_;
  std::shared_ptr<VulkanTimeline> released_;
  std::unique_ptr<Renderer> renderer_;  // after the buffers that it draws into
  std::unique_ptr<Readback> readback_;  // of outputs, then inputs, where the host does not map them; else null
  Detector detector_;
  int64_t begin_ns_[kMaxBuffers] = {};
};

}  // namespace tenon::demo
