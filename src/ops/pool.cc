#include "ops/pool.h"

#include <utility>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

Status check_pads(const Window& window) {
  for (size_t i = 0; i < window.axes.size(); ++i) {
    const WindowAxis& axis = window.axes[i];
    for (int64_t pad : {axis.pad_begin, axis.pad_end})
      TENON_INVALID_IF(pad >= axis.reach(), "In spatial dimension {} the pad {} is not smaller than the kernel ({}).",
                       i, pad, axis.reach());
  }
  return {};
}

Window whole_image(std::span<const int64_t> in) {
  Window window;
  for (int64_t size : in) window.axes.push_back({.in = size, .out = 1, .kernel = size});
  return window;
}

}  // namespace

Shape PoolDesc::output() const {
  Shape shape{batch, channels};
  for (const WindowAxis& axis : window.axes) shape.push_back(axis.out);
  return shape;
}

Result<PoolDesc> read_pool(const Node& node, std::span<const int64_t> x) {
  const Attributes attributes(node);
  std::string_view name = node.op_type;
  if (name.starts_with("QLinear")) name.remove_prefix(std::string_view("QLinear").size());
  PoolDesc pool{.global = name.starts_with("Global")};
  if (pool.global) name.remove_prefix(std::string_view("Global").size());
  TENON_INVALID_IF(x.size() < 3, "X has rank {}; {} needs rank 3 or more.", x.size(), node.op_type);
  pool.batch = x[0];
  pool.channels = x[1];
  if (name == "AveragePool") {
    pool.kind = PoolDesc::Kind::kAverage;
    pool.count_include_pad = !pool.global && attributes.flag("count_include_pad");
  } else if (name == "LpPool") {
    pool.kind = PoolDesc::Kind::kLp;
    pool.p = node.since_version == 1 ? static_cast<double>(attributes.number("p"))
                                     : static_cast<double>(attributes.integer("p"));
    TENON_INVALID_IF(!(pool.p >= 1), "Attribute \"p\" ({}) has to be 1 or more.", pool.p);
  } else {
    pool.column_major = !pool.global && attributes.flag("storage_order");
  }
  const std::span<const int64_t> in = x.subspan(2);
  if (pool.global) {
    pool.window = whole_image(in);
    return pool;
  }
  const std::span<const int64_t> kernel = attributes.integers("kernel_shape");
  TENON_INVALID_IF(kernel.size() != in.size(), "Attribute \"kernel_shape\" has {} values; X of rank {} needs {}.",
                   kernel.size(), x.size(), in.size());
  TENON_TRY_ASSIGN(pool.window, read_window(node, in, kernel));
  pool.window.ceil_mode = attributes.find_integer("ceil_mode").value_or(0) != 0;
  TENON_TRY(check_pads(pool.window));
  TENON_TRY(slide(pool.window, LargeKernel::kCut));
  constexpr int kCountsWhatIsThere = 19;  // as ONNX Runtime does from this version of AveragePool on
  for (WindowAxis& axis : pool.window.axes)
    axis.counts_whole = node.since_version < kCountsWhatIsThere && !pool.window.ceil_mode;
  return pool;
}

namespace infer {

namespace {

// MaxPool's second output holds the indices of the elements.
Status infer_pool(Context& c) {
  c.set_type(0, c.type(0));
  c.set_type(1, DataType::kInt64);
  if (!c.ranked(0)) return {};
  Dims out = c.dims(0);
  std::vector<int64_t> x;
  for (const Dim& dim : out) x.push_back(dim.value);
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(c.node(), x));
  for (size_t i = 0; i < pool.window.axes.size(); ++i) {
    const WindowAxis& axis = pool.window.axes[i];
    if (axis.out != kUnknownSize) {
      out[i + 2] = number(axis.out);
    } else if (!pool.window.keeps_size(i)) {
      out[i + 2] = Dim{};
    }
  }
  TENON_TRY(c.set_dims(1, out));
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"AveragePool", &infer_pool},  {"GlobalAveragePool", &infer_pool},
    {"GlobalLpPool", &infer_pool}, {"GlobalMaxPool", &infer_pool},
    {"LpPool", &infer_pool},       {"MaxPool", &infer_pool},
};

}  // namespace

std::span<const Row> pool_rows() { return kRows; }

}  // namespace infer

}  // namespace tenon
