// Measures the choices of a problem within the time that a session has for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/guarded.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

// The time that a session spends on measuring. Threads: any.
class TuningBudget {
 public:
  // `tell` gets a line when measuring takes longer than a second, and one every few seconds after that; it may be
  // empty.
  explicit TuningBudget(int64_t budget_ms = 0, std::function<void(const std::string&)> tell = {})
      : budget_ms_(budget_ms), tell_(std::move(tell)) {}
  // A budget of 0 ms is no limit.
  bool limited() const { return budget_ms_ > 0; }
  bool spent() const;
  // Half of it is gone: choices that are not likely are left out from here on.
  bool scarce() const;
  // To be called when a plan begins. One for new shapes of a session that runs already has a short time of its own,
  // whatever is left of the session's.
  void begin_plan(bool varies);
  void add(double ms);
  void end_problem(double ms);  // add(), and perhaps a line
  double total_ms() const { return state_.lock()->total_ms; }

 private:
  struct State {
    double total_ms = 0;
    double limit_ms = 0;  // of the total, for the plan that is being made; 0: the budget's
    double told_ms = 0;
    int problems = 0;
  };
  const int64_t budget_ms_;
  const std::function<void(const std::string&)> tell_;
  Guarded<State> state_;
};

// Whether the number of the fastest choice has been measured as well as the options ask for.
struct Fastest {
  size_t index = 0;
  bool hasty = false;  // the budget was spent before all of them were tried
};

// The fastest of `count` choices. All are estimated, and those near the best are measured. `queue` puts one of them on
// a stream; a choice that fails is only no choice. Where the budget is spent, a few of the first are estimated. Errors:
// what the last choice failed with, where all do.
Result<Fastest> find_fastest(const CudaDevice& device, CUstream stream, size_t count, TuningBudget* budget,
                             const std::function<Status(size_t index, CUstream stream)>& queue);

}  // namespace tenon::cuda
