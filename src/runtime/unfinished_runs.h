// Runs that have returned before their stream was done (RunOptions::synchronize = false), and the memory that they
// still use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/guarded.h"
#include "device/device.h"
#include "plan/plan.h"
#include "runtime/arena_pool.h"

namespace tenon {

// The EP whose stream carries out the whole plan; kCpuEp when the host or a second stream takes part.
// Only such a plan needs no wait between its runs on one stream: the stream's order is enough.
EpId only_stream(const Plan& plan);

// The work that a stream still has, up to the points `ends`. A notification may outlive its stream.
struct UnfinishedRun {
  uint64_t stream_id = 0;
  std::vector<std::unique_ptr<DeviceNotification>> ends;
  PerSpace<std::vector<Arena>> arenas;
};

// Waits on the host for all of it, and gives its memory back; after a failure the memory may still be in use, and is
// never used again. Errors: the first failure.
Status finish(UnfinishedRun run, ArenaPools& arenas);

// Threads: any.
class UnfinishedRuns {
 public:
  void put(UnfinishedRun run) { runs_.lock()->push_back(std::move(run)); }
  // All that is left to one stream, as one.
  std::optional<UnfinishedRun> take(uint64_t stream_id);
  // Waits for every run. Errors: the first failure.
  Status finish_all(ArenaPools& arenas);

 private:
  Guarded<std::vector<UnfinishedRun>> runs_;
};

}  // namespace tenon
