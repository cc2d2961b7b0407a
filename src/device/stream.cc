#include "device/stream.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fault.h"
#include "base/guarded.h"
#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"

namespace tenon {

namespace {

// A timeline's wait cannot be interrupted, so a stream waits in slices: this is how long its end may take.
constexpr int64_t kSliceNs = 10'000'000;

struct Item {
  enum class Kind : uint8_t { kWork, kWait, kSignal } kind = Kind::kWork;
  std::function<Status()> work;
  Fence fence;
  int64_t timeout_ns = kWaitForever;
};

// A queue whose memory is kept: a steady stream allocates nothing.
class Ring {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  void push(Item item) {
    if (count_ == items_.size()) grow();
    items_[(first_ + count_++) % items_.size()] = std::move(item);
  }
  Item pop() {
    Item item = std::move(items_[first_]);
    items_[first_] = Item();
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  void grow() {
    std::vector<Item> larger(items_.empty() ? 16 : 2 * items_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move(items_[(first_ + i) % items_.size()]);
    items_ = std::move(larger);
    first_ = 0;
  }
  std::vector<Item> items_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace

struct Stream::Impl {
  struct State {
    Ring queue;
    uint64_t pushed = 0;
    uint64_t done = 0;
    bool stop = false;
    Status failure;
  };

  Status push(Item item) {
    auto state = shared.lock();
    if (state->queue.size() >= kMaxItems)
      return resource_exhausted("{} has {} items queued already.", name, state->queue.size());
    state->queue.push(std::move(item));
    ++state->pushed;
    more.notify_one();
    return Status();
  }

  void run() {
    auto state = shared.lock();
    while (true) {
      while (state->queue.empty() && !state->stop) more.wait(state.mutex_lock());
      if (state->queue.empty()) return;
      Item item = state->queue.pop();
      if (state->stop && state->failure.ok()) state->failure = cancelled("{} ends before this is done.", name);
      const Status before = state->failure;
      state.mutex_lock().unlock();
      Status status = perform(item, before);
      item = Item();  // what it holds may take locks of its own
      state.mutex_lock().lock();
      if (state->failure.ok() && !status.ok()) state->failure = std::move(status);
      ++state->done;
      finished.notify_all();
    }
  }

  Status perform(Item& item, const Status& before) {
    switch (item.kind) {
      case Item::Kind::kWork:
        return before.ok() ? call(item.work) : Status();
      case Item::Kind::kWait:
        return before.ok() ? wait_in_slices(item.fence, item.timeout_ns) : Status();
      case Item::Kind::kSignal:
        break;
    }
    if (before.ok()) return item.fence.signal();
    TENON_TRACE(kSync, "{} poisons {} at {}: {}", name, item.fence.timeline->name(), item.fence.value,
                before.message());
    item.fence.timeline->poison(item.fence.value, before);
    return Status();
  }

  Status call(const std::function<Status()>& work) const {
    TraceSpan span("stream", name);
    try {
      return work();
    } catch (const std::exception& error) {
      return internal_error("Work on {} throws: {}.", name, error.what());
    } catch (...) {
      return internal_error("Work on {} throws something that is no std::exception.", name);
    }
  }

  Status wait_in_slices(const Fence& fence, int64_t timeout_ns) {
    TraceSpan span("wait", name);
    if (span) span.args().add("timeline", fence.timeline->name()).add("value", fence.value);
    const Deadline deadline = Deadline::after(timeout_ns);
    while (true) {
      Status status = fence.wait(deadline.remaining_ns(kSliceNs));
      if (status.code() != StatusCode::kTimeout) return status;
      // The slice has passed, unless the fence itself was poisoned with kTimeout.
      if (!fence.status().ok()) return status;
      if (deadline.passed())
        return timed_out("{} does not reach {} within the {} ns that {} waits.", fence.timeline->name(), fence.value,
                         timeout_ns, name);
      if (stopping.load(std::memory_order_relaxed))
        return cancelled("{} ends while it waits for {} to reach {}.", name, fence.timeline->name(), fence.value);
    }
  }

  std::string name;
  Guarded<State> shared;
  std::condition_variable more;
  std::condition_variable finished;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

Result<std::unique_ptr<Stream>> Stream::create(std::string name) {
  auto impl = std::make_shared<Impl>();
  impl->name = tenon::format("stream \"{}\"", name);
  TENON_FAULT_POINT("thread");
  try {
    impl->thread = std::thread([impl] { impl->run(); });
  } catch (const std::system_error& error) {
    return resource_exhausted("The thread of {} does not start: {}.", impl->name, error.what());
  }
  return std::unique_ptr<Stream>(new Stream(std::move(impl)));
}

Stream::Stream(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Stream::~Stream() {
  impl_->stopping = true;
  {
    auto state = impl_->shared.lock();
    state->stop = true;
    impl_->more.notify_all();
  }
  if (impl_->thread.get_id() == std::this_thread::get_id()) {
    impl_->thread.detach();
  } else {
    impl_->thread.join();
  }
}

Status Stream::enqueue(std::function<Status()> work) {
  TENON_INVALID_IF(!work, "The work for {} is empty.", name());
  return impl_->push({.kind = Item::Kind::kWork, .work = std::move(work)});
}

Status Stream::wait(Fence fence, int64_t timeout_ns) {
  TENON_INVALID_IF(!fence.defined(), "{} cannot wait for a fence without a timeline.", name());
  TENON_INVALID_IF(timeout_ns < kWaitForever, "The timeout of a wait on {} ({} ns) is negative.", name(), timeout_ns);
  return impl_->push({.kind = Item::Kind::kWait, .fence = std::move(fence), .timeout_ns = timeout_ns});
}

Status Stream::signal(Fence fence) {
  TENON_INVALID_IF(!fence.defined(), "{} cannot signal a fence without a timeline.", name());
  return impl_->push({.kind = Item::Kind::kSignal, .fence = std::move(fence)});
}

Status Stream::synchronize(int64_t timeout_ns) {
  TENON_INVALID_IF(timeout_ns < kWaitForever, "The timeout of a wait for {} ({} ns) is negative.", name(), timeout_ns);
  TENON_INVALID_IF(impl_->thread.get_id() == std::this_thread::get_id(), "Work on {} cannot wait for its own end.",
                   name());
  const Deadline deadline = Deadline::after(timeout_ns);
  auto state = impl_->shared.lock();
  const uint64_t goal = state->pushed;
  while (state->done < goal) {
    if (deadline.passed())
      return timed_out("{} has {} items left after {} ns.", name(), goal - state->done, timeout_ns);
    impl_->finished.wait_for(state.mutex_lock(), std::chrono::nanoseconds(deadline.remaining_ns(1'000'000'000)));
  }
  return std::exchange(state->failure, Status());
}

const std::string& Stream::name() const { return impl_->name; }

}  // namespace tenon
