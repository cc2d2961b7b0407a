// Calls of the program's own functions: the deleter of a DLPack tensor, gpu_external_free. They may wait for a lock of
// the program's, Python's for example, whose holder waits for one of ours; so none of ours is held while they run.
//
//   const LaterProgramCalls later;      // before the lock
//   auto list = list_.lock();
//   release(list);                      // whatever comes to call_program() in here is put off
//                                       // the lock goes first, then the calls are made
//
// Threads: each has calls of its own. Errors: none; the calls throw nothing.
#pragma once

#include <functional>
#include <vector>

namespace tenon::cuda {

// Puts off this thread's calls until the outermost one that lives goes.
class LaterProgramCalls {
 public:
  LaterProgramCalls();
  ~LaterProgramCalls();
  LaterProgramCalls(const LaterProgramCalls&) = delete;
  LaterProgramCalls& operator=(const LaterProgramCalls&) = delete;

 private:
  friend void call_program(std::function<void()> call);
  std::vector<std::function<void()>> calls_;  // of the outermost one
};

// Makes the call, now or later.
void call_program(std::function<void()> call);

}  // namespace tenon::cuda
