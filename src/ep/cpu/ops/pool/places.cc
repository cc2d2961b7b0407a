// MaxPool with indices: neighbouring outputs compare their taps side by side, in the order of the window.
#include <array>

#include "ep/cpu/ops/pool/inside.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/pool.h"
#include "ops/pool.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kMostTaps = 64;  // of a window
constexpr int64_t kPiece = 512;    // outputs of a row
constexpr int64_t kGrain = 16384;  // taps of a chunk

class PoolPlaces final : public Kernel {
 public:
  explicit PoolPlaces(PoolDesc pool) : pool_(std::move(pool)), insides_(insides_of(pool_.window)) {
    // Outputs [low, high) of a row have all their taps along it in the image.
    const WindowAxis& axis = pool_.window.axes.back();
    const std::vector<Inside>& row = insides_.back();
    while (low_ < axis.out && row[low_].count() < axis.kernel) ++low_;
    high_ = low_;
    while (high_ < axis.out && row[high_].count() == axis.kernel) ++high_;
  }

  Status run(KernelContext& context) const override {
    const int64_t row = pool_.window.axes.back().out, rows = pool_.window.out_count() / row;
    const int64_t grain = std::max<int64_t>(1, kGrain / (row * pool_.window.kernel_count()));
    context.pool->parallel_for(pool_.batch * pool_.channels * rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        run_row(context.input<float>(0), i / rows, i % rows, context.output<float>(0) + i * row,
                context.output<int64_t>(1) + i * row);
    });
    return {};
  }
  std::string_view name() const override { return "max_pool places"; }

 private:
  void run_row(const float* x, int64_t plane, int64_t row, float* y, int64_t* indices) const {
    const int64_t first = plane * pool_.window.in_count();
    const WindowAxis& axis = pool_.window.axes.back();
    std::array<int64_t, kMostTaps> rows;  // of the image
    const int64_t count = rows_of(row, rows);
    const auto run = [&](int64_t begin, int64_t end) {
      const Inside& inside = insides_.back()[begin];
      std::array<int32_t, kMostTaps> taps;
      std::array<int32_t, kPiece> at;
      int64_t n = 0;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t k = 0; k < inside.count(); ++k)
          taps[n++] = static_cast<int32_t>(rows[i] + inside.begin + k * axis.dilation);
      pool_table().maximum_at(x + first, taps.data(), n, axis.stride, y + begin, at.data(), end - begin);
      for (int64_t i = begin; i < end; ++i) indices[i] = first + at[i - begin];
    };
    for (int64_t p = 0; p < low_; ++p) run(p, p + 1);
    for (int64_t p = low_; p < high_; p += kPiece) run(p, std::min(high_, p + kPiece));
    for (int64_t p = high_; p < axis.out; ++p) run(p, p + 1);
  }

  // Where the rows of the image begin that a row of outputs reads, in the order of the window.
  int64_t rows_of(int64_t row, std::array<int64_t, kMostTaps>& rows) const {
    rows[0] = 0;
    int64_t count = 1, stride = pool_.window.axes.back().in;
    for (size_t d = pool_.window.axes.size() - 1; d-- > 0;) {
      const WindowAxis& axis = pool_.window.axes[d];
      const Inside& inside = insides_[d][row % axis.out];
      // From the last one down: the taps of an outer axis lie further apart.
      for (int64_t k = inside.count(); k-- > 0;)
        for (int64_t i = count; i-- > 0;) rows[k * count + i] = rows[i] + (inside.begin + k * axis.dilation) * stride;
      count *= inside.count();
      row /= axis.out;
      stride *= axis.in;
    }
    return count;
  }

  const PoolDesc pool_;
  const std::vector<std::vector<Inside>> insides_;
  int64_t low_ = 0, high_ = 0;
};

}  // namespace

Status match_pool_places(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0), &indices = output_spec(node, 1);
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat || y.type != x.type || !y.present() || !indices.present(),
                       "There are no indices, or the elements are {}.", data_type_name(x.type));
  for (const TensorSpec* spec : {&x, &y, &indices})
    TENON_UNSUPPORTED_IF(spec->layout != Layout::kPlain || spec->dynamic,
                         "A tensor is not plain, or its size is not known beforehand.");
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(*node.node, x.shape));
  TENON_INVALID_IF(pool.output() != y.shape || pool.output() != indices.shape, "The outputs are {} and {}, not {}.",
                   y.shape.to_string(), indices.shape.to_string(), pool.output().to_string());
  TENON_UNSUPPORTED_IF(pool.column_major, "Indices are counted down the columns.");
  TENON_UNSUPPORTED_IF(pool.window.axes.empty() || y.shape.element_count() == 0, "There are no windows.");
  TENON_UNSUPPORTED_IF(pool.window.in_count() > INT32_MAX || pool.window.kernel_count() > kMostTaps,
                       "An image has {} elements, and a window {}.", pool.window.in_count(),
                       pool.window.kernel_count());
  for (const std::vector<Inside>& along : insides_of(pool.window))
    for (const Inside& inside : along) TENON_UNSUPPORTED_IF(inside.count() == 0, "Some windows hold no input.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_pool_places(const KernelNode& node) {
  TENON_TRY_ASSIGN(PoolDesc pool, read_pool(*node.node, input_spec(node, 0).shape));
  return std::unique_ptr<Kernel>(std::make_unique<PoolPlaces>(std::move(pool)));
}

}  // namespace tenon::cpu::nn
