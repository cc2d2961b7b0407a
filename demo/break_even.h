// Measures the cost of a buffer between Vulkan and an EP's device: of an import, where only fences cross and the size
// does not matter, and of a copy over host memory, where it does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "demo/status.h"

namespace tenon::demo {

// One way, in microseconds from the first submission to the end of the other side's first, small piece of work: with
// that, both ways pay for whatever makes the GPU compute for another API than before. Medians.
struct WayCosts {
  double import_us = 0;
  struct Copy {
    size_t bytes = 0;
    double us = 0;
  };
  std::vector<Copy> copies;  // by ascending size

  // Between the sizes that were measured, and beyond them, along straight lines.
  double copy_us(size_t bytes) const;
  // From this size on an import is the faster way; nothing where it never is, as far as the figures show.
  std::optional<size_t> break_even_bytes() const;
};

struct BreakEven {
  std::string ep_name;
  std::string ep_device;
  std::string vulkan_device;
  WayCosts in;   // Vulkan writes, the EP reads
  WayCosts out;  // the EP writes, Vulkan reads
};

struct BreakEvenOptions {
  std::string ep_name;
  std::string vulkan_device;  // a part of its name; "": the best one
  std::vector<size_t> sizes = {size_t{64} << 10, size_t{256} << 10, size_t{1} << 20,
                               size_t{4} << 20,  size_t{16} << 20,  size_t{64} << 20};
  int rounds = 30;
};

// The name of the EP's first device, as the EP's metadata tell it. Errors: kNotFound when it offers none.
Result<std::string> ep_device_name(const std::string& ep_name);
// The name of the Vulkan device that would be used. Errors: kUnsupported when there is none.
Result<std::string> vulkan_device_name(const std::string& name_part);
// Takes about a second. Errors: kUnsupported where the EP imports none of Vulkan's buffers or timelines.
Result<BreakEven> measure_break_even(const BreakEvenOptions& options);

}  // namespace tenon::demo
