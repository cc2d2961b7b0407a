// The headers that kernels include when they are compiled at run time: embedded at build time
// (tenon_device_headers in cmake/cuda.cmake).
#pragma once

#include <span>

namespace tenon::cuda {

struct DeviceHeader {
  const char* name;  // as #include has it
  const char* text;
};

std::span<const DeviceHeader> device_headers();

}  // namespace tenon::cuda
