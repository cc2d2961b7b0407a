// NVRTC: CUDA C++ to code for a device when the plugin runs.
//
// Threads: every function from any thread.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::cuda {

#define TENON_NVRTC_FUNCTIONS(X) \
  X(Version)                     \
  X(GetErrorString)              \
  X(CreateProgram)               \
  X(DestroyProgram)              \
  X(CompileProgram)              \
  X(GetNumSupportedArchs)        \
  X(GetSupportedArchs)           \
  X(GetCUBINSize)                \
  X(GetCUBIN)                    \
  X(GetPTXSize)                  \
  X(GetPTX)                      \
  X(GetProgramLogSize)           \
  X(GetProgramLog)

struct Nvrtc {
#define TENON_NVRTC_MEMBER_(name) decltype(&::nvrtc##name) name = nullptr;
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_MEMBER_)
#undef TENON_NVRTC_MEMBER_
  int major = 0, minor = 0;

  // What cuModuleLoadData takes: machine code for one compute capability (90 for 9.0), or PTX for the newest older one
  // where the library is older than the device. Needs no device and no header beside NVRTC's own. `name` is what the
  // compiler's messages call the source. Errors: kUnsupported for a device that is older than all that it knows;
  // kInternal with the compiler's log.
  Result<std::vector<std::byte>> compile(const std::string& source, const std::string& name,
                                         int compute_capability) const;
};

// Loaded once. Errors: kNotFound when the library is not there.
Result<const Nvrtc*> nvrtc();

}  // namespace tenon::cuda
