// Records a session's events, and writes them as a trace (Chrome's event format) when profiling ends.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/objects/profiling_event.h"
#include "base/guarded.h"
#include "base/status.h"
#include "base/trace.h"
#include "runtime/node_observer.h"

namespace tenon::abi {

class SessionProfile final : public NodeObserver, public TraceSink {
 public:
  explicit SessionProfile(std::string prefix);

  uint64_t start_ns() const { return static_cast<uint64_t>(start_ns_); }
  // An event of this process and thread; beyond a million of them later ones are dropped.
  void add(std::string_view name, int64_t begin_ns, int64_t end_ns);
  // One whose times are microseconds after the start; it keeps its own process and thread unless they are 0.
  void add(OrtProfilingEvent event);
  // An event of category Node, as ONNX Runtime writes it: NAME_kernel_time with operator, provider, index, types and
  // shapes, and the bytes of the tensors.
  void ran(const NodeRun& node) override;
  // An event of category Session: "pass: fold".
  void ended(const TraceEvent& span) override;
  // Fills in this process and thread where they are 0.
  static void complete(OrtProfilingEvent& event);
  // Writes "PREFIX_DATE_TIME.json" and gives its name. Once; then the profile is empty.
  Result<std::string> write();

 private:
  std::string prefix_;
  int64_t start_ns_;
  Guarded<std::vector<OrtProfilingEvent>> events_;
};

// Tells several profiles of each node: the session's and that of one run.
class ProfiledRun final : public NodeObserver, public TraceSink {
 public:
  // Either may be null. `run_prefix`: the run asked for a profile of its own (RunOptionsEnableProfiling).
  ProfiledRun(SessionProfile* session, const std::string* run_prefix);
  void ran(const NodeRun& node) override;
  void ended(const TraceEvent& span) override;
  // Adds the run itself, and writes its own profile when it is to have one and `status` is OK. Gives `status`, or why
  // the profile could not be written.
  Status end(const Status& status);

 private:
  SessionProfile* const session_;
  std::optional<SessionProfile> own_;
  const int64_t begin_ns_;
};

}  // namespace tenon::abi
