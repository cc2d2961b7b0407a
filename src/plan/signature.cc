#include "plan/signature.h"

#include <cstring>

namespace tenon {

void append_shape(SignatureKey& key, const Shape& shape) {
  key.push_back(shape.rank());
  key.insert(key.end(), shape.begin(), shape.end());
}

void append_bytes(SignatureKey& key, std::span<const std::byte> bytes) {
  key.push_back(static_cast<int64_t>(bytes.size()));
  const size_t words = (bytes.size() + 7) / 8;
  const size_t begin = key.size();
  key.resize(begin + words, 0);
  if (!bytes.empty()) std::memcpy(key.data() + begin, bytes.data(), bytes.size());
}

uint64_t hash_signature(std::span<const int64_t> key) {
  uint64_t hash = 0x9E3779B97F4A7C15u ^ key.size();
  for (int64_t word : key) {
    hash ^= static_cast<uint64_t>(word);
    hash *= 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace tenon
