#include "runtime/shared_packings.h"

namespace tenon {

std::shared_ptr<PackedWeights> PackedWeights::create() { return std::make_shared<SharedPackings>(); }

Result<SharedPackings::Packing> SharedPackings::get(const ContentHash& name, size_t bytes,
                                                    const std::function<Result<Packing>()>& make) {
  std::shared_ptr<Entry> entry;
  {
    auto entries = entries_.lock();
    // An entry in use by a thread has two references.
    std::erase_if(*entries,
                  [](const auto& item) { return item.second.use_count() == 1 && item.second->packing.expired(); });
    std::shared_ptr<Entry>& slot = (*entries)[name];
    if (slot == nullptr) slot = std::make_shared<Entry>();
    entry = slot;
  }
  const std::lock_guard lock(entry->mutex);
  if (Packing there = entry->packing.lock()) return there;
  TENON_TRY_ASSIGN(Packing made, make());
  entry->packing = made;
  entry->size_bytes = bytes;
  return made;
}

size_t SharedPackings::size_bytes() const {
  auto entries = entries_.lock();
  size_t sum = 0;
  for (const auto& [name, entry] : *entries) {
    const std::lock_guard lock(entry->mutex);
    if (!entry->packing.expired()) sum += entry->size_bytes;
  }
  return sum;
}

}  // namespace tenon
