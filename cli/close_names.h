#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon::cli {

// "; did you mean "run" or "bench"?" with at most three of `names` that are near `name` or contain it; else empty.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> names);

}  // namespace tenon::cli
