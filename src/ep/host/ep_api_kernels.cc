// OrtEpApi: data types, kernel definitions and registries.
#include <algorithm>
#include <array>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/api/abi_since.h"
#include "ep/host/kernel_registry.h"

namespace tenon::abi {

namespace {

// The reference has no tensors of complex numbers.
constexpr bool is_tensor_type(int type) {
  return type > ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED && type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 &&
         type != ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128;
}

constexpr auto kDataTypes = [] {
  std::array<OrtDataType, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 + 1> types{};
  for (size_t i = 0; i < types.size(); ++i) types[i].element = static_cast<ONNXTensorElementDataType>(i);
  return types;
}();

OrtStatus* set_text(OrtKernelDefBuilder* builder, const char* name, const char* text,
                    std::string OrtKernelDef::* member) noexcept {
  if (builder == nullptr) return null_argument("kernel_def_builder");
  if (text == nullptr) return null_argument(name);
  return guarded([&]() -> OrtStatus* {
    builder->def.*member = text;
    return nullptr;
  });
}

OrtStatus* add_aliases(OrtKernelDefBuilder* builder, const int* inputs, const int* outputs, size_t count,
                       std::vector<std::pair<int, int>> OrtKernelDef::* member, const char* suffix) noexcept {
  if (builder == nullptr) return null_argument("kernel_def_builder");
  if (count == 0) return ort_error(ORT_INVALID_ARGUMENT, "Must specify at least one input/output alias{}", suffix);
  if (inputs == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid array of input indices to alias{}", suffix);
  if (outputs == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid array of output indices to alias{}", suffix);
  return guarded([&]() -> OrtStatus* {
    for (size_t i = 0; i < count; ++i) {
      if (inputs[i] < 0 || outputs[i] < 0)
        return ort_error(ORT_INVALID_ARGUMENT, "Alias {} is of input {} and output {}.", i, inputs[i], outputs[i]);
    }
    for (size_t i = 0; i < count; ++i) (builder->def.*member).emplace_back(inputs[i], outputs[i]);
    return nullptr;
  });
}

}  // namespace

OrtStatus* ep_api::GetTensorDataType(ONNXTensorElementDataType elem_type, const OrtDataType** out) noexcept {
  clear(out);
  if (out == nullptr) return null_argument("out");
  const int type = static_cast<int>(elem_type);
  if (!is_tensor_type(type)) return ort_error(ORT_NOT_IMPLEMENTED, "tensor type {} is not supported", type);
  *out = &kDataTypes[static_cast<size_t>(type)];
  return nullptr;
}

OrtStatus* ep_api::CreateKernelDefBuilder(OrtKernelDefBuilder** kernel_def_builder_out) noexcept {
  clear(kernel_def_builder_out);
  if (kernel_def_builder_out == nullptr) return null_argument("kernel_def_builder_out");
  return make_object(kernel_def_builder_out);
}

void ep_api::ReleaseKernelDefBuilder(OrtKernelDefBuilder* input) noexcept { delete input; }

OrtStatus* ep_api::KernelDefBuilder_SetOperatorType(OrtKernelDefBuilder* kernel_def_builder,
                                                    const char* op_type) noexcept {
  return set_text(kernel_def_builder, "op_type", op_type, &OrtKernelDef::op_type);
}

OrtStatus* ep_api::KernelDefBuilder_SetDomain(OrtKernelDefBuilder* kernel_def_builder, const char* domain) noexcept {
  return set_text(kernel_def_builder, "domain", domain, &OrtKernelDef::domain);
}

OrtStatus* ep_api::KernelDefBuilder_SetExecutionProvider(OrtKernelDefBuilder* kernel_def_builder,
                                                         const char* ep_name) noexcept {
  return set_text(kernel_def_builder, "ep_name", ep_name, &OrtKernelDef::ep_name);
}

OrtStatus* ep_api::KernelDefBuilder_SetSinceVersion(OrtKernelDefBuilder* kernel_def_builder, int since_version_start,
                                                    int since_version_end) noexcept {
  if (kernel_def_builder == nullptr) return null_argument("kernel_def_builder");
  if (since_version_start < 1) return ort_error(ORT_INVALID_ARGUMENT, "Start version must be >= 1");
  if (since_version_end < since_version_start)
    return ort_error(ORT_INVALID_ARGUMENT, "End version must be >= to the start version");
  kernel_def_builder->def.since_start = since_version_start;
  kernel_def_builder->def.since_end = since_version_end;
  return nullptr;
}

// The first call for an index counts, as in the reference.
OrtStatus* ep_api::KernelDefBuilder_SetInputMemType(OrtKernelDefBuilder* kernel_def_builder, size_t input_index,
                                                    OrtMemType mem_type) noexcept {
  if (kernel_def_builder == nullptr) return null_argument("kernel_def_builder");
  return guarded([&]() -> OrtStatus* {
    kernel_def_builder->def.input_memory.try_emplace(input_index, mem_type);
    return nullptr;
  });
}

OrtStatus* ep_api::KernelDefBuilder_SetOutputMemType(OrtKernelDefBuilder* kernel_def_builder, size_t output_index,
                                                     OrtMemType mem_type) noexcept {
  if (kernel_def_builder == nullptr) return null_argument("kernel_def_builder");
  return guarded([&]() -> OrtStatus* {
    kernel_def_builder->def.output_memory.try_emplace(output_index, mem_type);
    return nullptr;
  });
}

OrtStatus* ep_api::KernelDefBuilder_AddTypeConstraint(OrtKernelDefBuilder* kernel_def_builder, const char* arg_name,
                                                      const OrtDataType* const* types, size_t num_types) noexcept {
  if (kernel_def_builder == nullptr) return null_argument("kernel_def_builder");
  if (arg_name == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid name for a kernel definition's type constraint");
  if (num_types == 0) return ort_error(ORT_INVALID_ARGUMENT, "Must specify at least one OrtDataType instance");
  if (types == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid array of OrtDataType instances");
  if (std::find(types, types + num_types, nullptr) != types + num_types)
    return ort_error(ORT_INVALID_ARGUMENT, "One of the {} types of constraint \"{}\" is null.", num_types, arg_name);
  return guarded([&]() -> OrtStatus* {
    kernel_def_builder->def.constraints[arg_name].assign(types, types + num_types);
    return nullptr;
  });
}

OrtStatus* ep_api::KernelDefBuilder_AddInputOutputAliases(OrtKernelDefBuilder* kernel_def_builder,
                                                          int const* input_indices, int const* output_indices,
                                                          size_t num_io_indices) noexcept {
  return add_aliases(kernel_def_builder, input_indices, output_indices, num_io_indices, &OrtKernelDef::aliases, "");
}

OrtStatus* ep_api::KernelDefBuilder_AddInputOutputMutableAliases(OrtKernelDefBuilder* kernel_def_builder,
                                                                 int const* input_indices, int const* output_indices,
                                                                 size_t num_io_indices) noexcept {
  return add_aliases(kernel_def_builder, input_indices, output_indices, num_io_indices, &OrtKernelDef::mutable_aliases,
                     " (mutable)");
}

OrtStatus* ep_api::KernelDefBuilder_Build(OrtKernelDefBuilder* kernel_def_builder,
                                          OrtKernelDef** kernel_def_out) noexcept {
  clear(kernel_def_out);
  if (kernel_def_builder == nullptr) return null_argument("kernel_def_builder");
  if (kernel_def_out == nullptr) return null_argument("kernel_def_out");
  return make_object(kernel_def_out, kernel_def_builder->def);
}

void ep_api::ReleaseKernelDef(OrtKernelDef* input) noexcept { delete input; }

const char* ep_api::KernelDef_GetOperatorType(const OrtKernelDef* kernel_def) noexcept {
  return kernel_def != nullptr ? kernel_def->op_type.c_str() : "";
}

const char* ep_api::KernelDef_GetDomain(const OrtKernelDef* kernel_def) noexcept {
  return kernel_def != nullptr ? kernel_def->domain.c_str() : "";
}

const char* ep_api::KernelDef_GetExecutionProvider(const OrtKernelDef* kernel_def) noexcept {
  return kernel_def != nullptr ? kernel_def->ep_name.c_str() : "";
}

OrtStatus* ep_api::KernelDef_GetSinceVersion(const OrtKernelDef* kernel_def, int* start_version,
                                             int* end_version) noexcept {
  if (OrtStatus* bad = get_from("kernel_def", kernel_def, "start_version", start_version,
                                [](const OrtKernelDef& def) { return def.since_start; }))
    return bad;
  return get_from("kernel_def", kernel_def, "end_version", end_version,
                  [](const OrtKernelDef& def) { return def.since_end; });
}

OrtStatus* ep_api::KernelDef_GetInputMemType(const OrtKernelDef* kernel_def, size_t input_index,
                                             OrtMemType* mem_type) noexcept {
  return get_from("kernel_def", kernel_def, "mem_type", mem_type,
                  [&](const OrtKernelDef& def) { return def.input_mem_type(input_index); });
}

OrtStatus* ep_api::KernelDef_GetOutputMemType(const OrtKernelDef* kernel_def, size_t output_index,
                                              OrtMemType* mem_type) noexcept {
  return get_from("kernel_def", kernel_def, "mem_type", mem_type,
                  [&](const OrtKernelDef& def) { return def.output_mem_type(output_index); });
}

OrtStatus* ep_api::CreateKernelRegistry(OrtKernelRegistry** kernel_registry) noexcept {
  clear(kernel_registry);
  if (kernel_registry == nullptr) return null_argument("kernel_registry");
  return make_object(kernel_registry);
}

void ep_api::ReleaseKernelRegistry(OrtKernelRegistry* input) noexcept { delete input; }

OrtStatus* ep_api::KernelRegistry_AddKernel(OrtKernelRegistry* kernel_registry, const OrtKernelDef* kernel_def,
                                            OrtKernelCreateFunc kernel_create_func,
                                            void* kernel_create_func_state) noexcept {
  if (kernel_registry == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Must specify a non-null OrtKernelRegistry");
  if (kernel_def == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Must specify a non-null OrtKernelDef");
  if (kernel_create_func == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a non-null OrtKernelCreateFunc");
  return guarded([&]() -> OrtStatus* {
    kernel_registry->entries.push_back(
        {std::make_unique<const OrtKernelDef>(*kernel_def), kernel_create_func, kernel_create_func_state});
    return nullptr;
  });
}

// The kernel's own Release, if its version has one.
void ep_api::ReleaseKernelImpl(OrtKernelImpl* input) noexcept {
  if (input != nullptr && input->ort_version_supported >= abi_since::kOrtKernelImpl_Release &&
      input->Release != nullptr)
    input->Release(input);
}

}  // namespace tenon::abi
