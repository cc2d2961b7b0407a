// An EP that keeps what one run enqueued and can run it again as a whole, without asking each kernel (a CUDA graph,
// say).
//
// A graph reads and writes the addresses that its run had. So the runtime replays one only for the same plan with the
// same memory, which it holds as long as the graph; any other run of that number gives the graph up for a new one.
// Threads: one run of the session at a time.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tenon {

struct RunInfo;

class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  // Every node of the model has to be the EP's; else a session is refused.
  virtual bool needs_whole_model() const = 0;
  // The number of the graph that this run makes or uses; negative: the run has nothing to do with graphs.
  virtual int32_t graph_of(const RunInfo& info) const = 0;
  virtual Result<bool> is_captured(int32_t graph) const = 0;
  // In the place of run_start(), the kernels and run_end(); done on return.
  virtual Status replay(int32_t graph) = 0;
  // Afterwards is_captured() is false. Errors: kUnsupported for an EP that keeps its graphs.
  virtual Status release(int32_t graph) = 0;
};

}  // namespace tenon
