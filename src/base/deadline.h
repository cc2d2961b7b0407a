// A point on CLOCK_MONOTONIC made from a relative timeout, without overflow: a timeout too large to add never passes.
#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

namespace tenon {

inline int64_t monotonic_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class Deadline {
 public:
  // Negative: never.
  static Deadline after(int64_t timeout_ns) {
    if (timeout_ns < 0) return Deadline(kNever);
    const int64_t now = monotonic_ns();
    return Deadline(timeout_ns > kNever - now ? kNever : now + timeout_ns);
  }

  bool never() const { return at_ns_ == kNever; }
  bool passed() const { return !never() && monotonic_ns() >= at_ns_; }
  // At least 0, at most `limit_ns`.
  int64_t remaining_ns(int64_t limit_ns = std::numeric_limits<int64_t>::max()) const {
    if (never()) return limit_ns;
    const int64_t left = at_ns_ - monotonic_ns();
    return left < 0 ? 0 : (left < limit_ns ? left : limit_ns);
  }
  int64_t at_ns() const { return at_ns_; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  explicit Deadline(int64_t at_ns) : at_ns_(at_ns) {}
  int64_t at_ns_;
};

}  // namespace tenon
