// The plain kernels: every operator that Tenon runs has its last row here.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu {

std::span<const std::span<const KernelEntry>> reference_kernels() {
#define TENON_ROWS_(function) ref::function(),
  static const std::span<const KernelEntry> kFamilies[] = {TENON_REFERENCE_FAMILIES(TENON_ROWS_)};
#undef TENON_ROWS_
  return kFamilies;
}

}  // namespace tenon::cpu
