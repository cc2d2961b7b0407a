#define FMT_HEADER_ONLY
#include "programs/status.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace tenon::programs {

std::string format_text(fmt::string_view format, fmt::format_args args) { return fmt::vformat(format, args); }

Status io_failure(const std::string& what, int error) {
  const bool exhausted = error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE || error == ENFILE;
  return Status(exhausted ? StatusCode::kResourceExhausted : StatusCode::kNotFound,
                error == 0 ? what + "." : format("{}: {}.", what, std::generic_category().message(error)));
}

std::string errno_text(const char* call, int error) {
  return format("{}: {} ({})", call, std::generic_category().message(error), error);
}

}  // namespace tenon::programs
