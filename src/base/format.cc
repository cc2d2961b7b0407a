#define FMT_HEADER_ONLY
#include "base/format.h"

#include <fmt/format.h>

namespace tenon {

std::string format_text(fmt::string_view format, fmt::format_args args) { return fmt::vformat(format, args); }

}  // namespace tenon
