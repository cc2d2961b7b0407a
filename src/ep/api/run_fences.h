// The waits and signals of a run, for EPs whose device has `tenon.run_fences` = "1" in its EP metadata: they wait and
// signal on their device (docs/how-to/plugins.md, "Fences of a run"). Tenon's host passes them as RunFences
// (ep_host_api.h). A program gives them as text, in run-config entries: Tenon reads these in its C ABI, and in a stock
// host the EP reads them (ep/sdk/plugin_fences.h).
//
//   tenon.run_waits    "0x7f21c0001230:41"       the run's work comes after these
//   tenon.run_signals  "0x7f21c0001230:42, ..."  signalled when the run's work is done
//
// Threads: pure functions.
#pragma once

#include <vector>

#include "base/status.h"
#include "ep/api/ep_host_api.h"

namespace tenon {

inline constexpr const char* kRunFencesKey = "tenon.run_fences";
inline constexpr const char* kRunWaitsKey = "tenon.run_waits";
inline constexpr const char* kRunSignalsKey = "tenon.run_signals";

// Of each, in one run: more is taken for a mistake.
inline constexpr size_t kMostRunFences = 64;

// Does not check that the handles are any. `text` may be null: no fences.
// Errors: kInvalidArgument names the entry's `key` and the part that is no fence, or says that there are too many.
Result<std::vector<RunFence>> parse_run_fences(const char* key, const char* text);

}  // namespace tenon
