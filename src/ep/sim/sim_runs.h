// Which streams a run has used, so that the end of the run waits for them and reports what they failed with. Hosts only
// log what a flush or a notification answers, and flush after they have asked how the run went.
//
// A run belongs to the thread that started it; its entry is gone when the run is. Threads: every function from any.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "ep/sim/sim_stream.h"

namespace tenon::sim {

class SimRuns {
 public:
  // How many runs are under way, this one included.
  size_t start() {
    auto runs = runs_.lock();
    (*runs)[std::this_thread::get_id()] = {};
    return runs->size();
  }

  // Work of this thread's run is queued on `stream`. No effect outside of a run.
  void use(const std::shared_ptr<SimStream>& stream) {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run == runs->end()) return;
    for (const auto& known : run->second.streams)
      if (known == stream) return;
    run->second.streams.push_back(stream);
  }

  // The first failure of this thread's run stays. Outside of a run the host has been told, and that is all.
  void fail(const Status& failure) {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run != runs->end() && run->second.failure.ok()) run->second.failure = failure;
  }

  // Ends the run; with `synchronize`, everything that it queued is done on return.
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
    for (const auto& stream : run.streams) {
      if (!synchronize) break;
      Status done = stream->synchronize();
      if (failure.ok()) failure = std::move(done);
    }
    return failure;
  }

  size_t size() const { return runs_.lock()->size(); }

 private:
  struct Run {
    std::vector<std::shared_ptr<SimStream>> streams;
    Status failure;
  };
  Guarded<std::map<std::thread::id, Run>> runs_;
};

}  // namespace tenon::sim
