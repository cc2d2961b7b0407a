// GridSample of f32: blocks of positions, each for all channels.
#include <algorithm>

#include "ep/cpu/ops/sample/grid.h"
#include "ep/cpu/ops/sample/rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/sample.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kBlock = 128;  // positions

struct Problem {
  GridSampleDesc desc;
  Shape x;
  int rank = 2, taps = 1;                                // spatial axes, elements of a position
  int64_t batch = 0, channels = 0, inside = 1, out = 1;  // positions of an image of X and of Y
};

// The taps of a block.
struct Block {
  int32_t offset[kMostSampleTaps][kBlock];
  float weight[kMostSampleTaps][kBlock];
};

// The coordinates in the grid begin with the innermost axis.
void fill_position(const Problem& p, const float* position, int64_t i, Block& block) {
  int taps = 1;
  block.offset[0][i] = 0;
  block.weight[0][i] = 1;
  const int width = grid_taps(p.desc.mode);
  for (int d = 0; d < p.rank; ++d) {
    const int64_t length = p.x[d + 2];
    const GridTaps<float> axis = taps_at(p.desc, position[p.rank - 1 - d], length);
    // From the last tap down: each becomes `width` taps in place.
    for (int t = taps - 1; t >= 0; --t) {
      const int32_t offset = block.offset[t][i];
      const float weight = block.weight[t][i];
      for (int k = width - 1; k >= 0; --k) {
        const bool there = offset >= 0 && axis.index[k] >= 0;
        block.offset[t * width + k][i] = there ? static_cast<int32_t>(offset * length + axis.index[k]) : -1;
        block.weight[t * width + k][i] = weight * axis.weight[k];
      }
    }
    taps *= width;
  }
}

class GridSampleKernel final : public Kernel {
 public:
  explicit GridSampleKernel(const Problem& problem) : p_(problem) {}

  Status run(KernelContext& context) const override {
    const int64_t blocks = (p_.out + kBlock - 1) / kBlock;
    context.pool->parallel_for(p_.batch * blocks, 1, [&](int64_t begin, int64_t end) {
      Block block;
      for (int64_t task = begin; task < end; ++task) run_block(context, task / blocks, task % blocks * kBlock, block);
    });
    return {};
  }
  std::string_view name() const override { return "grid sample f32"; }

 private:
  void run_block(KernelContext& context, int64_t n, int64_t first, Block& block) const {
    const int64_t count = std::min(kBlock, p_.out - first);
    const float* const grid = context.input<float>(1) + (n * p_.out + first) * p_.rank;
    SampleTaps taps{.taps = p_.taps};
    for (int k = 0; k < p_.taps; ++k) taps.offset[k] = block.offset[k], taps.weight[k] = block.weight[k];
    if (p_.rank == 2 && p_.desc.mode == GridSampleDesc::Mode::kLinear &&
        p_.desc.padding != GridSampleDesc::Padding::kReflection) {
      int32_t* const offset[] = {block.offset[0], block.offset[1], block.offset[2], block.offset[3]};
      float* const weight[] = {block.weight[0], block.weight[1], block.weight[2], block.weight[3]};
      sample_table().linear_taps({.positions = grid,
                                  .count = count,
                                  .height = static_cast<int32_t>(p_.x[2]),
                                  .width = static_cast<int32_t>(p_.x[3]),
                                  .align_corners = p_.desc.align_corners,
                                  .border = p_.desc.padding == GridSampleDesc::Padding::kBorder},
                                 offset, weight);
    } else {
      for (int64_t i = 0; i < count; ++i) fill_position(p_, grid + i * p_.rank, i, block);
    }
    for (int64_t c = 0; c < p_.channels; ++c) {
      const int64_t image = n * p_.channels + c;
      sample_table().weighted(context.input<float>(0) + image * p_.inside, taps,
                              context.output<float>(0) + image * p_.out + first, count);
    }
  }

  const Problem p_;
};

Result<Problem> problem_of(const KernelNode& node) {
  const Shape &x = input_spec(node, 0).shape, &grid = input_spec(node, 1).shape;
  Problem p{.x = x, .rank = x.rank() - 2, .batch = x[0], .channels = x[1]};
  TENON_TRY_ASSIGN(p.desc, read_grid_sample(*node.node, x.dims(), grid.dims()));
  for (int d = 0; d < p.rank && p.taps <= kMostSampleTaps; ++d) p.taps *= grid_taps(p.desc.mode);
  TENON_UNSUPPORTED_IF(p.taps > kMostSampleTaps, "Each position reads more than {} elements.", kMostSampleTaps);
  p.inside = span_count(x, 2, x.rank());
  p.out = span_count(grid, 1, grid.rank() - 1);
  TENON_UNSUPPORTED_IF(p.inside == 0 || p.inside > INT32_MAX, "An image has {} elements.", p.inside);
  return p;
}

}  // namespace

Status match_grid_sample(const KernelNode& node) {
  TENON_TRY(match_plain(node, DataType::kFloat));
  TENON_UNSUPPORTED_IF(input_spec(node, 0).shape.rank() < 3, "X has rank {}.", input_spec(node, 0).shape.rank());
  return problem_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_grid_sample(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, problem_of(node));
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != problem.batch * problem.channels * problem.out,
                   "The output of shape {} does not have {} positions for each of {} images.",
                   output_spec(node, 0).shape.to_string(), problem.out, problem.batch * problem.channels);
  return std::unique_ptr<Kernel>(std::make_unique<GridSampleKernel>(problem));
}

}  // namespace tenon::cpu::nn
