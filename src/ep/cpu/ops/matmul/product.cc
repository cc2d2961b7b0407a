#include "ep/cpu/ops/matmul/product.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/checked.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/gemm.h"

namespace tenon::cpu::nn {

namespace {

// About 4 us of one core: below that, claiming a task costs more than it brings.
constexpr double kLeastTaskFlops = 400e3;

// All matrices of B, panel by panel, on the pool if there is one; those of weights without subnormal numbers.
void pack_panels(const float* b, int64_t row_stride, int64_t column_stride, const ProductProblem& p, float* packed,
                 ThreadPool* pool, bool is_weight) {
  const int64_t panels = gemm_panels(p.n);
  const auto pack = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / panels, first = begin % panels;
      const int64_t last = std::min(panels, first + end - begin);
      float* const to = packed + matrix * gemm_packed_floats(p.k, p.n);
      gemm_table().pack(b + matrix * p.k * p.n, row_stride, column_stride, p.k, p.n, first, last, to);
      const int64_t panel_floats = p.k * kGemmPanel;
      if (is_weight) clear_subnormals({to + first * panel_floats, to + last * panel_floats});
      begin += last - first;
    }
  };
  if (pool == nullptr) return pack(0, p.b_matrices * panels);
  const int64_t grain = std::max<int64_t>(1, 1024 / std::max<int64_t>(1, p.k));  // 16 Ki floats
  pool->parallel_for(p.b_matrices * panels, grain, pack);
}

// The same in 16 bits, which hold every number of B.
void pack_narrow_panels(const float* b, int64_t row_stride, int64_t column_stride, const ProductProblem& p,
                        DataType type, uint16_t* packed) {
  const int64_t panels = gemm_panels(p.n), floats = p.k * kGemmPanel;
  std::vector<float> panel(floats);
  for (int64_t matrix = 0; matrix < p.b_matrices; ++matrix) {
    for (int64_t i = 0; i < panels; ++i) {
      // The panel at the beginning of the buffer: pack() counts from the first one.
      const float* const from = b + matrix * p.k * p.n + i * kGemmPanel * column_stride;
      gemm_table().pack(from, row_stride, column_stride, p.k, std::min(kGemmPanel, p.n - i * kGemmPanel), 0, 1,
                        panel.data());
      clear_subnormals(panel);
      end_floats(type, packed, matrix * gemm_packed_floats(p.k, p.n) + i * floats, floats, panel.data());
    }
  }
}

// Weights of fewer bytes stay in the caches, and converting them costs more than reading them.
constexpr int64_t kLeastNarrowBytes = 512 << 10;

// float16 or bfloat16 if every one of the numbers is one, else kUndefined.
DataType exact_type(std::span<const std::byte> floats) {
  alignas(64) uint16_t narrow[kNarrowBlock];
  alignas(64) float numbers[kNarrowBlock], wide[kNarrowBlock];
  constexpr size_t kBlock = sizeof numbers;
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    bool exact = true;
    for (size_t at = 0; exact && at < floats.size(); at += kBlock) {
      const size_t bytes = std::min(kBlock, floats.size() - at);
      const auto n = static_cast<int64_t>(bytes / sizeof(float));
      std::memcpy(numbers, floats.data() + at, bytes);
      end_floats(type, narrow, 0, n, numbers);
      exact = std::memcmp(read_floats(type, narrow, 0, n, wide), numbers, bytes) == 0;
    }
    if (exact) return type;
  }
  return DataType::kUndefined;
}

// The type in which B is packed: 16 bits, if they hold it and the product is bound by the memory of B.
Result<DataType> packed_type(const KernelNode& node, const ProductProblem& p, int64_t bytes) {
  const int64_t rows = p.m * static_cast<int64_t>(p.a_index.size());
  if (rows > kGemmNarrowRows || bytes < kLeastNarrowBytes) return DataType::kFloat;
  const auto look = [](std::span<const std::byte> floats) { return static_cast<std::byte>(exact_type(floats)); };
  TENON_TRY_ASSIGN(const std::byte found, found_in_constant(node, node.constants[1], "exact type", look));
  const auto type = static_cast<DataType>(found);
  return type == DataType::kUndefined ? DataType::kFloat : type;
}

// The columns of all matrices of B as rows, one behind the other.
void transpose_matrices(const float* b, const ProductProblem& p, float* out) {
  for (int64_t matrix = 0; matrix < p.b_matrices; ++matrix, b += p.k * p.n, out += p.k * p.n) {
    if (p.trans_b) {
      std::copy_n(b, p.k * p.n, out);
    } else {
      transpose(sizeof(float), b, p.n, out, p.k, p.k, p.n);
    }
  }
}

class ProductKernel final : public Kernel {
 public:
  ProductKernel(ProductProblem problem, std::shared_ptr<const std::byte> packed, DataType type, int slots)
      : p_(std::move(problem)), packed_(std::move(packed)), type_(type), slots_(slots) {
    size_t bytes = 0;
    const auto take = [&](int64_t floats) {
      const size_t offset = bytes;
      bytes += aligned_bytes(floats * sizeof(float));
      return offset;
    };
    const auto batches = static_cast<int64_t>(p_.a_index.size());
    const int64_t rows = p_.m * batches / std::max<int64_t>(1, p_.b_matrices);
    constexpr int64_t kFewRows = 8;  // for which the transposition would take as long as the product
    dots_ = gemm_takes_dots(p_.n, p_.k) && (packed_ != nullptr || p_.trans_b || rows > kFewRows);
    plain_ = !packed_ && (dots_ ? p_.trans_b : gemm_takes_plain(rows, p_.n, p_.k, p_.trans_b) || stays_in_cache(rows));
    in_turn_ = !packed_ && !plain_ && !dots_ && p_.b_matrices == batches && batches >= 4 * slots_ &&
               gemm_packed_floats(p_.k, p_.n) <= kTurnFloats;
    if (in_turn_) {
      b_offset_ = take(slots_ * slot_floats());
    } else if (!packed_ && !plain_)
      b_offset_ = take(dots_ ? p_.b_matrices * p_.k * p_.n : p_.b_matrices * gemm_packed_floats(p_.k, p_.n));
    if (p_.trans_a) a_offset_ = take(p_.a_matrices * p_.m * p_.k);
    if (p_.expanded_input >= 0) c_offset_ = take(p_.m * p_.n);
    scratch_bytes_ = bytes;
  }

  Status run(KernelContext& context) const override {
    const float* const b = packed_              ? reinterpret_cast<const float*>(packed_.get())
                           : plain_ || in_turn_ ? context.input<float>(1)
                                                : pack_b(context);
    const auto* const narrow_b = is_narrow(type_) ? reinterpret_cast<const uint16_t*>(packed_.get()) : nullptr;
    const float* const a = p_.trans_a ? transpose_a(context) : context.input<float>(0);
    GemmTask whole{.lda = p_.k,
                   .brain = type_ == DataType::kBfloat16,
                   .panel_stride = p_.k * kGemmPanel,
                   .row_stride = dots_ || p_.trans_b ? 1 : p_.n,
                   .column_stride = dots_ || p_.trans_b ? p_.k : 1,
                   .ldc = p_.n,
                   .k = p_.k,
                   .alpha = p_.alpha,
                   .bias = operand(context, p_.prepared_bias, p_.bias_input),
                   .residual = operand(context, p_.prepared_residual, p_.residual_input),
                   .ldr = p_.n,
                   .epilogue = p_.epilogue};
    if (p_.expanded_input >= 0) whole.residual = expand_c(context);
    float* const c = context.output<float>(0);
    const auto batches = static_cast<int64_t>(p_.a_index.size());
    const int64_t packed_floats = gemm_packed_floats(p_.k, p_.n);
    if (in_turn_) {
      run_in_turn(context, whole, a, c);
      return {};
    }
    const ProductSplit split = split_product(p_.m, p_.n, p_.k, batches, context.pool->threads());
    const int64_t tasks_a_batch = split.row_tasks * split.column_tasks;
    // Row tasks follow each other, so that the tasks of a chunk share their columns of B.
    context.pool->parallel_for(batches * tasks_a_batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / tasks_a_batch;
        const int64_t n0 = i % tasks_a_batch / split.row_tasks * split.columns;
        const int64_t m0 = i % split.row_tasks * split.rows;
        const int64_t at = (batch * p_.m + m0) * p_.n + n0;
        GemmTask task = whole;
        task.a = a + (p_.a_index[batch] * p_.m + m0) * p_.k;
        const int64_t first = p_.b_index[batch] * packed_floats + n0 * p_.k;
        if (plain_ || dots_) {
          task.plain_b = b + p_.b_index[batch] * p_.k * p_.n + n0 * task.column_stride;
        } else if (narrow_b != nullptr) {
          task.narrow_b = narrow_b + first;
        } else {
          task.b = b + first;
        }
        task.c = c + at;
        task.m = std::min(split.rows, p_.m - m0);
        task.n = std::min(split.columns, p_.n - n0);
        if (task.bias) task.bias += n0;
        if (task.residual) task.residual += at;
        gemm_table().run(task);
      }
    });
    return {};
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }
  bool reads(size_t input) const override { return input != 1 || packed_ == nullptr; }
  std::string_view name() const override {
    if (type_ == DataType::kFloat16) return "gemm packed f16";
    if (type_ == DataType::kBfloat16) return "gemm packed bf16";
    return packed_ ? "gemm packed f32" : plain_ ? "gemm plain f32" : "gemm f32";
  }

 private:
  static const float* operand(const KernelContext& context, const std::shared_ptr<const std::byte>& prepared,
                              int input) {
    if (prepared) return reinterpret_cast<const float*>(prepared.get());
    return input >= 0 ? context.input<float>(input) : nullptr;
  }

  float* scratch(const KernelContext& context, size_t offset) const {
    return reinterpret_cast<float*>(context.scratch + offset);
  }

  // Each matrix of B is packed before its product, which then finds it in the L1 or L2 cache.
  static constexpr int64_t kTurnFloats = 32 << 10;
  int64_t slot_floats() const { return (gemm_packed_floats(p_.k, p_.n) + kGemmPanel - 1) / kGemmPanel * kGemmPanel; }

  void run_in_turn(KernelContext& context, const GemmTask& whole, const float* a, float* c) const {
    const double flops = 2.0 * static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
    const auto grain = static_cast<int64_t>(kLeastTaskFlops / std::max(1.0, flops)) + 1;
    ScratchSlots slots(context.scratch + b_offset_, slot_floats() * sizeof(float), slots_);
    context.pool->parallel_for(std::ssize(p_.a_index), grain, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      for (int64_t batch = begin; batch < end; ++batch) {
        gemm_table().pack(context.input<float>(1) + p_.b_index[batch] * p_.k * p_.n, p_.trans_b ? 1 : p_.n,
                          p_.trans_b ? p_.k : 1, p_.k, p_.n, 0, gemm_panels(p_.n), claim.floats());
        GemmTask task = whole;
        task.a = a + p_.a_index[batch] * p_.m * p_.k;
        task.b = claim.floats();
        task.c = c + batch * p_.m * p_.n;
        if (task.residual) task.residual += batch * p_.m * p_.n;
        task.m = p_.m;
        task.n = p_.n;
        gemm_table().run(task);
      }
    });
  }

  // Whether B is read as fast where it lies: it stays in the L1 cache, its rows fill tiles of four panels, and there
  // are not so many rows of A that packing it is nothing beside their product.
  bool stays_in_cache(int64_t rows) const {
    return !p_.trans_b && rows <= 128 && p_.n * p_.k <= 6144 && gemm_panels(p_.n) % 4 == 0;
  }

  const float* pack_b(KernelContext& context) const {
    float* const packed = scratch(context, b_offset_);
    const float* const b = context.input<float>(1);
    if (dots_) {
      transpose_matrices(b, p_, packed);
      return packed;
    }
    pack_panels(b, p_.trans_b ? 1 : p_.n, p_.trans_b ? p_.k : 1, p_, packed, context.pool, false);
    return packed;
  }

  const float* transpose_a(KernelContext& context) const {
    float* const out = scratch(context, a_offset_);
    const float* const a = context.input<float>(0);
    context.pool->parallel_for(p_.a_matrices * p_.m, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* const from = a + row / p_.m * p_.m * p_.k + row % p_.m;
        for (int64_t i = 0; i < p_.k; ++i) out[row * p_.k + i] = from[i * p_.m];
      }
    });
    return out;
  }

  const float* expand_c(KernelContext& context) const {
    float* const out = scratch(context, c_offset_);
    const float* const from = context.input<float>(p_.expanded_input);
    context.pool->parallel_for(p_.m, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < p_.n; ++j)
          out[i * p_.n + j] = from[i * p_.expanded_row_stride + j * p_.expanded_column_stride] * p_.expanded_scale;
    });
    return out;
  }

  const ProductProblem p_;
  const std::shared_ptr<const std::byte> packed_;  // null: B is packed for each run, or plain
  const DataType type_;                            // of the packed B
  const int slots_;                                // of scratch memory
  bool plain_ = false;                             // B is taken as it lies
  bool in_turn_ = false;                           // see run_in_turn()
  bool dots_ = false;                              // of the rows of A and those of B, transposed
  size_t a_offset_ = 0, b_offset_ = 0, c_offset_ = 0;
  size_t scratch_bytes_ = 0;
};

}  // namespace

ProductSplit split_product(int64_t m, int64_t n, int64_t k, int64_t batches, int threads) {
  if (m == 0 || n == 0) return {};
  const auto whole_panels = [&](int64_t columns) { return gemm_panels(columns) * kGemmPanel; };
  ProductSplit split{.rows = m, .columns = whole_panels(n)};
  if (threads > 1) {
    const auto tasks = [&] { return batches * ((m - 1) / split.rows + 1) * ((n - 1) / split.columns + 1); };
    const auto halves_are_worth_it = [&] {
      const double flops =
          2.0 * static_cast<double>(split.rows) * static_cast<double>(split.columns) * static_cast<double>(k);
      return tasks() < int64_t{8} * threads && flops >= 2 * kLeastTaskFlops;
    };
    split.rows = std::min<int64_t>(m, 8 * kGemmRows);
    split.columns = std::min<int64_t>(split.columns, 128);
    while (halves_are_worth_it()) {
      if (split.columns > 4 * kGemmPanel || (split.rows <= 2 * kGemmRows && split.columns > kGemmPanel)) {
        split.columns = whole_panels(split.columns / 2);
      } else if (split.rows > 2 * kGemmRows) {
        split.rows = (split.rows / 2 + kGemmRows - 1) / kGemmRows * kGemmRows;
      } else {
        break;
      }
    }
  }
  split.row_tasks = (m - 1) / split.rows + 1;
  split.column_tasks = (n - 1) / split.columns + 1;
  return split;
}

Result<std::unique_ptr<Kernel>> make_product(const KernelNode& node, ProductProblem problem) {
  // A column lies as its transpose does, and fifteen of sixteen packed columns would be zeros.
  const bool takes_dots = gemm_takes_dots(problem.n, problem.k), is_column = takes_dots && problem.n == 1;
  if (is_column) problem.trans_b = true;
  const int64_t packed_floats = gemm_packed_floats(problem.k, problem.n);
  const auto bytes = checked_mul<int64_t>(packed_floats, problem.b_matrices * static_cast<int64_t>(sizeof(float)));
  TENON_UNSUPPORTED_IF(!bytes || *bytes < 0, "The packed form of a {} x {} matrix overflows.", problem.k, problem.n);
  std::shared_ptr<const std::byte> packed;
  DataType type = DataType::kFloat;
  if (const Constant* constant = constant_input(node, 1); constant != nullptr && *bytes > 0 && !is_column) {
    const int64_t row_stride = problem.trans_b ? 1 : problem.n, column_stride = problem.trans_b ? problem.k : 1;
    if (!takes_dots) {
      TENON_TRY_ASSIGN(type, packed_type(node, problem, *bytes));
    }
    const std::string format =
        tenon::format("{} {} {}x{}x{}{}", takes_dots ? "gemm_rows" : "gemm_b16", data_type_name(type),
                      problem.b_matrices, problem.k, problem.n, problem.trans_b ? " transposed" : "");
    const auto pack = [&](const std::byte* weight, std::byte* out) {
      const auto* const b = reinterpret_cast<const float*>(weight);
      if (takes_dots) {
        auto* const rows = reinterpret_cast<float*>(out);
        transpose_matrices(b, problem, rows);
        clear_subnormals({rows, rows + problem.b_matrices * problem.k * problem.n});
      } else if (is_narrow(type)) {
        pack_narrow_panels(b, row_stride, column_stride, problem, type, reinterpret_cast<uint16_t*>(out));
      } else {
        pack_panels(b, row_stride, column_stride, problem, reinterpret_cast<float*>(out), node.pool, true);
      }
    };
    const size_t packed_bytes = takes_dots        ? problem.b_matrices * problem.k * problem.n * sizeof(float)
                                : is_narrow(type) ? *bytes / 2
                                                  : *bytes;
    TENON_TRY_ASSIGN(packed, packed_constant(node, node.constants[1], format, packed_bytes, pack));
  }
  return std::unique_ptr<Kernel>(
      std::make_unique<ProductKernel>(std::move(problem), std::move(packed), type, scratch_slots(node)));
}

}  // namespace tenon::cpu::nn
