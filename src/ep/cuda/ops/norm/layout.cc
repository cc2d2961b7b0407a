#include "ep/cuda/ops/norm/layout.h"

#include <algorithm>
#include <bit>

#include "base/format.h"

namespace tenon::cuda {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
  return strides;
}

Groups split_groups(const std::vector<int64_t>& dims, const std::vector<bool>& shared,
                    const std::vector<int64_t>& scale) {
  const std::vector<int64_t> strides = dense_strides(dims);
  Groups groups;
  for (size_t d = 0; d < dims.size(); ++d) {
    (shared[d] ? groups.reduced : groups.dims).push_back(dims[d]);
    (shared[d] ? groups.reduced_strides : groups.strides).push_back(strides[d]);
    (shared[d] ? groups.scale_reduced_strides : groups.scale_strides).push_back(scale[d]);
  }
  return groups;
}

Layout lay_out(const Groups& groups, DataType type) {
  Layout layout{.kept = join_dims(groups.dims, {groups.strides, groups.scale_strides}, 0),
                .reduced = join_dims(groups.reduced, {groups.reduced_strides, groups.scale_reduced_strides}, 0),
                .outputs = count_of(groups.dims),
                .steps = count_of(groups.reduced)};
  const std::vector<int64_t>&kept = layout.kept.strides[0], &reduced = layout.reduced.strides[0];
  if (layout.outputs == 0 || layout.steps == 0) return layout;
  layout.beside = !kept.empty() && kept.back() == 1;
  // So many numbers of a thread fit into registers, with a block's most threads too.
  const int64_t most_held = type == DataType::kDouble ? 16 : 32;
  const auto power = [](int64_t value) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))); };
  if (layout.beside) {
    const int64_t width = std::min<int64_t>(power(layout.kept.dims.back()), 32);
    layout.lanes = std::clamp<int64_t>(power(layout.steps) / 4, 1, layout.threads / width);
  } else {
    if (!reduced.empty() && reduced.back() == 1) {
      layout.vector = static_cast<int64_t>(16 / data_type_size(type));
      const auto divides = [&](int64_t value) { return value % layout.vector == 0; };
      while (!divides(layout.reduced.dims.back()) || !std::all_of(kept.begin(), kept.end(), divides) ||
             !std::all_of(reduced.begin(), reduced.end() - 1, divides))
        layout.vector /= 2;
    }
    layout.steps /= layout.vector;
    constexpr int64_t kMostThreads = 1024;
    if (layout.steps * layout.vector > most_held * layout.threads) layout.threads = kMostThreads;
    layout.lanes = std::clamp<int64_t>(power((layout.steps + 1) / 2), 1, layout.threads);
  }
  layout.groups = layout.threads / layout.lanes;
  // Few different numbers, because each is a kernel of its own.
  const int64_t turns = (layout.steps + layout.lanes - 1) / layout.lanes;
  if (turns * layout.vector <= most_held) layout.turns = power(turns);
  return layout;
}

Result<NormKernel> norm_kernel(const Layout& layout, int64_t elements) {
  NormKernel kernel;
  const int64_t count = std::max<int64_t>(layout.steps * layout.vector, 1);
  kernel.params = {.outputs = layout.outputs,
                   .steps = layout.steps,
                   .parameter_step = layout.reduced.dims.empty() ? 0 : layout.reduced.strides[1].back(),
                   .inverse_count = 1.0 / static_cast<double>(count),
                   .inverse_count_float = static_cast<float>(1.0 / static_cast<double>(count)),
                   .lane_bits = static_cast<uint32_t>(std::countr_zero(static_cast<uint64_t>(layout.lanes))),
                   .beside = layout.beside ? 1 : 0};
  Loops reduced = layout.reduced;
  if (layout.vector > 1) {
    reduced.dims.back() /= layout.vector;
    for (std::vector<int64_t>& strides : reduced.strides) strides.back() *= layout.vector;
  }
  TENON_TRY_ASSIGN(kernel.params.kept, loop_params<2>(layout.kept));
  TENON_TRY_ASSIGN(kernel.params.reduced, loop_params<2>(reduced));
  TENON_TRY_ASSIGN(kernel.shape.grid_x, blocks_of(layout.outputs, layout.groups));
  kernel.shape.block_x = static_cast<unsigned>(layout.threads);
  kernel.arguments = format("{}, {}, {}, {}, {}", layout.threads, layout.turns, layout.vector,
                            layout.reduced.dims.size(), elements > INT32_MAX);
  return kernel;
}

}  // namespace tenon::cuda
