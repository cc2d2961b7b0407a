#include "ep/cpu/kernel_list.h"

#include <array>

#include "ep/cpu/cpu_provider.h"

namespace tenon::cpu {

namespace {

bool serves(const KernelEntry& entry, const Node& node) {
  return entry.op_type == node.op_type && entry.domain == node.domain && entry.since <= node.since_version &&
         node.since_version <= entry.until;
}

}  // namespace

std::vector<const KernelEntry*> rows_of(const Node& node) {
  std::vector<const KernelEntry*> rows;
  for (std::span<const KernelEntry> list : {conv_kernels(), nn_kernels(), reference_kernels()}) {
    for (const KernelEntry& entry : list) {
      if (serves(entry, node)) rows.push_back(&entry);
    }
  }
  return rows;
}

std::vector<const KernelEntry*> reference_rows_of(const Node& node) {
  std::vector<const KernelEntry*> rows;
  for (const KernelEntry& entry : reference_kernels()) {
    if (serves(entry, node)) rows.push_back(&entry);
  }
  return rows;
}

std::vector<std::pair<int, int>> versions_of(const Node& node) {
  std::vector<std::pair<int, int>> versions;
  for (std::span<const KernelEntry> list : {conv_kernels(), nn_kernels(), reference_kernels()}) {
    for (const KernelEntry& entry : list) {
      if (entry.op_type == node.op_type && entry.domain == node.domain) versions.emplace_back(entry.since, entry.until);
    }
  }
  return versions;
}

}  // namespace tenon::cpu
