#include "base/fault.h"

namespace tenon {

namespace {

struct FaultState {
  int left = 0;  // points until one fails; 0: no injection
  bool fired = false;
  const char* fired_at = "";
};
thread_local FaultState fault_state;

}  // namespace

Status fault_point(const char* name) {
  FaultState& state = fault_state;
  if (state.left == 0) return Status();
  --state.left;
  if (state.left > 0) return Status();
  state.fired = true;
  state.fired_at = name;
  return resource_exhausted("The step {} fails because a test injects a fault.", name);
}

FaultInjection::FaultInjection(int fail_at) {
  TENON_CHECK(fail_at > 0 && fault_state.left == 0);
  fault_state = {.left = fail_at};
}

FaultInjection::~FaultInjection() { fault_state = {}; }

bool FaultInjection::fired() const { return fault_state.fired; }
const char* FaultInjection::fired_at() const { return fault_state.fired_at; }

}  // namespace tenon
