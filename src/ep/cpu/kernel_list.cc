#include "ep/cpu/kernel_list.h"

#include <string_view>

#include "base/name_index.h"
#include "ep/cpu/cpu_provider.h"

namespace tenon::cpu {

namespace {

// Every row, best first, by the name of its operator: loading a model asks for each of its nodes.
struct Table {
  Table() : index(count()) {
    rows.reserve(count());
    add(blocked_kernels());
    add(vector_kernels());
    fast = rows.size();
    for (std::span<const KernelEntry> family : reference_kernels()) add(family);
  }

  // Calls found(entry, whether it is a reference kernel) for each row of the name.
  template <typename Found>
  void each(std::string_view op_type, Found&& found) const {
    for (int32_t row = index.first(op_type); row != NameIndex::kNone; row = index.next(row)) {
      const auto at = static_cast<size_t>(row);
      found(*rows[at], at >= fast);
    }
  }

  static size_t count() {
    size_t all = blocked_kernels().size() + vector_kernels().size();
    for (std::span<const KernelEntry> family : reference_kernels()) all += family.size();
    return all;
  }

  void add(std::span<const KernelEntry> list) {
    for (const KernelEntry& entry : list) {
      index.add(entry.op_type);
      rows.push_back(&entry);
    }
  }

  NameIndex index;
  std::vector<const KernelEntry*> rows;
  size_t fast = 0;  // rows before those of the reference kernels
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
