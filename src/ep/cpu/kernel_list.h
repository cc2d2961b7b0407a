// Looks up rows of the three ordered lists of cpu_provider.h.
#pragma once

#include <utility>
#include <vector>

#include "ep/api/kernel.h"

namespace tenon::cpu {

// The rows for the node's operator, domain and version, best first. Whether one matches is not asked.
std::vector<const KernelEntry*> rows_of(const Node& node);
// The same, of reference_kernels() only: their match looks at element types and layouts, never at shapes.
std::vector<const KernelEntry*> reference_rows_of(const Node& node);
// {since, until} of every row for the node's operator and domain, whatever version; for messages.
std::vector<std::pair<int, int>> versions_of(const Node& node);

}  // namespace tenon::cpu
