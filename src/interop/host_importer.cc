// The kinds of memory and timelines that the host imports, and their functions in C and C++.
#include <tenon/external_handles.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/status.h"
#include "device/element.h"
#include "interop/dlpack_memory.h"
#include "interop/fd_memory.h"
#include "interop/importer.h"

namespace tenon {

namespace {

class HostAllocation final : public ExternalMemory {
 public:
  HostAllocation(const ExternalMemoryDescriptor& descriptor, void* data) : descriptor_(descriptor), data_(data) {}

  void* data() const override { return data_; }
  size_t size_bytes() const override { return descriptor_.size_bytes; }
  ExternalMemoryKind kind() const override { return descriptor_.kind; }
  const std::string& name() const override { return descriptor_.name; }
  bool writable() const override { return descriptor_.writable; }
  Status check() const override { return Status(); }

 private:
  const ExternalMemoryDescriptor descriptor_;
  void* const data_;
};

Result<std::shared_ptr<ExternalMemory>> map_host_allocation(const ExternalHandle& handle,
                                                            const ExternalMemoryDescriptor& descriptor,
                                                            const std::string& what) {
  const auto address = reinterpret_cast<uintptr_t>(handle.pointer);
  const auto begin = checked_add<uintptr_t>(address, descriptor.offset_bytes);
  TENON_INVALID_IF(!begin || !checked_add<uintptr_t>(*begin, descriptor.size_bytes),
                   "Address ({:#x}) plus offset ({}) plus size ({}) of {} wrap around.", address,
                   descriptor.offset_bytes, descriptor.size_bytes, what);
  TENON_FAULT_POINT("allocate");
  return std::shared_ptr<ExternalMemory>(std::make_shared<HostAllocation>(descriptor, reinterpret_cast<void*>(*begin)));
}

// Owns the program's user_data when the import has taken it.
class CallbackOwner {
 public:
  CallbackOwner(const TenonTimelineCallbacks& callbacks, std::shared_ptr<bool> taken)
      : callbacks_(callbacks), taken_(std::move(taken)) {}
  CallbackOwner(const CallbackOwner&) = delete;
  CallbackOwner& operator=(const CallbackOwner&) = delete;
  ~CallbackOwner() {
    if ((taken_ == nullptr || *taken_) && callbacks_.release != nullptr) callbacks_.release(callbacks_.user_data);
  }

  Result<uint64_t> value() const {
    uint64_t value = 0;
    const int32_t answer = callbacks_.value(callbacks_.user_data, &value);
    if (answer != TENON_TIMELINE_OK) return failure("value", answer);
    return value;
  }
  Status wait(uint64_t value, int64_t timeout_ns) const {
    const int32_t answer = callbacks_.wait(callbacks_.user_data, value, timeout_ns);
    if (answer == TENON_TIMELINE_TIMEOUT)
      return timed_out("The timeline does not reach {} within {} ns.", value, timeout_ns);
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
  const std::shared_ptr<bool> taken_;
};

Result<std::shared_ptr<Timeline>> open_callbacks(const ExternalSemaphore& semaphore, std::string name) {
  const auto& callbacks = *static_cast<const TenonTimelineCallbacks*>(semaphore.pointer);
  TENON_INVALID_IF(callbacks.version != TENON_TIMELINE_CALLBACKS_VERSION,
                   "TenonTimelineCallbacks.version ({}) is unknown; this build knows {}.", callbacks.version,
                   TENON_TIMELINE_CALLBACKS_VERSION);
  const char* missing = callbacks.value == nullptr    ? "value"
                        : callbacks.wait == nullptr   ? "wait"
                        : callbacks.signal == nullptr ? "signal"
                                                      : nullptr;
  TENON_INVALID_IF(missing != nullptr, "TenonTimelineCallbacks.{} is null.", missing);
  TENON_FAULT_POINT("allocate");
  auto owner = std::make_shared<CallbackOwner>(callbacks, semaphore.taken);
  return make_callback_timeline(
      std::move(name), {.value = [owner] { return owner->value(); },
                        .wait = [owner](uint64_t value, int64_t timeout_ns) { return owner->wait(value, timeout_ns); },
                        .signal = [owner](uint64_t value) { return owner->signal(value); }});
}

Result<std::shared_ptr<Timeline>> open_shared_timeline(const ExternalSemaphore& semaphore, std::string name) {
  TENON_TRY_ASSIGN(std::shared_ptr<SharedTimeline> timeline, SharedTimeline::open(std::move(name), semaphore.fd));
  return std::shared_ptr<Timeline>(std::move(timeline));
}

// How the host imports a kind, or why it does not. A kind without a row is not imported.
struct HostMemoryKind {
  ExternalMemoryKind kind;
  Result<std::shared_ptr<ExternalMemory>> (*map)(const ExternalHandle& handle,
                                                 const ExternalMemoryDescriptor& descriptor,
                                                 const std::string& what) = nullptr;
  const char* why_not = "";  // a half sentence
};
constexpr HostMemoryKind kHostMemoryKinds[] = {
    {ExternalMemoryKind::kVulkanOpaqueFd, &map_fd},
    {ExternalMemoryKind::kMappableFd, &map_fd},
    {ExternalMemoryKind::kHostAllocation, &map_host_allocation},
    {ExternalMemoryKind::kDlpack, &map_dlpack},
    {ExternalMemoryKind::kD3d12Resource, nullptr, "the CPU device has no Direct3D 12"},
    {ExternalMemoryKind::kD3d12Heap, nullptr, "the CPU device has no Direct3D 12"},
    {ExternalMemoryKind::kVulkanOpaqueWin32, nullptr, "the CPU device maps no NT handles"},
    {ExternalMemoryKind::kCudaVmmFd, nullptr, "the CPU device has no CUDA"},
    {ExternalMemoryKind::kCudaIpc, nullptr, "the CPU device has no CUDA"},
    {ExternalMemoryKind::kDmaBufFd, nullptr,
     "the CPU device orders nothing against a dma-buf's device; one that maps can be imported as a mappable_fd"},
};

struct HostTimelineKind {
  TimelineKind kind;
  Result<std::shared_ptr<Timeline>> (*open)(const ExternalSemaphore& semaphore, std::string name);
};
constexpr HostTimelineKind kHostTimelineKinds[] = {
    {TimelineKind::kSharedTimelineFd, &open_shared_timeline},
    {TimelineKind::kHostCallbacks, &open_callbacks},
};

template <size_t kCount, typename Row, typename Kind>
const Row* find_row(const Row (&rows)[kCount], Kind kind) {
  for (const Row& row : rows)
    if (row.kind == kind) return &row;
  return nullptr;
}

// Where fds share no memory, no kind that is one can be imported.
template <typename Kind>
bool this_system_has(Kind kind) {
  return find_handle_kind(kind)->type != HandleType::kFd || kFdsShareMemory;
}

bool host_imports(ExternalMemoryKind kind) {
  const HostMemoryKind* row = find_row(kHostMemoryKinds, kind);
  return row != nullptr && row->map != nullptr && this_system_has(kind);
}
bool host_imports(TimelineKind kind) { return find_row(kHostTimelineKinds, kind) != nullptr && this_system_has(kind); }

class HostImporter final : public Importer {
 public:
  bool can_import(ExternalMemoryKind kind) const override { return host_imports(kind); }
  bool can_import(TimelineKind kind) const override { return host_imports(kind); }

  Result<std::shared_ptr<ExternalMemory>> import_memory(OwnedHandle& owned,
                                                        const ExternalMemoryDescriptor& descriptor) override {
    const HostMemoryKind* row = find_row(kHostMemoryKinds, descriptor.kind);
    TENON_UNSUPPORTED_IF(row != nullptr && row->map == nullptr, "External memory of kind {} cannot be imported: {}.",
                         external_memory_kind_name(descriptor.kind), row->why_not);
    TENON_TRY_ASSIGN(const ExternalHandle handle, read_external_handle(owned, descriptor));
    TENON_TRY_ASSIGN(auto memory, map_memory(handle, descriptor));
    consume(owned, handle);
    return memory;
  }

  Result<std::shared_ptr<Timeline>> import_timeline(OwnedHandle& owned, TimelineKind kind, std::string name,
                                                    TimelineCallbacks on_host) override {
    TENON_INVALID_IF(on_host.value || on_host.wait || on_host.signal,
                     "The host reads timeline \"{}\" ({}) itself; functions for it are of an EP's importer only.", name,
                     timeline_kind_name(kind));
    TENON_UNSUPPORTED_IF(!host_imports(kind), "The CPU device cannot import timeline \"{}\" ({}).", name,
                         timeline_kind_name(kind));
    TENON_TRY_ASSIGN(const ExternalSemaphore semaphore, read_external_semaphore(owned, kind, name));
    TENON_TRY_ASSIGN(auto timeline, open_semaphore(semaphore, std::move(name)));
    consume(owned, semaphore);
    return timeline;
  }
};

}  // namespace

Importer& Importer::host() {
  static HostImporter* const importer = new HostImporter;
  return *importer;
}

bool can_import_memory(uint32_t handle_type) {
  return handle_type == TENON_EXTERNAL_MEMORY_DESCRIBED || host_imports(static_cast<ExternalMemoryKind>(handle_type));
}

bool can_import_semaphore(uint32_t type) { return host_imports(static_cast<TimelineKind>(type)); }

Result<std::shared_ptr<ExternalMemory>> map_memory(const ExternalHandle& handle,
                                                   const ExternalMemoryDescriptor& descriptor) {
  const HostMemoryKind* row = find_row(kHostMemoryKinds, descriptor.kind);
  TENON_UNSUPPORTED_IF(row == nullptr || row->map == nullptr, "External memory of kind {} cannot be imported: {}.",
                       external_memory_kind_name(descriptor.kind),
                       row != nullptr ? row->why_not : "the CPU device does not know it");
  const std::string what = format("\"{}\" ({})", descriptor.name, external_memory_kind_name(descriptor.kind));
  TENON_TRY_ASSIGN(auto memory, row->map(handle, descriptor, what));
  TENON_TRACE(kInterop, "{} is imported: {} bytes at {}.", what, descriptor.size_bytes, memory->data());
  return memory;
}

Result<std::shared_ptr<Timeline>> open_semaphore(const ExternalSemaphore& semaphore, std::string name) {
  const HostTimelineKind* row = find_row(kHostTimelineKinds, semaphore.kind);
  TENON_UNSUPPORTED_IF(row == nullptr, "The CPU device cannot import semaphores of {}.",
                       timeline_kind_name(semaphore.kind));
  return row->open(semaphore, std::move(name));
}

Result<std::shared_ptr<ExternalMemory>> import_memory(uint32_t handle_type, void* native_handle, size_t size_bytes,
                                                      size_t offset_bytes) {
  TENON_UNSUPPORTED_IF(!can_import_memory(handle_type), "The CPU device cannot import external memory of kind {}.",
                       external_memory_kind_name(static_cast<ExternalMemoryKind>(handle_type)));
  TENON_INVALID_IF(size_bytes == 0, "size_bytes is 0.");
  TENON_TRY_ASSIGN(const ExternalHandle handle, read_external_handle(handle_type, native_handle));
  TENON_TRY_ASSIGN(auto memory, map_memory(handle, {.kind = handle.kind,
                                                    .size_bytes = size_bytes,
                                                    .offset_bytes = offset_bytes,
                                                    .writable = !handle.read_only,
                                                    .name = "external memory"}));
  consume(handle);
  return memory;
}

Result<std::shared_ptr<Timeline>> import_semaphore(uint32_t type, void* native_handle) {
  TENON_UNSUPPORTED_IF(!can_import_semaphore(type), "The CPU device cannot import semaphores of type {:#x}.", type);
  TENON_TRY_ASSIGN(const ExternalSemaphore semaphore, read_external_semaphore(type, native_handle));
  TENON_TRY_ASSIGN(auto timeline, open_semaphore(semaphore, "external semaphore"));
  consume(semaphore);
  return timeline;
}

Result<size_t> check_imported_tensor(DataType type, const Shape& shape, size_t offset_bytes, size_t import_size_bytes,
                                     const std::string& name) {
  TENON_INVALID_IF(holds_addresses(type), "A {} tensor holds addresses; \"{}\" cannot be seen as one.",
                   data_type_name(type), name);
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
