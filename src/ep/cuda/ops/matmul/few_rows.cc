#include "ep/cuda/ops/matmul/few_rows.h"

#include <algorithm>
#include <bit>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/matmul/few_rows_params.h"

namespace tenon::cuda {

namespace {

constexpr char kHeader[] = "ep/cuda/ops/matmul/few_rows.cuh", kTilesHeader[] = "ep/cuda/ops/matmul/row_tiles.cuh";
constexpr int64_t kChunk = 8;
// With more rows each lane would have more sums than loads. Weights of 4 or 8 bits are fewer loads of more numbers.
constexpr int64_t kFewRows = 4, kFewRowsOfBits = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How much of the weights a warp has: `columns` of each matrix, and of each `chunks` a lane at once.
struct WarpShape {
  int columns = 1, chunks = 1;
};

// Enough warps to keep all processors' loads in flight, then as many columns as share the loads of x. Two columns pay
// later than four, as measured on an H100 and an H200.
WarpShape choose_shape(const RowProduct& product, int64_t columns) {
  constexpr int64_t kManyWarps = 1000, kManyWarpsOfFour = 300;
  constexpr int kMostLoads = 16, kMostSums = 16;
  const int matrices = product.gated ? 2 : 1;
  const int rows = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(product.rows)));
  WarpShape shape;
  const bool divides_2 = std::all_of(product.matrices.begin(), product.matrices.end(),
                                     [](const RowProduct::Matrix& m) { return m.columns % 2 == 0; });
  const bool divides_4 = std::all_of(product.matrices.begin(), product.matrices.end(),
                                     [](const RowProduct::Matrix& m) { return m.columns % 4 == 0; });
  if (divides_2 && columns / 2 >= kManyWarps && rows * 2 <= kMostSums) shape.columns = 2;
  if (divides_4 && !product.gated && columns / 4 >= kManyWarpsOfFour && rows * 4 <= kMostSums) shape.columns = 4;
  const int64_t chunks = ceil_div(product.depth / kChunk, 32);
  const int room =
      kMostLoads / (matrices * shape.columns) / (product.type == DataType::kFloat && product.bits == 0 ? 2 : 1);
  while (shape.chunks * 2 <= room && shape.chunks < chunks && shape.chunks < 8) shape.chunks *= 2;
  // Where the last turn would have few loads, turns of equal length.
  if (shape.chunks == 4 && chunks == 3 && room >= 3) shape.chunks = 3;
  return shape;
}

// How much of the weights a block of row_tiles() has, and a warp of it at once.
struct TileShape {
  int halves = 1, steps = 1;
};

TileShape choose_tiles(const RowProduct& product, int64_t columns) {
  constexpr int64_t kManyBlocks = 120;
  constexpr int kMostLoads = 16;
  constexpr int64_t kChunksAStep = 4 * (kRowTileThreads / 32);
  TileShape shape;
  if (columns / 16 >= kManyBlocks) shape.halves = 2;
  const int64_t steps = ceil_div(product.depth / kChunk, kChunksAStep);
  const int room = kMostLoads / ((product.gated ? 2 : 1) * std::max(shape.halves, product.rows > 8 ? 2 : 1));
  shape.steps = static_cast<int>(ceil_div(steps, ceil_div(steps, room)));
  return shape;
}

std::string weights_type(const RowProduct& product) {
  const std::string type = template_type(product.type);
  return product.bits == 0 ? format("tenon::cuda::device::PlainWeights<{}>", type)
                           : format("tenon::cuda::device::BlockedWeights<{}, {}>", type, product.bits);
}

FewRowsParams params_of(const RowProduct& product) {
  FewRowsParams params{.rows = static_cast<int32_t>(product.rows),
                       .depth = static_cast<int32_t>(product.depth),
                       .x_row = static_cast<int32_t>(product.depth),
                       .scale = product.scale,
                       .epsilon = product.epsilon,
                       .inverse_depth = 1.0F / static_cast<float>(product.depth),
                       .act_alpha = product.epilogue.alpha,
                       .act_beta = product.epilogue.beta,
                       .residual_after = product.epilogue.residual_after ? 1 : 0};
  for (size_t i = 0; i < product.matrices.size(); ++i)
    params.columns[i] = static_cast<int32_t>(product.matrices[i].columns);
  if (product.bits != 0) {
    const int64_t blocks = ceil_div(product.depth, product.block_size);
    params.blocks = static_cast<int32_t>(blocks);
    params.column_bytes = static_cast<int32_t>(blocks * product.block_size * product.bits / 8);
    params.block_shift = std::countr_zero(static_cast<uint64_t>(product.block_size / kChunk));
    params.zero_bytes = static_cast<int32_t>((blocks * product.bits + 7) / 8);
  }
  return params;
}

}  // namespace

bool takes_few_rows(DataType type, int64_t rows, int64_t depth, int64_t columns, int bits) {
  const bool float_type = type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
  const int64_t most = type != DataType::kFloat ? kMostFewRows : bits == 0 ? kFewRows : kFewRowsOfBits;
  return float_type && rows >= 1 && rows <= most && depth >= kChunk && depth % kChunk == 0 && columns >= 1 &&
         depth <= INT32_MAX / kMostFewRows && columns <= INT32_MAX / 4;
}

Status add_few_rows(Lowering& to, const Node& node, const RowProduct& product) {
  const auto& matrices = product.matrices;
  if (matrices.empty() || matrices.size() > kMostRowProducts || (product.gated && matrices.size() != 2))
    return internal_error("{} has {} matrices in one kernel.", to.label(node), matrices.size());
  int64_t columns = 0;
  for (const RowProduct::Matrix& matrix : matrices) columns += matrix.columns;
  if (product.gated) columns = matrices[0].columns;
  const bool tiles = product.rows > kFewRows && product.type != DataType::kFloat;
  std::vector<TensorId> reads = {product.x, product.norm_scale, product.residual}, writes;
  for (size_t i = 0; i < kMostRowProducts; ++i) {
    const RowProduct::Matrix matrix = i < matrices.size() ? matrices[i] : RowProduct::Matrix{};
    for (TensorId id : {matrix.w, matrix.scales, matrix.zeros, matrix.bias}) reads.push_back(id);
    writes.push_back(matrix.y);
  }
  std::string what = format("few_rows {} {}x", data_type_name(product.type), product.rows);
  for (size_t i = 0; i < matrices.size(); ++i)
    what += format("{}{}", i == 0 ? "" : product.gated ? "*" : "+", matrices[i].columns);
  what +=
      format("x{}{}{}{}", product.depth, product.bits != 0 ? format(" bits {}", product.bits) : "",
             product.norm_scale != kNoTensor ? " normalised" : "", product.residual != kNoTensor ? " residual" : "");
  TemplateKernel kernel{.params = kernel_params(params_of(product)), .in_place = {}, .text = ""};
  const bool norm = product.norm_scale != kNoTensor;
  const TemplateEnum activation = template_enum(product.epilogue.activation);
  if (tiles) {
    const TileShape shape = choose_tiles(product, columns);
    int64_t count = 0;  // a matrix begins with a tile of its own
    for (size_t i = 0; i < (product.gated ? 1 : matrices.size()); ++i)
      count += ceil_div(matrices[i].columns, shape.halves * 8);
    TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(count, 1));
    kernel.header = kTilesHeader;
    kernel.instance =
        template_instance("row_tiles", product.type, weights_type(product), shape.halves,
                          static_cast<int>(ceil_div(product.rows, 8)), shape.steps, norm, product.gated, activation);
    kernel.shape = {.grid_x = blocks, .block_x = kRowTileThreads};
  } else {
    const WarpShape shape = choose_shape(product, columns);
    constexpr int64_t kWarps = kRowProductThreads / 32;
    TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(ceil_div(columns, shape.columns), kWarps));
    kernel.header = kHeader;
    kernel.instance = template_instance("few_rows", product.type, weights_type(product),
                                        static_cast<int>(std::bit_ceil(static_cast<uint64_t>(product.rows))),
                                        shape.columns, shape.chunks, norm, product.gated, activation);
    kernel.shape = {.grid_x = blocks, .block_x = kRowProductThreads};
  }
  return to.add_kernel(node, std::move(what), std::move(kernel), std::move(reads), std::move(writes));
}

Result<TensorId> add_widened(Lowering& to, const Node& node, const RowProduct& product) {
  const RowProduct::Matrix& matrix = product.matrices[0];
  TENON_TRY_ASSIGN(const TensorId wide, to.program().add_tensor(product.type, Shape{matrix.columns, product.depth}));
  TENON_TRY(add_map(to, node, "widen_blocks", kHeader, template_instance("widen_blocks", product.type, product.bits),
                    params_of(product), matrix.columns * (product.depth / kChunk),
                    {matrix.w, matrix.scales, matrix.zeros}, {wide}));
  return wide;
}

}  // namespace tenon::cuda
