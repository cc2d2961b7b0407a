#include "abi/metadata.h"

#include <cstring>
#include <limits>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {
namespace {

OrtStatus* get_text(const char* function, const OrtModelMetadata* metadata, OrtAllocator* allocator, char** out,
                    std::string ModelMetadata::* text) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers(function, {{"model_metadata", metadata}, {"allocator", allocator}, {"value", out}}))
    return bad;
  return copy_text(allocator, metadata->data.*text, out);
}

}  // namespace

OrtStatus* ort_api::SessionGetModelMetadata(const OrtSession* session, OrtModelMetadata** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("SessionGetModelMetadata", {{"session", session}, {"out", out}})) return bad;
  return make_object(out, session->core().metadata());
}

OrtStatus* ort_api::Graph_GetModelMetadata(const OrtGraph* graph, OrtModelMetadata** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("Graph_GetModelMetadata", {{"graph", graph}, {"out", out}})) return bad;
  return guarded([&] {
    const tenon::abi::GraphOrigin* const origin = graph->origin.get();
    const ModelInfo info = origin != nullptr ? origin->info : ModelInfo{};
    return make_object(out, ModelMetadata{.producer_name = info.producer_name,
                                          .producer_version = info.producer_version,
                                          .domain = info.domain,
                                          .description = info.doc_string,
                                          .graph_name = origin != nullptr ? origin->graph_name : graph->name,
                                          .graph_description = origin != nullptr ? origin->notes.doc_string : "",
                                          .version = info.model_version,
                                          // As in ONNX Runtime, a graph that is being built has version 0.
                                          .has_version = origin == nullptr || info.has_model_version,
                                          .custom = {info.metadata.begin(), info.metadata.end()}});
  });
}

void ort_api::ReleaseModelMetadata(OrtModelMetadata* input) noexcept { delete input; }

OrtStatus* ort_api::ModelMetadataGetProducerName(const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                                                 char** value) noexcept {
  return get_text("ModelMetadataGetProducerName", model_metadata, allocator, value, &ModelMetadata::producer_name);
}

OrtStatus* ort_api::ModelMetadataGetGraphName(const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                                              char** value) noexcept {
  return get_text("ModelMetadataGetGraphName", model_metadata, allocator, value, &ModelMetadata::graph_name);
}

OrtStatus* ort_api::ModelMetadataGetDomain(const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                                           char** value) noexcept {
  return get_text("ModelMetadataGetDomain", model_metadata, allocator, value, &ModelMetadata::domain);
}

OrtStatus* ort_api::ModelMetadataGetDescription(const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                                                char** value) noexcept {
  return get_text("ModelMetadataGetDescription", model_metadata, allocator, value, &ModelMetadata::description);
}

OrtStatus* ort_api::ModelMetadataGetGraphDescription(const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                                                     char** value) noexcept {
  return get_text("ModelMetadataGetGraphDescription", model_metadata, allocator, value,
                  &ModelMetadata::graph_description);
}

OrtStatus* ort_api::ModelMetadataGetVersion(const OrtModelMetadata* model_metadata, int64_t* value) noexcept {
  clear(value);
  if (OrtStatus* bad =
          check_pointers("ModelMetadataGetVersion", {{"model_metadata", model_metadata}, {"value", value}}))
    return bad;
  // The reference's word for a file that has none.
  *value = model_metadata->data.has_version ? model_metadata->data.version : std::numeric_limits<int64_t>::max();
  return nullptr;
}

OrtStatus* ort_api::ModelMetadataLookupCustomMetadataMap(const OrtModelMetadata* model_metadata,
                                                         OrtAllocator* allocator, const char* key,
                                                         char** value) noexcept {
  clear(value);
  if (OrtStatus* bad = check_pointers(
          "ModelMetadataLookupCustomMetadataMap",
          {{"model_metadata", model_metadata}, {"allocator", allocator}, {"key", key}, {"value", value}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const auto found = model_metadata->data.custom.find(key);
    return found == model_metadata->data.custom.end() ? nullptr : copy_text(allocator, found->second, value);
  });
}

OrtStatus* ort_api::ModelMetadataGetCustomMetadataMapKeys(const OrtModelMetadata* model_metadata,
                                                          OrtAllocator* allocator, char*** keys,
                                                          int64_t* num_keys) noexcept {
  clear(keys);
  clear(num_keys);
  if (OrtStatus* bad = check_pointers(
          "ModelMetadataGetCustomMetadataMapKeys",
          {{"model_metadata", model_metadata}, {"allocator", allocator}, {"keys", keys}, {"num_keys", num_keys}}))
    return bad;
  const auto& custom = model_metadata->data.custom;
  if (custom.empty()) return nullptr;
  const Result<void*> memory = allocate(allocator, custom.size() * sizeof(char*));
  if (!memory.ok()) return to_ort(memory.status());
  auto** const texts = static_cast<char**>(*memory);
  size_t made = 0;
  for (const auto& [key, value] : custom) {
    if (OrtStatus* bad = copy_text(allocator, key, &texts[made])) {
      while (made > 0) free_block(allocator, texts[--made]);
      free_block(allocator, texts);
      return bad;
    }
    ++made;
  }
  *keys = texts;
  *num_keys = static_cast<int64_t>(made);
  return nullptr;
}

}  // namespace tenon::abi
