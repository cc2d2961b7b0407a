#include <tenon/fence.h>

#include <exception>
#include <limits>

#include "base/guarded.h"
#include "device/timeline_errors.h"

namespace tenon {

namespace {

class CallbackTimeline final : public Timeline {
 public:
  CallbackTimeline(std::string name, TimelineCallbacks callbacks)
      : name_(format("timeline \"{}\"", name)), callbacks_(std::move(callbacks)) {}

  Result<uint64_t> value() override {
    return guard<Result<uint64_t>>("value", [&] { return callbacks_.value(); });
  }

  Status wait(uint64_t value, int64_t timeout_ns) override {
    TENON_TRY(check_timeout(name_, timeout_ns));
    TENON_TRY(poison_at(value));
    TENON_TRY(guard<Status>("wait", [&] { return callbacks_.wait(value, timeout_ns); }));
    return poison_at(value);
  }

  Status signal(uint64_t value) override {
    return guard<Status>("signal", [&] { return callbacks_.signal(value); });
  }

  void poison(uint64_t value, const Status& why) override {
    const Result<uint64_t> reached = this->value();
    {
      auto state = state_.lock();
      if (state->poison.ok() && !why.ok()) {
        state->poison = why;
        state->poisoned_from = reached.ok() && *reached < value ? *reached + 1 : value;
      }
    }
    // The foreign side sees only the value; if even that cannot be moved, its own wait reports why.
    if (!reached.ok() || *reached < value) (void)signal(value);
  }

  Status status() override { return state_.lock()->poison; }
  std::string name() const override { return name_; }

 private:
  struct State {
    Status poison;
    uint64_t poisoned_from = std::numeric_limits<uint64_t>::max();
  };

  Status poison_at(uint64_t value) const {
    auto state = state_.lock();
    return !state->poison.ok() && value >= state->poisoned_from ? state->poison : Status();
  }

  // The callbacks are other people's code: what they throw stops here.
  template <typename R, typename Call>
  R guard(const char* what, const Call& call) const {
    try {
      return call();
    } catch (const std::exception& error) {
      return device_error("The {} callback of {} throws: {}.", what, name_, error.what());
    } catch (...) {
      return device_error("The {} callback of {} throws something that is no std::exception.", what, name_);
    }
  }

  const std::string name_;
  const TimelineCallbacks callbacks_;
  Guarded<State> state_;
};

}  // namespace

Result<std::shared_ptr<Timeline>> make_callback_timeline(std::string name, TimelineCallbacks callbacks) {
  const char* missing = !callbacks.value ? "value" : !callbacks.wait ? "wait" : !callbacks.signal ? "signal" : nullptr;
  TENON_INVALID_IF(missing != nullptr, "The {} callback of timeline \"{}\" is missing.", missing, name);
  return std::shared_ptr<Timeline>(std::make_shared<CallbackTimeline>(std::move(name), std::move(callbacks)));
}

}  // namespace tenon
