// Copies buffers in the device's memory to the host, where the Vulkan side's host code reads maps and frames.
//
// Threads: one thread at a time, the one that uses the device's queue.
#pragma once

#include <memory>
#include <vector>

#include "demo/submitter.h"

namespace tenon::demo {

class Readback {
 public:
  // Of `sources`, which outlive it.
  static Result<std::unique_ptr<Readback>> create(const std::shared_ptr<VulkanDevice>& device,
                                                  const std::vector<const SharedBuffer*>& sources);

  // A copy of sources[index], made when `after` has reached `value`. Valid until the next call for this source.
  Result<const void*> read(size_t index, const VulkanTimeline& after, uint64_t value);

 private:
  Readback() = default;

  std::vector<std::unique_ptr<LocalBuffer>> staging_;
  std::shared_ptr<VulkanTimeline> done_;
  uint64_t last_ = 0;
  std::unique_ptr<Submitter> submitter_;  // waits, before the buffers go
};

}  // namespace tenon::demo
