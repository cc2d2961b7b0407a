#include "demo/producer.h"

#include <csignal>

#include <algorithm>
#include <chrono>
#include <thread>

#include "demo/picture.h"
#include "programs/clock.h"
#include "programs/npy.h"

namespace tenon::demo {
namespace {

Status dump(const std::string& path, const float* data, const Shape& shape) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(DataType::kFloat, shape));
  TENON_TRY_ASSIGN(const Tensor tensor, Tensor::view(DataType::kFloat, shape, const_cast<float*>(data), bytes));
  return write_npy(path, tensor);
}

int32_t copy_boxes(std::span<const Box> from, Box (&to)[kMaxBoxes]) {
  const size_t count = std::min<size_t>(from.size(), kMaxBoxes);
  std::copy_n(from.begin(), count, to);
  return static_cast<int32_t>(count);
}

}  // namespace

Result<std::unique_ptr<Producer>> Producer::create(const StartMessage& start, bool export_timelines) {
  if (start.buffers < 1 || start.buffers > kMaxBuffers)
    return invalid_argument("{} buffers are asked for; 1 to {} work.", start.buffers, kMaxBuffers);
  auto made = std::unique_ptr<Producer>(new Producer(start));
  TENON_TRY_ASSIGN(made->device_, VulkanDevice::create(std::string(start.device.view())));
  std::vector<const SharedBuffer*> targets;
  for (int i = 0; i < start.buffers; ++i) {
    const auto make = [&](size_t size_bytes, const char* name) {
      return start.on_device != 0 ? SharedBuffer::create_on_device(made->device_, size_bytes)
                                  : SharedBuffer::create(made->device_, size_bytes, format("{} {}", name, i));
    };
    TENON_TRY_ASSIGN(auto input, make(kInputBytes, "frame"));
    TENON_TRY_ASSIGN(auto output, make(kMapBytes, "map"));
    targets.push_back(input.get());
    made->inputs_.push_back(std::move(input));
    made->outputs_.push_back(std::move(output));
  }
  if (start.on_device != 0 && !made->device_->can_export_timelines)
    return unsupported("Vulkan device \"{}\" exports no timelines, which a model on its GPU needs.",
                       made->device_->name);
  const bool exportable = export_timelines && made->device_->can_export_timelines;
  TENON_TRY_ASSIGN(made->drawn_, VulkanTimeline::create(made->device_, exportable));
  TENON_TRY_ASSIGN(made->released_, VulkanTimeline::create(made->device_, exportable));
  TENON_TRY_ASSIGN(made->renderer_, Renderer::create(made->device_, targets));
  if (start.on_device != 0) {
    std::vector<const SharedBuffer*> sources;
    for (const auto& output : made->outputs_) sources.push_back(output.get());
    for (const auto& input : made->inputs_) sources.push_back(input.get());
    TENON_TRY_ASSIGN(made->readback_, Readback::create(made->device_, sources));
  }
  return made;
}

Status Producer::begin_frame(uint64_t frame) {
  if (frame == start_.kill_at) raise(SIGKILL);
  const size_t slot = frame % buffers();
  begin_ns_[slot] = now_ns();
  if (start_.delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(start_.delay_ms));
  // The device, too, waits for the result of the frame that used this slot before.
  const uint64_t before = frame > buffers() ? frame - buffers() : 0;
  return renderer_->submit(slot, frame, *released_, before, *drawn_, frame);
}

Result<const float*> Producer::map_of(uint64_t frame) {
  const size_t slot = frame % buffers();
  if (readback_ == nullptr) return static_cast<const float*>(output(slot).mapped());
  TENON_TRY_ASSIGN(const void* copied, readback_->read(slot, *released_, frame));
  return static_cast<const float*>(copied);
}

Result<const float*> Producer::picture_of(uint64_t frame) {
  const size_t slot = frame % buffers();
  if (readback_ == nullptr) return static_cast<const float*>(input(slot).mapped());
  TENON_TRY_ASSIGN(const void* copied, readback_->read(buffers() + slot, *released_, frame));
  return static_cast<const float*>(copied);
}

Status Producer::finish_frame(uint64_t frame, int64_t seen_ns, FrameMessage* message) {
  const size_t slot = frame % buffers();
  TENON_TRY_ASSIGN(const float* map, map_of(frame));
  const std::span<const Box> found = detector_.find(map, kFrameWidth, kFrameHeight);
  message->found_ns = now_ns();
  message->frame = frame;
  message->begin_ns = begin_ns_[slot];
  message->seen_ns = seen_ns;
  message->found_count = copy_boxes(found, message->found);
  message->expected_count = copy_boxes(renderer_->page().visible_boxes(frame), message->expected);

  if (!start_.dump_directory.view().empty()) {
    const std::string prefix = format("{}/{}", start_.dump_directory.view(), frame);
    TENON_TRY_ASSIGN(const float* picture, picture_of(frame));
    TENON_TRY(dump(prefix + ".input.npy", picture, {1, kFrameChannels, kFrameHeight, kFrameWidth}));
    TENON_TRY(dump(prefix + ".map.npy", map, {1, 1, kFrameHeight, kFrameWidth}));
  }
  if (frame == start_.frames && !start_.png.view().empty()) {
    TENON_TRY_ASSIGN(const float* pixels, picture_of(frame));
    Picture picture(pixels);
    picture.draw_boxes(found);
    TENON_TRY(picture.write_png(std::string(start_.png.view())));
  }
  return {};
}

Status Producer::run(const std::function<Status()>& keep_waiting,
                     const std::function<Status(const FrameMessage&)>& on_frame) {
  const uint64_t ahead = std::min<uint64_t>(buffers(), start_.frames);
  for (uint64_t frame = 1; frame <= ahead; ++frame)
    TENON_TRY_WITH_CONTEXT(begin_frame(frame), format("while drawing frame {}", frame));
  for (uint64_t frame = 1; frame <= start_.frames; ++frame) {
    TENON_TRY_WITH_CONTEXT(released_->wait(frame, kWaitForever, keep_waiting),
                           format("while waiting for the result of frame {}", frame));
    FrameMessage message;
    TENON_TRY_WITH_CONTEXT(finish_frame(frame, now_ns(), &message),
                           format("while reading the result of frame {}", frame));
    TENON_TRY(on_frame(message));
    if (const uint64_t next = frame + buffers(); next <= start_.frames)
      TENON_TRY_WITH_CONTEXT(begin_frame(next), format("while drawing frame {}", next));
  }
  return {};
}

}  // namespace tenon::demo
