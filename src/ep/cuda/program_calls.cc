#include "ep/cuda/program_calls.h"

#include <utility>

namespace tenon::cuda {

namespace {

// A plain pointer: a device may be closed when this thread's objects are gone, at the process's end.
thread_local LaterProgramCalls* outermost = nullptr;

}  // namespace

LaterProgramCalls::LaterProgramCalls() {
  if (outermost == nullptr) outermost = this;
}

LaterProgramCalls::~LaterProgramCalls() {
  if (outermost != this) return;
  outermost = nullptr;
  for (const std::function<void()>& call : calls_) call();
}

void call_program(std::function<void()> call) {
  if (outermost == nullptr) {
    call();
  } else {
    outermost->calls_.push_back(std::move(call));
  }
}

}  // namespace tenon::cuda
