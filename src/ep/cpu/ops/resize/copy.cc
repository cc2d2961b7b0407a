// Resize with mode nearest, whatever the type: elements are copied from a table of rows and one of columns.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/resize/grid.h"
#include "ep/cpu/ops/resize/rows.h"
#include "ep/cpu/simd/lines.h"

namespace tenon::cpu {

namespace {

using CopyColumns = void (*)(const std::byte* from, std::byte* to, const std::vector<int64_t>& columns, size_t bytes);

template <size_t kBytes>
void copy_columns(const std::byte* from, std::byte* to, const std::vector<int64_t>& columns, size_t) {
  for (size_t j = 0; j < columns.size(); ++j) std::memcpy(to + j * kBytes, from + columns[j] * kBytes, kBytes);
}

// Each column four times.
template <typename T>
void repeat_columns(const std::byte* from, std::byte* to, const std::vector<int64_t>& columns, size_t) {
  const auto* const x = reinterpret_cast<const T*>(from);
  auto* const y = reinterpret_cast<T*>(to);
  for (int64_t j = 0; j < std::ssize(columns) / 4; ++j)
    for (int64_t k = 0; k < 4; ++k) y[j * 4 + k] = x[j];
}

bool repeats(const std::vector<int64_t>& columns, int64_t times) {
  if (std::ssize(columns) % times != 0) return false;
  for (int64_t j = 0; j < std::ssize(columns); ++j)
    if (columns[j] != j / times) return false;
  return true;
}

CopyColumns columns_loop(size_t bytes, const std::vector<int64_t>& columns) {
  if (repeats(columns, 4) && (bytes == 1 || bytes == 4))
    return bytes == 1 ? &repeat_columns<uint8_t> : &repeat_columns<uint32_t>;
  switch (bytes) {
    case 1:
      return &copy_columns<1>;
    case 2:
      return &copy_columns<2>;
    case 4:
      return &copy_columns<4>;
    case 8:
      return &copy_columns<8>;
    case 32:  // a block of channels
      return &copy_columns<32>;
    default:
      return [](const std::byte* from, std::byte* to, const std::vector<int64_t>& columns, size_t size) {
        for (size_t j = 0; j < columns.size(); ++j) std::memcpy(to + j * size, from + columns[j] * size, size);
      };
  }
}

// The commonest case: each column twice, in several rows at a time; or null.
using TwiceColumns = void (*)(const void* x, int64_t n, int64_t rows, void* y);

TwiceColumns twice_loop(size_t bytes, const std::vector<int64_t>& columns) {
  if (!repeats(columns, 2)) return nullptr;
  return bytes == 1   ? line_table().twice8
         : bytes == 2 ? line_table().twice16
         : bytes == 4 ? line_table().twice32
                      : nullptr;
}

class ResizeCopy final : public Kernel {
 public:
  ResizeCopy(ResizeGrid grid, size_t element_bytes)
      : outer_(grid.outer),
        in_rows_(grid.rows.in),
        in_columns_(grid.columns.in),
        rows_(std::move(grid.rows.index)),
        columns_(std::move(grid.columns.index)),
        pixel_bytes_(grid.inner * element_bytes),
        twice_(twice_loop(pixel_bytes_, columns_)),
        loop_(columns_loop(pixel_bytes_, columns_)) {}

  Status run(KernelContext& context) const override {
    const auto* const x = context.input<std::byte>(0);
    auto* const y = context.output<std::byte>(0);
    const auto out_rows = std::ssize(rows_), out_columns = std::ssize(columns_);
    const size_t row_bytes = out_columns * pixel_bytes_;
    const int64_t grain = grain_of(out_columns * (1 + static_cast<int64_t>(pixel_bytes_) / 32));
    context.pool->parallel_for(outer_ * out_rows, std::max<int64_t>(4, grain), [&](int64_t begin, int64_t end) {
      int64_t plane = begin / out_rows, row = begin % out_rows, rows = 0;
      for (int64_t item = begin; item < end; item += rows) {
        const int64_t source = rows_[row], most = std::min(end - item, out_rows - row);
        for (rows = 1; rows < most && rows_[row + rows] == source; ++rows) continue;
        const std::byte* const from = x + (plane * in_rows_ + source) * in_columns_ * pixel_bytes_;
        std::byte* const to = y + item * row_bytes;
        if (twice_ != nullptr) {
          twice_(from, out_columns / 2, rows, to);
        } else {
          loop_(from, to, columns_, pixel_bytes_);
          for (int64_t r = 1; r < rows; ++r) std::memcpy(to + r * row_bytes, to, row_bytes);
        }
        row += rows;
        if (row == out_rows) row = 0, ++plane;
      }
    });
    return {};
  }
  std::string_view name() const override { return "resize_nearest"; }

 private:
  const int64_t outer_, in_rows_, in_columns_;
  const std::vector<int64_t> rows_, columns_;
  const size_t pixel_bytes_;
  const TwiceColumns twice_;
  const CopyColumns loop_;
};

}  // namespace

Status match_resize_copy(const KernelNode& node) {
  const TensorSpec& x = node.inputs[0];
  TENON_UNSUPPORTED_IF(data_type_size(x.type) == 0, "Elements of {} are no whole bytes.", data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.layout != node.outputs[0].layout, "Input and output have different layouts.");
  if (x.layout != Layout::kPlain) TENON_TRY(expect_blocked_type(x));
  TENON_TRY_ASSIGN(const ResizeSettings settings, read_resize_settings(*node.node));
  TENON_UNSUPPORTED_IF(settings.mode != ResizeSettings::Mode::kNearest, "The mode is not nearest.");
  // Layouts are chosen by this answer, so that it has to be the last word.
  return resize_grid(node).status();
}

Result<std::unique_ptr<Kernel>> create_resize_copy(const KernelNode& node) {
  TENON_TRY_ASSIGN(ResizeGrid grid, resize_grid(node));
  return std::unique_ptr<Kernel>(std::make_unique<ResizeCopy>(std::move(grid), data_type_size(node.inputs[0].type)));
}

}  // namespace tenon::cpu
