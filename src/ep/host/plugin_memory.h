// A plugin's allocators and data transfers behind the core's interfaces (device/device.h).
//
// Ownership: each object releases what the plugin made, and holds `keep`: the library, and the EP if it came from one.
// Memory holds its allocator.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <functional>
#include <memory>
#include <string>

#include "abi/objects/memory_info.h"
#include "device/device.h"
#include "ep/host/device_use.h"
#include "ep/host/plugin_member.h"

namespace tenon::abi {

class PluginLibrary;
class ProgramAllocator;

class PluginAllocator final : public DeviceAllocator, public std::enable_shared_from_this<PluginAllocator> {
 public:
  using Release = std::function<void(OrtAllocator*)>;
  // Takes `allocator` over, also on failure: `release` gets it at the end. `memory_keep` is held by memory alone, for
  // an allocator that is part of what it would otherwise keep.
  static Result<std::shared_ptr<PluginAllocator>> create(std::string who, OrtAllocator* allocator, Release release,
                                                         std::shared_ptr<const void> keep,
                                                         std::weak_ptr<const void> memory_keep = {});
  ~PluginAllocator() override;

  const MemorySpace& space() const override { return space_; }
  bool gives_handles() const override;
  Result<std::shared_ptr<void>> allocate(size_t size_bytes, DeviceStream* stream) override;
  const OrtMemoryInfo& info() const { return info_; }
  // The plugin's own, for its kernels.
  OrtAllocator* ort() const { return allocator_; }
  // The allocator for programs: the same functions, with the memory counted. Blocks keep this object alive.
  OrtAllocator* program();
  // Before the first allocation: the host reads the memory where it lies.
  void share_with_host() { info_.unified = space_.unified = true; }
  // Before the first allocation: where memory is counted. May be null.
  void count_in(std::shared_ptr<DeviceUse> use) { use_ = std::move(use); }

 private:
  friend class ProgramAllocator;
  PluginAllocator(std::string who, OrtAllocator* allocator, Release release, std::shared_ptr<const void> keep);

  const std::shared_ptr<const void> keep_;
  std::weak_ptr<const void> memory_keep_;
  const std::string who_;
  OrtAllocator* const allocator_;
  const Release release_;
  PluginMember<decltype(OrtAllocator::Alloc)> alloc_;
  PluginMember<decltype(OrtAllocator::Free)> free_;
  PluginMember<decltype(OrtAllocator::AllocOnStream)> alloc_on_stream_;
  PluginMember<decltype(OrtAllocator::Reserve)> reserve_;
  PluginMember<decltype(OrtAllocator::GetStats)> get_stats_;
  PluginMember<decltype(OrtAllocator::Shrink)> shrink_;
  OrtMemoryInfo info_;
  MemorySpace space_;
  std::shared_ptr<DeviceUse> use_;
  std::unique_ptr<ProgramAllocator> program_;
};

class PluginTransfer final : public DataTransfer {
 public:
  // Takes `impl` over on success. `library` is the plugin's, and outlives this object.
  static Result<std::unique_ptr<PluginTransfer>> create(std::string who, OrtDataTransferImpl* impl,
                                                        const PluginLibrary& library, std::shared_ptr<const void> keep);
  ~PluginTransfer() override;

  bool can_copy(const MemorySpace& src, const MemorySpace& dst) const override;
  // Errors: kInvalidArgument for a stream of another library, naming both.
  Status copy(const Tensor& dst, const Tensor& src, DeviceStream* stream) override;
  OrtDataTransferImpl* ort() const { return impl_; }

 private:
  PluginTransfer(std::string who, OrtDataTransferImpl* impl, const PluginLibrary& library,
                 std::shared_ptr<const void> keep);

  const PluginLibrary* const library_;
  const std::shared_ptr<const void> keep_;
  const std::string who_;
  OrtDataTransferImpl* const impl_;
  PluginMember<decltype(OrtDataTransferImpl::Release)> release_;
  PluginMember<decltype(OrtDataTransferImpl::CanCopy)> can_copy_;
  PluginMember<decltype(OrtDataTransferImpl::CopyTensors)> copy_tensors_;
};

}  // namespace tenon::abi
