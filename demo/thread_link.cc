// --in-process: the Vulkan side on a thread; Tenon waits and signals on its device by callbacks.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "demo/producer.h"
#include "demo/producer_link.h"

namespace tenon::demo {
namespace {

class ThreadLink : public ProducerLink {
 public:
  explicit ThreadLink(const StartMessage& start) : start_(start) {}

  ~ThreadLink() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Result<ProducerSide> connect() override {
    TENON_TRY_ASSIGN(producer_, Producer::create(start_, start_.on_device != 0));
    ProducerSide side;
    side.device = producer_->device().name;
    side.fence = FenceRoute::kCallbacks;
    for (size_t i = 0; i < producer_->buffers(); ++i) {
      TENON_TRY_ASSIGN(BufferHandle input, handle_of(producer_->input(i)));
      TENON_TRY_ASSIGN(BufferHandle output, handle_of(producer_->output(i)));
      side.inputs.push_back(std::move(input));
      side.outputs.push_back(std::move(output));
    }
    const auto alive = [this]() -> Status { return failed_ ? end() : Status(); };
    TENON_TRY_ASSIGN(side.drawn, wrap_timeline("drawn frames", producer_->drawn(), alive));
    TENON_TRY_ASSIGN(side.released, wrap_timeline("released frames", producer_->released(), alive));
    side.pid = getpid();
    if (start_.on_device != 0) {
      side.on_device = true;
      side.input_bytes = producer_->input(0).allocation_bytes();
      side.output_bytes = producer_->output(0).allocation_bytes();
      side.device_uuid = producer_->device().uuid;
      TENON_TRY_ASSIGN(side.drawn_fd, producer_->drawn()->export_fd());
      TENON_TRY_ASSIGN(side.released_fd, producer_->released()->export_fd());
    }
    thread_ = std::thread([this] { work(); });
    return side;
  }

  Result<FrameMessage> next_frame() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !frames_.empty() || ended_; });
    if (frames_.empty()) {
      if (!end_.ok()) return end_;
      return internal_error("The Vulkan side ends before its last frame.");
    }
    const FrameMessage message = frames_.front();
    frames_.pop_front();
    return message;
  }

  Status explain(Status seen) override {
    if (failed_) return end();
    return seen;
  }

  Status finish() override {
    if (thread_.joinable()) thread_.join();
    return end();
  }

 private:
  static Result<BufferHandle> handle_of(const SharedBuffer& buffer) {
    BufferHandle made;
    made.handle = OwnedHandle::take_fd(fcntl(buffer.fd(), F_DUPFD_CLOEXEC, 0));
    if (!made.handle.valid()) return resource_exhausted("{}", errno_text("fcntl", errno));
    made.kind = buffer.kind() == SharedBufferKind::kMappableFd ? ExternalMemoryKind::kMappableFd
                                                               : ExternalMemoryKind::kVulkanOpaqueFd;
    made.offset_bytes = buffer.offset_bytes();
    return made;
  }

  Status end() {
    const std::lock_guard lock(mutex_);
    return end_;
  }

  void work() {
    const auto keep_waiting = [this]() -> Status { return stop_ ? cancelled("The demo is asked to end.") : Status(); };
    Status status = producer_->run(keep_waiting, [this](const FrameMessage& message) -> Status {
      const std::lock_guard lock(mutex_);
      frames_.push_back(message);
      changed_.notify_all();
      return {};
    });
    const std::lock_guard lock(mutex_);
    failed_ = !status.ok();
    end_ = std::move(status);
    ended_ = true;
    changed_.notify_all();
  }

  StartMessage start_;
  std::unique_ptr<Producer> producer_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<FrameMessage> frames_;
  bool ended_ = false;
  Status end_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ProducerLink>> make_thread_link(const StartMessage& start) {
  if (start.kill_at != 0) return invalid_argument("A Vulkan side in this process cannot be ended alone.");
  return std::unique_ptr<ProducerLink>(std::make_unique<ThreadLink>(start));
}

}  // namespace tenon::demo
