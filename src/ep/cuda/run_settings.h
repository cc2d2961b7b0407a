// The config entries of a run that the EP reads:
//
//   gpu_graph_id       as in ONNX Runtime; -1: nothing is captured or replayed in this run
//   tenon.timeout_ms   how long the run may wait for its streams; 0 or nothing: for ever
//
// A run belongs to the thread that started it. Threads: each sees its own runs. On a thread without one a host may call
// kernels of any run (ORT_PARALLEL): nothing is captured there while a run forbids it, and a deadline is kept by the
// end of the run, which its own thread waits for.
#pragma once

#include "base/deadline.h"
#include "ep/sdk/plugin_host.h"

namespace tenon::cuda {

struct RunSettings {
  bool graphs = true;
  int64_t timeout_ms = 0;
  Deadline deadline = Deadline::after(-1);
  const char* timeout_name = "tenon.timeout_ms";  // what the time comes from
  const char* remark = "";                        // a sentence for a run that takes longer, with a space before it

  void set_timeout(int64_t ms);  // from now on; 0: none
  // Counts from now. Errors: kInvalidArgument names the entry.
  static Result<RunSettings> read(const plugin::HostApi& host, const OrtRunOptions* options);
};

// `session`: whose run it is. Runs of other sessions may lie inside; ending one that did not begin does nothing.
void begin_run(const void* session, const RunSettings& settings);
void end_run(const void* session);
// Of this thread's innermost run; the defaults outside of any.
RunSettings this_run();

}  // namespace tenon::cuda
