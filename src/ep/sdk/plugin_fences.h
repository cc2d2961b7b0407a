// The fences of a run as an EP gets them in OnRunStart: handles in Tenon's host, text of the program's in others
// (ep/api/run_fences.h).
//
// Lifetime: handles and spans are valid during OnRunStart. An EP holds its own import of a semaphore that it uses
// later. Threads: any.
#pragma once

#include <span>
#include <vector>

#include "ep/api/run_fences.h"
#include "ep/sdk/plugin_host.h"

namespace tenon::plugin {

struct FencesOfRun {
  FencesOfRun() = default;
  FencesOfRun(FencesOfRun&&) = default;  // not copied: the spans may lead into `text`
  FencesOfRun& operator=(FencesOfRun&&) = default;

  // `options` may be null: no fences.
  // Errors: kInvalidArgument for text that is no list of fences, and for more than an EP takes.
  static Result<FencesOfRun> read(const HostApi& host, const OrtRunOptions* options);

  bool empty() const { return waits.empty() && signals.empty(); }

  std::span<const RunFence> waits;
  std::span<const RunFence> signals;
  size_t calls = 0;               // how often the host calls the EP's kernels in this run; 0: it does not say
  std::vector<RunFence> text[2];  // of waits and signals, where they came as text
};

}  // namespace tenon::plugin
