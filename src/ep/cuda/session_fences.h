// The waits and signals that hosts pass with a run (ep/sdk/plugin_fences.h), until the run's work takes them.
//
// A run belongs to the thread that started it. Threads: every function from any.
// Errors: once start() has answered OK, every signal is queued, end() at the latest; only the device's own failure
// prevents that.
#pragma once

#include <atomic>
#include <map>
#include <thread>

#include "ep/cuda/captured_work.h"
#include "ep/sdk/plugin_fences.h"

namespace tenon::cuda {

class SessionFences {
 public:
  // Errors: kInvalidArgument for a handle that is no semaphore of this EP, for one that is released, and for a
  // semaphore of another device than `memory`'s.
  Status start(const std::shared_ptr<CudaMemory>& memory, const plugin::FencesOfRun& fences);

  // Takes the fences that a call may put into one launch with its work on `stream`: waits that nothing came after yet,
  // and the signals if the run has no other call. The caller gives back what it did not queue. `behind`: the stream
  // that the host goes on with behind that work, here and below; null: the same.
  WorkFences take(const std::shared_ptr<CudaStream>& stream, const std::shared_ptr<CudaStream>& behind = nullptr);
  void give_back(WorkFences fences);
  // Before other work on `stream`: the waits are queued there.
  Status queue_waits(const std::shared_ptr<CudaStream>& stream, const std::shared_ptr<CudaStream>& behind = nullptr);
  // The run is over: what is left of the fences is queued behind its last work, else on `otherwise`.
  Status end(const std::shared_ptr<CudaStream>& otherwise);

 private:
  struct Run {
    WorkFences fences;
    bool one_call = false;
  };
  Guarded<std::map<std::thread::id, Run>> runs_;
  std::atomic<size_t> count_ = 0;  // of runs_: most runs have no fences, and take no lock
};

}  // namespace tenon::cuda
