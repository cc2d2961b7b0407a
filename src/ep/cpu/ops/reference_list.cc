// The plain kernels: every operator that Tenon runs has its last row here.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu {

std::span<const KernelEntry> reference_kernels() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all;
    const auto add = [&](std::span<const KernelEntry> rows) { all.insert(all.end(), rows.begin(), rows.end()); };
#define TENON_ADD_(function) add(ref::function());
    TENON_REFERENCE_FAMILIES(TENON_ADD_)
#undef TENON_ADD_
    return all;
  }();
  return kAll;
}

}  // namespace tenon::cpu
