// Places of keys in a list: LabelEncoder, CategoryMapper, OneHotEncoder.
//
// Threads: never changes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

// Which place counts of those with equal keys.
enum class SameKeys : uint8_t { kFirst, kLast };

// Keys of 64 bits. Those that lie close to each other are indices of an array, others are hashed.
class NumberPlaces {
 public:
  NumberPlaces(std::span<const uint64_t> keys, SameKeys same);
  // The place of each key, -1 where the list lacks it. `places` may be `keys`.
  void find(const uint64_t* keys, int64_t n, int64_t* places) const;

 private:
  // The slot of a key, or the empty one where it belongs.
  size_t slot_of(uint64_t key) const;

  uint64_t first_ = 0;          // the lowest key, of the array
  std::vector<int32_t> array_;  // by key - first_
  // Places plus one, and 0 in empty slots: seven of eight of them at least, so that the first one looked at is nearly
  // always the right one and no branch is guessed wrong. A power of two of them.
  std::vector<uint32_t> slots_;
  std::vector<uint64_t> keys_;  // by what a slot holds
  int shift_ = 0;               // of a hash, to the number of a slot
};

// Texts, by their bytes.
class TextPlaces {
 public:
  TextPlaces(std::span<const std::string> keys, SameKeys same);
  int64_t find(std::string_view key) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t place = -1;  // empty
  };
  size_t slot_of(std::string_view key, uint64_t hash) const;

  std::vector<std::string> keys_;
  std::vector<Slot> slots_;  // a power of two of them, at least twice as many as keys
};

// Places of elements [first, first + n) of a tensor; -1 for what is in no list.
using FindPlaces = std::function<void(const void* x, int64_t first, int64_t n, int64_t* places)>;

FindPlaces find_texts(std::span<const std::string> keys, SameKeys same);
FindPlaces find_integers(std::span<const int64_t> keys, SameKeys same);  // among int64 elements

// Elements that are looked up at once.
inline constexpr int64_t kPlacesPiece = 256;

}  // namespace tenon::cpu::ref
