#include "ep/cuda/ops/matmul/split_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/compute/weight_bounds.h"
#include "ep/cuda/ops/conv/op.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;
constexpr int32_t kVector = 8;  // f16 in 16 bytes
constexpr int64_t kMostTerms = 3;

uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffU; }
bool is_finite(float value) { return magnitude(value) < 0x7f800000U; }

float largest_finite(std::span<const float> row) {
  uint32_t largest = 0;
  for (float value : row) largest = std::max(largest, is_finite(value) ? magnitude(value) : 0);
  return std::bit_cast<float>(largest);
}

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Of the rows, in the scratch memory.
size_t exponents_offset(const SplitProblem& problem) {
  return aligned(int64_t{problem.rows} * problem.depth * problem.terms * sizeof(uint16_t));
}

// The f16 nearest to a number below 2^15, without its sign, and what it is in float32. Integers compare as they do
// signed, and nothing branches, so that the loop over a row becomes vector instructions.
struct F16 {
  int32_t bits = 0;
  float value = 0;
};
inline F16 nearest_f16(int32_t magnitude) {
  constexpr int32_t kLeastNormal = 0x38800000, kHalf = 0x3f000000;  // 2^-14, 0.5
  // Below the smallest normal number adding 0.5 leaves the rounded fraction in the last bits.
  const int32_t small = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + 0.5f) - kHalf;
  const int32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1), normal = (rounded - (112 << 23)) >> 13;
  const auto small_bits = std::bit_cast<int32_t>(static_cast<float>(small) * 0x1p-24f);
  // A mask instead of a choice, for which the compiler would branch.
  const int32_t mask = magnitude < kLeastNormal ? -1 : 0;
  return {(small & mask) | (normal & ~mask), std::bit_cast<float>((small_bits & mask) | (rounded & ~0x1fff & ~mask))};
}

// `row` times `factor`, which is finite and below 2^15.
void split_finite(std::span<const float> row, float factor, int32_t terms, std::byte* out) {
  auto* const low = reinterpret_cast<uint16_t*>(out) + (terms == 3 ? row.size() : 0);
  auto* const high = low + row.size();
  for (size_t i = 0; i < row.size(); ++i) {
    const auto bits = std::bit_cast<int32_t>(row[i] * factor);
    const int32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const F16 first = nearest_f16(magnitude);
    const auto rest = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) - first.value);
    const F16 second = nearest_f16(rest & 0x7fffffff);
    high[i] = static_cast<uint16_t>(first.bits | sign);
    low[i] = static_cast<uint16_t>(second.bits | ((rest >> 16 & 0x8000) ^ sign));
  }
  if (terms == 3) std::memcpy(out, high, row.size() * sizeof(uint16_t));
}

void split_row(std::span<const float> row, int32_t shift, int32_t terms, std::byte* out) {
  const size_t row_bytes = row.size() * sizeof(uint16_t);
  const float factor = std::ldexp(1.0f, shift);
  if (std::all_of(row.begin(), row.end(), is_finite)) return split_finite(row, factor, terms, out);
  std::vector<float> scaled(row.size()), finite(row.size()), rest(row.size());
  for (size_t i = 0; i < row.size(); ++i) scaled[i] = row[i] * factor;
  std::byte* const low = out + (terms == 3 ? row_bytes : 0);
  std::byte* const high = low + row_bytes;
  store_floats(scaled, DataType::kFloat16, high);
  widen_floats({.type = DataType::kFloat16,
                .shape = Shape{static_cast<int64_t>(row.size())},
                .data = high,
                .size_bytes = row_bytes},
               finite);
  for (size_t i = 0; i < row.size(); ++i) {
    const bool valid = is_finite(scaled[i]);
    rest[i] = valid ? scaled[i] - finite[i] : 0.0f;
    finite[i] = valid ? finite[i] : 0.0f;
  }
  store_floats(rest, DataType::kFloat16, low);
  if (terms == 3) store_floats(finite, DataType::kFloat16, out);
}

}  // namespace

// On an H200 sums of 1152 products of one sign are 7e-6 too small at most, 3.5 times what float32 additions err there;
// of 3072 products 2e-5.
int64_t SplitProblem::further_splits() const {
  constexpr int64_t kDepthAtOnce = 1152;
  if (terms < 3 || depth <= kDepthAtOnce) return 0;
  int64_t splits = (depth + kDepthAtOnce - 1) / kDepthAtOnce;
  while (depth % (splits * kVector) != 0) ++splits;
  return splits;
}

bool SplitProblem::fits() const {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return depth % kVector == 0 && columns % kVector == 0 && int64_t{depth} * kMostTerms <= kMost &&
         int64_t{rows} * columns <= kMost;
}

size_t SplitProblem::scratch_bytes() const { return exponents_offset(*this) + aligned(rows * sizeof(int32_t)); }

size_t SplitProblem::parts_bytes() const { return int64_t{columns} * depth * terms * sizeof(uint16_t); }

void split_weights(std::span<const float> w, const SplitProblem& problem, std::byte* out) {
  const size_t row_size = problem.depth, bytes = problem.parts_bytes();
  auto* exponents = reinterpret_cast<int32_t*>(out + bytes);
  const size_t row_bytes = row_size * problem.terms * sizeof(uint16_t);
  for (size_t begin = 0; begin < w.size(); begin += row_size, out += row_bytes) {
    const std::span<const float> row = w.subspan(begin, row_size);
    const int32_t shift = split_shift(largest_finite(row));
    *exponents++ = -shift;
    split_row(row, shift, problem.terms, out);
  }
}

void split_weights(std::span<const float> w, const SplitProblem& problem, int32_t shift, std::byte* out) {
  const size_t row_size = problem.depth;
  const float factor = std::ldexp(1.0f, shift);
  const size_t row_bytes = row_size * problem.terms * sizeof(uint16_t);
  for (size_t begin = 0; begin < w.size(); begin += row_size, out += row_bytes)
    split_finite(w.subspan(begin, row_size), factor, problem.terms, out);
}

Result<std::unique_ptr<SplitProduct>> SplitProduct::create(const PrepareContext& context, const SplitProblem& problem,
                                                           const ConvParams& conv) {
  TENON_UNSUPPORTED_IF(context.blas == nullptr, "A split f16 product needs cuBLASLt, which is not there.");
  std::unique_ptr<SplitProduct> made(new SplitProduct(problem, conv));
  const int width = problem.depth <= 256 ? 8 : problem.depth <= 1536 ? 32 : 128;
  made->rows_a_block_ = kThreads / static_cast<unsigned>(width);
  TENON_TRY_ASSIGN(made->split_,
                   context.kernels->find("split", format("split_{}_{}", is_product(conv) ? "rows" : "image", width)));
  TENON_TRY_ASSIGN(made->join_, context.kernels->find("split", "join_rows"));
  const int64_t row = int64_t{problem.depth} * problem.terms;
  made->further_splits_ = context.tf32 ? 0 : problem.further_splits();
  BlasProblem product{.type = DataType::kFloat16,
                      .result = DataType::kFloat,
                      .rows = problem.rows,
                      .columns = problem.columns,
                      .depth = made->further_splits_ == 0 ? row : row - problem.depth,
                      .transposed_w = true,
                      .x_row = row,
                      .w_row = row,
                      .workspace_bytes = context.addresses.program->workspace_bytes};
  TENON_TRY_ASSIGN(made->first_, BlasProduct::create(*context.blas, product));
  if (made->further_splits_ == 0) return made;
  product.depth = problem.depth / made->further_splits_;
  product.residual = true;
  TENON_TRY_ASSIGN(made->further_, BlasProduct::create(*context.blas, product));
  return made;
}

Status SplitProduct::find_algorithms() {
  TENON_TRY(first_->find_algorithms());
  return further_ != nullptr ? further_->find_algorithms() : Status();
}

// Those of the first product with what is expected to be best of the further ones, then the others of those.
size_t SplitProduct::algorithms() const {
  return first_->algorithms() + (further_ != nullptr ? further_->algorithms() - 1 : 0);
}

SplitProduct::Algorithm SplitProduct::algorithm(size_t index) const {
  Algorithm algorithm{.first = first_->algorithm(first_index(index))};
  if (further_ != nullptr) algorithm.further = further_->algorithm(further_index(index));
  return algorithm;
}

std::string SplitProduct::algorithm_text(size_t index) const {
  const std::string first = first_->algorithm_text(first_index(index));
  return further_ != nullptr ? first + " " + further_->algorithm_text(further_index(index)) : first;
}

Result<SplitProduct::Algorithm> SplitProduct::remembered(std::string_view text) const {
  const size_t space = text.find(' ');
  TENON_INVALID_IF((space != std::string_view::npos) != (further_ != nullptr),
                   "\"{}\" is of another number of products.", text);
  Algorithm algorithm;
  TENON_TRY_ASSIGN(algorithm.first, first_->remembered(std::string(text.substr(0, space))));
  if (further_ != nullptr) {
    TENON_TRY_ASSIGN(algorithm.further, further_->remembered(std::string(text.substr(space + 1))));
  }
  return algorithm;
}

Status SplitProduct::queue(const CudaDevice& device, const Algorithm& algorithm, const Pointers& pointers,
                           JoinParams join, CUstream stream) const {
  SplitParams split{.conv = conv_,
                    .parts = reinterpret_cast<void*>(pointers.scratch),
                    .exponents = reinterpret_cast<int32_t*>(pointers.scratch + exponents_offset(problem_)),
                    .terms = problem_.terms};
  split.conv.x = pointers.x;
  void* split_pointers[] = {&split};
  const auto rows = static_cast<unsigned>(problem_.rows);
  TENON_TRY(queue_kernel(device, split_, {.grid_x = (rows + rows_a_block_ - 1) / rows_a_block_, .block_x = kThreads}, 1,
                         stream, split_pointers));
  const auto product_at = [&](int64_t depth) {
    const CUdeviceptr offset = static_cast<CUdeviceptr>(depth) * sizeof(uint16_t);
    return BlasProduct::Pointers{.x = reinterpret_cast<const void*>(pointers.scratch + offset),
                                 .w = reinterpret_cast<const void*>(pointers.weights + offset),
                                 .residual = join.y,
                                 .y = join.y,
                                 .workspace = reinterpret_cast<void*>(pointers.scratch + problem_.scratch_bytes())};
  };
  TENON_TRY(first_->queue(algorithm.first, product_at(0), stream));
  for (int64_t split = 0; split < further_splits_; ++split) {
    const int64_t high = int64_t{problem_.depth} * (problem_.terms - 1);
    TENON_TRY(further_->queue(algorithm.further, product_at(high + problem_.depth / further_splits_ * split), stream));
  }
  join.product = static_cast<const float*>(join.y);
  join.row_exponents = split.exponents;
  join.column_exponents = reinterpret_cast<const int32_t*>(pointers.weights + problem_.parts_bytes());
  join.rows = problem_.rows;
  join.columns = problem_.columns;
  void* join_pointers[] = {&join};
  const unsigned vectors = rows * (static_cast<unsigned>(problem_.columns) / kVector);
  return queue_kernel(device, join_, {.grid_x = (vectors + kThreads - 1) / kThreads, .block_x = kThreads}, 1, stream,
                      join_pointers);
}

}  // namespace tenon::cuda
