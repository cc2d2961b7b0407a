#include "ep/host/plugin_memory.h"

#include <utility>

#include "abi/objects/value.h"
#include "base/log.h"
#include "ep/host/plugin_stream.h"
#include "ep/host/program_allocator.h"

namespace tenon::abi {

PluginAllocator::PluginAllocator(std::string who, OrtAllocator* allocator, Release release,
                                 std::shared_ptr<const void> keep)
    : keep_(std::move(keep)), who_(std::move(who)), allocator_(allocator), release_(std::move(release)) {}

PluginAllocator::~PluginAllocator() { release_(allocator_); }

Result<std::shared_ptr<PluginAllocator>> PluginAllocator::create(std::string who, OrtAllocator* allocator,
                                                                 Release release, std::shared_ptr<const void> keep,
                                                                 std::weak_ptr<const void> memory_keep) {
  if (const Status bad = check_object(who, "OrtAllocator", allocator, "CreateAllocator"); !bad.ok()) {
    release(allocator);
    return bad;
  }
  std::shared_ptr<PluginAllocator> made(
      new PluginAllocator(std::move(who), allocator, std::move(release), std::move(keep)));
  made->memory_keep_ = std::move(memory_keep);
  const uint32_t version = allocator->version;
  made->alloc_ = TENON_MEMBER_OF_(allocator, version, OrtAllocator, Alloc);
  made->free_ = TENON_MEMBER_OF_(allocator, version, OrtAllocator, Free);
  made->alloc_on_stream_ = TENON_MEMBER_OF_(allocator, version, OrtAllocator, AllocOnStream);
  const auto info = TENON_MEMBER_OF_(allocator, version, OrtAllocator, Info);
  TENON_TRY(made->alloc_.check(made->who_));
  TENON_TRY(made->free_.check(made->who_));
  TENON_TRY_ASSIGN(const OrtMemoryInfo* memory, call_value(made->who_, info, allocator));
  TENON_TRY(check_object(made->who_, "OrtMemoryInfo", memory, info.name));
  made->info_ = *memory;
  made->space_ = to_memory_space(*memory);
  made->reserve_ = TENON_MEMBER_OF_(allocator, version, OrtAllocator, Reserve);
  made->get_stats_ = TENON_MEMBER_OF_(allocator, version, OrtAllocator, GetStats);
  made->shrink_ = TENON_MEMBER_OF_(allocator, version, OrtAllocator, Shrink);
  made->program_ = std::make_unique<ProgramAllocator>(*made);
  return made;
}

// The ABI says it by the memory's name alone.
bool PluginAllocator::gives_handles() const { return info_.name == "WebGPU_Buf" || info_.name == "WebNN_Tensor"; }

Result<std::shared_ptr<void>> PluginAllocator::allocate(size_t size_bytes, DeviceStream* stream) {
  OrtSyncStream* ort_stream = alloc_on_stream_ ? to_ort(stream) : nullptr;
  // Allocators differ in what they give for nothing, and null is their only way to fail.
  const size_t size = size_bytes != 0 ? size_bytes : 1;
  void* memory = nullptr;
  if (ort_stream != nullptr) {
    TENON_TRY_ASSIGN(memory, call_value(who_, alloc_on_stream_, allocator_, size, ort_stream));
  } else {
    TENON_TRY_ASSIGN(memory, call_value(who_, alloc_, allocator_, size));
  }
  if (memory == nullptr)
    return resource_exhausted("{}: the allocator \"{}\" has no {} bytes.", who_, info_.name, size_bytes);
  // The count ends when the plugin has the block back.
  auto use = std::make_shared<DeviceUse::Use>(use_, UseKind::kAllocation);
  return std::shared_ptr<void>(
      memory, [self = shared_from_this(), keep = memory_keep_.lock(), use = std::move(use)](void* freed) {
        const Status status = call_value(self->who_, self->free_, self->allocator_, freed);
        if (!status.ok()) log_warning("plugin", "{}", status.message());
      });
}

OrtAllocator* PluginAllocator::program() { return program_.get(); }

PluginTransfer::PluginTransfer(std::string who, OrtDataTransferImpl* impl, const PluginLibrary& library,
                               std::shared_ptr<const void> keep)
    : library_(&library),
      keep_(std::move(keep)),
      who_(std::move(who)),
      impl_(impl),
      release_(TENON_MEMBER(impl, OrtDataTransferImpl, Release)),
      can_copy_(TENON_MEMBER(impl, OrtDataTransferImpl, CanCopy)),
      copy_tensors_(TENON_MEMBER(impl, OrtDataTransferImpl, CopyTensors)) {}

Result<std::unique_ptr<PluginTransfer>> PluginTransfer::create(std::string who, OrtDataTransferImpl* impl,
                                                               const PluginLibrary& library,
                                                               std::shared_ptr<const void> keep) {
  TENON_TRY(check_object(who, "OrtDataTransferImpl", impl, "OrtEpFactory::CreateDataTransfer"));
  std::unique_ptr<PluginTransfer> transfer(new PluginTransfer(std::move(who), impl, library, std::move(keep)));
  TENON_TRY(transfer->can_copy_.check(transfer->who_));
  TENON_TRY(transfer->copy_tensors_.check(transfer->who_));
  return transfer;
}

PluginTransfer::~PluginTransfer() {
  if (release_.absent()) return;
  const Status status = call_value(who_, release_, impl_);
  if (!status.ok()) log_warning("plugin", "{}", status.message());
}

bool PluginTransfer::can_copy(const MemorySpace& src, const MemorySpace& dst) const {
  const OrtMemoryInfo from = to_memory_info(src);
  const OrtMemoryInfo to = to_memory_info(dst);
  const Result<bool> can = call_value(who_, can_copy_, impl_, &from.device, &to.device);
  return can.ok() && *can;
}

Status PluginTransfer::copy(const Tensor& dst, const Tensor& src, DeviceStream* stream) {
  const OrtValue from = make_value(src);
  OrtValue to = make_value(dst);
  const OrtValue* sources[] = {&from};
  OrtValue* targets[] = {&to};
  OrtSyncStream* streams[] = {to_ort(stream)};
  TENON_INVALID_IF(streams[0] != nullptr && streams[0]->library != library_,
                   "The stream belongs to {}, and the copy is one of {}: only a stream of the same EP library can "
                   "order it.",
                   streams[0]->who, who_);
  return call(who_, copy_tensors_, impl_, &sources[0], &targets[0], streams[0] != nullptr ? &streams[0] : nullptr,
              size_t{1});
}

}  // namespace tenon::abi
