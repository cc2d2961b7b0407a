#include "base/edit_distance.h"

#include <tenon/close_names.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/format.h"

namespace tenon {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment: two rows back for the swaps.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const char x = lower(a[i]), y = lower(b[j]);
      row[j + 1] = std::min({last[j] + (x == y ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      if (i > 0 && j > 0 && x == lower(b[j - 1]) && lower(a[i - 1]) == y)
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

std::vector<std::string_view> close_names(std::string_view name, std::span<const std::string_view> names) {
  std::vector<std::pair<size_t, std::string_view>> found;
  const std::string wanted = lower(name);
  for (std::string_view candidate : names) {
    const std::string have = lower(candidate);
    const size_t distance = edit_distance(wanted, have);
    const bool contains = wanted.size() >= 3 && (have.find(wanted) != std::string::npos ||
                                                 (have.size() >= 3 && wanted.find(have) != std::string::npos));
    if (contains || distance <= std::max<size_t>(1, std::min(wanted.size(), have.size()) / 3))
      found.emplace_back(distance, candidate);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (found.size() > 3) found.resize(3);
  std::vector<std::string_view> result;
  result.reserve(found.size());
  for (const auto& [distance, candidate] : found) result.push_back(candidate);
  return result;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> names) {
  std::vector<std::string_view> close = close_names(name, names);
  // The one that differs only in case is meant.
  if (!close.empty() && edit_distance(name, close[0]) == 0) close.resize(1);
  std::string text;
  for (size_t i = 0; i < close.size(); ++i)
    text += format("{}\"{}\"", i == 0 ? "" : i + 1 == close.size() ? " or " : ", ", close[i]);
  return text.empty() ? "" : format("; did you mean {}?", text);
}

}  // namespace tenon
