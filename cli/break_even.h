// `tenon explain --break-even`: compares, for each buffer of a model on an EP's device, the cost of an import from
// Vulkan with the cost of a copy. Both are measured once on this machine and kept in a file, for one EP, its device and
// one Vulkan device.
#pragma once

#include <tenon/session.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/explain_part.h"
#include "demo/break_even.h"

namespace tenon::cli {

// One buffer of the model that lives on the device.
struct BufferCosts {
  std::string name;
  bool is_input = false;
  std::optional<size_t> bytes;  // nothing where only a run knows
  double import_us = 0;
  double copy_us = 0;
};

struct BreakEvenReport {
  demo::BreakEven costs;
  std::string file;
  std::string measured;  // "2026-11-21 23:40 UTC"
  std::vector<BufferCosts> buffers;

  std::string text() const;
  nlohmann::ordered_json json() const;
};

// The part of `tenon explain` that --break-even asks for. Errors: kUnsupported when the model uses no memory of an EP's
// device; what measuring says; kInvalidArgument for a file that holds something else.
std::shared_ptr<ExplainPart> break_even_part();

}  // namespace tenon::cli
