// OrtLoraAdapter, and runs with adapters.
#include "abi/lora_adapter.h"

#include <sys/stat.h>
#include <tenon/ep.h>

#include "abi/objects/allocator.h"
#include "abi/objects/run_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

// A copy of `value` in memory of `allocator`, which is a device's.
OrtStatus* copy_to(OrtAllocator* allocator, OrtValue& value) {
  const Shape shape = value.shape;
  OrtValue* made = nullptr;
  if (OrtStatus* bad =
          kOrtApi.CreateTensorAsOrtValue(allocator, shape.begin(), shape.dims().size(), value.element_type, &made))
    return bad;
  const std::unique_ptr<OrtValue> owned(made);
  const Status copied = tenon::copy(owned->tensor, value.tensor);
  if (copied.ok()) value = std::move(*owned);
  return to_ort(copied);
}

OrtStatus* make_adapter(LoraAdapter adapter, OrtAllocator* allocator, OrtLoraAdapter** out) {
  if (allocator != nullptr) {
    const OrtMemoryInfo* info = nullptr;
    if (OrtStatus* bad = ort_api::AllocatorGetInfo(allocator, &info)) return bad;
    if (info == nullptr || info->device == OrtMemoryDevice{})
      return make_ort_status(ORT_FAIL, "The allocator of an adapter is a device's; for host memory give none.");
  }
  auto parameters = std::make_shared<std::vector<AdapterParameter>>();
  for (auto& [name, tensor] : adapter.parameters) {
    parameters->push_back({std::move(name), make_value(std::move(tensor))});
    if (allocator == nullptr) continue;
    if (OrtStatus* bad = copy_to(allocator, parameters->back().value)) return bad;
  }
  *out = new OrtLoraAdapter{std::move(parameters)};
  return nullptr;
}

}  // namespace

void add_adapters(const OrtRunOptions& options, std::vector<const char*>& names, std::vector<const OrtValue*>& values) {
  for (const auto& parameters : options.adapters) {
    for (const AdapterParameter& parameter : *parameters) {
      names.push_back(parameter.name.c_str());
      values.push_back(&parameter.value);
    }
  }
}

OrtStatus* ort_api::CreateLoraAdapter(const ORTCHAR_T* adapter_file_path, OrtAllocator* allocator,
                                      OrtLoraAdapter** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateLoraAdapter", {{"adapter_file_path", adapter_file_path}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    struct stat info;
    if (::stat(adapter_file_path, &info) != 0)
      return ort_error(ORT_INVALID_ARGUMENT, "The adapter \"{}\" is not there.", adapter_file_path);
    Result<LoraAdapter> adapter = LoraAdapter::load(adapter_file_path);
    // The reference's code for every file that it cannot read.
    if (!adapter.ok()) return to_ort(adapter.status(), ORT_FAIL);
    return make_adapter(*std::move(adapter), allocator, out);
  });
}

OrtStatus* ort_api::CreateLoraAdapterFromArray(const void* bytes, size_t num_bytes, OrtAllocator* allocator,
                                               OrtLoraAdapter** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateLoraAdapterFromArray", {{"bytes", bytes}, {"out", out}})) return bad;
  return guarded([&]() -> OrtStatus* {
    Result<LoraAdapter> adapter = LoraAdapter::read({static_cast<const std::byte*>(bytes), num_bytes});
    if (!adapter.ok()) return to_ort(adapter.status(), ORT_FAIL);
    return make_adapter(*std::move(adapter), allocator, out);
  });
}

void ort_api::ReleaseLoraAdapter(OrtLoraAdapter* input) noexcept { delete input; }

OrtStatus* ort_api::RunOptionsAddActiveLoraAdapter(OrtRunOptions* options, const OrtLoraAdapter* adapter) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsAddActiveLoraAdapter", {{"options", options}, {"adapter", adapter}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    options->adapters.push_back(adapter->parameters);
    return nullptr;
  });
}

}  // namespace tenon::abi
