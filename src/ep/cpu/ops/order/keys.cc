#include "ep/cpu/ops/order/keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "ep/cpu/ops/reference_types.h"

namespace tenon::cpu::ref {

namespace {

// Key and index in one number, smaller for what comes first: sorting moves and compares nothing else.
using ShortKey = uint64_t;
// The same for keys of 64 bits.
struct LongKey {
  uint64_t rank = 0;
  int64_t index = 0;
  bool operator<(const LongKey& other) const { return rank != other.rank ? rank < other.rank : index < other.index; }
};

// The larger the key, the smaller its rank.
template <typename B>
std::make_unsigned_t<B> rank_of(B key) {
  return static_cast<std::make_unsigned_t<B>>(key ^ std::numeric_limits<B>::max());
}

template <typename U>
std::make_signed_t<U> key_of_rank(U rank) {
  using B = std::make_signed_t<U>;
  return static_cast<B>(rank) ^ std::numeric_limits<B>::max();
}

template <typename B>
using SortKey = std::conditional_t<sizeof(B) == 4, ShortKey, LongKey>;

template <typename B>
SortKey<B> sort_key(B key, int64_t index) {
  if constexpr (sizeof(B) == 8) {
    return {rank_of(key), index};
  } else {
    return uint64_t{rank_of(key)} << 32 | static_cast<uint64_t>(index);
  }
}

int64_t index_of(ShortKey key) { return static_cast<int64_t>(key & UINT32_MAX); }
int64_t index_of(const LongKey& key) { return key.index; }
uint64_t rank_of_key(ShortKey key) { return key >> 32; }
uint64_t rank_of_key(const LongKey& key) { return key.rank; }

// Rows from kFewestSorted to kMostSorted elements of which many come first are sorted by their bytes, which takes room
// for the keys twice.
constexpr int64_t kFewestSorted = 48, kMostSorted = 131072;
bool sorts_bytes(int64_t length) { return length >= kFewestSorted && length <= kMostSorted; }

// A row has room for so many keys.
constexpr int64_t kFewestKeys = 512;
int64_t key_room(int64_t length) { return std::max({length, 2 * std::min(length, kMostSorted), kFewestKeys}); }

// The first k of [first, last) in order.
template <typename Key>
[[gnu::noinline]] void sort_first(Key* first, Key* last, int64_t k) {
  constexpr int64_t kFew = 16;  // are sorted by insertion
  if (k < last - first && last - first > kFew) {
    std::nth_element(first, first + k, last);
    last = first + k;
  }
  std::sort(first, last);
}

// Sorts keys whose indices ascend by their ranks, the least significant bytes first. Returns where they are then: in
// `keys` or in `other`.
template <typename Key>
[[gnu::noinline]] Key* sort_bytes(Key* keys, Key* other, int64_t n) {
  uint64_t lowest = UINT64_MAX, highest = 0;
  for (int64_t i = 0; i < n; ++i) {
    lowest = std::min(lowest, rank_of_key(keys[i]));
    highest = std::max(highest, rank_of_key(keys[i]));
  }
  for (int shift = 0; shift < 64 && (highest - lowest) >> shift != 0; shift += 8) {
    const auto digit = [&](const Key& key) { return static_cast<uint8_t>((rank_of_key(key) - lowest) >> shift); };
    std::array<uint32_t, 256> starts{};
    for (int64_t i = 0; i < n; ++i) ++starts[digit(keys[i])];
    uint32_t before = 0;
    for (uint32_t& start : starts) before += std::exchange(start, before);
    for (int64_t i = 0; i < n; ++i) other[starts[digit(keys[i])]++] = keys[i];
    std::swap(keys, other);
  }
  return keys;
}

// Whether first_of_many() finds the first k.
constexpr int64_t kManyTimes = 8, kFewestMany = 64;
bool are_many(int64_t length, int64_t k) { return k > 0 && length >= kFewestMany && k * kManyTimes <= length; }

// The k first of a row many times as long. The row, or its begin, is cut into groups: k elements or a few more are at
// least as large as the k-th of the groups' largest ones, and the first k are among them. These elements are collected,
// and cut to the k first of them when they fill the room.
template <typename B>
[[gnu::noinline]] void first_of_many(const KeyTable<B>& table, const B* x, int64_t length, int64_t k,
                                     const ElementOrder<B>& by, SortKey<B>* keys) {
  constexpr int64_t kFewestGroups = 32, kSampledTimes = 64, kFewestSampled = 4096, kRoomTimes = 4;
  B* const tops = reinterpret_cast<B*>(keys);
  const auto groups = std::max(kFewestGroups, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * k))));
  table.group_tops(x, std::min(length, std::max(kSampledTimes * k, kFewestSampled)), by, groups, tops);
  std::nth_element(tops, tops + k - 1, tops + groups, std::greater<>());
  B least = tops[k - 1];
  std::array<int64_t, kMostPlaces> places;
  int64_t held = 0;
  for (int64_t next = 0; next < length;) {
    if (held + kMostPlaces > std::max(kRoomTimes * k, kFewestKeys)) {
      std::nth_element(keys, keys + k - 1, keys + held);
      held = k;
      // A later element must come before the k-th, not only tie with it.
      const B worst = key_of_rank(static_cast<std::make_unsigned_t<B>>(rank_of_key(keys[k - 1])));
      if (worst == std::numeric_limits<B>::max()) break;
      least = worst + 1;
    }
    const int64_t count = table.at_least(x, length, by, least, &next, places.data());
    for (int64_t i = 0; i < count; ++i) keys[held++] = sort_key(key_of(x[places[i]], by), places[i]);
  }
  sort_first(keys, keys + held, k);
}

template <typename S>
void widen_as(const void* x, int64_t n, int32_t* y) {
  std::copy_n(static_cast<const S*>(x), n, y);
}

template <typename T, typename B>
ElementOrder<B> order_of_type(bool largest, bool nan_first) {
  constexpr B kMost = std::numeric_limits<B>::max();
  ElementOrder<B> by{.flip = largest ? B(0) : B(-1)};
  if constexpr (is_float<T>) {
    by.signs = -1;
    by.magnitude = static_cast<B>(sizeof(T) == 2 ? 0x7fff : kMost);
    if constexpr (is_half<T>) {
      by.infinity = T(std::numeric_limits<float>::infinity()).bits;
    } else {
      by.infinity = std::bit_cast<B>(std::numeric_limits<T>::infinity());
    }
    if (!nan_first) by.nan = kMost ^ by.flip;
  } else if constexpr (std::is_unsigned_v<T>) {
    by.flip ^= B(std::numeric_limits<std::make_signed_t<T>>::min());
  }
  return by;
}

}  // namespace

std::optional<TypeOrder> type_order(DataType type, bool largest, bool nan_first) {
  return select(NumericTypes(), type, [&]<typename T>() -> std::optional<TypeOrder> {
    TypeOrder order{.bytes = sizeof(T)};
    if constexpr (sizeof(T) == 8) {
      order.by64 = order_of_type<T, int64_t>(largest, nan_first);
    } else {
      order.by32 = order_of_type<T, int32_t>(largest, nan_first);
    }
    return order;
  });
}

void widen(const void* x, size_t bytes, int64_t n, int32_t* y) {
  bytes == 1 ? widen_as<int8_t>(x, n, y) : widen_as<int16_t>(x, n, y);
}

template <typename B>
int64_t top_place(const KeyTable<B>& table, const void* x, size_t bytes, int64_t length, const ElementOrder<B>& by,
                  bool last) {
  constexpr int64_t kPieceBytes = 16384;
  const auto size = static_cast<int64_t>(bytes), piece = kPieceBytes / size;
  int64_t best = 0;
  B top = 0;
  for (int64_t first = 0; first < length; first += piece) {
    const std::byte* const from = static_cast<const std::byte*>(x) + first * size;
    const int64_t place = table.top_place(from, bytes, std::min(piece, length - first), by, last);
    if (length <= piece) return place;
    const B key = key_at(from + place * size, bytes, by);
    if (first != 0 && (last ? key < top : key <= top)) continue;
    top = key;
    best = first + place;
  }
  return best;
}

template <typename B>
const int64_t* order_of(const KeyTable<B>& table, const B* x, int64_t length, int64_t k, const ElementOrder<B>& by,
                        std::byte* room) {
  auto* keys = reinterpret_cast<SortKey<B>*>(room);
  if (k == 1) {
    auto* const order = reinterpret_cast<int64_t*>(room);
    *order = top_place(table, x, sizeof(B), length, by, false);
    return order;
  }
  if (are_many(length, k)) {
    first_of_many(table, x, length, k, by, keys);
  } else {
    for (int64_t i = 0; i < length; ++i) keys[i] = sort_key(key_of(x[i], by), i);
    if (sorts_bytes(length)) {
      keys = sort_bytes(keys, keys + length, length);
    } else {
      sort_first(keys, keys + length, k);
    }
  }
  auto* const order = reinterpret_cast<int64_t*>(keys);
  for (int64_t i = 0; i < k; ++i) order[i] = index_of(keys[i]);
  return order;
}

int64_t order_room(size_t element_bytes, int64_t length) {
  const auto bytes = static_cast<int64_t>(element_bytes <= sizeof(int32_t) ? sizeof(ShortKey) : sizeof(LongKey));
  return (key_room(length) * bytes + 63) / 64 * 64;
}

#define TENON_INSTANTIATE(B)                                                                                  \
  template int64_t top_place(const KeyTable<B>&, const void*, size_t, int64_t, const ElementOrder<B>&, bool); \
  template const int64_t* order_of(const KeyTable<B>&, const B*, int64_t, int64_t, const ElementOrder<B>&, std::byte*)
TENON_INSTANTIATE(int32_t);
TENON_INSTANTIATE(int64_t);
#undef TENON_INSTANTIATE

}  // namespace tenon::cpu::ref
