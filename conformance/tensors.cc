#include "conformance/tensors.h"

namespace tenon::conformance {

namespace {

constexpr uint32_t kSinceCopyTensors = 23;

// The value of out parameters before a call, so that one that is never set is seen.
template <typename T>
T* unset() {
  return reinterpret_cast<T*>(uintptr_t{0x10});
}

// *out from a call that sets an object or gives a status. After a failure stock hosts leave the out parameter as it
// was; ours clears it.
template <typename T>
Outcome finish(Check& check, Outcome outcome, T* object, void(ORT_API_CALL* release)(T*), const char* what,
               Owned<T>* out) {
  if (outcome.ok()) {
    check.expect(object != nullptr, format("{} gives null, with success.", what));
    *out = check.host().own(object, release);
  } else if (check.host().is_tenon()) {
    check.expect(object == nullptr, format("{} fails and leaves its out parameter set.", what));
  } else {
    check.expect(object == nullptr || object == unset<T>(), format("{} fails and gives an object.", what));
  }
  return outcome;
}

}  // namespace

Outcome import_memory(Check& check, OrtExternalResourceImporter* importer,
                      const OrtExternalMemoryDescriptor& descriptor, Owned<OrtExternalMemoryHandle>* out) {
  auto* handle = unset<OrtExternalMemoryHandle>();
  Outcome outcome = check.take(check.interop().ImportMemory(importer, &descriptor, &handle));
  return finish(check, std::move(outcome), handle, check.interop().ReleaseExternalMemoryHandle, "ImportMemory", out);
}

Owned<OrtExternalMemoryHandle> import_all(Check& check, SharedMemory& memory) {
  Owned<OrtExternalMemoryHandle> handle;
  const Outcome outcome = import_memory(check, check.importer(), memory.descriptor(check.host().version()), &handle);
  if (check.expect_ok(outcome, "ImportMemory")) memory.take_on_success();
  return handle;
}

Outcome create_tensor(Check& check, OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* handle,
                      const OrtExternalTensorDescriptor& descriptor, Owned<OrtValue>* out) {
  auto* value = unset<OrtValue>();
  Outcome outcome = check.take(check.interop().CreateTensorFromMemory(importer, handle, &descriptor, &value));
  return finish(check, std::move(outcome), value, check.api().ReleaseValue, "CreateTensorFromMemory", out);
}

OrtExternalTensorDescriptor describe_tensor(Check& check, const std::vector<int64_t>& shape, size_t offset_bytes,
                                            ONNXTensorElementDataType type) {
  OrtExternalTensorDescriptor descriptor = {};
  descriptor.version = check.host().version();
  descriptor.element_type = type;
  descriptor.shape = shape.data();
  descriptor.rank = shape.size();
  descriptor.offset_bytes = offset_bytes;
  return descriptor;
}

Owned<OrtValue> make_tensor(Check& check, const OrtExternalMemoryHandle* handle, const std::vector<int64_t>& shape,
                            size_t offset_bytes) {
  Owned<OrtValue> value;
  check.expect_ok(create_tensor(check, check.importer(), handle, describe_tensor(check, shape, offset_bytes), &value),
                  "CreateTensorFromMemory");
  return value;
}

Outcome import_semaphore(Check& check, const OrtExternalSemaphoreDescriptor& descriptor,
                         Owned<OrtExternalSemaphoreHandle>* out) {
  auto* handle = unset<OrtExternalSemaphoreHandle>();
  Outcome outcome = check.take(check.interop().ImportSemaphore(check.importer(), &descriptor, &handle));
  return finish(check, std::move(outcome), handle, check.interop().ReleaseExternalSemaphoreHandle, "ImportSemaphore",
                out);
}

Owned<OrtExternalSemaphoreHandle> import_all(Check& check, SharedSemaphore& semaphore) {
  Owned<OrtExternalSemaphoreHandle> handle;
  const Outcome outcome = import_semaphore(check, semaphore.descriptor(check.host().version()), &handle);
  if (check.expect_ok(outcome, "ImportSemaphore")) semaphore.take_on_success();
  return handle;
}

OwnImporter::OwnImporter(Check& check)
    : check_(check), impl_(check.host().is_tenon() ? check.host().plugin_importer() : nullptr) {}

OwnImporter::~OwnImporter() {
  if (impl_ != nullptr && impl_->Release != nullptr) impl_->Release(impl_);
}

Outcome OwnImporter::import_memory(const OrtExternalMemoryDescriptor& descriptor,
                                   Owned<OrtExternalMemoryHandle>* out) const {
  OrtExternalMemoryHandle* handle = nullptr;
  Outcome outcome = check_.take(impl_->ImportMemory(impl_, &descriptor, &handle));
  if (outcome.ok()) *out = check_.host().own(handle, handle->Release);
  return outcome;
}

Outcome OwnImporter::import_semaphore(const OrtExternalSemaphoreDescriptor& descriptor,
                                      Owned<OrtExternalSemaphoreHandle>* out) const {
  OrtExternalSemaphoreHandle* handle = nullptr;
  Outcome outcome = check_.take(impl_->ImportSemaphore(impl_, &descriptor, &handle));
  if (outcome.ok()) *out = check_.host().own(handle, handle->Release);
  return outcome;
}

Outcome OwnImporter::create_tensor(const OrtExternalMemoryHandle* memory, const OrtExternalTensorDescriptor& descriptor,
                                   Owned<OrtValue>* out) const {
  OrtValue* value = nullptr;
  Outcome outcome = check_.take(impl_->CreateTensorFromMemory(impl_, memory, &descriptor, &value));
  if (outcome.ok()) *out = check_.host().own(value, check_.api().ReleaseValue);
  return outcome;
}

bool host_reads(Check& check, const OrtValue* value) {
  const OrtMemoryInfo* info = nullptr;
  if (!check.take(check.api().GetTensorMemoryInfo(value, &info)).ok()) return false;
  OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_GPU;
  check.api().MemoryInfoGetDeviceType(info, &device);
  return device == OrtMemoryInfoDeviceType_CPU ||
         check.api().MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

Result<std::vector<float>> read_floats(Check& check, const OrtValue* value, const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
  std::vector<float> elements(count);
  if (host_reads(check, value)) {
    void* data = nullptr;
    TENON_TRY(to_status(check.take(check.api().GetTensorMutableData(const_cast<OrtValue*>(value), &data)),
                        "GetTensorMutableData"));
    std::memcpy(elements.data(), data, count * sizeof(float));
    return elements;
  }
  if (check.host().version() < kSinceCopyTensors) return unsupported("The host has no CopyTensors.");
  TENON_TRY_ASSIGN(const auto copy, check.host().tensor_over(elements, shape));
  OrtValue* const raw_copy = copy.get();
  TENON_TRY(
      to_status(check.take(check.api().CopyTensors(check.host().env(), &value, &raw_copy, nullptr, 1)), "CopyTensors"));
  return elements;
}

}  // namespace tenon::conformance
