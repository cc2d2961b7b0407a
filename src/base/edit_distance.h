// The edit distance of two names, for messages that suggest names close to a mistyped one.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon {

// Letters that are added, missing, replaced or swapped with their neighbour, without regard to the case of ASCII
// letters. Costs the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace tenon
