#include "ep/host/program_allocator.h"

#include <utility>

#include "abi/objects/sync_stream.h"
#include "base/log.h"

namespace tenon::abi {

namespace {

ProgramAllocator& of(OrtAllocator* table) { return *static_cast<ProgramAllocator*>(table); }

}  // namespace

ProgramAllocator::ProgramAllocator(PluginAllocator& of_plugin) : OrtAllocator{}, of_(of_plugin) {
  // Members that the plugin's has not are null here too.
  version = ORT_API_VERSION;
  Alloc = [](OrtAllocator* table, size_t size) noexcept {
    PluginAllocator& plugin = of(table).of_;
    return of(table).took(call_value(plugin.who_, plugin.alloc_, plugin.allocator_, size));
  };
  Free = [](OrtAllocator* table, void* block) noexcept {
    PluginAllocator& plugin = of(table).of_;
    const Status status = call_value(plugin.who_, plugin.free_, plugin.allocator_, block);
    if (!status.ok()) log_warning("plugin", "{}", status.message());
    if (block != nullptr) of(table).gave_back();
  };
  Info = [](const OrtAllocator* table) noexcept -> const OrtMemoryInfo* {
    return &static_cast<const ProgramAllocator*>(table)->of_.info_;
  };
  if (of_.reserve_) {
    Reserve = [](OrtAllocator* table, size_t size) noexcept {
      PluginAllocator& plugin = of(table).of_;
      return of(table).took(call_value(plugin.who_, plugin.reserve_, plugin.allocator_, size));
    };
  }
  if (of_.get_stats_) {
    GetStats = [](const OrtAllocator* table, OrtKeyValuePairs** out) noexcept -> OrtStatus* {
      const PluginAllocator& plugin = static_cast<const ProgramAllocator*>(table)->of_;
      return to_ort(call(plugin.who_, plugin.get_stats_, static_cast<const OrtAllocator*>(plugin.allocator_), out));
    };
  }
  if (of_.alloc_on_stream_) {
    AllocOnStream = [](OrtAllocator* table, size_t size, OrtSyncStream* stream) noexcept {
      PluginAllocator& plugin = of(table).of_;
      // A plugin knows its own streams only. Memory without a stream is usable on every stream.
      const std::shared_ptr<const void> library = plugin.memory_keep_.lock();
      if (stream != nullptr && static_cast<const void*>(stream->library) != library.get())
        return of(table).took(call_value(plugin.who_, plugin.alloc_, plugin.allocator_, size));
      return of(table).took(call_value(plugin.who_, plugin.alloc_on_stream_, plugin.allocator_, size, stream));
    };
  }
  if (of_.shrink_) {
    Shrink = [](OrtAllocator* table) noexcept -> OrtStatus* {
      const PluginAllocator& plugin = of(table).of_;
      return to_ort(call(plugin.who_, plugin.shrink_, plugin.allocator_));
    };
  }
}

void* ProgramAllocator::took(Result<void*> block) {
  if (!block.ok()) {
    log_warning("plugin", "{}", block.status().message());
    return nullptr;
  }
  if (*block == nullptr) return nullptr;
  auto blocks = blocks_.lock();
  if (blocks->allocator == nullptr) {
    blocks->allocator = of_.shared_from_this();
    blocks->library = of_.memory_keep_.lock();
  }
  blocks->uses.emplace_back(of_.use_, UseKind::kAllocation);
  return *block;
}

void ProgramAllocator::gave_back() {
  // The last block may be what keeps this object and the library: they go when everything else here is done.
  std::shared_ptr<const void> allocator, library;
  {
    auto blocks = blocks_.lock();
    if (blocks->uses.empty()) return;
    blocks->uses.pop_back();
    if (!blocks->uses.empty()) return;
    library = std::exchange(blocks->library, nullptr);
    allocator = std::exchange(blocks->allocator, nullptr);
  }
  allocator = nullptr;  // before the library that its release calls
}

}  // namespace tenon::abi
