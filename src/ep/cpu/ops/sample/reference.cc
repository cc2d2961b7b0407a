// GridSample: elements at the positions of a grid; AffineGrid: such a grid.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/reference_access.h"
#include "ep/cpu/ops/sample/grid.h"
#include "ep/cpu/simd/doubles.h"
#include "ops/sample.h"

namespace tenon::cpu::ref {

namespace {

// --- GridSample

// Elements of `components` numbers each: complex ones have two.
struct GridPlan {
  GridSampleDesc desc;
  Shape x, grid;
  int64_t components = 1;
  int64_t positions = 1;  // of one image
};

// The element whose weight is the product of one tap of each axis; the axes' coordinates stand in the grid from the
// innermost axis outwards.
template <typename R, typename Body>
void each_tap(const GridPlan& plan, const R* position, const Body& body) {
  const int rank = plan.x.rank() - 2, width = grid_taps(plan.desc.mode);
  std::array<GridTaps<R>, Shape::kMaxRank> taps;
  for (int d = 0; d < rank; ++d) taps[d] = taps_at(plan.desc, position[rank - 1 - d], plan.x[d + 2]);
  std::array<int, Shape::kMaxRank> at{};
  while (true) {
    int64_t offset = 0;
    R weight = 1;
    for (int d = 0; d < rank; ++d) {
      const int64_t index = taps[d].index[at[d]];
      offset = offset < 0 || index < 0 ? -1 : offset * plan.x[d + 2] + index;
      weight *= taps[d].weight[at[d]];
    }
    if (offset >= 0) body(offset, weight);
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++at[d] < width) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

template <typename R>
void sample_grid(const GridPlan& plan, ReadNumber read, ReadNumber read_grid, WriteNumber write, const void* x,
                 const void* grid, void* y, size_t element_bytes) {
  const int rank = plan.x.rank() - 2;
  const int64_t channels = plan.x[1], inside = plan.x.element_count() / std::max<int64_t>(1, plan.x[0] * channels);
  std::array<R, Shape::kMaxRank> position{};
  for (int64_t n = 0; n < plan.x[0]; ++n) {
    for (int64_t p = 0; p < plan.positions; ++p) {
      for (int d = 0; d < rank; ++d) {
        position[d] = static_cast<R>(read_grid(grid, (n * plan.positions + p) * rank + d));
      }
      for (int64_t c = 0; c < channels * plan.components; ++c) {
        const int64_t image = (n * channels + c / plan.components) * inside, part = c % plan.components;
        const int64_t to = ((n * channels + c / plan.components) * plan.positions + p) * plan.components + part;
        double sum = 0;
        int64_t only = -1;
        each_tap(plan, position.data(), [&](int64_t offset, R weight) {
          only = (image + offset) * plan.components + part;
          sum += static_cast<double>(weight) * read(x, only);
        });
        if (plan.desc.mode != GridSampleDesc::Mode::kNearest) {
          write(y, to, sum);
        } else if (only >= 0) {
          // A whole element is copied: integers beyond a double's precision stay what they are.
          std::memcpy(static_cast<std::byte*>(y) + to * static_cast<int64_t>(element_bytes),
                      static_cast<const std::byte*>(x) + only * static_cast<int64_t>(element_bytes), element_bytes);
        } else {
          write(y, to, 0);
        }
      }
    }
  }
}

Result<RefImpl> make_grid_sample(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape &x = node.inputs[0].shape, &grid = node.inputs[1].shape;
  GridPlan plan{.x = x, .grid = grid};
  TENON_TRY_ASSIGN(plan.desc, read_grid_sample(*node.node, x.dims(), grid.dims()));
  Shape out{x[0], x[1]};
  for (int d = 1; d + 1 < grid.rank(); ++d) {
    out.push_back(grid[d]);
    plan.positions *= grid[d];
  }
  TENON_TRY(require_output(node, 0, out));
  DataType type = node.inputs[0].type;
  if (type == DataType::kComplex64 || type == DataType::kComplex128) {
    plan.components = 2;
    type = type == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  }
  const ReadNumber read = number_reader(type);
  const WriteNumber write = number_writer(type);
  TENON_UNSUPPORTED_IF(read == nullptr, "GridSample is not computed on {}.", data_type_name(type));
  TENON_TRY_ASSIGN(const ReadNumber read_grid, input_reader(node, 1));
  // An image without elements has nothing but zeros around it.
  for (int d = 2; d < x.rank(); ++d) {
    if (x[d] == 0) plan.desc.padding = GridSampleDesc::Padding::kZeros;
  }
  // Float32 decides which element is nearest, unless the grid is float64: as in ONNX Runtime and the fast kernels.
  const auto sample = node.inputs[1].type == DataType::kDouble ? &sample_grid<double> : &sample_grid<float>;
  RefImpl impl;
  impl.run = [plan, read, read_grid, write, sample, bytes = data_type_size(type)](KernelContext& context) -> Status {
    sample(plan, read, read_grid, write, context.inputs[0], context.inputs[1], context.outputs[0], bytes);
    return {};
  };
  return impl;
}

// --- AffineGrid

Result<RefImpl> make_affine_grid(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY_ASSIGN(const AffineGridDesc desc, read_affine_grid(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadNumber read, input_reader(node, 0));
  TENON_TRY_ASSIGN(const WriteNumber write, output_writer(node, 0));
  RefImpl impl;
  impl.run = [desc, read, write, out = output_spec(node, 0),
              size_spec = node.inputs[1]](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector size, read_ints(context, 1, size_spec));
    TENON_INVALID_IF(size.count != desc.spatial + 2 || size.values[0] != desc.batch,
                     "AffineGrid has a theta for {} images of {} axes and a size of {} numbers, the first being {}.",
                     desc.batch, desc.spatial, size.count, size.values[0]);
    Shape image, shape{desc.batch};
    for (int d = 0; d < desc.spatial; ++d) {
      image.push_back(size.values[d + 2]);
      shape.push_back(size.values[d + 2]);
    }
    shape.push_back(desc.spatial);
    TENON_TRY(shape.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    const int64_t positions = image.element_count(), n = desc.spatial;
    // The position of element `index` of an axis.
    const auto coordinate = [&](int64_t index, int64_t length) {
      const auto steps = static_cast<double>(length);
      // One element alone stands at the beginning.
      return desc.align_corners ? (length == 1 ? -1.0 : 2.0 * static_cast<double>(index) / (steps - 1) - 1)
                                : (2.0 * static_cast<double>(index) + 1) / steps - 1;
    };
    const int64_t row = n > 0 ? image[static_cast<int>(n - 1)] : 1;
    if (positions == 0) return {};
    std::vector<double> places(row);  // along the innermost axis
    for (int64_t j = 0; j < row; ++j) places[j] = coordinate(j, row);
    constexpr int64_t kGrain = 4096;
    context.pool->parallel_for(
        desc.batch * positions / row, std::max<int64_t>(1, kGrain / row), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            // The outer axes and the offset first; the innermost axis is added element by element.
            const int64_t theta = item * row / positions * n * (n + 1);
            const auto factor = [&](int64_t d, int64_t k) { return read(context.inputs[0], theta + d * (n + 1) + k); };
            std::array<double, 3> base{}, slope{};
            for (int64_t d = 0; d < n; ++d) {
              base[d] = factor(d, n);
              slope[d] = factor(d, 0);
            }
            int64_t rest = item;
            for (int64_t k = 1; k < n; ++k) {
              const int64_t length = image[static_cast<int>(n - 1 - k)];
              for (int64_t d = 0; d < n; ++d) base[d] += factor(d, k) * coordinate(rest % length, length);
              rest /= length;
            }
            if (out.type == DataType::kFloat) {
              auto* const to = static_cast<float*>(y) + item * row * n;
              double_table().affine_line(places.data(), row, slope.data(), base.data(), n, to);
              continue;
            }
            for (int64_t j = 0; j < row; ++j) {
              const double x = places[j];
              for (int64_t d = 0; d < n; ++d) write(y, (item * row + j) * n + d, slope[d] * x + base[d]);
            }
          }
        });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row < kAllSet | kComplexSet,
    &make_grid_sample > ("GridSample", 16),
    ref_row<kFloatSet, &make_affine_grid>("AffineGrid", 20),
};

}  // namespace

std::span<const KernelEntry> ref_sample_rows() { return kRows; }

}  // namespace tenon::cpu::ref
