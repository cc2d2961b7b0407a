#include "ep/sim/sim_stream.h"

#include <atomic>
#include <utility>

#include "ep/sim/sim_counters.h"

namespace tenon::sim {

namespace {

// How often a wait for a foreign fence looks whether its stream is being destroyed.
constexpr int64_t kWaitSliceNs = 5'000'000;

}  // namespace

class SimStream::Progress final : public plugin::StreamProgress {
 public:
  uint64_t queued() const override { return queued_; }
  bool passed(uint64_t point) const override { return done_ >= point; }

  std::atomic<uint64_t> queued_{0};
  std::atomic<uint64_t> done_{0};
};

std::shared_ptr<SimStream> SimStream::create(std::string name) {
  return std::shared_ptr<SimStream>(new SimStream(std::move(name)));
}

SimStream::SimStream(std::string name)
    : name_(std::move(name)), counts_(std::make_shared<Progress>()), progress_(counts_) {
  ++counters().streams;
}

SimStream::~SimStream() {
  {
    std::unique_lock lock(mutex_);
    cancel_waits_ = true;
    closing_ = true;
    start_until(lock, counts_->queued_);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  --counters().streams;
}

uint64_t SimStream::push(Item item, bool start) {
  item.correlation_id = SimRecorder::correlation_id();
  std::unique_lock lock(mutex_);
  items_.push_back(std::move(item));
  const uint64_t point = ++counts_->queued_;
  if (start) start_until(lock, point);
  return point;
}

void SimStream::start_until(std::unique_lock<std::mutex>& lock, uint64_t point) {
  (void)lock;  // held
  if (point <= counts_->done_ || point <= wanted_) return;
  wanted_ = point;
  if (!thread_.joinable()) thread_ = std::thread([this] { work_loop(); });
  changed_.notify_all();
}

void SimStream::enqueue(std::string what, std::function<Status()> work, std::shared_ptr<SimRecorder> recorder) {
  push({.what = std::move(what), .work = std::move(work), .recorder = std::move(recorder)}, false);
}

void SimStream::enqueue_cleanup(std::string what, std::function<Status()> work) {
  push({.what = std::move(what), .work = std::move(work), .always = true}, false);
}

void SimStream::wait(Fence fence) { push({.what = "wait", .wait = std::move(fence)}, false); }

void SimStream::signal(Fence fence) { push({.what = "signal", .signal = std::move(fence)}, true); }

void SimStream::wait_for(const std::shared_ptr<SimStream>& producer) { wait_for(producer, producer->queued()); }

void SimStream::wait_for(const std::shared_ptr<SimStream>& producer, uint64_t point) {
  if (producer.get() == this) return;
  push({.what = "wait for " + producer->name(), .producer = producer, .producer_point = point}, false);
}

uint64_t SimStream::queued() const { return counts_->queued_; }

Status SimStream::run_until(uint64_t point) {
  std::unique_lock lock(mutex_);
  start_until(lock, point);
  changed_.wait(lock, [&] { return counts_->done_ >= point; });
  return failure_;
}

Status SimStream::synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t point = counts_->queued_;
  start_until(lock, point);
  changed_.wait(lock, [&] { return counts_->done_ >= point; });
  return std::exchange(failure_, Status());
}

void SimStream::work_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || counts_->done_ < wanted_; });
    if (counts_->done_ >= wanted_) return;  // closing, and nothing is left
    Item item = std::move(items_.front());
    items_.pop_front();
    const Status failure = failure_;
    lock.unlock();
    Status status = carry_out(item, failure);
    item = Item();  // what the work held goes before the point counts as passed
    lock.lock();
    if (failure_.ok() && !status.ok()) failure_ = std::move(status);
    ++counts_->done_;
    changed_.notify_all();
  }
}

Status SimStream::carry_out(Item& item, const Status& failure) {
  ++counters().total_items;
  if (item.signal.defined()) {
    if (failure.ok()) return item.signal.signal();
    item.signal.timeline->poison(item.signal.value, failure);
    return Status();
  }
  if (!failure.ok() && !item.always) return Status();
  if (item.wait.defined()) return wait_fence(item.wait);
  if (item.producer != nullptr) {
    ++counters().total_device_waits;
    return item.producer->run_until(item.producer_point);
  }
  const auto begin = std::chrono::steady_clock::now();
  Status status = item.work();
  if (item.recorder != nullptr)
    item.recorder->add({item.what, name_, begin, std::chrono::steady_clock::now(), item.correlation_id});
  return std::move(status).with_context("while the simulated stream \"" + name_ + "\" runs " + item.what);
}

Status SimStream::wait_fence(const Fence& fence) {
  for (;;) {
    Status status = fence.wait(kWaitSliceNs);
    if (status.code() != StatusCode::kTimeout) return status;
    TENON_TRY_ASSIGN(const uint64_t reached, fence.timeline->value());
    // It came after the slice was over, or is a poison that says timeout: the fence itself knows which.
    if (reached >= fence.value) return fence.wait(kWaitSliceNs);
    if (cancel_waits_)
      return cancelled("Stream \"{}\" is destroyed while it waits for value {} of {}.", name_, fence.value,
                       fence.timeline->name());
  }
}

}  // namespace tenon::sim
