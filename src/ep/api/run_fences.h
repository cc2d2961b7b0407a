// The waits and signals of a run as the host tells them to a plugin: run-config entries that the plugin reads in
// OnRunStart, with its own semaphores in them (docs/how-to/plugins.md, "Fences of a run").
//
//   tenon.run_waits    "0x7f21c0001230:41"       the EP's work of the run comes after these
//   tenon.run_signals  "0x7f21c0001230:42, ..."  signalled when the EP's work of the run is done
//   tenon.run_calls    "1"                       how often the host calls the EP's kernels in this run, where it knows
//
// A host passes them to devices whose EP metadata has `tenon.run_fences` = "1". Such an EP, once OnRunStart has
// answered OK, signals in any case: also when the run fails, OnRunEnd at the latest. Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon {

inline constexpr const char* kRunFencesKey = "tenon.run_fences";
inline constexpr const char* kRunWaitsKey = "tenon.run_waits";
inline constexpr const char* kRunSignalsKey = "tenon.run_signals";
inline constexpr const char* kRunCallsKey = "tenon.run_calls";

// A semaphore by its handle (an OrtExternalSemaphoreHandle*), and a value of it.
struct RunFenceEntry {
  uintptr_t semaphore = 0;
  uint64_t value = 0;
};

std::string run_fences_text(std::span<const RunFenceEntry> fences);
// Says nothing about whether the handles are any. `text` may be null: no fences.
// Errors: kInvalidArgument names the entry's `key` and the part that is none.
Result<std::vector<RunFenceEntry>> parse_run_fences(const char* key, const char* text);

}  // namespace tenon
