// Records the streams that a run has used, so that its end waits for them and reports their failures: hosts only log
// the result of a flush or a notification, and flush after they have asked how the run went (OrtEp::OnRunEnd).
//
// A run belongs to the thread that started it; its entry is gone when the run is. Where a host calls kernels on threads
// of its own (ONNX Runtime's ORT_PARALLEL), nothing says which run a call belongs to: work on a thread without a run
// counts for each run that is under way. With one run that is exact; of several, each also waits for the others'
// streams, and fails with them. Threads: every function from any.
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

  // Work of this thread's run is queued on `stream`. No effect when no run is under way.
  void use(const std::shared_ptr<Stream>& stream, RunEndWait wait = RunEndWait::kWhenSynchronized) {
    auto runs = runs_.lock();
    for_runs_of_this_thread(*runs, [&](Run& run) {
      for (Use& known : run.streams) {
        if (known.stream != stream) continue;
        known.wait = std::max(known.wait, wait);
        return;
      }
      run.streams.push_back({stream, wait});
    });
  }

  // The first failure of this thread's run stays. Without a run the host has been told, and that is all.
  void fail(const Status& failure) {
    auto runs = runs_.lock();
    for_runs_of_this_thread(*runs, [&](Run& run) {
      if (run.failure.ok()) run.failure = failure;
    });
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
  using Runs = std::map<std::thread::id, Run>;
  template <typename Visit>
  static void for_runs_of_this_thread(Runs& runs, Visit&& visit) {
    if (const auto own = runs.find(std::this_thread::get_id()); own != runs.end()) return visit(own->second);
    for (auto& [thread, run] : runs) visit(run);
  }

  Guarded<Runs> runs_;
};

}  // namespace tenon::plugin
