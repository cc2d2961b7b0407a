// Holds a stream's queue until a test opens it.
#pragma once

#include <future>

#include "ep/cuda/cuda_stream.h"

namespace tenon::cuda::fake {

class Gate {
 public:
  explicit Gate(const CudaStream& stream) {
    const auto scope = ContextScope::enter(*stream.device());
    (void)stream.device()->driver().LaunchHostFunc(
        stream.native(), [](void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); }, this);
  }
  // The stream must have passed the gate before it goes.
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

}  // namespace tenon::cuda::fake
