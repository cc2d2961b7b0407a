// OrtModelCompilationOptions: the model to compile, the session options that name its EPs, and where the result goes.
//
// Ownership: paths are copied; buffers, functions, their states and the OrtModel are the program's, which keeps them
// until CompileModel is done.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "abi/objects/session_options.h"

namespace tenon::abi {

// The setter that was called last counts, in each of the three groups.
using CompileInput = std::variant<std::monostate, std::string, std::span<const std::byte>, const OrtModel*>;

struct CompileBuffer {
  OrtAllocator* allocator = nullptr;
  void** data = nullptr;
  size_t* size_bytes = nullptr;
};
struct CompileFunction {
  OrtWriteBufferFunc write = nullptr;
  void* state = nullptr;
};
using CompileOutput = std::variant<std::monostate, std::string, CompileBuffer, CompileFunction>;

struct InitializerFile {
  std::string location;
  size_t least_bytes = 0;
};
struct InitializerBuffer {
  std::string location;
  size_t least_bytes = 0;
  CompileBuffer buffer;
};
struct InitializerFunction {
  OrtGetInitializerLocationFunc locate = nullptr;
  void* state = nullptr;
};
using CompileInitializers = std::variant<std::monostate, InitializerFile, InitializerBuffer, InitializerFunction>;

}  // namespace tenon::abi

struct OrtModelCompilationOptions {
  explicit OrtModelCompilationOptions(const OrtSessionOptions& options);

  OrtSessionOptions session;
  tenon::abi::CompileInput input;
  tenon::abi::CompileOutput output;
  tenon::abi::CompileInitializers initializers;
  size_t alignment = 0, least_aligned_bytes = 0;  // of initializers in a file or buffer
  uint32_t flags = OrtCompileApiFlags_NONE;
};
