// Which streams a run has used, so that the end of the run waits for them and reports what they failed with: hosts only
// log what a flush or a notification answers, and flush after they have asked how the run went (OrtEp::OnRunEnd).
//
// A run belongs to the thread that started it; its entry is gone when the run is. Threads: every function from any.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"

namespace tenon::plugin {

// When the end of a run waits for a stream that it has used. The latter ones outweigh the former.
enum class RunEndWait { kNever, kWhenSynchronized, kAlways };

// Stream has `Status synchronize()`, which returns when all that was queued is done.
template <typename Stream>
class PluginRuns {
 public:
  // How many runs are under way, this one included.
  size_t start() {
    auto runs = runs_.lock();
    (*runs)[std::this_thread::get_id()] = {};
    return runs->size();
  }

  // Work of this thread's run is queued on `stream`. No effect outside of a run.
  void use(const std::shared_ptr<Stream>& stream, RunEndWait wait = RunEndWait::kWhenSynchronized) {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run == runs->end()) return;
    for (Use& known : run->second.streams) {
      if (known.stream != stream) continue;
      known.wait = std::max(known.wait, wait);
      return;
    }
    run->second.streams.push_back({stream, wait});
  }

  // The first failure of this thread's run stays. Outside of a run the host has been told, and that is all.
  void fail(const Status& failure) {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run != runs->end() && run->second.failure.ok()) run->second.failure = failure;
  }

  // Ends the run, and waits as use() was told. Errors: the first failure of the run or of a stream waited for.
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
      if (use.wait == RunEndWait::kNever || (use.wait == RunEndWait::kWhenSynchronized && !synchronize)) continue;
      Status done = use.stream->synchronize();
      if (failure.ok()) failure = std::move(done);
    }
    return failure;
  }

  size_t size() const { return runs_.lock()->size(); }

 private:
  struct Use {
    std::shared_ptr<Stream> stream;
    RunEndWait wait;
  };
  struct Run {
    std::vector<Use> streams;
    Status failure;
  };
  Guarded<std::map<std::thread::id, Run>> runs_;
};

}  // namespace tenon::plugin
