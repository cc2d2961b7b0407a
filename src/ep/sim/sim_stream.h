// A stream of the simulated device: an ordered queue that does nothing until something waits for it. Then its thread
// carries out what was queued up to the point that is waited for, and no more.
//
// The queue is made to run by synchronize() on the host, a wait on another stream that has itself been made to run, and
// a signal of a timeline, because somebody outside may wait for that.
// Ownership: shared. Work holds what it needs; fences are held until they have passed.
// Threads: every function from any thread; what one thread queues runs in that order.
// Errors: the first failure stays: later work is skipped and later signals poison their fences with it, until
// synchronize() has reported it.
#pragma once

#include <tenon/fence.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "ep/sdk/scratch.h"
#include "ep/sim/sim_recorder.h"

namespace tenon::sim {

class SimStream : public std::enable_shared_from_this<SimStream> {
 public:
  static std::shared_ptr<SimStream> create(std::string name);
  // Carries out what is queued, except that fences which have not been reached are no longer waited for: what comes
  // after them is cancelled.
  ~SimStream();
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  void enqueue(std::string what, std::function<Status()> work, std::shared_ptr<SimRecorder> recorder = nullptr);
  // The same, but carried out also after a failure: what must be given back.
  void enqueue_cleanup(std::string what, std::function<Status()> work);
  void wait(Fence fence);
  // Starts the stream up to here.
  void signal(Fence fence);
  // Later work runs after everything that is in `producer`'s queue now.
  void wait_for(const std::shared_ptr<SimStream>& producer);
  // The same for a point that was read earlier.
  void wait_for(const std::shared_ptr<SimStream>& producer, uint64_t point);

  // Carries everything out and returns the first failure since the last call, which is then forgotten.
  Status synchronize();
  // Carries out what was queued up to `point`. The failure stays.
  Status run_until(uint64_t point);
  uint64_t queued() const;
  // For scratch memory and deferred frees; outlives the stream.
  const std::shared_ptr<plugin::StreamProgress>& progress() const { return progress_; }
  const std::string& name() const { return name_; }

 private:
  class Progress;
  struct Item {
    std::string what;
    std::function<Status()> work;
    bool always = false;
    Fence wait;
    Fence signal;
    std::shared_ptr<SimStream> producer;
    uint64_t producer_point = 0;
    std::shared_ptr<SimRecorder> recorder;
    uint64_t correlation_id = 0;
  };
  explicit SimStream(std::string name);
  uint64_t push(Item item, bool start);
  void start_until(std::unique_lock<std::mutex>& lock, uint64_t point);
  void work_loop();
  Status carry_out(Item& item, const Status& failure);
  Status wait_fence(const Fence& fence);

  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  uint64_t wanted_ = 0;  // the thread runs while done < wanted_
  bool closing_ = false;
  std::atomic<bool> cancel_waits_{false};
  Status failure_;
  std::shared_ptr<Progress> counts_;
  std::shared_ptr<plugin::StreamProgress> progress_;
  std::thread thread_;
};

}  // namespace tenon::sim
