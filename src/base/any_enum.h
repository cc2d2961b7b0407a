// Reads C enums of an ABI, whose values may be outside the enum.
#pragma once

#include <cstdint>
#include <cstring>

namespace tenon {

// An enum with any integer in it: programs also pass values that the enum does not have.
template <typename Enum>
Enum as_enum(uint32_t value) {
  Enum result;
  static_assert(sizeof(result) == sizeof(value));
  std::memcpy(&result, &value, sizeof(value));
  return result;
}

}  // namespace tenon
