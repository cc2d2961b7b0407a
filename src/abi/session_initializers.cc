// Initializers and external data that a program gives with the session options.
#include <cstring>

#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {
namespace {

OrtStatus* check_initializer(const char* name, const OrtValue* value) noexcept {
  if (name == nullptr || value == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Received nullptr for the name or the value of an initializer");
  if (!value->is_tensor() || !value->tensor.defined())
    return ort_error(ORT_INVALID_ARGUMENT, "The value for initializer {} is not a tensor of numbers.", name);
  return nullptr;
}

OrtStatus* already_added(const char* name) noexcept {
  return ort_error(ORT_INVALID_ARGUMENT, "An OrtValue for this name has already been added: {}", name);
}

}  // namespace

OrtStatus* ort_api::AddInitializer(OrtSessionOptions* options, const char* name, const OrtValue* val) noexcept {
  if (OrtStatus* bad = check_pointers("AddInitializer", {{"options", options}})) return bad;
  if (OrtStatus* bad = check_initializer(name, val)) return bad;
  return guarded(
      [&]() -> OrtStatus* { return options->initializers.emplace(name, *val).second ? nullptr : already_added(name); });
}

OrtStatus* ort_api::AddExternalInitializers(OrtSessionOptions* options, const char* const* initializer_names,
                                            const OrtValue* const* initializers, size_t num_initializers) noexcept {
  if (OrtStatus* bad = check_pointers("AddExternalInitializers", {{"options", options}})) return bad;
  if (num_initializers == 0) return nullptr;
  if (OrtStatus* bad = check_pointers("AddExternalInitializers",
                                      {{"initializer_names", initializer_names}, {"initializers", initializers}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    auto all = options->external_initializers;  // all of them or none
    for (size_t i = 0; i < num_initializers; ++i) {
      if (OrtStatus* bad = check_initializer(initializer_names[i], initializers[i])) return bad;
      if (initializer_names[i][0] == '\0')
        return ort_error(ORT_INVALID_ARGUMENT, "The name of initializer {} is empty.", i);
      if (!all.emplace(initializer_names[i], *initializers[i]).second) return already_added(initializer_names[i]);
    }
    options->external_initializers = std::move(all);
    return nullptr;
  });
}

OrtStatus* ort_api::AddExternalInitializersFromFilesInMemory(OrtSessionOptions* options,
                                                             const ORTCHAR_T* const* external_initializer_file_names,
                                                             char* const* external_initializer_file_buffer_array,
                                                             const size_t* external_initializer_file_lengths,
                                                             size_t num_external_initializer_files) noexcept {
  if (OrtStatus* bad = check_pointers("AddExternalInitializersFromFilesInMemory", {{"options", options}})) return bad;
  if (num_external_initializer_files == 0) return nullptr;
  if (OrtStatus* bad =
          check_pointers("AddExternalInitializersFromFilesInMemory",
                         {{"external_initializer_file_names", external_initializer_file_names},
                          {"external_initializer_file_buffer_array", external_initializer_file_buffer_array},
                          {"external_initializer_file_lengths", external_initializer_file_lengths}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    for (size_t i = 0; i < num_external_initializer_files; ++i) {
      const char* name = external_initializer_file_names[i];
      const auto* data = reinterpret_cast<const std::byte*>(external_initializer_file_buffer_array[i]);
      if (name == nullptr || *name == '\0' || data == nullptr)
        return ort_error(ORT_INVALID_ARGUMENT, "External file {} has no name or no buffer.", i);
      // The buffer stays the program's until the session is made.
      if (!options->external_files.try_emplace(name, data, external_initializer_file_lengths[i]).second)
        return ort_error(ORT_INVALID_ARGUMENT, "An entry for this name has already been added: {}", name);
    }
    return nullptr;
  });
}

}  // namespace tenon::abi
