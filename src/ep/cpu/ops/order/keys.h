// Numbers of every type by keys (simd/lines.h), for ArgMax and TopK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <tenon/types.h>

#include "ep/cpu/simd/lines.h"

namespace tenon::cpu::ref {

// The order of a type. Its elements are widened to integers of 32 bits as signed ones; those of 64 bits are their own.
struct TypeOrder {
  size_t bytes = 0;  // of an element
  ElementOrder<int32_t> by32;
  ElementOrder<int64_t> by64;

  bool is_narrow() const { return bytes < sizeof(int32_t); }
  // Calls body with the loops and the order of the type.
  template <typename Body>
  void with_keys(const Body& body) const {
    bytes == sizeof(int64_t) ? body(line_table().keys64, by64) : body(line_table().keys32, by32);
  }
};

// NaN is above every number: the first of the largest. Of the smallest it is the last or, where `nan_first`, the first.
// Nothing for what is no number.
std::optional<TypeOrder> type_order(DataType type, bool largest, bool nan_first);

// The key of an element of so many bytes.
template <typename B>
B key_at(const void* x, size_t bytes, const ElementOrder<B>& by) {
  if (bytes == sizeof(int8_t)) return key_of(static_cast<B>(*static_cast<const int8_t*>(x)), by);
  if (bytes == sizeof(int16_t)) return key_of(static_cast<B>(*static_cast<const int16_t*>(x)), by);
  return key_of(*static_cast<const B*>(x), by);
}

// n elements of one or two bytes.
void widen(const void* x, size_t bytes, int64_t n, int32_t* y);

// The first or the last place of the largest key of a row of elements of so many bytes, a piece at a time.
template <typename B>
int64_t top_place(const KeyTable<B>& table, const void* x, size_t bytes, int64_t length, const ElementOrder<B>& by,
                  bool last);

// The places of the k first elements of a row in order. They are in `room`, which has order_room() bytes and begins at
// a multiple of 64.
template <typename B>
const int64_t* order_of(const KeyTable<B>& table, const B* x, int64_t length, int64_t k, const ElementOrder<B>& by,
                        std::byte* room);
int64_t order_room(size_t element_bytes, int64_t length);
// Rows of elements of up to 32 bits have at most so many.
inline constexpr int64_t kLongestOrder = UINT32_MAX;

}  // namespace tenon::cpu::ref
