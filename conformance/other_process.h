// A second process that makes memory and a timeline, sends their file descriptors over a socket, and then executes
// commands of the first.
#pragma once

#include <tenon/external_memory.h>
#include <tenon/fence.h>

#include <functional>
#include <memory>

#include "conformance/status.h"

namespace tenon::conformance {

class OtherProcess {
 public:
  // In the other process: its view of the memory and its end of the timeline. True when all was as it should be.
  using Body = std::function<bool(std::byte* memory, Timeline& timeline)>;
  static Result<std::unique_ptr<OtherProcess>> start(size_t memory_bytes, const Body& body);
  // Ends it if it still runs.
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  // Received from it; ours.
  OwnedHandle& memory() { return memory_; }
  OwnedHandle& timeline() { return timeline_; }
  void kill();
  // Waits for its end: true when its body said that all was well.
  bool succeeded();

 private:
  OtherProcess() = default;
  int pid_ = -1;
  OwnedHandle memory_;
  OwnedHandle timeline_;
};

}  // namespace tenon::conformance
