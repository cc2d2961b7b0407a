// Names close to a mistyped one, for messages that suggest them (<tenon/close_names.h>).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

// Letters that are added, missing, replaced or swapped with their neighbour, without regard to the case of ASCII
// letters. Costs the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

// Of `names`, those within a small edit distance of `name`, or that contain it or are contained in it, nearest first;
// at most three.
std::vector<std::string_view> close_names(std::string_view name, std::span<const std::string_view> names);

}  // namespace tenon
