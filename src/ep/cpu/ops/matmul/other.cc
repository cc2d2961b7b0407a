#include "ep/cpu/ops/matmul/other.h"

#include <algorithm>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/other_product.h"
#include "ops/matmul.h"

namespace tenon::cpu::nn {

namespace {

// About 10 us of one core, in multiplications: less is one task.
constexpr double kTaskProducts = 100e3;
constexpr int64_t kTaskColumns = 64, kTaskRows = 24;  // at least

int64_t parts_of(int64_t count, int64_t parts, int64_t least) {
  return std::max(least, ((count + parts - 1) / parts + least - 1) / least * least);
}

// The output of one matrix is cut into tasks of `rows` by `columns`. Columns first: each task packs its part of B.
struct OtherSplit {
  int64_t rows, columns, row_tasks, column_tasks;
  OtherSplit(const MatMulDesc& d, int64_t batches, int threads)
      : rows(std::max<int64_t>(1, d.m)), columns(std::max<int64_t>(1, d.n)) {
    const double products = static_cast<double>(d.m) * static_cast<double>(d.n) * static_cast<double>(d.k);
    const int64_t parts = (int64_t{2} * threads + batches - 1) / std::max<int64_t>(1, batches);
    if (threads > 1 && products > 2 * kTaskProducts) {
      columns = parts_of(columns, parts, kTaskColumns);
      const int64_t left = parts / std::max<int64_t>(1, (d.n + columns - 1) / columns);
      if (left > 1) rows = parts_of(rows, left, kTaskRows);
    }
    row_tasks = (d.m + rows - 1) / rows;
    column_tasks = (d.n + columns - 1) / columns;
  }
};

void run_task(const OtherProductTask<double>& task) { other_product_table().f64(task); }
void run_task(const OtherProductTask<uint32_t>& task) { other_product_table().u32(task); }
void run_task(const OtherProductTask<uint64_t>& task) { other_product_table().u64(task); }

// T is the type that the elements count as: whole numbers without a sign, because sums wrap.
template <typename T>
class OtherProductKernel final : public Kernel {
 public:
  explicit OtherProductKernel(const MatMulDesc& desc) : d_(desc) {
    for (int64_t i = 0; i < d_.batch.element_count(); ++i)
      index_.push_back({operand_matrix(d_.batch, d_.a_batch, i), operand_matrix(d_.batch, d_.b_batch, i)});
  }

  Status run(KernelContext& context) const override {
    const T* const a = context.input<T>(d_.a);
    const T* const b = context.input<T>(d_.b);
    const T* const addend = context.input<T>(d_.addend);
    T* const y = context.output<T>(0);
    const auto batches = static_cast<int64_t>(index_.size());
    const OtherSplit split(d_, batches, context.pool->threads());
    const int64_t tasks = split.row_tasks * split.column_tasks;
    context.pool->parallel_for(batches * tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto [a_matrix, b_matrix] = index_[i / tasks];
        const int64_t m0 = i % tasks / split.column_tasks * split.rows;
        const int64_t n0 = i % split.column_tasks * split.columns;
        OtherProductTask<T> task{.a = a + a_matrix * d_.m * d_.k + m0 * d_.a_row(),
                                 .a_row = d_.a_row(),
                                 .a_column = d_.a_column(),
                                 .b = b + b_matrix * d_.k * d_.n + n0 * d_.b_column(),
                                 .b_row = d_.b_row(),
                                 .b_column = d_.b_column(),
                                 .c = y + (i / tasks * d_.m + m0) * d_.n + n0,
                                 .ldc = d_.n,
                                 .m = std::min(split.rows, d_.m - m0),
                                 .n = std::min(split.columns, d_.n - n0),
                                 .k = d_.k};
        run_task(task);
        if (addend != nullptr || d_.alpha != 1)
          finish(task, addend ? addend + m0 * d_.addend_row + n0 * d_.addend_column : nullptr);
      }
    });
    return {};
  }

  std::string_view name() const override { return std::is_same_v<T, double> ? "gemm f64" : "gemm integers"; }

 private:
  void finish(const OtherProductTask<T>& task, const T* addend) const {
    const auto alpha = static_cast<T>(d_.alpha), beta = static_cast<T>(d_.beta);
    for (int64_t i = 0; i < task.m; ++i) {
      T* const c = task.c + i * task.ldc;
      const T* const row = addend ? addend + i * d_.addend_row : nullptr;
      for (int64_t j = 0; j < task.n; ++j) c[j] = alpha * c[j] + (row ? beta * row[j * d_.addend_column] : T(0));
    }
  }

  const MatMulDesc d_;
  std::vector<std::pair<int64_t, int64_t>> index_;  // matrices of A and B, by batch
};

}  // namespace

Status match_other_matmul(const KernelNode& node) {
  const DataType type = node.inputs[0].type;
  const bool whole =
      type == DataType::kInt32 || type == DataType::kUint32 || type == DataType::kInt64 || type == DataType::kUint64;
  TENON_UNSUPPORTED_IF(!whole && type != DataType::kDouble, "There is no vector product of {}.", data_type_name(type));
  const MatMulForm form = read_matmul_form(*node.node);
  // The standard rounds the scaled sum of whole numbers once, which the reference kernel does.
  TENON_UNSUPPORTED_IF(whole && (form.alpha != 1 || form.beta != 1), "Whole numbers are scaled by {} and {}.",
                       form.alpha, form.beta);
  return match_plain(node, type);
}

Result<std::unique_ptr<Kernel>> create_other_matmul(const KernelNode& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  TENON_INVALID_IF(output_spec(node, 0).shape != desc.y, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  switch (data_type_size(node.inputs[0].type)) {
    case 4:
      return std::unique_ptr<Kernel>(std::make_unique<OtherProductKernel<uint32_t>>(desc));
    default:
      if (node.inputs[0].type == DataType::kDouble)
        return std::unique_ptr<Kernel>(std::make_unique<OtherProductKernel<double>>(desc));
      return std::unique_ptr<Kernel>(std::make_unique<OtherProductKernel<uint64_t>>(desc));
  }
}

}  // namespace tenon::cpu::nn
