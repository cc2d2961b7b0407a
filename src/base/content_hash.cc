#include "base/content_hash.h"

#include <cstring>

#include "base/format.h"

namespace tenon {

namespace {

__extension__ using Wide = unsigned __int128;

// The step is that of wyhash (Wang Yi): both halves of the product of two words.
constexpr uint64_t kSecrets[] = {0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3,
                                 0x589965cc75374cc3, 0x1d8e4e27c47d124f, 0x9e3779b185ebca87};
constexpr size_t kSums = 4, kStripe = kSums * 2 * sizeof(uint64_t);

uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Each sum takes two words of the stripe.
void take(uint64_t* sums, const std::byte* from) {
  uint64_t words[2 * kSums];
  std::memcpy(words, from, kStripe);
  for (size_t i = 0; i < kSums; ++i) sums[i] = mix(words[2 * i] ^ kSecrets[i], words[2 * i + 1] ^ sums[i]);
}

}  // namespace

std::string ContentHash::to_string() const { return format("{:016x}{:016x}", first, second); }

ContentHash content_hash(std::span<const std::byte> bytes) {
  uint64_t sums[kSums] = {kSecrets[1], kSecrets[2], kSecrets[3], kSecrets[4]};
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kStripe; left -= kStripe, at += kStripe) take(sums, at);
  std::byte rest[kStripe] = {};
  if (left > 0) std::memcpy(rest, at, left);
  take(sums, rest);
  uint64_t first = bytes.size() ^ kSecrets[4], second = bytes.size() ^ kSecrets[5];
  for (size_t i = 0; i < kSums; ++i) {
    first = mix(first ^ sums[i], kSecrets[4]);
    second = mix(second ^ sums[kSums - 1 - i], kSecrets[5]);
  }
  return {first, second};
}

}  // namespace tenon
