#include "abi/compile_options.h"

#include <bit>
#include <filesystem>
#include <limits>
#include <utility>

#include "abi/objects/session_config.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace {

// For EPs, which read them in CreateEp.
constexpr char kEnableKey[] = "ep.context_enable";
constexpr char kPathKey[] = "ep.context_file_path";
constexpr char kEmbedKey[] = "ep.context_embed_mode";

}  // namespace

// A path of the session options is that of the output, until a setter names another.
OrtModelCompilationOptions::OrtModelCompilationOptions(const OrtSessionOptions& options) : session(options) {
  session.config_entries.set(kEnableKey, "1");
  session.optimization_level = ORT_DISABLE_ALL;
  const char* path = session.config_entries.find(kPathKey);
  if (path != nullptr && *path != '\0') output = std::string(path);
}

namespace tenon::abi {

namespace {

OrtStatus* invalid(const char* message) noexcept { return make_ort_status(ORT_INVALID_ARGUMENT, message); }

// The checks and words of ONNX Runtime; it crashes on the nulls.
template <typename Set>
OrtStatus* set_option(const char* function, OrtModelCompilationOptions* options, Set&& set) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"model_compile_options", options}})) return bad;
  return guarded([&]() -> OrtStatus* { return set(*options); });
}

bool is_empty(const ORTCHAR_T* text) { return text == nullptr || *text == 0; }

OrtStatus* check_buffer(const CompileBuffer& buffer, const char* no_allocator, const char* no_data,
                        const char* no_size) noexcept {
  if (buffer.allocator == nullptr) return invalid(no_allocator);
  if (buffer.data == nullptr) return invalid(no_data);
  return buffer.size_bytes == nullptr ? invalid(no_size) : nullptr;
}

}  // namespace

OrtStatus* compile_api::CreateModelCompilationOptionsFromSessionOptions(const OrtEnv* env,
                                                                        const OrtSessionOptions* session_options,
                                                                        OrtModelCompilationOptions** out) noexcept {
  clear(out);
  if (env == nullptr) return invalid("The env argument must be a non-null pointer");
  if (session_options == nullptr) return invalid("The session_options argument must be a non-null pointer");
  if (OrtStatus* bad = check_pointers("CreateModelCompilationOptionsFromSessionOptions", {{"out", out}})) return bad;
  return make_object(out, *session_options);
}

void compile_api::ReleaseModelCompilationOptions(OrtModelCompilationOptions* input) noexcept { delete input; }

OrtStatus* compile_api::ModelCompilationOptions_SetInputModelPath(OrtModelCompilationOptions* model_compile_options,
                                                                  const ORTCHAR_T* input_model_path) noexcept {
  return set_option("ModelCompilationOptions_SetInputModelPath", model_compile_options, [&](auto& options) {
    if (is_empty(input_model_path)) return invalid("Invalid input model: path string is empty");
    options.input = std::string(input_model_path);
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetInputModelFromBuffer(
    OrtModelCompilationOptions* model_compile_options, const void* input_model_data,
    size_t input_model_data_size) noexcept {
  return set_option("ModelCompilationOptions_SetInputModelFromBuffer", model_compile_options, [&](auto& options) {
    if (input_model_data == nullptr) return invalid("Invalid input model: data pointer is null");
    if (input_model_data_size == 0) return invalid("Invalid input model: data size is 0");
    options.input = std::span(static_cast<const std::byte*>(input_model_data), input_model_data_size);
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetInputModel(OrtModelCompilationOptions* model_compile_options,
                                                              const OrtModel* model) noexcept {
  return set_option("ModelCompilationOptions_SetInputModel", model_compile_options, [&](auto& options) {
    if (model == nullptr) return invalid("Invalid input model: OrtModel pointer is null");
    options.input = model;
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelPath(OrtModelCompilationOptions* model_compile_options,
                                                                   const ORTCHAR_T* output_model_path) noexcept {
  return set_option("ModelCompilationOptions_SetOutputModelPath", model_compile_options, [&](auto& options) {
    if (is_empty(output_model_path)) return invalid("Invalid output model path: path is empty");
    options.session.config_entries.set(kPathKey, output_model_path);
    options.output = std::string(output_model_path);
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelBuffer(OrtModelCompilationOptions* model_compile_options,
                                                                     OrtAllocator* allocator,
                                                                     void** output_model_buffer_ptr,
                                                                     size_t* output_model_buffer_size_ptr) noexcept {
  return set_option("ModelCompilationOptions_SetOutputModelBuffer", model_compile_options, [&](auto& options) {
    const CompileBuffer buffer{allocator, output_model_buffer_ptr, output_model_buffer_size_ptr};
    if (OrtStatus* bad = check_buffer(buffer, "Invalid allocator for output model buffer: allocator pointer is null",
                                      "Invalid output model buffer: data pointer is null",
                                      "Invalid output model buffer: size pointer is null"))
      return bad;
    options.output = buffer;
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelWriteFunc(
    OrtModelCompilationOptions* model_compile_options, OrtWriteBufferFunc write_func, void* state) noexcept {
  return set_option("ModelCompilationOptions_SetOutputModelWriteFunc", model_compile_options, [&](auto& options) {
    if (write_func == nullptr) return invalid("OrtWriteBufferFunc function for output model is null");
    options.output = CompileFunction{write_func, state};
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelExternalInitializersFile(
    OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* external_initializers_file_path,
    size_t external_initializers_size_threshold) noexcept {
  return set_option(
      "ModelCompilationOptions_SetOutputModelExternalInitializersFile", model_compile_options, [&](auto& options) {
        if (is_empty(external_initializers_file_path))
          return invalid("Invalid external initializer file: path is empty");
        options.initializers = InitializerFile{external_initializers_file_path, external_initializers_size_threshold};
        return static_cast<OrtStatus*>(nullptr);
      });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelExternalInitializersBuffer(
    OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* logical_file_name,
    size_t initializer_size_threshold, OrtAllocator* allocator, void** output_buffer,
    size_t* output_buffer_size) noexcept {
  return set_option("ModelCompilationOptions_SetOutputModelExternalInitializersBuffer", model_compile_options,
                    [&](auto& options) {
                      if (is_empty(logical_file_name) || std::filesystem::path(logical_file_name).is_absolute())
                        return invalid("External initializer logical file name must be a non-empty relative path");
                      const CompileBuffer buffer{allocator, output_buffer, output_buffer_size};
                      if (OrtStatus* bad = check_buffer(buffer, "External initializer buffer allocator is null",
                                                        "External initializer output buffer pointer is null",
                                                        "External initializer output buffer size pointer is null"))
                        return bad;
                      options.initializers = InitializerBuffer{logical_file_name, initializer_size_threshold, buffer};
                      return static_cast<OrtStatus*>(nullptr);
                    });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelExternalInitializersAlignment(
    OrtModelCompilationOptions* model_compile_options, size_t alignment, size_t minimum_size) noexcept {
  return set_option("ModelCompilationOptions_SetOutputModelExternalInitializersAlignment", model_compile_options,
                    [&](auto& options) {
                      if (alignment != 0 && !std::has_single_bit(alignment))
                        return invalid("External initializer alignment must be zero or a power of two");
                      if (alignment > static_cast<size_t>(std::numeric_limits<int64_t>::max()))
                        return invalid("External initializer alignment exceeds the ONNX signed 64-bit offset limit");
                      options.alignment = alignment;
                      options.least_aligned_bytes = minimum_size;
                      return static_cast<OrtStatus*>(nullptr);
                    });
}

OrtStatus* compile_api::ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(
    OrtModelCompilationOptions* model_compile_options, OrtGetInitializerLocationFunc get_initializer_location_func,
    void* state) noexcept {
  return set_option("ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc", model_compile_options,
                    [&](auto& options) {
                      if (get_initializer_location_func == nullptr)
                        return invalid("OrtGetInitializerLocationFunc function for output model is null");
                      options.initializers = InitializerFunction{get_initializer_location_func, state};
                      return static_cast<OrtStatus*>(nullptr);
                    });
}

OrtStatus* compile_api::ModelCompilationOptions_SetEpContextEmbedMode(OrtModelCompilationOptions* model_compile_options,
                                                                      bool embed_ep_context_in_model) noexcept {
  return set_option("ModelCompilationOptions_SetEpContextEmbedMode", model_compile_options, [&](auto& options) {
    options.session.config_entries.set(kEmbedKey, embed_ep_context_in_model ? "1" : "0");
    return static_cast<OrtStatus*>(nullptr);
  });
}

// EPs put their binaries beside "ep.context_file_path", whether or not the model goes there.
OrtStatus* compile_api::ModelCompilationOptions_SetEpContextBinaryInformation(
    OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* output_directory,
    const ORTCHAR_T* model_name) noexcept {
  return set_option("ModelCompilationOptions_SetEpContextBinaryInformation", model_compile_options, [&](auto& options) {
    if (is_empty(output_directory)) return invalid("Invalid output directory: path is empty");
    if (is_empty(model_name)) return invalid("Invalid model name: string is empty");
    const std::filesystem::path folder(output_directory);
    if (folder.has_filename() && folder.extension().empty()) return invalid("output_dir is not a valid directory.");
    options.session.config_entries.set(kPathKey, (folder / model_name).string());
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetEpContextDataWriteFunc(
    OrtModelCompilationOptions* model_compile_options, OrtWriteNamedBufferFunc write_func, void* state) noexcept {
  return set_option("ModelCompilationOptions_SetEpContextDataWriteFunc", model_compile_options, [&](auto& options) {
    options.session.ep_context.write = write_func;
    options.session.ep_context.write_state = state;
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetFlags(OrtModelCompilationOptions* model_compile_options,
                                                         uint32_t flags) noexcept {
  return set_option("ModelCompilationOptions_SetFlags", model_compile_options, [&](auto& options) {
    options.flags = flags;
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetGraphOptimizationLevel(
    OrtModelCompilationOptions* model_compile_options, GraphOptimizationLevel graph_optimization_level) noexcept {
  return set_option("ModelCompilationOptions_SetGraphOptimizationLevel", model_compile_options, [&](auto& options) {
    switch (graph_optimization_level) {
      case ORT_DISABLE_ALL:
      case ORT_ENABLE_BASIC:
      case ORT_ENABLE_EXTENDED:
      case ORT_ENABLE_LAYOUT:
      case ORT_ENABLE_ALL:
        options.session.optimization_level = graph_optimization_level;
        return static_cast<OrtStatus*>(nullptr);
    }
    return ort_error(ORT_INVALID_ARGUMENT,
                     "graph_optimization_level with value {} is invalid. Valid values are: ORT_DISABLE_ALL (0), "
                     "ORT_ENABLE_BASIC (1), ORT_ENABLE_EXTENDED (2), ORT_ENABLE_LAYOUT (3), and ORT_ENABLE_ALL (99).",
                     static_cast<int>(graph_optimization_level));
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetWeightlessEnabled(OrtModelCompilationOptions* model_compile_options,
                                                                     bool use_weightless) noexcept {
  return set_option("ModelCompilationOptions_SetWeightlessEnabled", model_compile_options, [&](auto& options) {
    options.session.config_entries.set(kWeightlessKey, use_weightless ? "1" : "0");
    return static_cast<OrtStatus*>(nullptr);
  });
}

OrtStatus* compile_api::ModelCompilationOptions_SetWeightlessMode(OrtModelCompilationOptions* model_compile_options,
                                                                  OrtWeightlessSupport mode) noexcept {
  return set_option("ModelCompilationOptions_SetWeightlessMode", model_compile_options, [&](auto& options) {
    if (mode < OrtWeightlessSupport_NONE || mode > OrtWeightlessSupport_ALL)
      return ort_error(ORT_INVALID_ARGUMENT,
                       "weightless_mode with value {} is invalid. Valid values are: OrtWeightlessSupport_NONE (0), "
                       "OrtWeightlessSupport_EXTERNAL_ONLY (1), and OrtWeightlessSupport_ALL (2).",
                       static_cast<int>(mode));
    options.session.config_entries.set(kWeightlessModeKey, std::to_string(static_cast<int>(mode)));
    return static_cast<OrtStatus*>(nullptr);
  });
}

}  // namespace tenon::abi
