// The CPU execution provider: own SIMD kernels, a plain reference behind each.
#pragma once

#include <memory>
#include <span>

#include "ep/api/kernel.h"

namespace tenon::cpu {

// `reference_only`: with the kernels of reference_kernels() alone, and every value in the plain layout.
std::unique_ptr<ExecutionProvider> make_cpu_provider(bool reference_only = false);

// The ordered lists, in this order; the first row that matches wins. The last one comes by families of operators: to
// put their rows side by side would cost each process more memory than loading a small model takes.
std::span<const KernelEntry> blocked_kernels();  // ops/blocked_list.cc: convolution, pooling, resize, layout
std::span<const KernelEntry> vector_kernels();   // ops/vector_list.cc: matmul, attention, norms, softmax, activations
std::span<const std::span<const KernelEntry>>
reference_kernels();  // ops/reference_list.cc: plain loops, every operator and type

// layout_choice.cc: the layouts that the kernels of a node want, given those of its inputs; all plain for a node
// that only the reference kernels serve.
LayoutChoice choose_kernel_layouts(const KernelNode& node);

}  // namespace tenon::cpu
