// Convolution, pooling, resize and the reorders between layouts, best first.
#include "ep/cpu/cpu_provider.h"

namespace tenon::cpu {

std::span<const KernelEntry> conv_kernels() { return {}; }

LayoutChoice choose_kernel_layouts(const KernelNode& node) {
  return {std::vector<Layout>(node.inputs.size(), Layout::kPlain),
          std::vector<Layout>(node.outputs.size(), Layout::kPlain)};
}

}  // namespace tenon::cpu
