// A session's packed weights: each constant packed once for each format, whatever number of plans use it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/guarded.h"
#include "ep/api/kernel.h"

namespace tenon {

// Ownership: keeps a packed weight as long as its constant is alive (the session's graph holds those of the model).
// Threads: any. Two that ask for the same key at once: one packs, the other waits for it.
class SessionWeightCache final : public WeightCache {
 public:
  Result<std::shared_ptr<const std::byte>> get(const ConstantRef& weight, std::string_view format, size_t bytes,
                                               const PackFunction& pack) override;
  // Of all packed weights together.
  size_t size_bytes() const;

 private:
  struct Entry {
    std::weak_ptr<const Constant> source;
    std::mutex mutex;  // held while packing
    std::shared_ptr<const std::byte> packed;
    size_t size_bytes = 0;
  };
  using Key = std::pair<const Constant*, std::string>;
  Guarded<std::map<Key, std::shared_ptr<Entry>>> entries_;
};

}  // namespace tenon
