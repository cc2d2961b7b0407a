#pragma once

#include <cstddef>
#include <string_view>

namespace tenon {

// Length of the UTF-8 sequence of more than one byte at the beginning of `text`, or 0 if it is not one.
size_t utf8_length(std::string_view text);

}  // namespace tenon
