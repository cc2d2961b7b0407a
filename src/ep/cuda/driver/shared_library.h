// A library of the driver or the toolkit, opened when the plugin runs: nothing of CUDA is linked.
//
// Ownership: libraries stay loaded until the process ends, because what they start (threads, contexts) does too.
#pragma once

#include <string>

#include "base/status.h"

namespace tenon::cuda {

enum class LibraryKind : uint8_t { kDriver, kNvrtc, kCublasLt, kCudnn, kNccl };

class SharedLibrary {
 public:
  // As the loader finds it, then beside this plugin and in the toolkit's usual folders; the driver as the loader finds
  // it. The name says which generation of the library it is.
  // Errors: kNotFound with what the loader said.
  static Result<SharedLibrary> open(LibraryKind kind);

  // Null when the library has no such symbol.
  void* symbol(const char* name) const;
  template <typename Function>
  Status find(const char* name, Function** out) const {
    *out = reinterpret_cast<Function*>(symbol(name));
    if (*out == nullptr) return not_found("{} has no function {}.", name_, name);
    return Status();
  }
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

}  // namespace tenon::cuda
