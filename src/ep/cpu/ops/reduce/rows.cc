#include "ep/cpu/ops/reduce/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/reduce/problem.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/norm.h"
#include "ops/reduce.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrain = 16384;  // elements read by a chunk
// Elements of 16 bits that are widened at a time on the stack, and for columns at most so many.
constexpr int64_t kLongestNarrowRow = 4096, kNarrowColumns = 128;

struct ReductionRow {
  std::string_view op_type;
  Reduction reduction;
};

constexpr ReductionRow kReductions[] = {
    {"ReduceSum", Reduction::kSum},
    {"ReduceMean", Reduction::kMean},
    {"ReduceMax", Reduction::kMax},
    {"ReduceMin", Reduction::kMin},
    {"ReduceSumSquare", Reduction::kSumSquare},
    {"ReduceL2", Reduction::kL2},
    {"ReduceLogSum", Reduction::kSum},
    {"ReduceL1", Reduction::kL1},
    {"GlobalAveragePool", Reduction::kMean},
    {"GlobalMaxPool", Reduction::kMax},
};

// The reduction of results of `reduction` that gives the same as one of all elements.
Reduction of_results(Reduction reduction) {
  return reduction == Reduction::kSumSquare || reduction == Reduction::kL1 ? Reduction::kSum : reduction;
}

// The reduction whose results of parts of the elements of_results() reduces to the same but for finished_result().
Reduction of_parts(Reduction reduction) {
  if (reduction == Reduction::kMean) return Reduction::kSum;
  return reduction == Reduction::kL2 ? Reduction::kSumSquare : reduction;
}

float finished_result(Reduction reduction, float x, int64_t n) {
  if (reduction == Reduction::kMean) return x / static_cast<float>(n);
  return reduction == Reduction::kL2 ? std::sqrt(x) : x;
}

// All columns of x[n, inner], where they are few.
void reduce_thin(const float* x, float* y, int64_t n, int64_t inner, Reduction reduction) {
  const auto folded = [](Reduction by) {
    return [by](const float* from, float* to, int64_t rows, int64_t columns) {
      norm_table().reduce_columns(from, to, rows, columns, 0, columns, by);
    };
  };
  const Reduction parts = of_parts(reduction);
  fold_thin<float>(x, y, n, inner, folded(parts), folded(of_results(parts)));
  for (int64_t i = 0; i < inner; ++i) y[i] = finished_result(reduction, y[i], n);
}

// The outers [begin, end), several side by side.
void run_turned(const Pass& p, Reduction reduction, const float* x, float* y, int64_t begin, int64_t end) {
  for_turned(x, begin, end, p.n, p.inner, [&](const float* block, int64_t first, int64_t count) {
    alignas(64) float results[kMostTurnedResults];
    norm_table().reduce_columns(block, results, p.n, p.inner * count, 0, p.inner * count, reduction);
    turn_back(results, p.inner, count, y + first * p.inner);
  });
}

// Lines of `inner` elements, on one thread.
void reduce_lines(const float* x, float* y, int64_t n, int64_t inner, Reduction reduction) {
  if (inner == 1) {
    norm_table().reduce_rows(x, y, 1, n, reduction);
  } else if (is_thin(n, inner)) {
    reduce_thin(x, y, n, inner, reduction);
  } else {
    norm_table().reduce_columns(x, y, n, inner, 0, inner, reduction);
  }
}

// Joins the results of parts.
void join_parts(const Pass& p, Reduction reduction, const float* between, int64_t count, float* y) {
  reduce_lines(between, y, count, p.inner, of_results(of_parts(reduction)));
  for (int64_t i = 0; i < p.inner; ++i) y[i] = finished_result(reduction, y[i], p.n);
}

void run_pass(const Pass& p, Reduction reduction, const float* x, float* y, ThreadPool& pool) {
  if (const Parts parts = parts_of(p); parts.shared()) {
    fold_shared<float>(
        p, parts, x, pool,
        [&](const float* from, float* to, int64_t n) { reduce_lines(from, to, n, p.inner, of_parts(reduction)); },
        [&](const float* between, int64_t count, int64_t outer) {
          join_parts(p, reduction, between, count, y + outer * p.inner);
        });
    return;
  }
  if (p.inner == 1) {
    pool.parallel_for(p.outer, std::max<int64_t>(1, kGrain / p.n), [&](int64_t begin, int64_t end) {
      norm_table().reduce_rows(x + begin * p.n, y + begin, end - begin, p.n, reduction);
    });
    return;
  }
  if (is_short_inner<float>(p.outer, p.n, p.inner)) {
    const int64_t grain = std::max(kFewestTurned, kGrain / (p.n * p.inner));
    pool.parallel_for(p.outer, grain, [&](int64_t begin, int64_t end) { run_turned(p, reduction, x, y, begin, end); });
    return;
  }
  const int64_t width = std::max<int64_t>(64, kGrain / p.n / 64 * 64);
  const int64_t parts = (p.inner + width - 1) / width;
  pool.parallel_for(p.outer * parts, std::max<int64_t>(1, kGrain / (p.n * std::min(width, p.inner))),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t outer = i / parts, first = i % parts * width;
                        const float* const from = x + outer * p.n * p.inner;
                        float* const to = y + outer * p.inner;
                        if (is_thin(p.n, p.inner)) {
                          reduce_thin(from, to, p.n, p.inner, reduction);
                        } else {
                          norm_table().reduce_columns(from, to, p.n, p.inner, first, std::min(p.inner, first + width),
                                                      reduction);
                        }
                      }
                    });
}

class ReduceKernel final : public Kernel {
 public:
  // `log`: the results' logarithms.
  ReduceKernel(const Problem& problem, Reduction reduction, bool log, DataType from, DataType to)
      : p_(problem), reduction_(reduction), log_(log), from_(from), to_(to) {}

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    if (is_narrow(from_) || is_narrow(to_)) return run_narrow(context);
    if (p_.first) {
      auto* const between = reinterpret_cast<float*>(context.scratch);
      run_pass(*p_.first, reduction_, x, between, *context.pool);
      run_pass(p_.last, of_results(reduction_), between, y, *context.pool);
    } else {
      run_pass(p_.last, reduction_, x, y, *context.pool);
    }
    if (log_) logarithms(y, p_.last.result());
    return {};
  }
  size_t scratch_bytes() const override { return p_.first ? p_.first->result() * sizeof(float) : 0; }
  std::string_view name() const override {
    if (is_narrow(from_) || is_narrow(to_))
      return p_.last.inner == 1 ? "reduce rows, 16 bits" : "reduce columns, 16 bits";
    return p_.first ? "reduce twice f32" : p_.last.inner == 1 ? "reduce rows f32" : "reduce columns f32";
  }

 private:
  static void logarithms(float* y, int64_t n) { eltwise_table().unary[static_cast<int>(Unary::kLog)](y, y, n, 0, 0); }
  // Where elements or results are float16 or bfloat16: parts of a row, or of some columns.
  Status run_narrow(KernelContext& context) const {
    const Pass& p = p_.last;
    if (p.inner == 1 && 2 * p.n <= kLongestNarrowRow) return run_narrow_rows(context);
    if (is_short_inner<float>(p.outer, p.n, p.inner)) return run_narrow_turned(context);
    if (const Parts parts = parts_of(p); parts.shared()) return run_narrow_shared(context, parts);
    const int64_t width = std::min(kNarrowColumns, p.inner), parts = (p.inner + width - 1) / width;
    const int64_t grain = std::max<int64_t>(1, kGrain / (p.n * width));
    context.pool->parallel_for(p.outer * parts, grain, [&](int64_t begin, int64_t end) {
      alignas(64) float results[kNarrowColumns];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % parts * width, columns = std::min(width, p.inner - first), outer = i / parts;
        reduce_narrow(context.inputs[0], outer * p.n * p.inner + first, p.n, columns, results);
        finish(results, columns);
        write(context, outer * p.inner + first, columns, results);
      }
    });
    return {};
  }

  // Where threads share the elements of a result.
  Status run_narrow_shared(KernelContext& context, const Parts& parts) const {
    const Pass& p = p_.last;
    alignas(64) float between[kMostBetween];
    for_parts(*context.pool, p.outer, parts, [&](int64_t outer, int64_t part) {
      float* const to = between + (outer * parts.count + part) * p.inner;
      for (int64_t c = 0; c < p.inner; c += kNarrowColumns)
        reduce_narrow(context.inputs[0], (outer * p.n + parts.first(part)) * p.inner + c, parts.size(part),
                      std::min(kNarrowColumns, p.inner - c), to + c);
    });
    for (int64_t outer = 0; outer < p.outer; ++outer) {
      alignas(64) float results[kFewChunks * kTogether];
      join_parts(p, reduction_, between + outer * parts.count * p.inner, parts.count, results);
      if (log_) logarithms(results, p.inner);
      write(context, outer * p.inner, p.inner, results);
    }
    return {};
  }

  // Several rows at a time, as many as are widened together.
  Status run_narrow_rows(KernelContext& context) const {
    const int64_t n = p_.last.n, most = std::min(kLongestNarrowRow / n, kNarrowColumns);
    context.pool->parallel_for(p_.last.outer, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      alignas(64) float in[kLongestNarrowRow], results[kNarrowColumns];
      for (int64_t row = begin; row < end; row += most) {
        const int64_t rows = std::min(most, end - row);
        float* const y = begin_floats(to_, context.outputs[0], row, results);
        norm_table().reduce_rows(read_floats(from_, context.inputs[0], row * n, rows * n, in), y, rows, n, reduction_);
        if (log_) logarithms(y, rows);
        end_floats(to_, context.outputs[0], row, rows, y);
      }
    });
    return {};
  }

  // Blocks of outers are widened and reduced as float32.
  Status run_narrow_turned(KernelContext& context) const {
    const Pass& p = p_.last;
    const int64_t each = p.n * p.inner, most = turned_outers<float>(p.n, p.inner);
    context.pool->parallel_for(p.outer, std::max(kFewestTurned, kGrain / each), [&](int64_t begin, int64_t end) {
      alignas(64) float in[kTurnedElements<float>], out[kTurnedElements<float>];
      for (int64_t first = begin; first < end; first += most) {
        const int64_t outers = std::min(most, end - first), at = first * p.inner, count = outers * p.inner;
        float* const y = begin_floats(to_, context.outputs[0], at, out);
        run_turned(p, reduction_, read_floats(from_, context.inputs[0], first * each, outers * each, in), y, 0, outers);
        if (log_) logarithms(y, count);
        end_floats(to_, context.outputs[0], at, count, y);
      }
    });
    return {};
  }

  // `columns` columns of n lines from element `at` on, as results of parts (of_parts()).
  void reduce_narrow(const void* x, int64_t at, int64_t n, int64_t columns, float* results) const {
    const int64_t inner = p_.last.inner, most = kLongestNarrowRow / columns;
    const Reduction reduction = of_parts(reduction_);
    if (!is_narrow(from_)) {
      const auto* const from = static_cast<const float*>(x) + at;
      if (columns == inner) return reduce_lines(from, results, n, inner, reduction);
      return norm_table().reduce_columns(from, results, n, inner, 0, columns, reduction);
    }
    // Of the parts until now and of one more.
    alignas(64) float in[kLongestNarrowRow], pair[2 * kNarrowColumns];
    for (int64_t k = 0; k < n; k += most) {
      const int64_t rows = std::min(most, n - k);
      if (columns == inner) {
        read_floats(from_, x, at + k * inner, rows * inner, in);
      } else {
        for (int64_t r = 0; r < rows; ++r) read_floats(from_, x, at + (k + r) * inner, columns, in + r * columns);
      }
      reduce_lines(in, k > 0 ? pair + columns : pair, rows, columns, reduction);
      if (k > 0) {
        reduce_lines(pair, results, 2, columns, of_results(reduction));
        std::copy_n(results, columns, pair);
      }
    }
    std::copy_n(pair, columns, results);
  }

  // Results of all elements from those of parts.
  void finish(float* results, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) results[i] = finished_result(reduction_, results[i], p_.last.n);
    if (log_) logarithms(results, count);
  }

  void write(KernelContext& context, int64_t at, int64_t count, float* results) const {
    float* const y = begin_floats(to_, context.outputs[0], at, results);
    if (y != results) std::copy_n(results, count, y);
    end_floats(to_, context.outputs[0], at, count, results);
  }

  const Problem p_;
  const Reduction reduction_;
  const bool log_;
  const DataType from_, to_;
};

// ReduceLogSumExp of float32, in blocks that stay in L1: parts of rows, or whole columns.
class LogSumExpKernel final : public Kernel {
 public:
  explicit LogSumExpKernel(const Pass& pass) : p_(pass) {}

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    if (p_.inner == 1) {
      if (const Parts parts = nn::parts_of(p_.outer, p_.n); parts.shared()) return run_shared(context, parts);
    }
    context.pool->parallel_for(p_.result(), std::max<int64_t>(1, kGrain / (8 * p_.n)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = p_.inner == 1 ? of_row(x + i * p_.n) : of_column(x + i / p_.inner * p_.n * p_.inner + i % p_.inner);
    });
    return {};
  }
  std::string_view name() const override { return p_.inner == 1 ? "log_sum_exp rows f32" : "log_sum_exp columns f32"; }

 private:
  // Where threads share the elements of a row.
  Status run_shared(KernelContext& context, const Parts& parts) const {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);  // the largest elements until the end
    run_pass(p_, Reduction::kMax, x, y, *context.pool);
    OfParts<double> sums;
    for_parts(*context.pool, p_.outer, parts, [&](int64_t row, int64_t part) {
      sums[row * parts.count + part] =
          std::isfinite(y[row]) ? sum_of(x + row * p_.n + parts.first(part), parts.size(part), y[row]) : 0;
    });
    for (int64_t row = 0; row < p_.outer; ++row) {
      if (std::isfinite(y[row])) y[row] += static_cast<float>(std::log(sum_of_parts(sums.data(), parts, row)));
    }
    return {};
  }

  float of_column(const float* x) const {
    alignas(64) float column[kLongestNarrowRow];
    for (int64_t k = 0; k < p_.n; ++k) column[k] = x[k * p_.inner];
    return of_row(column);
  }
  float of_row(const float* x) const {
    float top = 0;
    norm_table().reduce_rows(x, &top, 1, p_.n, Reduction::kMax);
    if (!std::isfinite(top)) return top;  // also a NaN
    return top + static_cast<float>(std::log(sum_of(x, p_.n, top)));
  }
  // Of e^(x - top), where no x is larger than `top`.
  static double sum_of(const float* x, int64_t count, float top) {
    alignas(64) float block[kLongestNarrowRow];
    double sum = 0;
    for (int64_t i = 0; i < count; i += kLongestNarrowRow) {
      const int64_t n = std::min(kLongestNarrowRow, count - i);
      std::copy_n(x + i, n, block);
      sum += static_cast<double>(norm_table().exponentials(block, nullptr, 0, n, &top));
    }
    return sum;
  }

  const Pass p_;
};

Result<AxisSet> axes_of(const KernelNode& node) {
  const int rank = input_spec(node, 0).shape.rank();
  if (node.node->op_type.starts_with("Global")) {
    AxisSet spatial;
    for (int i = 2; i < rank; ++i) spatial.set(i);
    return spatial;
  }
  const ConstantRef given = node.constants.size() > 1 ? node.constants[1] : nullptr;
  std::optional<ReduceDesc> desc = read_reduce(*node.node, input_spec(node, 1).present(), given);
  TENON_UNSUPPORTED_IF(!desc, "The axes are not constant.");
  return reduced_axes(desc->axes, desc->noop_with_empty_axes, rank);
}

}  // namespace

Result<Problem> reduction_problem(const KernelNode& node) {
  TENON_TRY_ASSIGN(const AxisSet reduced, axes_of(node));
  const Shape& shape = input_spec(node, 0).shape;
  // Kept and reduced axes in turn: sizes[0] is kept, sizes[1] reduced, ...
  std::vector<int64_t> sizes = {1};
  int64_t all = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const bool last_is_reduced = std::ssize(sizes) % 2 == 0;
    if (reduced.test(i) != last_is_reduced) sizes.push_back(1);
    sizes.back() *= shape[i];
    if (reduced.test(i)) all *= shape[i];
  }
  TENON_UNSUPPORTED_IF(all == 0 || shape.element_count() == 0, "The input of shape {} is empty.", shape.to_string());
  TENON_UNSUPPORTED_IF(sizes.size() > 5, "The reduced axes of shape {} are in more than two places.",
                       shape.to_string());
  sizes.resize(5, 1);
  const Pass one{.outer = sizes[0], .n = sizes[1], .inner = sizes[2]};
  if (sizes[3] == 1) return Problem{.first = {}, .last = one};
  return Problem{.first = Pass{.outer = sizes[0] * sizes[1] * sizes[2], .n = sizes[3], .inner = sizes[4]},
                 .last = {.outer = sizes[0], .n = sizes[1], .inner = sizes[2] * sizes[4]}};
}

Status match_reduce(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(!is_any_float(x.type) || !is_any_float(y.type) || x.layout != Layout::kPlain ||
                           y.layout != Layout::kPlain || y.dynamic || !y.present(),
                       "The operand is not float32, float16 or bfloat16, plain and of known size.");
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_UNSUPPORTED_IF((is_narrow(x.type) || is_narrow(y.type)) && problem.first,
                       "An operand is of 16 bits, and the reduced axes are in two places.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_reduce(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != problem.last.result(),
                   "The output of shape {} does not have the {} elements that remain.",
                   output_spec(node, 0).shape.to_string(), problem.last.result());
  for (const ReductionRow& row : kReductions)
    if (row.op_type == node.node->op_type)
      return std::unique_ptr<Kernel>(
          std::make_unique<ReduceKernel>(problem, row.reduction, node.node->op_type == "ReduceLogSum",
                                         input_spec(node, 0).type, output_spec(node, 0).type));
  return unsupported("The operator {} has no loop.", node.node->op_type);
}

Status match_log_sum_exp(const KernelNode& node) {
  TENON_TRY(match_reduce(node));
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_UNSUPPORTED_IF(is_narrow(input_spec(node, 0).type) || is_narrow(output_spec(node, 0).type) || problem.first ||
                           (problem.last.inner != 1 && problem.last.n > kLongestNarrowRow),
                       "The reduced elements are no rows of float32, nor columns of at most {}.", kLongestNarrowRow);
  return {};
}

Result<std::unique_ptr<Kernel>> create_log_sum_exp(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != problem.last.result(),
                   "The output of shape {} does not have the {} elements that remain.",
                   output_spec(node, 0).shape.to_string(), problem.last.result());
  return std::unique_ptr<Kernel>(std::make_unique<LogSumExpKernel>(problem.last));
}

}  // namespace tenon::cpu::nn
