#define FMT_HEADER_ONLY
#include "programs/status.h"

#include <fmt/format.h>

#include <system_error>

namespace tenon::programs {

std::string format_text(fmt::string_view format, fmt::format_args args) { return fmt::vformat(format, args); }

std::string errno_text(const char* call, int error) {
  return format("{}: {} ({})", call, std::generic_category().message(error), error);
}

}  // namespace tenon::programs
