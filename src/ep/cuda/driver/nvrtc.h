// NVRTC: CUDA C++ to machine code when the plugin runs.
//
// Threads: every function from any thread.
#pragma once

#include <nvrtc.h>

#include <span>
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
  X(GetCUBINSize)                \
  X(GetCUBIN)                    \
  X(GetProgramLogSize)           \
  X(GetProgramLog)

struct Nvrtc {
#define TENON_NVRTC_MEMBER_(name) decltype(&::nvrtc##name) name = nullptr;
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_MEMBER_)
#undef TENON_NVRTC_MEMBER_
  int major = 0, minor = 0;

  // Machine code for one compute capability (90 for 9.0), unless an option names another architecture ("sm_90a"). Needs
  // no device and no header beside NVRTC's own. `name` is what the compiler's messages call the source.
  // Errors: kInternal with the compiler's log.
  Result<std::vector<std::byte>> compile(const std::string& source, const std::string& name, int compute_capability,
                                         std::span<const std::string> options = {}) const;
};

// Loaded once. Errors: kNotFound when the library is not there.
Result<const Nvrtc*> nvrtc();

}  // namespace tenon::cuda
