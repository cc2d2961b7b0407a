// Libraries of custom operators: loaded, asked for their operators, and kept by the session options that asked.
#include <dlfcn.h>

#include <memory>
#include <string>

#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

constexpr char kEntry[] = "RegisterCustomOps";

std::string last_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "no reason is given";
}

OrtStatus* register_ops(OrtSessionOptions* options, void* library) {
  void* symbol = ::dlsym(library, kEntry);
  if (symbol == nullptr) return ort_error(ORT_FAIL, "Failed to get symbol {} with error: {}", kEntry, last_error());
  return guarded([&] { return reinterpret_cast<RegisterCustomOpsFn>(symbol)(options, OrtGetApiBase()); });
}

OrtStatus* open_library(const char* path, std::shared_ptr<void>& library) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return ort_error(ORT_FAIL, "Failed to load library {} with error: {}", path, last_error());
  library = std::shared_ptr<void>(handle, [](void* open) { ::dlclose(open); });
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::RegisterCustomOpsLibrary_V2(OrtSessionOptions* options, const ORTCHAR_T* library_name) noexcept {
  if (OrtStatus* bad =
          check_pointers("RegisterCustomOpsLibrary_V2", {{"options", options}, {"library_name", library_name}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    std::shared_ptr<void> library;
    if (OrtStatus* bad = open_library(library_name, library)) return bad;
    // Kept also when the library's function fails: it may have added domains before.
    options->custom_op_libraries.push_back(library);
    return register_ops(options, library.get());
  });
}

OrtStatus* ort_api::RegisterCustomOpsLibrary(OrtSessionOptions* options, const char* library_path,
                                             void** library_handle) noexcept {
  clear(library_handle);
  if (OrtStatus* bad =
          check_pointers("RegisterCustomOpsLibrary",
                         {{"options", options}, {"library_path", library_path}, {"library_handle", library_handle}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    std::shared_ptr<void> library;
    if (OrtStatus* bad = open_library(library_path, library)) return bad;
    if (OrtStatus* bad = register_ops(options, library.get())) return bad;
    // The handle is the program's, who unloads the library; this count of it is never given back by us.
    *library_handle = ::dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    return nullptr;
  });
}

OrtStatus* ort_api::RegisterCustomOpsUsingFunction(OrtSessionOptions* options,
                                                   const char* registration_func_name) noexcept {
  if (OrtStatus* bad = check_pointers("RegisterCustomOpsUsingFunction",
                                      {{"options", options}, {"registration_func_name", registration_func_name}}))
    return bad;
  void* symbol = ::dlsym(RTLD_DEFAULT, registration_func_name);
  if (symbol == nullptr)
    return ort_error(ORT_FAIL, "Failed to get symbol {} with error: {}", registration_func_name, last_error());
  return guarded([&] { return reinterpret_cast<RegisterCustomOpsFn>(symbol)(options, OrtGetApiBase()); });
}

OrtStatus* ort_api::EnableOrtCustomOps(OrtSessionOptions* options) noexcept {
  if (OrtStatus* bad = check_pointers("EnableOrtCustomOps", {{"options", options}})) return bad;
  return make_ort_status(ORT_FAIL, "EnableOrtCustomOps: Custom operators in onnxruntime-extensions are not enabled");
}

}  // namespace tenon::abi
