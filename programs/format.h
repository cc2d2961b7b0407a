// Formats text by fmt. The formatter is compiled once, in status.cc.
#pragma once

#include <fmt/core.h>

#include <string>

namespace tenon::programs {

std::string format_text(fmt::string_view format, fmt::format_args args);

// An object, so that argument-dependent lookup finds no other `format` (std::format, tenon::format).
struct Format {
  template <typename... Args>
  std::string operator()(fmt::format_string<Args...> text, Args&&... args) const {
    return format_text(text, fmt::make_format_args(args...));
  }
};
inline constexpr Format format;

}  // namespace tenon::programs
