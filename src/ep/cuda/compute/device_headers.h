// The headers that kernels include when they are compiled at run time: embedded at build time
// (tenon_device_headers in cmake/cuda.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tenon::cuda {

struct DeviceHeader {
  std::string_view name;  // as #include has it
  std::string_view text;  // followed by a zero byte
};

std::span<const DeviceHeader> device_headers();

}  // namespace tenon::cuda
