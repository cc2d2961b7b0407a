// A stream whose wait is never signalled, kept to the end of the process.
#pragma once

#include <memory>

#include "waiting_frames.h"

namespace tenon::test {

// All of it is the caller's, or nobody's.
struct LeftWaiting {
  std::unique_ptr<OtherProgram> program;
  std::unique_ptr<conformance::Host> host;
  std::unique_ptr<WaitingFrames> frames;
  conformance::Owned<OrtSession> session;
};

struct LeaveWaiting {
  const char* host_library = nullptr;
  const char* plugin = nullptr;
  const char* unloading_library = nullptr;  // unloading_library.cc; loaded between two waits
  bool vulkan = false;
};
// A session has run, value 1 was waited for and reached, and the stream waits for value 2.
Result<LeftWaiting> leave_waiting(const LeaveWaiting& options);

}  // namespace tenon::test
