#include "ep/cpu/ops/matmul/integer_product.h"

#include <algorithm>

#include "base/checked.h"
#include "ep/cpu/ops/quantize/step.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/int8.h"

namespace tenon::cpu::nn {

namespace {

// B blocks of this size stay in L2 while the rows pass.
constexpr int64_t kBlockBytes = int64_t{192} << 10;
// About 4 us of one core: below that, claiming a task costs more than it brings.
constexpr double kLeastTaskProducts = 800e3;

struct Split {
  int64_t rows = 0, columns = 0, row_tasks = 0, column_tasks = 0;
};

Split split_of(const IntegerProduct& p, int64_t batches, int threads) {
  const auto up = [](int64_t size, int64_t step) { return (size + step - 1) / step * step; };
  Split split{.rows = p.m, .columns = up(p.n, kInt8TileColumns)};
  const int64_t block = std::max<int64_t>(kInt8TileColumns, kBlockBytes / std::max<int64_t>(1, p.k));
  split.columns = std::min(split.columns, up(block, kInt8TileColumns));
  const auto count = [&] {
    split.row_tasks = (p.m - 1) / split.rows + 1;
    split.column_tasks = (p.n - 1) / split.columns + 1;
    return batches * split.row_tasks * split.column_tasks;
  };
  while (threads > 1 && count() < int64_t{4} * threads) {
    const double products =
        static_cast<double>(split.rows) * static_cast<double>(split.columns) * static_cast<double>(p.k);
    if (products < 2 * kLeastTaskProducts) break;
    if (split.rows > 4 * kInt8Rows) {
      split.rows = up(split.rows / 2, kInt8Rows);
    } else if (split.columns > kInt8TileColumns) {
      split.columns = up(split.columns / 2, kInt8TileColumns);
    } else {
      break;
    }
  }
  count();
  return split;
}

// All matrices of B, panel by panel, and behind them the sums of their columns.
void pack_matrices(const IntegerProduct& p, bool is_signed, const uint8_t* b, uint8_t* packed, ThreadPool* pool) {
  const int64_t panels = int8_columns(p.n) / kInt8Panel, bytes = int8_packed_bytes(p.k, p.n);
  auto* const sums = reinterpret_cast<int32_t*>(packed + p.b_matrices * bytes);
  const auto pack = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / panels, first = begin % panels;
      const int64_t last = std::min(panels, first + end - begin);
      int8_table().pack(b + matrix * p.k * p.n, is_signed, p.trans_b ? 1 : p.n, p.trans_b ? p.k : 1, p.k, p.n, first,
                        last, packed + matrix * bytes, sums + matrix * int8_columns(p.n));
      begin += last - first;
    }
  };
  if (pool == nullptr) return pack(0, p.b_matrices * panels);
  pool->parallel_for(p.b_matrices * panels, std::max<int64_t>(1, 2048 / std::max<int64_t>(1, p.k)), pack);
}

class IntegerProductKernel final : public Kernel {
 public:
  // `packed` is null where B is packed for each run.
  IntegerProductKernel(const KernelNode& node, IntegerProduct product, std::shared_ptr<const std::byte> packed)
      : p_(std::move(product)), packed_(std::move(packed)) {
    const auto type = [&](size_t input) { return input_spec(node, input).type; };
    a_signed_ = type(p_.a) == DataType::kInt8;
    b_signed_ = type(p_.b) == DataType::kInt8;
    b_zeros_ = input_spec(node, p_.b_zero).present() ? input_spec(node, p_.b_zero).shape.element_count() : 0;
    b_scales_ = input_spec(node, p_.b_scale).present() ? input_spec(node, p_.b_scale).shape.element_count() : 0;
    middle_type_ = p_.middle_zero == kNoInput ? DataType::kUint8 : type(p_.middle_zero);
    y_type_ = output_spec(node, 0).type;
    columns_ = int8_columns(p_.n);
    matrix_bytes_ = int8_packed_bytes(p_.k, p_.n);
    size_t bytes = 0;
    const auto take = [&](int64_t count) {
      const size_t offset = bytes;
      bytes += aligned_bytes(static_cast<size_t>(count));
      return offset;
    };
    if (!packed_) b_offset_ = take(p_.b_matrices * (matrix_bytes_ + 4 * columns_));
    terms_offset_ = take(p_.b_matrices * columns_ * 4);
    factors_offset_ = take(columns_ * 4);
    scales_offset_ = take(columns_ * 4);
    bias_offset_ = take(columns_ * 4);
    middle_bias_offset_ = take(columns_ * 4);
    scratch_bytes_ = bytes;
  }

  Status run(KernelContext& context) const override {
    if (p_.m == 0 || p_.n == 0) return {};
    const uint8_t* const b = packed_ ? reinterpret_cast<const uint8_t*>(packed_.get()) : pack_b(context);
    Int8Task whole{.lda = p_.k,
                   .a_signed = a_signed_,
                   .panel_stride = int8_depth(p_.k) * kInt8Panel,
                   .k = p_.k,
                   .epilogue = p_.epilogue,
                   .ldr = p_.n,
                   .ldc = p_.n};
    const int32_t* const terms = correct_zero_points(context, b, whole);
    if (p_.a_scale != kNoInput) scale(context, whole);
    const auto batches = static_cast<int64_t>(p_.a_index.size());
    const auto* const a = context.input<uint8_t>(p_.a);
    const auto* const residual = context.input<float>(p_.residual);
    auto* const c = context.output<std::byte>(0);
    const auto size = static_cast<int64_t>(data_type_size(y_type_));
    const Split split = split_of(p_, batches, context.pool->threads());
    const int64_t tasks = split.row_tasks * split.column_tasks;
    context.pool->parallel_for(batches * tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / tasks, n0 = i % tasks / split.row_tasks * split.columns;
        const int64_t m0 = i % split.row_tasks * split.rows;
        const int64_t at = (batch * p_.m + m0) * p_.n + n0;
        Int8Task task = whole;
        task.a = a + (p_.a_index[batch] * p_.m + m0) * p_.k;
        task.b = b + p_.b_index[batch] * matrix_bytes_ + n0 * int8_depth(p_.k);
        task.m = std::min(split.rows, p_.m - m0);
        task.n = std::min(split.columns, p_.n - n0);
        if (terms != nullptr) task.column_terms = terms + p_.b_index[batch] * columns_ + n0;
        if (task.column_factors != nullptr) task.column_factors += n0;
        for (const float** array : {&task.column_scales, &task.column_bias, &task.middle_bias})
          if (*array != nullptr) *array += n0;
        if (residual != nullptr) task.residual = residual + at;
        task.c = c + at * size;
        int8_table().run(task);
      }
    });
    return {};
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string_view name() const override { return packed_ ? "gemm packed int8" : "gemm int8"; }

 private:
  template <typename T>
  static T* scratch(const KernelContext& context, size_t offset) {
    return reinterpret_cast<T*>(context.scratch + offset);
  }

  const uint8_t* pack_b(KernelContext& context) const {
    auto* const packed = scratch<uint8_t>(context, b_offset_);
    pack_matrices(p_, b_signed_, context.input<uint8_t>(p_.b), packed, context.pool);
    return packed;
  }

  // The terms of each matrix of B; sets the factors, if B has a zero point other than that of the packed numbers.
  const int32_t* correct_zero_points(KernelContext& context, const uint8_t* b, Int8Task& task) const {
    const int32_t a_zero = integer_zero(context.input<uint8_t>(p_.a_zero), a_signed_, 0) + (a_signed_ ? 128 : 0);
    const auto* const zeros = context.input<uint8_t>(p_.b_zero);
    auto* const factors = scratch<int32_t>(context, factors_offset_);
    bool any = false;
    for (int64_t j = 0; j < columns_; ++j) {
      const int32_t zero = integer_zero(zeros, b_signed_, b_zeros_ > 1 ? std::min(j, p_.n - 1) : 0);
      factors[j] = zero - (b_signed_ ? 0 : 128);
      any |= factors[j] != 0;
    }
    if (any) task.column_factors = factors;
    if (a_zero == 0) return nullptr;
    const auto* const sums = reinterpret_cast<const int32_t*>(b + p_.b_matrices * matrix_bytes_);
    auto* const terms = scratch<int32_t>(context, terms_offset_);
    // Sums wrap as int32 does.
    const auto zero = static_cast<uint32_t>(a_zero), depth = static_cast<uint32_t>(p_.k);
    for (int64_t i = 0; i < p_.b_matrices * columns_; ++i) {
      const auto factor = static_cast<uint32_t>(factors[i % columns_]);
      terms[i] = static_cast<int32_t>(zero * (depth * factor - static_cast<uint32_t>(sums[i])));
    }
    return terms;
  }

  void scale(KernelContext& context, Int8Task& task) const {
    task.output = y_type_ == DataType::kFloat  ? Int8Output::kFloat
                  : y_type_ == DataType::kInt8 ? Int8Output::kInt8
                                               : Int8Output::kUint8;
    const float* const middle = context.input<float>(p_.middle_scale);
    const float* const y = context.input<float>(p_.y_scale);
    // A step right behind the product goes into its scales.
    float folded = 1;
    if (middle != nullptr) {
      task.middle = true;
      task.middle_step = step_of(1, context.inputs, p_.middle_zero, middle_type_);
      task.middle_scale = *middle * p_.factor;
      folded = *middle;
      task.middle_bias = padded(context, p_.middle_bias, 1 / p_.factor, middle_bias_offset_);
    }
    if (y != nullptr) {
      const bool bare = middle == nullptr && p_.residual == kNoInput && p_.epilogue.activation == Activation::kNone;
      task.step = step_of(bare ? 1 : *y, context.inputs, p_.y_zero, y_type_);
      if (bare) folded = *y;
      task.table = context.input<uint8_t>(p_.table);
    }
    const float a_scale = *context.input<float>(p_.a_scale);
    const auto* const b_scales = context.input<float>(p_.b_scale);
    auto* const scales = scratch<float>(context, scales_offset_);
    for (int64_t j = 0; j < columns_; ++j)
      scales[j] = a_scale * b_scales[b_scales_ > 1 ? std::min(j, p_.n - 1) : 0] / folded;
    task.column_scales = scales;
    task.column_bias = padded(context, p_.bias, folded, bias_offset_);
  }

  // An input of n elements, divided, and enough zeros behind it.
  const float* padded(KernelContext& context, size_t input, float divisor, size_t offset) const {
    const auto* const from = context.input<float>(input);
    if (from == nullptr) return nullptr;
    auto* const to = scratch<float>(context, offset);
    for (int64_t j = 0; j < columns_; ++j) to[j] = j < p_.n ? from[j] / divisor : 0;
    return to;
  }

  const IntegerProduct p_;
  const std::shared_ptr<const std::byte> packed_;
  bool a_signed_ = false, b_signed_ = false;
  int64_t b_zeros_ = 0, b_scales_ = 0;
  DataType middle_type_ = DataType::kUint8, y_type_ = DataType::kInt32;
  int64_t columns_ = 0, matrix_bytes_ = 0;
  size_t b_offset_ = 0, terms_offset_ = 0, factors_offset_ = 0, scales_offset_ = 0, bias_offset_ = 0,
         middle_bias_offset_ = 0, scratch_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_integer_product(const KernelNode& node, IntegerProduct product) {
  // Bytes of a packed matrix and of its columns' sums.
  std::optional<int64_t> bytes = checked_mul(int8_depth(product.k) + 4, int8_columns(product.n));
  bytes = bytes ? checked_mul(*bytes, product.b_matrices) : bytes;
  bytes = bytes ? checked_mul(*bytes, int64_t{2}) : bytes;
  TENON_UNSUPPORTED_IF(!bytes, "The packed form of a {} x {} matrix overflows.", product.k, product.n);
  std::shared_ptr<const std::byte> packed;
  if (const Constant* constant = constant_input(node, product.b); constant != nullptr) {
    const bool is_signed = node.inputs[product.b].type == DataType::kInt8;
    const std::string format = tenon::format("{} {}x{}x{}{}", int8_table().name, product.b_matrices, product.k,
                                             product.n, product.trans_b ? " transposed" : "");
    const auto pack = [&](const std::byte* weight, std::byte* out) {
      pack_matrices(product, is_signed, reinterpret_cast<const uint8_t*>(weight), reinterpret_cast<uint8_t*>(out),
                    node.pool);
    };
    TENON_TRY_ASSIGN(packed,
                     packed_constant(node, node.constants[product.b], format, static_cast<size_t>(*bytes / 2), pack));
  }
  return std::unique_ptr<Kernel>(std::make_unique<IntegerProductKernel>(node, std::move(product), std::move(packed)));
}

}  // namespace tenon::cpu::nn
