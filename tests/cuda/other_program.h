// A program of its own that makes a timeline, sends it, and signals a value when it is told to: a shared timeline as
// the fake driver takes it, or a Vulkan driver's.
#pragma once

#include <sys/types.h>
#include <tenon/external_memory.h>

#include <memory>
#include <utility>

#include "base/status.h"

namespace tenon::test {

class OtherProgram {
 public:
  // Before any driver is open in this process. Errors: no Vulkan on a GPU, for which `vulkan` asks.
  static Result<std::unique_ptr<OtherProgram>> start(bool vulkan);
  ~OtherProgram() { kill(); }

  int timeline_fd() const { return timeline_.fd(); }
  void timeline_is_taken() { (void)timeline_.release_fd(); }
  void signal(uint8_t value);
  void kill();

 private:
  OtherProgram(pid_t pid, OwnedHandle socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  const OwnedHandle socket_;
  OwnedHandle timeline_;
};

}  // namespace tenon::test
