// DynamicTimeWarping: the cheapest way through a matrix of costs, from its first element to its last.
#include <algorithm>

#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

namespace {

enum class Step : uint8_t { kBoth, kRow, kColumn };

// Costs of a way to each element, with a row and a column before the first, and the step that leads there.
struct Ways {
  int64_t rows = 0, columns = 0;

  int64_t count() const { return (rows + 1) * (columns + 1); }
  // Of equal steps the one along a row of the matrix comes first.
  void search(const float* costs, float* sums, Step* steps) const {
    const int64_t width = columns + 1;
    std::fill_n(sums, count(), std::numeric_limits<float>::infinity());
    sums[0] = 0;
    for (int64_t i = 1; i <= rows; ++i) {
      for (int64_t j = 1; j <= columns; ++j) {
        const float both = sums[(i - 1) * width + j - 1], row = sums[(i - 1) * width + j],
                    column = sums[i * width + j - 1];
        Step step = Step::kColumn;
        float least = column;
        if (both < row && both < column) {
          step = Step::kBoth, least = both;
        } else if (row < both && row < column) {
          step = Step::kRow, least = row;
        }
        sums[i * width + j] = costs[(i - 1) * columns + j - 1] + least;
        steps[i * width + j] = step;
      }
    }
  }

  // Calls body(row, column) from the last element back to the first.
  template <typename Body>
  int64_t walk_back(const Step* steps, const Body& body) const {
    int64_t i = rows, j = columns, length = 0;
    while (i > 0 || j > 0) {
      body(length++, i - 1, j - 1);
      const Step step = i == 0 ? Step::kColumn : j == 0 ? Step::kRow : steps[i * (columns + 1) + j];
      if (step != Step::kColumn) --i;
      if (step != Step::kRow) --j;
    }
    return length;
  }
};

Result<RefImpl> make_time_warping(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const bool batched = x.rank() == 3 && x[0] == 1;
  TENON_INVALID_IF((x.rank() != 2 && !batched) || x.element_count() == 0,
                   "DynamicTimeWarping takes one matrix that is not empty, not {}.", x.to_string());
  const Ways ways{x[x.rank() - 2], x[x.rank() - 1]};
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(ways.count()) * (sizeof(float) + sizeof(Step));
  impl.run = [ways, spec = output_spec(node, 0)](KernelContext& context) -> Status {
    auto* const sums = reinterpret_cast<float*>(context.scratch);
    auto* const steps = reinterpret_cast<Step*>(sums + ways.count());
    ways.search(context.input<float>(0), sums, steps);
    const int64_t length = ways.walk_back(steps, [](int64_t, int64_t, int64_t) {});
    TENON_TRY_ASSIGN(void* const memory, open_output(context, spec, 0, Shape{2, length}));
    auto* const y = static_cast<int32_t*>(memory);
    ways.walk_back(steps, [&](int64_t at, int64_t i, int64_t j) {
      y[length - 1 - at] = static_cast<int32_t>(i);
      y[2 * length - 1 - at] = static_cast<int32_t>(j);
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make_time_warping>("DynamicTimeWarping", 1, kAnyVersion, "com.microsoft"),
};

}  // namespace

std::span<const KernelEntry> decoding_rows() { return kRows; }

}  // namespace tenon::cpu::ref
