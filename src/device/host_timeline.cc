#include <tenon/fence.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>

#include "base/deadline.h"
#include "base/guarded.h"
#include "device/spin.h"
#include "device/timeline_errors.h"

namespace tenon {

namespace {

constexpr uint64_t kNotPoisoned = std::numeric_limits<uint64_t>::max();

class HostTimeline final : public Timeline {
 public:
  HostTimeline(std::string name, uint64_t initial_value)
      : name_(tenon::format("timeline \"{}\"", name)), value_(initial_value) {}

  Result<uint64_t> value() override { return value_.load(std::memory_order_acquire); }

  Status wait(uint64_t value, int64_t timeout_ns) override {
    TENON_TRY(check_timeout(name_, timeout_ns));
    const Deadline deadline = Deadline::after(timeout_ns);
    spin_until(deadline.remaining_ns(kWaitSpinNs), [&] { return reached(value); });
    if (value_.load(std::memory_order_acquire) >= value && !poisoned_.load(std::memory_order_acquire)) return Status();
    auto state = state_.lock();
    while (!reached(value)) {
      if (deadline.never()) {
        changed_.wait(state.mutex_lock());
      } else {
        if (deadline.passed()) return wait_timed_out(name_, value, value_.load(), timeout_ns);
        // Short slices keep the conversion to the clock's time_point in range.
        changed_.wait_for(state.mutex_lock(), std::chrono::nanoseconds(deadline.remaining_ns(kLongestSleepNs)));
      }
    }
    return value >= state->poisoned_from ? state->poison : Status();
  }

  Status signal(uint64_t value) override {
    auto state = state_.lock();
    const uint64_t reached = value_.load(std::memory_order_relaxed);
    if (value <= reached) return signal_goes_back(name_, value, reached);
    value_.store(value, std::memory_order_release);
    changed_.notify_all();
    return Status();
  }

  void poison(uint64_t value, const Status& why) override {
    auto state = state_.lock();
    const uint64_t reached = value_.load(std::memory_order_relaxed);
    if (state->poison.ok() && !why.ok()) {
      state->poison = why;
      // Also the values that were jumped over: nobody did their work.
      state->poisoned_from = reached < value ? reached + 1 : value;
      poisoned_.store(true, std::memory_order_release);
    }
    if (value > reached) value_.store(value, std::memory_order_release);
    changed_.notify_all();
  }

  Status status() override { return state_.lock()->poison; }
  std::string name() const override { return name_; }

 private:
  static constexpr int64_t kLongestSleepNs = 3'600'000'000'000;

  struct State {
    Status poison;
    uint64_t poisoned_from = kNotPoisoned;
  };

  // A poisoned timeline keeps nobody waiting: later values will not come.
  bool reached(uint64_t value) const {
    return value_.load(std::memory_order_acquire) >= value || poisoned_.load(std::memory_order_acquire);
  }

  const std::string name_;
  std::atomic<uint64_t> value_;
  std::atomic<bool> poisoned_{false};
  Guarded<State> state_;  // also orders the writers of value_
  std::condition_variable changed_;
};

}  // namespace

Result<std::shared_ptr<Timeline>> make_host_timeline(std::string name, uint64_t initial_value) {
  return std::shared_ptr<Timeline>(std::make_shared<HostTimeline>(std::move(name), initial_value));
}

}  // namespace tenon
