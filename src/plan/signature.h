// The key of a plan in the plan cache: the shapes of a run's inputs, or the shapes and values at a cut.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tenon/types.h>

namespace tenon {

using SignatureKey = std::vector<int64_t>;

// Appends the rank and the dimensions. Allocates nothing while `key` has room.
void append_shape(SignatureKey& key, const Shape& shape);
// Appends the length and the bytes.
void append_bytes(SignatureKey& key, std::span<const std::byte> bytes);

uint64_t hash_signature(std::span<const int64_t> key);

// A bounded map, the least recently used entry goes first. Lookup allocates nothing. Not thread-safe.
template <typename T>
class SignatureCache {
 public:
  explicit SignatureCache(size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

  // Null when absent; else the entry, which becomes the most recently used.
  std::shared_ptr<T> find(const SignatureKey& key) {
    const uint64_t hash = hash_signature(key);
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->hash == hash && it->key == key) {
        entries_.splice(entries_.begin(), entries_, it);
        return entries_.front().value;
      }
    }
    return nullptr;
  }

  // Adds an entry, or returns the one that another thread added meanwhile. `dropped` is the entry that had to go, for
  // the caller to end when it holds no lock; unchanged when none had to.
  std::shared_ptr<T> insert(const SignatureKey& key, const std::shared_ptr<T>& value, std::shared_ptr<T>& dropped) {
    if (std::shared_ptr<T> present = find(key)) return present;
    entries_.push_front({hash_signature(key), key, value});
    if (entries_.size() > capacity_) {
      dropped = std::move(entries_.back().value);
      entries_.pop_back();
    }
    return value;
  }

  // Takes the entry that was not asked for the longest, but not the last one: null then.
  std::shared_ptr<T> take_oldest() {
    if (entries_.size() <= 1) return nullptr;
    std::shared_ptr<T> taken = std::move(entries_.back().value);
    entries_.pop_back();
    return taken;
  }

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t hash;
    SignatureKey key;
    std::shared_ptr<T> value;
  };
  size_t capacity_;
  std::list<Entry> entries_;  // most recent first; a handful, so that walking it is as fast as hashing into buckets
};

}  // namespace tenon
