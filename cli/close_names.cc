#include "cli/close_names.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/format.h"

namespace tenon::cli {
namespace {

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return made;
}

// Slips between two names: letters that are added, left out, replaced, or swapped with their neighbour.
size_t distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> slips((a.size() + 1) * width);
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& here = slips[i * width + j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      const size_t* up = &slips[(i - 1) * width + j];
      here = std::min({up[-1] + (a[i - 1] == b[j - 1] ? 0 : 1), up[0] + 1, slips[i * width + j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        here = std::min(here, slips[(i - 2) * width + j - 2] + 1);
    }
  }
  return slips[a.size() * width + b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view name, std::span<const std::string_view> names) {
  constexpr size_t kMost = 3;
  const std::string wanted = lower(name);
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string_view candidate : names) {
    const std::string known = lower(candidate);
    const size_t slips = distance(wanted, known);
    const bool part = wanted.size() >= 3 && known.find(wanted) != std::string::npos;
    if (part || slips <= std::max<size_t>(1, std::min(wanted.size(), known.size()) / 3))
      near.emplace_back(slips, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (near.size() > kMost) near.resize(kMost);
  std::string text;
  for (size_t i = 0; i < near.size(); ++i)
    text += format("{}\"{}\"", i == 0 ? "" : i + 1 == near.size() ? " or " : ", ", near[i].second);
  return text.empty() ? "" : format("; did you mean {}?", text);
}

}  // namespace tenon::cli
