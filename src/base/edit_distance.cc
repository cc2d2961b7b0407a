#include "base/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tenon {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

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

}  // namespace tenon
