#include "ep/cpu/kernel_list.h"

#include <string_view>
#include <unordered_map>

#include "ep/cpu/cpu_provider.h"

namespace tenon::cpu {

namespace {

struct Row {
  const KernelEntry* entry;
  bool reference;
};

// Every row of an operator's name, best first: loading a model asks for each of its nodes.
const std::vector<Row>& rows_named(std::string_view op_type) {
  using Index = std::unordered_map<std::string_view, std::vector<Row>>;
  static const Index kIndex = [] {
    Index index;
    for (std::span<const KernelEntry> list : {blocked_kernels(), vector_kernels()}) {
      for (const KernelEntry& entry : list) index[entry.op_type].push_back({&entry, false});
    }
    for (const KernelEntry& entry : reference_kernels()) index[entry.op_type].push_back({&entry, true});
    return index;
  }();
  static const std::vector<Row> kNone;
  const auto found = kIndex.find(op_type);
  return found == kIndex.end() ? kNone : found->second;
}

std::vector<const KernelEntry*> rows_of(const Node& node, bool reference_only) {
  std::vector<const KernelEntry*> rows;
  for (const Row& row : rows_named(node.op_type)) {
    const bool serves = row.entry->domain == node.domain && row.entry->since <= node.since_version &&
                        node.since_version <= row.entry->until;
    if (serves && (row.reference || !reference_only)) rows.push_back(row.entry);
  }
  return rows;
}

}  // namespace

std::vector<const KernelEntry*> rows_of(const Node& node) { return rows_of(node, false); }

std::vector<const KernelEntry*> reference_rows_of(const Node& node) { return rows_of(node, true); }

std::vector<std::pair<int, int>> versions_of(const Node& node) {
  std::vector<std::pair<int, int>> versions;
  for (const Row& row : rows_named(node.op_type)) {
    if (row.entry->domain == node.domain) versions.emplace_back(row.entry->since, row.entry->until);
  }
  return versions;
}

}  // namespace tenon::cpu
