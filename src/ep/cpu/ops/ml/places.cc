#include "ep/cpu/ops/ml/places.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "ep/cpu/ops/sequence/objects.h"

namespace tenon::cpu::ref {

NumberPlaces::NumberPlaces(std::span<const uint64_t> keys, SameKeys same) {
  const auto count = static_cast<int32_t>(keys.size());
  // In the order of signed integers, whose range may go through zero.
  const auto order = [](uint64_t a, uint64_t b) { return static_cast<int64_t>(a) < static_cast<int64_t>(b); };
  const auto [low, high] = std::minmax_element(keys.begin(), keys.end(), order);
  constexpr uint64_t kSparsest = 8, kSpare = 64;
  if (count > 0 && *high - *low < kSparsest * keys.size() + kSpare) {
    first_ = *low;
    array_.assign(*high - *low + 1, -1);
    for (int32_t i = 0; i < count; ++i) {
      int32_t& place = array_[keys[i] - first_];
      if (place < 0 || same == SameKeys::kLast) place = i;
    }
    return;
  }
  slots_.resize(std::bit_ceil(8 * keys.size() + 2));
  shift_ = 64 - std::countr_zero(slots_.size());
  keys_.assign(1, 0);
  keys_.insert(keys_.end(), keys.begin(), keys.end());
  for (int32_t i = 0; i < count; ++i) {
    uint32_t& slot = slots_[slot_of(keys[i])];
    if (slot == 0 || same == SameKeys::kLast) slot = static_cast<uint32_t>(i) + 1;
  }
}

inline size_t NumberPlaces::slot_of(uint64_t key) const {
  // Fibonacci hashing: the upper bits of the product depend on all bits of the key.
  size_t at = (key * 0x9e3779b97f4a7c15) >> shift_;
  while (slots_[at] != 0 && keys_[slots_[at]] != key) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void NumberPlaces::find(const uint64_t* keys, int64_t n, int64_t* places) const {
  if (slots_.empty()) {
    const size_t size = array_.size();
    const int32_t* const array = array_.data();
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t at = keys[i] - first_;
      places[i] = at < size ? array[at] : -1;
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) places[i] = int64_t{slots_[slot_of(keys[i])]} - 1;
}

namespace {

template <typename Word>
uint64_t load(const char* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof(Word));
  return word;
}

// By words of eight bytes, of which the last may overlap the one before it: keys are mostly short.
uint64_t hash_of(std::string_view text) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const char* const data = text.data();
  const size_t size = text.size();
  uint64_t hash = size * kOdd;
  const auto add = [&](uint64_t word) {
    hash = (hash ^ word) * kOdd;
    hash ^= hash >> 32;
  };
  if (size >= 8) {
    for (size_t i = 0; i + 8 < size; i += 8) add(load<uint64_t>(data + i));
    add(load<uint64_t>(data + size - 8));
  } else if (size >= 4) {
    add(load<uint32_t>(data) << 32 | load<uint32_t>(data + size - 4));
  } else if (size > 0) {
    const auto byte = [&](size_t i) { return uint64_t{static_cast<unsigned char>(data[i])}; };
    add(byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1));
  }
  return hash * kOdd;
}

}  // namespace

TextPlaces::TextPlaces(std::span<const std::string> keys, SameKeys same)
    : keys_(keys.begin(), keys.end()), slots_(std::bit_ceil(2 * keys.size() + 2)) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = hash_of(keys[i]);
    Slot& slot = slots_[slot_of(keys[i], hash)];
    if (slot.place < 0 || same == SameKeys::kLast) slot = {static_cast<uint32_t>(hash), static_cast<int32_t>(i)};
  }
}

// The upper bits of a hash choose the slot, and the lower ones are compared.
size_t TextPlaces::slot_of(std::string_view key, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash >> 32 & mask;
  while (slots_[at].place >= 0 && (slots_[at].hash != static_cast<uint32_t>(hash) || keys_[slots_[at].place] != key))
    at = (at + 1) & mask;
  return at;
}

int64_t TextPlaces::find(std::string_view key) const { return slots_[slot_of(key, hash_of(key))].place; }

FindPlaces find_texts(std::span<const std::string> keys, SameKeys same) {
  return [table = std::make_shared<const TextPlaces>(keys, same)](const void* x, int64_t first, int64_t n,
                                                                  int64_t* places) {
    const auto* const from = static_cast<const TextAddress*>(x) + first;
    for (int64_t i = 0; i < n; ++i) places[i] = table->find(text_of(from[i]));
  };
}

FindPlaces find_integers(std::span<const int64_t> keys, SameKeys same) {
  const std::vector<uint64_t> bits(keys.begin(), keys.end());
  return [table = std::make_shared<const NumberPlaces>(bits, same)](const void* x, int64_t first, int64_t n,
                                                                    int64_t* places) {
    table->find(static_cast<const uint64_t*>(x) + first, n, places);
  };
}

}  // namespace tenon::cpu::ref
