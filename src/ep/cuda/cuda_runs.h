// Which streams a run has used, so that the end of the run waits for them and reports what they failed with: hosts only
// log what a flush answers, and flush after they have asked how the run went.
//
// A run belongs to the thread that started it; its entry is gone when the run is. Threads: every function from any.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "ep/cuda/cuda_stream.h"

namespace tenon::cuda {

class CudaRuns {
 public:
  void start() { (*runs_.lock())[std::this_thread::get_id()] = {}; }

  // Work of this thread's run is queued on `stream`; `host_reads` when the host reads its result after the run. Outside
  // of a run nothing is noted.
  void use(const std::shared_ptr<CudaStream>& stream, bool host_reads = false) {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run == runs->end()) return;
    for (Use& known : run->second.streams) {
      if (known.stream != stream) continue;
      known.host_reads |= host_reads;
      return;
    }
    run->second.streams.push_back({stream, host_reads});
  }

  // The first failure of this thread's run stays.
  void fail(const Status& failure) {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run != runs->end() && run->second.failure.ok()) run->second.failure = failure;
  }

  // Ends the run. With `synchronize`, what it queued on the session's own streams is done on return; on the user's
  // stream only what the host reads is waited for, and through an event (S4.1).
  Status end(bool synchronize) {
    Run run;
    {
      auto runs = runs_.lock();
      const auto found = runs->find(std::this_thread::get_id());
      if (found == runs->end()) return Status();
      run = std::move(found->second);
      runs->erase(found);
    }
    Status failure = std::move(run.failure);
    for (const Use& use : run.streams) {
      if (!use.host_reads && (!synchronize || use.stream->borrowed())) continue;
      Status done = use.stream->synchronize();
      if (failure.ok()) failure = std::move(done);
    }
    return failure;
  }

  size_t size() const { return runs_.lock()->size(); }

 private:
  struct Use {
    std::shared_ptr<CudaStream> stream;
    bool host_reads = false;
  };
  struct Run {
    std::vector<Use> streams;
    Status failure;
  };
  Guarded<std::map<std::thread::id, Run>> runs_;
};

}  // namespace tenon::cuda
