#include "ep/sim/sim_counters.h"

#include <iterator>

#include "base/fault.h"

namespace tenon::sim {

namespace {

constexpr const char* kStepNames[] = {
#define X(name) #name,
    TENON_SIM_STEPS(X)
#undef X
};
constexpr SimStep kSteps[] = {
#define X(name) SimStep::name,
    TENON_SIM_STEPS(X)
#undef X
};

}  // namespace

int64_t SimCounters::value(std::string_view wanted) const {
#define X(name) \
  if (wanted == #name) return name.load();
  TENON_SIM_COUNTERS(X)
#undef X
  return -1;
}

SimCounters& counters() {
  static SimCounters all;
  return all;
}

const char* step_name(SimStep step) { return kStepNames[static_cast<size_t>(step)]; }

const SimStep* find_step(std::string_view name) {
  for (size_t i = 0; i < std::size(kStepNames); ++i)
    if (name == kStepNames[i]) return &kSteps[i];
  return nullptr;
}

std::string step_names() {
  std::string names;
  for (const char* name : kStepNames) names += format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

void SimFaults::arm(const SimStep* step, int64_t nth) {
  std::lock_guard lock(mutex_);
  any_ = step == nullptr;
  if (step != nullptr) step_ = *step;
  left_ = nth;
  fired_ = false;
  armed_ = nth > 0;
}

bool SimFaults::fired() const {
  std::lock_guard lock(mutex_);
  return fired_;
}

Status SimFaults::hit(SimStep step) {
  TENON_FAULT_POINT(step_name(step));
  if (!armed_) return Status();
  std::lock_guard lock(mutex_);
  if (left_ <= 0 || (!any_ && step_ != step)) return Status();
  if (--left_ > 0) return Status();
  fired_ = true;
  armed_ = false;
  ++counters().total_faults;
  return device_error("The simulated device fails at step {}, as it was told to.", step_name(step));
}

SimFaults& process_faults() {
  static SimFaults faults;
  return faults;
}

}  // namespace tenon::sim
