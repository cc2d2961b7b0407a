#include "demo/producer.h"

#include <csignal>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/deadline.h"
#include "cli/npy.h"
#include "demo/picture.h"

namespace tenon::demo {
namespace {

Status dump(const std::string& path, const SharedBuffer& buffer, const Shape& shape) {
  TENON_TRY_ASSIGN(const Tensor tensor, Tensor::view(DataType::kFloat, shape, buffer.mapped(), buffer.size_bytes()));
  return write_npy(path, tensor);
}

int32_t copy_boxes(std::span<const Box> from, Box (&to)[kMaxBoxes]) {
  const size_t count = std::min<size_t>(from.size(), kMaxBoxes);
  std::copy_n(from.begin(), count, to);
  return static_cast<int32_t>(count);
}

}  // namespace

Result<std::unique_ptr<Producer>> Producer::create(const StartMessage& start, bool export_timelines) {
  TENON_INVALID_IF(start.buffers < 1 || start.buffers > kMaxBuffers, "{} buffers are asked for; 1 to {} work.",
                   start.buffers, kMaxBuffers);
  auto made = std::unique_ptr<Producer>(new Producer(start));
  TENON_TRY_ASSIGN(made->device_, VulkanDevice::create(std::string(start.device.view())));
  std::vector<const SharedBuffer*> targets;
  for (int i = 0; i < start.buffers; ++i) {
    TENON_TRY_ASSIGN(auto input, SharedBuffer::create(made->device_, kInputBytes, tenon::format("frame {}", i)));
    TENON_TRY_ASSIGN(auto output, SharedBuffer::create(made->device_, kMapBytes, tenon::format("map {}", i)));
    targets.push_back(input.get());
    made->inputs_.push_back(std::move(input));
    made->outputs_.push_back(std::move(output));
  }
  const bool exportable = export_timelines && made->device_->can_export_timelines;
  TENON_TRY_ASSIGN(made->drawn_, VulkanTimeline::create(made->device_, exportable));
  TENON_TRY_ASSIGN(made->released_, VulkanTimeline::create(made->device_, exportable));
  TENON_TRY_ASSIGN(made->renderer_, Renderer::create(made->device_, targets));
  return made;
}

Status Producer::begin_frame(uint64_t frame) {
  if (frame == start_.kill_at) raise(SIGKILL);
  const size_t slot = frame % buffers();
  begin_ns_[slot] = monotonic_ns();
  if (start_.delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(start_.delay_ms));
  // The device, too, waits for the result of the frame that used this slot before.
  const uint64_t before = frame > buffers() ? frame - buffers() : 0;
  return renderer_->submit(slot, frame, *released_, before, *drawn_, frame);
}

Status Producer::finish_frame(uint64_t frame, int64_t seen_ns, FrameMessage* message) {
  const size_t slot = frame % buffers();
  const std::span<const Box> found =
      detector_.find(static_cast<const float*>(output(slot).mapped()), kFrameWidth, kFrameHeight);
  message->found_ns = monotonic_ns();
  message->frame = frame;
  message->begin_ns = begin_ns_[slot];
  message->seen_ns = seen_ns;
  message->found_count = copy_boxes(found, message->found);
  message->expected_count = copy_boxes(renderer_->page().visible_boxes(frame), message->expected);

  if (!start_.dump_directory.view().empty()) {
    const std::string prefix = tenon::format("{}/{}", start_.dump_directory.view(), frame);
    TENON_TRY(dump(prefix + ".input.npy", input(slot), {1, kFrameChannels, kFrameHeight, kFrameWidth}));
    TENON_TRY(dump(prefix + ".map.npy", output(slot), {1, 1, kFrameHeight, kFrameWidth}));
  }
  if (frame == start_.frames && !start_.png.view().empty()) {
    Picture picture(static_cast<const float*>(input(slot).mapped()));
    picture.draw_boxes(found);
    TENON_TRY(picture.write_png(std::string(start_.png.view())));
  }
  return {};
}

Status Producer::run(const std::function<Status()>& keep_waiting,
                     const std::function<Status(const FrameMessage&)>& on_frame) {
  const uint64_t ahead = std::min<uint64_t>(buffers(), start_.frames);
  for (uint64_t frame = 1; frame <= ahead; ++frame)
    TENON_TRY_CONTEXT(begin_frame(frame), "while drawing frame {}", frame);
  for (uint64_t frame = 1; frame <= start_.frames; ++frame) {
    TENON_TRY_CONTEXT(released_->wait(frame, kWaitForever, keep_waiting), "while waiting for the result of frame {}",
                      frame);
    FrameMessage message;
    TENON_TRY_CONTEXT(finish_frame(frame, monotonic_ns(), &message), "while reading the result of frame {}", frame);
    TENON_TRY(on_frame(message));
    if (const uint64_t next = frame + buffers(); next <= start_.frames)
      TENON_TRY_CONTEXT(begin_frame(next), "while drawing frame {}", next);
  }
  return {};
}

}  // namespace tenon::demo
