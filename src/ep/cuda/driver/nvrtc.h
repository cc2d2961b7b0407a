// NVRTC: CUDA C++ to code for a device when the plugin runs.
//
// Threads: every function from any thread.
#pragma once

#include <nvrtc.h>

#include <atomic>
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
  X(SetFlowCallback)             \
  X(CompileProgram)              \
  X(GetNumSupportedArchs)        \
  X(GetSupportedArchs)           \
  X(GetCUBINSize)                \
  X(GetCUBIN)                    \
  X(GetPTXSize)                  \
  X(GetPTX)                      \
  X(AddNameExpression)           \
  X(GetLoweredName)              \
  X(GetProgramLogSize)           \
  X(GetProgramLog)

struct NvrtcHeader {
  const char* name = nullptr;  // as #include has it
  const char* text = nullptr;
};

struct NvrtcSource {
  std::string text;
  std::string name;  // in the compiler's messages
  std::span<const NvrtcHeader> headers;
  std::vector<std::string> instances;  // "f<float, 4>": kernel templates to be instantiated
  // Where it becomes true meanwhile, compiling ends soon, with an error; null: nobody wants that.
  const std::atomic<bool>* cancelled = nullptr;
};

struct NvrtcImage {
  std::vector<std::byte> code;              // for cuModuleLoadData
  std::vector<std::string> instance_names;  // of source.instances in the code
};

struct Nvrtc {
#define TENON_NVRTC_MEMBER_(name) decltype(&::nvrtc##name) name = nullptr;
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_MEMBER_)
#undef TENON_NVRTC_MEMBER_
  int major = 0, minor = 0;

  // Compiles a source for one compute capability (90 for 9.0): to machine code, or to PTX for the newest older one
  // where the library is older than the device. Needs no device and no header beside NVRTC's own and those of the
  // source. Errors: kUnsupported for a device that is older than all that it knows; kInternal with the compiler's log.
  Result<NvrtcImage> compile(const NvrtcSource& source, int compute_capability) const;
};

// Loaded once. Errors: kNotFound when the library is not there.
Result<const Nvrtc*> nvrtc();

}  // namespace tenon::cuda
