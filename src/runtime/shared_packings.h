// Packed weights by the hash of what they are made of.
//
// Lifetime: a packing stays as long as somebody holds it. Threads: any; of two that ask for the same one at once, one
// makes it and the other waits.
#pragma once

#include <tenon/packed_weights.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/content_hash.h"
#include "base/guarded.h"
#include "base/status.h"

namespace tenon {

class SharedPackings final : public PackedWeights {
 public:
  using Packing = std::shared_ptr<const std::byte>;

  // The packing of this name: `bytes` that `make` gives where nobody holds it.
  Result<Packing> get(const ContentHash& name, size_t bytes, const std::function<Result<Packing>()>& make);
  size_t size_bytes() const override;

 private:
  struct Entry {
    std::mutex mutex;  // held while the packing is made
    std::weak_ptr<const std::byte> packing;
    size_t size_bytes = 0;
  };
  Guarded<std::map<ContentHash, std::shared_ptr<Entry>>> entries_;
};

}  // namespace tenon
