#include "ep/cpu/kernel_list.h"

#include <string_view>

#include "base/name_index.h"
#include "ep/cpu/cpu_provider.h"

namespace tenon::cpu {

namespace {

// Every row, best first, by the name of its operator: loading a model asks for each of its nodes.
struct Table {
  Table()
      : lists{blocked_kernels(), vector_kernels(), reference_kernels()},
        index(lists[0].size() + lists[1].size() + lists[2].size()) {
    for (std::span<const KernelEntry> list : lists)
      for (const KernelEntry& entry : list) index.add(entry.op_type);
  }

  // Calls found(entry, whether it is a reference kernel) for each row of the name.
  template <typename Found>
  void each(std::string_view op_type, Found&& found) const {
    const size_t blocked = lists[0].size(), fast = blocked + lists[1].size();
    for (int32_t number = index.first(op_type); number != NameIndex::kNone; number = index.next(number)) {
      const auto row = static_cast<size_t>(number);
      if (row < blocked) {
        found(lists[0][row], false);
      } else if (row < fast) {
        found(lists[1][row - blocked], false);
      } else {
        found(lists[2][row - fast], true);
      }
    }
  }

  std::span<const KernelEntry> lists[3];
  NameIndex index;
};

const Table& table() {
  static const Table kTable;
  return kTable;
}

std::vector<const KernelEntry*> rows_of(const Node& node, bool reference_only) {
  std::vector<const KernelEntry*> rows;
  table().each(node.op_type, [&](const KernelEntry& entry, bool reference) {
    const bool serves =
        entry.domain == node.domain && entry.since <= node.since_version && node.since_version <= entry.until;
    if (serves && (reference || !reference_only)) rows.push_back(&entry);
  });
  return rows;
}

}  // namespace

std::vector<const KernelEntry*> rows_of(const Node& node) { return rows_of(node, false); }

std::vector<const KernelEntry*> reference_rows_of(const Node& node) { return rows_of(node, true); }

std::vector<std::pair<int, int>> versions_of(const Node& node) {
  std::vector<std::pair<int, int>> versions;
  table().each(node.op_type, [&](const KernelEntry& entry, bool) {
    if (entry.domain == node.domain) versions.emplace_back(entry.since, entry.until);
  });
  return versions;
}

}  // namespace tenon::cpu
