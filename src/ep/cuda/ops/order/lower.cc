// Sums and products along an axis.
#include <algorithm>

#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/order/scan_params.h"
#include "ops/order.h"

namespace tenon::cuda {

namespace {

constexpr const char* kHeader = "ep/cuda/ops/order/scan.cuh";
// Elements that a block scans at once.
constexpr int64_t kTile = 4 * int64_t{kMapThreads};

// [outer, length, inner], scanned along the length. To keep a device busy, lines are cut into `chunks` of `chunk`
// elements (the last may be shorter).
struct Scan {
  int64_t outer = 1, length = 0, inner = 1;
  int64_t chunk = 0, chunks = 1;
  bool rows = false;  // elements of a line are neighbours, and a block has a chunk; else a thread has one
  DataType type = DataType::kFloat, total_type = DataType::kFloat;
  std::string kind;  // ScanKind of scan.cuh
  bool wide = false;

  std::string instance(const char* kernel) const { return template_instance(kernel, kind, type, total_type, wide); }
};

// One of the kernels. Errors: kUnsupported for more chunks than a grid has blocks.
Status add_part(Lowering& to, const Node& node, const Scan& scan, const char* kernel, std::vector<TensorId> reads,
                TensorId out) {
  const int64_t count = scan.outer * scan.chunks * (scan.rows ? 1 : scan.inner);
  const ScanParams params{.count = count,
                          .length = scan.length,
                          .inner = scan.inner,
                          .chunk = scan.chunk,
                          .chunks = make_divisor(scan.chunks),
                          .inner_size = make_divisor(scan.inner)};
  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(count, scan.rows ? 1 : kMapThreads));
  return to.add_kernel(node, kernel,
                       TemplateKernel{.header = kHeader,
                                      .instance = scan.instance(kernel),
                                      .params = kernel_params(params),
                                      .shape = {.grid_x = blocks, .block_x = kMapThreads}},
                       std::move(reads), {out});
}

}  // namespace

Status lower_scan(Lowering& to, const Node& node) {
  const CumulativeDesc desc = read_cumulative(node);
  TENON_TRY_ASSIGN(const std::vector<int64_t> axes, to.integers(node, 1));
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_INVALID_IF(axes.size() != 1, "{} has {} axes.", to.label(node), axes.size());
  TENON_UNSUPPORTED_IF(tensor.type == DataType::kBool, "{} adds up truth values.", to.label(node));
  TENON_TRY_ASSIGN(const int axis, normalized_axis(axes[0], tensor.shape.rank()));
  if (tensor.shape.element_count() == 0) return Status();
  const AxisSpan span = axis_span(tensor.shape, axis);
  const std::string number = compute_type(tensor.type);
  Scan scan{.outer = span.outer,
            .length = span.length,
            .inner = span.inner,
            .rows = span.inner == 1 && span.length >= 256,
            .type = tensor.type,
            // In the type that sums are computed in.
            .total_type = number == "float"      ? DataType::kFloat
                          : number == "int"      ? DataType::kInt32
                          : number == "unsigned" ? DataType::kUint32
                                                 : tensor.type,
            .kind = template_instance("ScanKind", desc.product, desc.reverse, desc.exclusive),
            .wide = is_wide(to, {}, {from, out})};
  constexpr int64_t kBlocks = 1024, kThreads = int64_t{1} << 17, kLeastTiles = 4, kLeastSteps = 32;
  const auto parts = [](int64_t wanted, int64_t have, int64_t most) {
    return std::clamp<int64_t>((wanted + have - 1) / have, 1, std::max<int64_t>(most, 1));
  };
  if (scan.rows) {
    const int64_t tiles = (scan.length + kTile - 1) / kTile, chunks = parts(kBlocks, scan.outer, tiles / kLeastTiles);
    scan.chunk = (tiles + chunks - 1) / chunks * kTile;
  } else {
    const int64_t chunks = parts(kThreads, scan.outer * scan.inner, scan.length / kLeastSteps);
    scan.chunk = (scan.length + chunks - 1) / chunks;
  }
  scan.chunks = (scan.length + scan.chunk - 1) / scan.chunk;
  TensorId totals = kNoTensor;
  if (scan.chunks > 1) {
    TENON_TRY_ASSIGN(totals, to.program().add_tensor(scan.total_type, Shape{scan.outer, scan.chunks, scan.inner}));
    TENON_TRY(add_part(to, node, scan, scan.rows ? "scan_row_totals" : "scan_column_totals", {from}, totals));
  }
  return add_part(to, node, scan, scan.rows ? "scan_rows" : "scan_columns", {from, totals}, out);
}

}  // namespace tenon::cuda
