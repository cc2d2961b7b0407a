// FNV-1a, which is the same in every build: for what is kept in files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/format.h"

namespace tenon::cuda {

inline std::string checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return format("{:016x}", hash);
}

}  // namespace tenon::cuda
