#include "ep/cuda/compute/map_template.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/loops.h"

namespace tenon::cuda {

MapParams map_params(std::span<const int64_t> dims) {
  MapParams map{.count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>())};
  for (size_t d = 0; d < dims.size(); ++d) map.dims[d] = make_divisor(std::max<int64_t>(dims[d], 1));
  return map;
}

WindowParams window_params(const Window& window) {
  WindowParams params;
  for (size_t d = 0; d < window.axes.size(); ++d) {
    const WindowAxis& axis = window.axes[d];
    params.axes[d] = {.in = axis.in,
                      .kernel = static_cast<int32_t>(axis.kernel),
                      .stride = static_cast<int32_t>(axis.stride),
                      .dilation = static_cast<int32_t>(axis.dilation),
                      .pad_begin = static_cast<int32_t>(axis.pad_begin),
                      .pad_end = static_cast<int32_t>(axis.pad_end)};
  }
  return params;
}

EpilogueParams epilogue_params(const Epilogue& epilogue) {
  return {.alpha = epilogue.alpha, .beta = epilogue.beta, .residual_after = epilogue.residual_after ? 1 : 0};
}

TemplateEnum template_enum(Activation activation) { return {"tenon::Activation", static_cast<int>(activation)}; }

std::vector<int64_t> dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

Result<TensorId> plain_or_none(Lowering& to, const Node& node, size_t input) {
  if (node.input(input) == kNoValue) return kNoTensor;
  return to.plain(node.inputs[input]);
}

std::string kernel_arguments(const Window& window) {
  constexpr int64_t kMostTaps = 64;
  const bool few = window.kernel_count() <= kMostTaps;
  std::string list;
  for (const WindowAxis& axis : window.axes) list += format("{}{}", list.empty() ? "" : ", ", few ? axis.kernel : 0);
  return list;
}

bool is_wide(Lowering& to, const std::vector<int64_t>& dims, std::initializer_list<TensorId> tensors) {
  const Program& program = to.program();
  return needs_wide_index(dims, {}, 0) || std::any_of(tensors.begin(), tensors.end(), [&](TensorId id) {
           return id != kNoTensor && program.tensor(id).shape.element_count() > INT32_MAX;
         });
}

}  // namespace tenon::cuda
