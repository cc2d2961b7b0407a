// The graphs that an EP has captured for a session (ep/api/graph_capture.h), each with what it must find where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ep/api/graph_capture.h"
#include "runtime/plan_cache.h"

namespace tenon {

// Lifetime: the EP outlives it. Threads: one run of the session at a time.
class CapturedGraphs {
 public:
  using Memory = std::vector<std::shared_ptr<std::byte>>;
  // A run that notes in `memory` what it works on besides inputs and outputs. False: it wrote some output elsewhere
  // first, and the host copied it, so that a graph of it would be incomplete.
  using Run = std::function<Result<bool>(Memory& memory)>;

  explicit CapturedGraphs(GraphCapture& capture) : capture_(capture) {}

  // The number of the graph that this run makes or uses; negative: none.
  int32_t graph_of(const RunInfo& info) const { return capture_.graph_of(info); }
  // True when the run is done: its graph was there, for this plan and memory. A graph for another plan or memory is
  // given up.
  Result<bool> replay(int32_t graph, const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs,
                      std::span<void* const> outputs);
  // Runs until the EP has captured the graph, which takes some EPs several runs; once where the plan has steps of the
  // host, which a graph would leave out.
  Status run_and_capture(int32_t graph, const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs,
                         std::span<void* const> outputs, const Run& run);

 private:
  struct Captured {
    std::shared_ptr<PlanRuntime> plan;
    std::vector<void*> inputs, outputs;
    Memory memory;
  };
  GraphCapture& capture_;
  std::map<int32_t, Captured> graphs_;
};

}  // namespace tenon
