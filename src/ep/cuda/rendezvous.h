// Where the ranks of a sharded model meet before they have a communicator: rank 0 listens at a place and hands every
// other rank the same bytes when all have come. Ranks may be threads, processes or machines.
//
// Threads: one thread meets; who_is_missing() from any.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"
#include "ep/cuda/rank_options.h"

namespace tenon::cuda {

class Rendezvous {
 public:
  explicit Rendezvous(RankOptions options) : options_(std::move(options)) {}

  // Gives `bytes` of rank 0 to all; those of the others are replaced. Returns when all ranks have come, or soon after
  // stop(). Errors: kCancelled then; kInvalidArgument for a place that is none, and for ranks that do not agree about
  // their number; what the system says.
  Status meet(std::vector<char>& bytes);
  void stop() { stopped_ = true; }
  // A sentence about the ranks that have not come.
  std::string who_is_missing() const { return *missing_.lock(); }

 private:
  Status give(const std::vector<char>& bytes);
  Status receive(std::vector<char>& bytes);

  const RankOptions options_;
  std::atomic<bool> stopped_{false};
  Guarded<std::string> missing_;
};

// "2", "1 and 3", "0, 1 and 3".
std::string listed_ranks(const std::vector<int>& ranks);
// All but `rank`.
std::vector<int> other_ranks(const RankOptions& options);

}  // namespace tenon::cuda
