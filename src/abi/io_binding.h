// OrtIoBinding: values bound by name, kept until they are replaced or cleared.
//
// Ownership: bound values are shared handles, so that the program may release its own. The session outlives the
// binding, as in the reference. Threads: any; calls and runs of one binding come one after the other.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "abi/objects/value.h"
#include "abi/run.h"
#include "abi/session.h"

namespace tenon::abi {

// A lock for what is next to never contended: taking it costs a third of a mutex, and those who wait look again every
// 50 us.
class Turns {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_ = false;
};

}  // namespace tenon::abi

struct OrtIoBinding {
  struct Input {
    size_t index = 0;
    OrtValue value;
  };
  struct Output {
    std::string name;
    std::optional<OrtValue> value;  // none: Tenon allocates, in `space`
    OrtMemoryInfo space;
  };

  OrtIoBinding(OrtSession& bound_to, tenon::Binding made)
      : session(bound_to), core(bound_to.main), binding(std::move(made)) {}

  OrtSession& session;
  std::shared_ptr<tenon::abi::CoreSession> core;  // that `binding` is of
  // Programs of the reference share bindings between threads, and mostly get away with it: they wait here.
  mutable tenon::abi::Turns turns;
  tenon::Binding binding;
  std::vector<Input> inputs;
  std::vector<Output> outputs;                                        // in the order in which they were bound
  bool applied = false;                                               // `binding` holds what `inputs` and `outputs` say
  tenon::abi::ScalarFeed scalars = tenon::abi::ScalarFeed::kScalars;  // of `inputs`, when they were applied
};
