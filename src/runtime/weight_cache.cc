#include "runtime/weight_cache.h"

#include "base/trace.h"
#include "graph/mapped_file.h"
#include "runtime/memory.h"

namespace tenon {

Result<std::shared_ptr<const std::byte>> SessionWeightCache::get(const ConstantRef& weight, std::string_view format,
                                                                 size_t bytes, const PackFunction& pack) {
  std::shared_ptr<Entry> entry;
  {
    auto entries = entries_.lock();
    std::shared_ptr<Entry>& slot = (*entries)[{weight.get(), std::string(format)}];
    // Another constant may have been made at the address of one that is gone.
    if (slot == nullptr || slot->source.expired()) {
      slot = std::make_shared<Entry>();
      slot->source = weight;
      std::erase_if(*entries, [](const auto& item) { return item.second->source.expired(); });
    }
    entry = (*entries)[{weight.get(), std::string(format)}];
  }
  const std::lock_guard lock(entry->mutex);
  if (entry->packed != nullptr) {
    if (entry->size_bytes != bytes) {
      return internal_error("A weight was packed as \"{}\" into {} bytes before, and {} bytes are asked for now.",
                            format, entry->size_bytes, bytes);
    }
    return entry->packed;
  }
  TraceSpan span("pack", format);
  if (span) {
    span.args()
        .add("node", TraceSubject::current().node)
        .add("shape", weight->shape.to_string())
        .add("from_bytes", weight->size_bytes)
        .add("bytes", bytes);
  }
  TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_zeroed(bytes, Pages::kAtOnce));
  pack(weight->data.read().get(), memory.get());
  entry->packed = std::move(memory);
  entry->size_bytes = bytes;
  if (weight->in_file) drop_file_pages({weight->data.stored(), weight->size_bytes});
  return entry->packed;
}

size_t SessionWeightCache::size_bytes() const {
  auto entries = entries_.lock();
  size_t sum = 0;
  for (const auto& [key, entry] : *entries) {
    const std::lock_guard lock(entry->mutex);
    sum += entry->size_bytes;
  }
  return sum;
}

}  // namespace tenon
