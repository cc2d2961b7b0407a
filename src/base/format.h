// Formats text by fmt. Argument capture is cheap to include; the formatter is compiled once, in format.cc.
#pragma once

#include <fmt/core.h>

#include <string>

namespace tenon {

std::string format_text(fmt::string_view format, fmt::format_args args);

// format("{} of {}", a, b). An object, not a function: a call with a std::string would find std::format as well, where
// a standard header brings it in (g++ 13 and newer), and be ambiguous.
struct Format {
  template <typename... Args>
  std::string operator()(fmt::format_string<Args...> text, Args&&... args) const {
    return format_text(text, fmt::make_format_args(args...));
  }
};
inline constexpr Format format;

}  // namespace tenon
