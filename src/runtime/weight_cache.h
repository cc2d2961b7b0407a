// A session's packed weights: each constant packed once for each format, whatever number of plans use it; and once for
// all sessions that share packed weights.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "ep/api/kernel.h"
#include "runtime/packed_folder.h"
#include "runtime/shared_packings.h"

namespace tenon {

// Ownership: keeps a packed weight as long as its constants are alive (the session's graph holds those of the model).
// Threads: any. Two that ask for the same key at once: one packs, the other waits for it.
class SessionWeightCache final : public WeightCache {
 public:
  // From now on weights of 16 KiB and more are shared: with the sessions of this process that have `packings`, and
  // with those of others that open the folder, where one is given. Before the first get().
  void share(std::shared_ptr<SharedPackings> packings, std::shared_ptr<PackedFolder> folder);
  // A folder that cannot serve is warned about once, and the session packs for itself.
  Result<std::shared_ptr<const std::byte>> get(std::span<const ConstantRef> constants, std::string_view format,
                                               size_t bytes, const PackFunction& pack) override;
  // Of all packed weights together.
  size_t size_bytes() const;

 private:
  struct Entry {
    std::vector<std::weak_ptr<const Constant>> sources;
    std::mutex mutex;  // held while packing
    std::shared_ptr<const std::byte> packed;
    size_t size_bytes = 0;
    bool expired() const;
  };
  using Key = std::pair<std::vector<const Constant*>, std::string>;

  Result<std::shared_ptr<const std::byte>> shared(std::span<const ConstantRef> constants, std::string_view format,
                                                  size_t bytes, const PackFunction& pack);

  Guarded<std::map<Key, std::shared_ptr<Entry>>> entries_;
  std::shared_ptr<SharedPackings> packings_;
  std::shared_ptr<PackedFolder> folder_;
  std::once_flag warned_;
};

// The folder of the session config key tenon.packed_weights_folder; null without the key, or with a warning for a
// folder that cannot be used.
std::shared_ptr<PackedFolder> packed_folder_of(const std::map<std::string, std::string>& config);

}  // namespace tenon
