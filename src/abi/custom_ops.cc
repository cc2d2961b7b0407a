#include "abi/custom_ops.h"

#include <dlfcn.h>

#include <memory>

#include "abi/session_options.h"
#include "abi/slots.h"
#include "abi/status.h"

namespace tenon::abi {
namespace {

using RegisterCustomOpsFn = OrtStatus*(ORT_API_CALL*)(OrtSessionOptions*, const OrtApiBase*);

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

OrtStatus* call_registration(OrtSessionOptions* options, void* function) {
  return reinterpret_cast<RegisterCustomOpsFn>(function)(options, OrtGetApiBase());
}

// Loads the library and lets it register. `handle` stays open on success.
OrtStatus* register_library(OrtSessionOptions* options, const char* path, void** handle) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return ort_error(ORT_FAIL, "Failed to load library {} with error: {}", path, last_dl_error());
  void* const function = ::dlsym(library, "RegisterCustomOps");
  OrtStatus* status = function == nullptr ? ort_error(ORT_FAIL, "Failed to get symbol RegisterCustomOps with error: {}",
                                                      last_dl_error())
                                          : call_registration(options, function);
  if (status != nullptr) {
    ::dlclose(library);
    return status;
  }
  *handle = library;
  return nullptr;
}

}  // namespace

bool has_custom_domain(const OrtSessionOptions& options, const std::string& message) {
  for (const OrtCustomOpDomain* domain : options.custom_op_domains)
    if (message.find("of domain \"" + domain->name + "\"") != std::string::npos) return true;
  return false;
}

OrtStatus* ort_api::CreateCustomOpDomain(const char* domain, OrtCustomOpDomain** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateCustomOpDomain", {{"domain", domain}, {"out", out}})) return bad;
  return guarded([&] { return make_object(out, std::string(domain)); });
}

void ort_api::ReleaseCustomOpDomain(OrtCustomOpDomain* input) noexcept { delete input; }

OrtStatus* ort_api::CustomOpDomain_Add(OrtCustomOpDomain* custom_op_domain, const OrtCustomOp* op) noexcept {
  if (OrtStatus* bad = check_pointers("CustomOpDomain_Add", {{"custom_op_domain", custom_op_domain}, {"op", op}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    custom_op_domain->ops.push_back(op);
    return nullptr;
  });
}

OrtStatus* ort_api::AddCustomOpDomain(OrtSessionOptions* options, OrtCustomOpDomain* custom_op_domain) noexcept {
  if (OrtStatus* bad =
          check_pointers("AddCustomOpDomain", {{"options", options}, {"custom_op_domain", custom_op_domain}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    options->custom_op_domains.push_back(custom_op_domain);
    return nullptr;
  });
}

OrtStatus* ort_api::RegisterCustomOpsLibrary(OrtSessionOptions* options, const char* library_path,
                                             void** library_handle) noexcept {
  clear(library_handle);
  if (OrtStatus* bad =
          check_pointers("RegisterCustomOpsLibrary",
                         {{"options", options}, {"library_path", library_path}, {"library_handle", library_handle}}))
    return bad;
  return guarded([&] { return register_library(options, library_path, library_handle); });
}

OrtStatus* ort_api::RegisterCustomOpsLibrary_V2(OrtSessionOptions* options, const ORTCHAR_T* library_name) noexcept {
  if (OrtStatus* bad =
          check_pointers("RegisterCustomOpsLibrary_V2", {{"options", options}, {"library_name", library_name}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    void* handle = nullptr;
    if (OrtStatus* bad = register_library(options, library_name, &handle)) return bad;
    options->custom_op_libraries.emplace_back(handle, [](void* library) { ::dlclose(library); });
    return nullptr;
  });
}

OrtStatus* ort_api::RegisterCustomOpsUsingFunction(OrtSessionOptions* options,
                                                   const char* registration_func_name) noexcept {
  if (OrtStatus* bad = check_pointers("RegisterCustomOpsUsingFunction",
                                      {{"options", options}, {"registration_func_name", registration_func_name}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    void* const function = ::dlsym(RTLD_DEFAULT, registration_func_name);
    if (function == nullptr)
      return ort_error(ORT_FAIL, "Failed to get symbol {} with error: {}", registration_func_name, last_dl_error());
    return call_registration(options, function);
  });
}

// The reference's own operators of onnxruntime-extensions, in builds that have them linked in.
OrtStatus* ort_api::EnableOrtCustomOps(OrtSessionOptions* options) noexcept {
  if (OrtStatus* bad = check_pointers("EnableOrtCustomOps", {{"options", options}})) return bad;
  return make_ort_status(ORT_FAIL, "EnableOrtCustomOps: Custom operators in onnxruntime-extensions are not enabled");
}

}  // namespace tenon::abi
