// Suggestions for mistyped names, as Tenon's own messages make them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tenon/export.h"

namespace tenon {

// "; did you mean "run" or "bench"?" with at most three of `names` that are a few letters away from `name`, contain it
// or are contained in it, nearest first; "" when none is close. Upper and lower case count as equal.
TENON_API std::string did_you_mean(std::string_view name, std::span<const std::string_view> names);

}  // namespace tenon
