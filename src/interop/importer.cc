#include "interop/importer.h"

#include <tenon/external_handles.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/status.h"
#include "device/element.h"
#include "interop/dlpack_memory.h"
#include "interop/external_handle.h"
#include "interop/fd_memory.h"

namespace tenon {

namespace {

constexpr const char* kImportName = "external memory";

// The caller's fd, closed only when the import has taken it.
template <typename Import>
auto import_with_fd(int fd, const Import& import) {
  OwnedHandle handle = OwnedHandle::take_fd(fd);
  auto result = import(handle);
  (void)handle.release_fd();
  return result;
}

// Owns the program's user_data from a successful import on.
class CallbackOwner {
 public:
  explicit CallbackOwner(const TenonTimelineCallbacks& callbacks) : callbacks_(callbacks) {}
  CallbackOwner(const CallbackOwner&) = delete;
  CallbackOwner& operator=(const CallbackOwner&) = delete;
  ~CallbackOwner() {
    if (owns_ && callbacks_.release != nullptr) callbacks_.release(callbacks_.user_data);
  }
  void take() { owns_ = true; }

  Result<uint64_t> value() const {
    uint64_t value = 0;
    const int32_t answer = callbacks_.value(callbacks_.user_data, &value);
    if (answer != TENON_TIMELINE_OK) return failure("value", answer);
    return value;
  }
  Status wait(uint64_t value, int64_t timeout_ns) const {
    const int32_t answer = callbacks_.wait(callbacks_.user_data, value, timeout_ns);
    if (answer == TENON_TIMELINE_TIMEOUT)
      return cancelled("The timeline does not reach {} within {} ns.", value, timeout_ns);
    return answer == TENON_TIMELINE_OK ? Status() : failure("wait", answer);
  }
  Status signal(uint64_t value) const {
    const int32_t answer = callbacks_.signal(callbacks_.user_data, value);
    return answer == TENON_TIMELINE_OK ? Status() : failure("signal", answer);
  }

 private:
  static Status failure(const char* what, int32_t answer) {
    if (answer == TENON_TIMELINE_LOST)
      return device_lost("The {} callback of the timeline says that its device is gone.", what);
    return device_error("The {} callback of the timeline fails with {}.", what, answer);
  }

  const TenonTimelineCallbacks callbacks_;
  bool owns_ = false;
};

Result<std::shared_ptr<Timeline>> import_callbacks(void* native_handle) {
  TENON_INVALID_IF(native_handle == nullptr, "native_handle is null; it takes a TenonTimelineCallbacks.");
  const auto& callbacks = *static_cast<const TenonTimelineCallbacks*>(native_handle);
  TENON_INVALID_IF(callbacks.version != TENON_TIMELINE_CALLBACKS_VERSION,
                   "TenonTimelineCallbacks.version ({}) is unknown; this build knows {}.", callbacks.version,
                   TENON_TIMELINE_CALLBACKS_VERSION);
  const char* missing = callbacks.value == nullptr    ? "value"
                        : callbacks.wait == nullptr   ? "wait"
                        : callbacks.signal == nullptr ? "signal"
                                                      : nullptr;
  TENON_INVALID_IF(missing != nullptr, "TenonTimelineCallbacks.{} is null.", missing);
  TENON_FAULT_POINT("allocate");
  auto owner = std::make_shared<CallbackOwner>(callbacks);
  TENON_TRY_ASSIGN(std::shared_ptr<Timeline> timeline,
                   make_callback_timeline(
                       "external semaphore",
                       {.value = [owner] { return owner->value(); },
                        .wait = [owner](uint64_t value, int64_t timeout_ns) { return owner->wait(value, timeout_ns); },
                        .signal = [owner](uint64_t value) { return owner->signal(value); }}));
  owner->take();
  return timeline;
}

Result<std::shared_ptr<Timeline>> import_shared_timeline(void* native_handle) {
  const auto fd = reinterpret_cast<intptr_t>(native_handle);
  TENON_INVALID_IF(fd < 0 || fd > INT32_MAX, "native_handle ({}) of a shared timeline is no file descriptor.", fd);
  return import_with_fd(static_cast<int>(fd), [&](OwnedHandle& handle) -> Result<std::shared_ptr<Timeline>> {
    TENON_TRY_ASSIGN(std::shared_ptr<SharedTimeline> timeline, SharedTimeline::open("external semaphore", handle.fd()));
    handle.reset();  // the timeline has a duplicate
    return std::shared_ptr<Timeline>(std::move(timeline));
  });
}

}  // namespace

bool can_import_memory(uint32_t handle_type) {
  return handle_type == TENON_EXTERNAL_MEMORY_DESCRIBED ||
         ExternalMemory::can_import(static_cast<ExternalMemoryKind>(handle_type));
}

bool can_import_semaphore(uint32_t type) {
  return (type == TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD && kFdsShareMemory) ||
         type == TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS;
}

Result<std::shared_ptr<ExternalMemory>> import_memory(uint32_t handle_type, void* native_handle, size_t size_bytes,
                                                      size_t offset_bytes) {
  TENON_UNSUPPORTED_IF(!can_import_memory(handle_type), "The CPU device cannot import external memory of kind {}.",
                       external_memory_kind_name(static_cast<ExternalMemoryKind>(handle_type)));
  TENON_INVALID_IF(size_bytes == 0, "size_bytes is 0.");
  TENON_TRY_ASSIGN(const ExternalHandle native, read_external_handle(handle_type, native_handle));
  const ExternalMemoryDescriptor descriptor = {.kind = native.kind,
                                               .size_bytes = size_bytes,
                                               .offset_bytes = offset_bytes,
                                               .writable = !native.read_only,
                                               .name = kImportName};
  switch (native.type) {
    case HandleType::kFd:
      return import_with_fd(native.fd, [&](OwnedHandle& handle) { return ExternalMemory::import(handle, descriptor); });
    case HandleType::kDlpack:
      return native.dlpack_versioned ? import_dlpack(static_cast<DLManagedTensorVersioned*>(native.pointer), descriptor)
                                     : import_dlpack(static_cast<DLManagedTensor*>(native.pointer), descriptor);
    case HandleType::kPointer:
    case HandleType::kNtHandle:
    case HandleType::kIpc:
      break;
  }
  OwnedHandle handle = OwnedHandle::borrow_pointer(native.pointer);
  return ExternalMemory::import(handle, descriptor);
}

Result<std::shared_ptr<Timeline>> import_semaphore(uint32_t type, void* native_handle) {
  TENON_UNSUPPORTED_IF(!can_import_semaphore(type), "The CPU device cannot import semaphores of type {:#x}.", type);
  return type == TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS ? import_callbacks(native_handle)
                                                         : import_shared_timeline(native_handle);
}

Result<size_t> check_imported_tensor(DataType type, const Shape& shape, size_t offset_bytes, size_t import_size_bytes,
                                     const std::string& name) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  const size_t alignment = data_type_alignment(type);
  TENON_INVALID_IF(offset_bytes % alignment != 0, "Offset ({}) in \"{}\" is not aligned to {} bytes, which {} needs.",
                   offset_bytes, name, alignment, data_type_name(type));
  const auto end = checked_add(offset_bytes, bytes);
  TENON_INVALID_IF(!end || *end > import_size_bytes,
                   "Offset ({}) plus {} bytes of a {} tensor of shape {} exceed the {} bytes of \"{}\".", offset_bytes,
                   bytes, data_type_name(type), shape.to_string(), import_size_bytes, name);
  return bytes;
}

}  // namespace tenon
