// Tells whether another process is alive. Recognises a reused process id, and a killed process that is not reaped yet.
#pragma once

#include <tenon/external_memory.h>

#include <cstdint>

namespace tenon {

// Names a process beyond the reuse of its id.
struct ProcessId {
  uint64_t packed = 0;         // pid in the low half, the low half of its start time in the high one
  uint32_t pid_namespace = 0;  // inode; 0: unknown

  static ProcessId self();
  int pid() const { return static_cast<int>(packed & 0xffffffffu); }
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

// Remembers the process it looked at last, so that a further look costs one system call.
class ProcessWatch {
 public:
  // False when it is known to be gone. True when it lives, and when that cannot be told (another pid namespace, a
  // kernel without pidfd).
  bool alive(const ProcessId& process);

 private:
  ProcessId watched_;
  OwnedHandle pidfd_;
};

}  // namespace tenon
