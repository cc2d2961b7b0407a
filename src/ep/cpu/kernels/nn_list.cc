// Matrix products, attention, norms, softmax and activations, best first.
#include "ep/cpu/cpu_provider.h"

namespace tenon::cpu {

std::span<const KernelEntry> nn_kernels() { return {}; }

}  // namespace tenon::cpu
