// Fault points: named places where a test makes a step fail, to walk every path that can fail.
//
//   TENON_FAULT_POINT("mmap");   // returns the injected status from the enclosing function, when one is due
//
//   for (int n = 1;; ++n) {
//     FaultInjection fault(n);           // the nth point that this thread passes fails, once
//     Status status = the_operation();
//     if (!fault.fired()) break;         // every point has had its turn
//     ...                                // status is clean, nothing is left over
//   }
//
// Threads: an injection holds for the thread that made it. Without one, a point costs one load of a thread-local.
#pragma once

#include "base/status.h"

namespace tenon {

// OK, or the status to fail with: kResourceExhausted naming the point.
Status fault_point(const char* name);

// At most one in a thread at a time.
class FaultInjection {
 public:
  explicit FaultInjection(int fail_at);
  ~FaultInjection();
  FaultInjection(const FaultInjection&) = delete;
  FaultInjection& operator=(const FaultInjection&) = delete;

  bool fired() const;
  // The point that failed; "" when none did.
  const char* fired_at() const;
};

}  // namespace tenon

#define TENON_FAULT_POINT(name) TENON_TRY(::tenon::fault_point(name))
