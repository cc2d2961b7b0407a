// Error messages that all kinds of timelines share.
#pragma once

#include <string>

#include "base/status.h"

namespace tenon {

inline Status wait_timed_out(const std::string& name, uint64_t value, uint64_t reached, int64_t timeout_ns) {
  return timed_out("{} is at {} and does not reach {} within {} ns.", name, reached, value, timeout_ns);
}

inline Status signal_goes_back(const std::string& name, uint64_t value, uint64_t reached) {
  return invalid_argument("{} is at {} already and cannot be signalled to {}: values only grow.", name, reached, value);
}

inline Status check_timeout(const std::string& name, int64_t timeout_ns) {
  TENON_INVALID_IF(timeout_ns < -1, "The timeout of a wait on {} ({} ns) is negative.", name, timeout_ns);
  return Status();
}

}  // namespace tenon
