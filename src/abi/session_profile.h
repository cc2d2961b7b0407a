// What a session did and when, written as a trace (Chrome's event format) when profiling ends.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "abi/profiling_event.h"
#include "base/guarded.h"
#include "base/status.h"

namespace tenon::abi {

class SessionProfile {
 public:
  explicit SessionProfile(std::string prefix);

  uint64_t start_ns() const { return static_cast<uint64_t>(start_ns_); }
  // An event of this process and thread; beyond a million of them later ones are dropped.
  void add(std::string_view name, int64_t begin_ns, int64_t end_ns);
  // One whose times are microseconds after the start; it keeps its own process and thread unless they are 0.
  void add(OrtProfilingEvent event);
  // Fills in this process and thread where they are 0.
  static void complete(OrtProfilingEvent& event);
  // Writes "PREFIX_DATE_TIME.json" and gives its name. Once; then the profile is empty.
  Result<std::string> write();

 private:
  std::string prefix_;
  int64_t start_ns_;
  Guarded<std::vector<OrtProfilingEvent>> events_;
};

// Writes the profile of one run that asked for its own (RunOptionsEnableProfiling).
Status write_run_profile(const std::string& prefix, int64_t begin_ns, int64_t end_ns);

}  // namespace tenon::abi
