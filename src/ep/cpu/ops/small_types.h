// Element types that C++ lacks: floats of 8, 6 and 4 bits, integers of 4 and 2 bits. The code of an element is its bits
// in a byte of its own; types of less than a byte are packed, the first element in the lowest bits.
#pragma once

#include <array>
#include <cstdint>

#include <tenon/types.h>

#include "ep/cpu/ops/reference_types.h"
#include "ops/elementwise.h"

namespace tenon::cpu::ref {

using SmallFloats = std::array<DataType, 8>;
inline constexpr SmallFloats kSmallFloats = {
    DataType::kFloat8E4M3FN, DataType::kFloat8E4M3FNUZ, DataType::kFloat8E5M2, DataType::kFloat8E5M2FNUZ,
    DataType::kFloat8E8M0,   DataType::kFloat4E2M1,     DataType::kFloat6E2M3, DataType::kFloat6E3M2};

constexpr TypeSet type_bit(DataType type) { return TypeSet{1} << static_cast<int>(type); }
inline constexpr TypeSet kFloat8Set = type_bit(DataType::kFloat8E4M3FN) | type_bit(DataType::kFloat8E4M3FNUZ) |
                                      type_bit(DataType::kFloat8E5M2) | type_bit(DataType::kFloat8E5M2FNUZ) |
                                      type_bit(DataType::kFloat8E8M0);
inline constexpr TypeSet kSmallIntSet =
    type_bit(DataType::kUint4) | type_bit(DataType::kInt4) | type_bit(DataType::kUint2) | type_bit(DataType::kInt2);
// The types of less than a byte.
inline constexpr TypeSet kPackedSet =
    kSmallIntSet | type_bit(DataType::kFloat4E2M1) | type_bit(DataType::kFloat6E2M3) | type_bit(DataType::kFloat6E3M2);
inline constexpr TypeSet kSmallSet = kFloat8Set | kPackedSet;

constexpr bool has_type(TypeSet types, DataType type) { return (types >> static_cast<int>(type) & 1) != 0; }

// The values of all codes of a type in kSmallSet; codes of fewer bits than 8 repeat. float holds each of them exactly.
const std::array<float, 256>& small_values(DataType type);
// The code of a float type in kSmallSet: the nearest value, ties to even; `rounding` says what lies outside the range.
uint8_t small_code(DataType type, double value, const CastRounding& rounding);

// Codes of the elements [first, first + count) of a packed tensor; `first` is a multiple of 4.
void unpack_codes(DataType type, const void* packed, int64_t first, int64_t count, uint8_t* codes);
// The same backwards. Bits of the last byte that no element has become 0. Bits above the type's are left out.
void pack_codes(DataType type, const uint8_t* codes, int64_t first, int64_t count, void* packed);

}  // namespace tenon::cpu::ref
