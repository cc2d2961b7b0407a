// Order between programs: a Timeline is a 64-bit counter that only grows, a Fence is one value on it. Runs wait for
// fences and signal them.
//
// Ownership: a Fence shares its Timeline. Threads: every function from any thread.
// Errors: a producer that fails poisons its timeline: the counter moves to the promised value, and waits return the
// producer's status instead of hanging.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/status.h"

namespace tenon {

// No deadline.
inline constexpr int64_t kWaitForever = -1;

class TENON_API Timeline {
 public:
  virtual ~Timeline() = default;

  // The value reached so far.
  virtual Result<uint64_t> value() = 0;
  // Returns when the value is at least `value`. kTimeout when `timeout_ns` (relative; kWaitForever for none) passes
  // first, kDeviceLost when the other side is known to be gone, the poison status when the timeline was poisoned at or
  // before `value`.
  virtual Status wait(uint64_t value, int64_t timeout_ns) = 0;
  // Moves the counter to `value`; a value at or below the current one is an error.
  virtual Status signal(uint64_t value) = 0;
  // Moves the counter to `value` and leaves `why` beside it. The first poison stays.
  virtual void poison(uint64_t value, const Status& why) = 0;
  // OK, or why the timeline was poisoned.
  virtual Status status() = 0;
  // For messages: "timeline \"frames\"".
  virtual std::string name() const = 0;
};

// One value of one timeline.
struct Fence {
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;

  bool defined() const { return timeline != nullptr; }
  TENON_API Status wait(int64_t timeout_ns = kWaitForever) const;
  TENON_API Status signal() const;
  TENON_API Status status() const;
};

// The fences of a run, as RunOptions takes them:
//
//   .waits = {ready}               the list's own: a copy of each fence, so that the options may be kept
//   .waits = {ready, {frames, 7}}  alike
//   .waits = fences                a std::vector, std::array, array or span: borrowed, and must live until the run
//   returns .waits = {&ready, 1}           alike
//
// A vector that is given away (std::move, a function's result) is the list's own. A list that borrows allocates
// nothing.
class FenceList {
 public:
  FenceList() = default;
  // NOLINTBEGIN(google-explicit-constructor): each is a way to write the list
  FenceList(std::initializer_list<Fence> fences) : owned_(fences) {}
  FenceList(std::vector<Fence>&& fences) : owned_(std::move(fences)) {}
  FenceList(const std::vector<Fence>& fences) : borrowed_(fences) {}
  FenceList(std::span<const Fence> fences) : borrowed_(fences) {}
  template <size_t kCount>
  FenceList(const Fence (&fences)[kCount]) : borrowed_(fences) {}
  template <size_t kCount>
  FenceList(const std::array<Fence, kCount>& fences) : borrowed_(fences) {}
  template <size_t kCount>
  FenceList(const std::array<Fence, kCount>&&) = delete;  // would be gone before the run
  FenceList(const Fence* fences, size_t count) : borrowed_(fences, count) {}

  operator std::span<const Fence>() const { return owned_.empty() ? borrowed_ : std::span<const Fence>(owned_); }
  // NOLINTEND(google-explicit-constructor)
  bool empty() const { return owned_.empty() && borrowed_.empty(); }
  size_t size() const { return std::span<const Fence>(*this).size(); }

 private:
  std::vector<Fence> owned_;
  std::span<const Fence> borrowed_;  // read when `owned_` is empty
};

// A timeline inside this process.
TENON_API Result<std::shared_ptr<Timeline>> make_host_timeline(std::string name, uint64_t initial_value = 0);

// The operations of a foreign timeline (a Vulkan timeline of a driver that exports none, say). Called from the thread
// that waits or signals; each may block as described at Timeline.
struct TimelineCallbacks {
  std::function<Result<uint64_t>()> value;
  std::function<Status(uint64_t value, int64_t timeout_ns)> wait;
  std::function<Status(uint64_t value)> signal;
};
TENON_API Result<std::shared_ptr<Timeline>> make_callback_timeline(std::string name, TimelineCallbacks callbacks);

// A 64-bit timeline in a shared-memory page (futex), for two processes. create() makes the page in a memfd; open() maps
// another process's (see docs/reference/shared-timeline.md for the layout). Each side registers its process id: a wait
// whose peer has died ends with kDeviceLost instead of hanging.
class TENON_API SharedTimeline : public Timeline {
 public:
  static Result<std::shared_ptr<SharedTimeline>> create(std::string name, uint64_t initial_value = 0);
  // Borrows `fd` (it is duplicated by the mapping and stays the caller's).
  static Result<std::shared_ptr<SharedTimeline>> open(std::string name, int fd);
  // The memfd behind the page, for SCM_RIGHTS or /proc/PID/fd. Owned by the timeline.
  virtual int fd() const = 0;
};

}  // namespace tenon
