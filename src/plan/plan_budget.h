// How much memory the plans of a session hold, so that many sizes of a large model do not fill the machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace tenon {

struct Plan;

// Threads: any.
class PlanBudget {
 public:
  explicit PlanBudget(size_t bytes) : limit_(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX))) {}
  bool is_exceeded() const { return held_.load(std::memory_order_relaxed) > limit_; }
  int64_t held_bytes() const { return held_.load(std::memory_order_relaxed); }
  void add(int64_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> held_{0};
};

// The bytes of one plan, counted while it lives.
class PlanShare {
 public:
  PlanShare() = default;
  PlanShare(std::shared_ptr<PlanBudget> budget, int64_t bytes) : budget_(std::move(budget)), bytes_(bytes) {
    if (budget_ != nullptr) budget_->add(bytes_);
  }
  PlanShare(PlanShare&& other) noexcept : budget_(std::move(other.budget_)), bytes_(other.bytes_) {}
  PlanShare& operator=(PlanShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PlanShare() {
    if (budget_ != nullptr) budget_->add(-bytes_);
  }
  // Whether the plans of the budget hold more than they may.
  bool budget_is_exceeded() const { return budget_ != nullptr && budget_->is_exceeded(); }

 private:
  std::shared_ptr<PlanBudget> budget_;
  int64_t bytes_ = 0;
};

// About how many bytes `plan` holds that no other plan and no model holds: its graphs without constants of the model,
// and its steps. What kernels allocate is guessed.
int64_t held_bytes(const Plan& plan);

}  // namespace tenon
