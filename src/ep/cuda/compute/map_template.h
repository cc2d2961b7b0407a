// Kernel templates whose threads each make one element of a map (ep/cuda/templates/window.cuh).
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/templates/window_params.h"
#include "ops/window.h"

namespace tenon::cuda {

// At most kMostDims sizes, outermost first.
MapParams map_params(std::span<const int64_t> dims);
WindowParams window_params(const Window& window);
EpilogueParams epilogue_params(const Epilogue& epilogue);
TemplateEnum template_enum(Activation activation);
// The window's extents as template arguments (Kernel in window.cuh): "3, 3". Zeros where it has many taps: loops over
// them gain nothing by being unrolled.
std::string kernel_arguments(const Window& window);

std::vector<int64_t> dims_of(const Shape& shape);
// An input with channels first, or kNoTensor where the node leaves it out.
Result<TensorId> plain_or_none(Lowering& to, const Node& node, size_t input);

// Whether 32 bits cannot count the elements of the map or of one of the tensors (kNoTensor counts as none).
bool is_wide(Lowering& to, const std::vector<int64_t>& dims, std::initializer_list<TensorId> tensors);

// Adds a kernel with a thread for each of `count` elements, from the header's template; nothing where there are none.
// kNoTensor among reads and writes is a null pointer for the kernel.
template <typename Params>
Status add_map(Lowering& to, const Node& node, std::string what, const char* header, const std::string& instance,
               const Params& params, int64_t count, std::vector<TensorId> reads, std::vector<TensorId> writes) {
  if (count == 0) return Status();
  TENON_TRY_ASSIGN(const LaunchShape shape, map_launch(count));
  return to.add_kernel(
      node, std::move(what),
      TemplateKernel{.header = header, .instance = instance, .params = kernel_params(params), .shape = shape},
      std::move(reads), std::move(writes));
}

}  // namespace tenon::cuda
