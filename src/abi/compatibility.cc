// Reads the compatibility strings of the EPs that compiled a model, without loading the model.
#include <filesystem>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "ep/host/plugin_context.h"
#include "graph/mapped_file.h"
#include "graph/model_metadata.h"

namespace tenon::abi {

namespace {

// Null where the model says nothing of that EP.
OrtStatus* copy_entry(std::span<const std::byte> model, const char* ep_type, OrtAllocator* allocator, char** out) {
  const Result<std::optional<std::string>> found = read_metadata_entry(model, compatibility_key(ep_type));
  if (!found.ok()) return make_ort_status(ORT_INVALID_GRAPH, "Protobuf parsing failed.");
  return *found ? copy_text(allocator, **found, out) : nullptr;
}

bool is_missing(const void* data, const char* ep_type, const OrtAllocator* allocator, char* const* out) {
  return data == nullptr || ep_type == nullptr || *ep_type == '\0' || allocator == nullptr || out == nullptr;
}

}  // namespace

OrtStatus* ort_api::GetCompatibilityInfoFromModel(const ORTCHAR_T* model_path, const char* ep_type,
                                                  OrtAllocator* allocator, char** compatibility_info) noexcept {
  clear(compatibility_info);
  if (is_missing(model_path, ep_type, allocator, compatibility_info))
    return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid argument provided to GetCompatibilityInfoFromModel.");
  return guarded([&]() -> OrtStatus* {
    std::error_code error;
    if (!std::filesystem::exists(model_path, error))
      return ort_error(ORT_NO_SUCHFILE, "Load model {} failed. File doesn't exist", model_path);
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(model_path);
    if (!file.ok()) return to_ort(file.status(), ORT_INVALID_GRAPH);
    return copy_entry((*file)->bytes(), ep_type, allocator, compatibility_info);
  });
}

OrtStatus* ort_api::GetCompatibilityInfoFromModelBytes(const void* model_data, size_t model_data_length,
                                                       const char* ep_type, OrtAllocator* allocator,
                                                       char** compatibility_info) noexcept {
  clear(compatibility_info);
  if (is_missing(model_data, ep_type, allocator, compatibility_info) || model_data_length == 0)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid argument provided to GetCompatibilityInfoFromModelBytes.");
  return guarded([&] {
    return copy_entry({static_cast<const std::byte*>(model_data), model_data_length}, ep_type, allocator,
                      compatibility_info);
  });
}

}  // namespace tenon::abi
