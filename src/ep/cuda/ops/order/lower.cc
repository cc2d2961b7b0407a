// Sums and products along an axis.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"
#include "ops/order.h"

namespace tenon::cuda {

namespace {

// [outer, length, inner], scanned along the length. What keeps a device busy: lines are cut into `chunks` of `chunk`
// elements (the last may be shorter); the totals of all are made first, and each chunk begins with those before it.
struct Scan {
  int64_t outer = 1, length = 0, inner = 1;
  int64_t chunk = 0, chunks = 1;
  DataType type = DataType::kFloat;
  std::string number, start, operation;
  bool exclusive = false, reverse = false;

  // Where element `k` of the line is.
  std::string at(const std::string& k, const std::string& outer_index, const std::string& inner_index) const {
    const std::string along = reverse ? format("({}u - {})", length - 1, k) : k;
    return format("({} * {} + {}) * {}{}", outer_index, length, along, inner,
                  inner_index.empty() ? "" : " + " + inner_index);
  }
  std::string joined(const std::string& a, const std::string& b) const { return format("{} {} {}", a, operation, b); }
};

constexpr int64_t kTile = 4 * int64_t{kGeneratedThreads};

// Text: `carry` becomes what comes before chunk i1, of which all threads have a part in `mine`.
std::string joined_by_block(const Scan& scan, const char* result) {
  return format(
      "  parts[threadIdx.x] = mine;\n  __syncthreads();\n  for (unsigned n = {0}u; n > 0; n /= 2) {{\n"
      "    if (threadIdx.x < n) parts[threadIdx.x] = {1};\n    __syncthreads();\n  }}\n"
      "  const {2} {3} = parts[0];\n  __syncthreads();\n",
      kGeneratedThreads / 2, scan.joined("parts[threadIdx.x]", "parts[threadIdx.x + n]"), scan.number, result);
}

// Lines whose elements are neighbours: a block goes through a chunk in tiles of four elements a thread.
Status scan_rows(Lowering& to, const Node& node, const Scan& scan, TensorId from, TensorId totals, TensorId out) {
  MapKernel kernel(to, node, "scan_rows");
  kernel.map().by_block = true;
  kernel.map().dims = {scan.outer, scan.chunks};
  kernel.read(from, "a");
  std::string& body = kernel.body();
  body = format("  __shared__ {0} parts[{1}];\n  {0} carry = {2};\n", scan.number, kGeneratedThreads, scan.start);
  if (totals != kNoTensor) {
    kernel.read(totals, "p");
    body += format(
        "  {0} mine = {1};\n  for (index_t n = threadIdx.x; n < i1; n += {2}u) mine = {3};\n{4}  carry = before;\n",
        scan.number, scan.start, kGeneratedThreads, scan.joined("mine", format("p[i0 * {} + n]", scan.chunks)),
        joined_by_block(scan, "before"));
  }
  kernel.write(out, "y");
  body += format(
      "  index_t last = i1 * {0}u + {0}u;\n  if (last > {1}u) last = {1}u;\n"
      "  for (index_t base = i1 * {0}u; base < last; base += {2}u) {{\n"
      "    const index_t begin = base + threadIdx.x * 4u;\n    {3} v[4];\n#pragma unroll\n"
      "    for (unsigned j = 0; j < 4u; ++j) {{\n      v[j] = {4};\n      if (begin + j < last) v[j] = {5};\n    }}\n",
      scan.chunk, scan.length, kTile, scan.number, scan.start,
      loaded(scan.type, format("a[{}]", scan.at("(begin + j)", "i0", ""))));
  body += format(
      "    parts[threadIdx.x] = {0};\n    __syncthreads();\n    for (unsigned n = 1; n < {1}u; n *= 2) {{\n"
      "      const {2} other = threadIdx.x >= n ? parts[threadIdx.x - n] : ({2}){3};\n      __syncthreads();\n"
      "      parts[threadIdx.x] = {4};\n      __syncthreads();\n    }}\n"
      "    {2} acc = carry;\n    if (threadIdx.x > 0) acc = {5};\n    carry = {6};\n    __syncthreads();\n",
      scan.joined(scan.joined("v[0]", "v[1]"), scan.joined("v[2]", "v[3]")), kGeneratedThreads, scan.number, scan.start,
      scan.joined("other", "parts[threadIdx.x]"), scan.joined("carry", "parts[threadIdx.x - 1]"),
      scan.joined("carry", format("parts[{}]", kGeneratedThreads - 1)));
  const std::string take = format("      acc = {};\n", scan.joined("acc", "v[j]"));
  const std::string put = format("      y[{}] = {};\n", scan.at("(begin + j)", "i0", ""), stored(scan.type, "acc"));
  body += format(
      "#pragma unroll\n    for (unsigned j = 0; j < 4u; ++j) {{\n      if (begin + j >= last) continue;\n{}{}    }}\n  "
      "}}\n",
      scan.exclusive ? put : take, scan.exclusive ? take : put);
  return kernel.add();
}

Status total_rows(Lowering& to, const Node& node, const Scan& scan, TensorId from, TensorId totals) {
  MapKernel kernel(to, node, "scan_totals");
  kernel.map().by_block = true;
  kernel.map().dims = {scan.outer, scan.chunks};
  kernel.read(from, "a");
  kernel.write(totals, "p");
  kernel.body() = format(
      "  __shared__ {0} parts[{1}];\n  index_t last = i1 * {2}u + {2}u;\n  if (last > {3}u) last = {3}u;\n  {0} mine = "
      "{4};\n"
      "#pragma unroll 8\n  for (index_t k = i1 * {2}u + threadIdx.x; k < last; k += {1}u) mine = {5};\n{6}"
      "  if (threadIdx.x == 0) p[flat] = total;\n",
      scan.number, kGeneratedThreads, scan.chunk, scan.length, scan.start,
      scan.joined("mine", loaded(scan.type, format("a[{}]", scan.at("k", "i0", "")))), joined_by_block(scan, "total"));
  return kernel.add();
}

// Lines beside each other: a thread goes through a chunk of one.
Status scan_columns(Lowering& to, const Node& node, const Scan& scan, TensorId from, TensorId totals, TensorId out) {
  const bool totalling = out == kNoTensor;
  MapKernel kernel(to, node, totalling ? "scan_totals" : "scan_columns");
  kernel.map().dims = {scan.outer, scan.chunks, scan.inner};
  kernel.read(from, "a");
  std::string& body = kernel.body();
  body = format("  index_t last = i1 * {0}u + {0}u;\n  if (last > {1}u) last = {1}u;\n  {2} acc = {3};\n", scan.chunk,
                scan.length, scan.number, scan.start);
  if (totals != kNoTensor && !totalling) {
    kernel.read(totals, "p");
    body += format("#pragma unroll 8\n  for (index_t n = 0; n < i1; ++n) acc = {};\n",
                   scan.joined("acc", format("p[(i0 * {} + n) * {} + i2]", scan.chunks, scan.inner)));
  }
  body += format("#pragma unroll 8\n  for (index_t k = i1 * {}u; k < last; ++k) {{\n    const index_t at = {};\n",
                 scan.chunk, scan.at("k", "i0", "i2"));
  const std::string take = format("    acc = {};\n", scan.joined("acc", loaded(scan.type, "a[at]")));
  if (totalling) {
    kernel.write(totals, "p");
    body += take + "  }\n  p[flat] = acc;\n";
    return kernel.add();
  }
  kernel.write(out, "y");
  const std::string put = format("    y[at] = {};\n", stored(scan.type, "acc"));
  body += (scan.exclusive ? put + take : take + put) + "  }\n";
  return kernel.add();
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
  Scan scan{.outer = span.outer,
            .length = span.length,
            .inner = span.inner,
            .type = tensor.type,
            .number = compute_type(tensor.type),
            .start = desc.product ? "1" : "0",
            .operation = desc.product ? "*" : "+",
            .exclusive = desc.exclusive,
            .reverse = desc.reverse};
  constexpr int64_t kBlocks = 1024, kThreads = int64_t{1} << 17, kLeastTiles = 4, kLeastSteps = 32;
  const bool rows = scan.inner == 1 && scan.length >= 256;
  const auto parts = [](int64_t wanted, int64_t have, int64_t most) {
    return std::clamp<int64_t>((wanted + have - 1) / have, 1, std::max<int64_t>(most, 1));
  };
  if (rows) {
    const int64_t tiles = (scan.length + kTile - 1) / kTile, chunks = parts(kBlocks, scan.outer, tiles / kLeastTiles);
    scan.chunk = (tiles + chunks - 1) / chunks * kTile;
  } else {
    const int64_t chunks = parts(kThreads, scan.outer * scan.inner, scan.length / kLeastSteps);
    scan.chunk = (scan.length + chunks - 1) / chunks;
  }
  scan.chunks = (scan.length + scan.chunk - 1) / scan.chunk;
  TensorId totals = kNoTensor;
  if (scan.chunks > 1) {
    // In the type that sums are computed in.
    const DataType type = scan.number == "float"      ? DataType::kFloat
                          : scan.number == "int"      ? DataType::kInt32
                          : scan.number == "unsigned" ? DataType::kUint32
                                                      : scan.type;
    TENON_TRY_ASSIGN(totals, to.program().add_tensor(type, Shape{scan.outer, scan.chunks, scan.inner}));
    TENON_TRY(rows ? total_rows(to, node, scan, from, totals) : scan_columns(to, node, scan, from, totals, kNoTensor));
  }
  return rows ? scan_rows(to, node, scan, from, totals, out) : scan_columns(to, node, scan, from, totals, out);
}

}  // namespace tenon::cuda
