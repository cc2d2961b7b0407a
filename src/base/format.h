// One place that formats: fmt's argument capture is cheap to include, its formatter is compiled once, in format.cc.
#pragma once

#include <fmt/core.h>

#include <string>

namespace tenon {

std::string format_text(fmt::string_view format, fmt::format_args args);

template <typename... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return format_text(text, fmt::make_format_args(args...));
}

}  // namespace tenon
