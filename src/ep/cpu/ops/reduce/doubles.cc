// Reductions of float64, and ReduceProd of float32, whose products are float64 until their end.
#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/reduce/problem.h"
#include "ep/cpu/ops/reduce/rows.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/doubles.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrain = 16384;  // elements read by a chunk

struct Row {
  std::string_view op_type;
  WideReduction reduction;
};

constexpr Row kRows[] = {
    {"ReduceSum", WideReduction::kSum},
    {"ReduceMean", WideReduction::kSum},
    {"ReduceMax", WideReduction::kMax},
    {"ReduceMin", WideReduction::kMin},
    {"ReduceL1", WideReduction::kL1},
    {"ReduceL2", WideReduction::kSumSquare},
    {"ReduceLogSum", WideReduction::kSum},
    {"ReduceProd", WideReduction::kProd},
    {"ReduceSumSquare", WideReduction::kSumSquare},
};

const Row* find_row(std::string_view op_type) {
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const Row& candidate) { return candidate.op_type == op_type; });
  return row == std::end(kRows) ? nullptr : row;
}

// The loops over rows and over columns.
template <typename T>
struct Loops {
  void (*rows)(const T* x, T* y, int64_t rows, int64_t n) = nullptr;
  void (*columns)(const T* x, T* y, int64_t n, int64_t inner, int64_t first, int64_t last) = nullptr;
  // Folds results of parts of a column; null where only whole columns can be reduced.
  decltype(columns) again = nullptr;

  void run(const Pass& p, const T* x, T* y, ThreadPool& pool) const {
    if (const Parts parts = parts_of(p); again != nullptr && parts.shared()) {
      fold_shared<T>(
          p, parts, x, pool, [&](const T* from, T* to, int64_t n) { reduce_lines(from, to, n, p.inner); },
          [&](const T* between, int64_t count, int64_t outer) {
            again(between, y + outer * p.inner, count, p.inner, 0, p.inner);
          });
      return;
    }
    if (is_short_inner<T>(p.outer, p.n, p.inner)) {
      pool.parallel_for(p.outer, std::max(kFewestTurned, kGrain / (p.n * p.inner)),
                        [&](int64_t begin, int64_t end) { run_turned(p, x, y, begin, end); });
      return;
    }
    if (p.inner == 1) {
      pool.parallel_for(p.outer, std::max<int64_t>(1, kGrain / p.n),
                        [&](int64_t begin, int64_t end) { rows(x + begin * p.n, y + begin, end - begin, p.n); });
      return;
    }
    const int64_t width = std::max<int64_t>(64, kGrain / p.n / 64 * 64);
    const int64_t parts = (p.inner + width - 1) / width;
    const int64_t grain = std::max<int64_t>(1, kGrain / (p.n * std::min(width, p.inner)));
    pool.parallel_for(p.outer * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t outer = i / parts, first = i % parts * width;
        const T* const from = x + outer * p.n * p.inner;
        T* const to = y + outer * p.inner;
        if (again != nullptr && is_thin(p.n, p.inner)) {
          fold_thin<T>(from, to, p.n, p.inner, whole(columns), whole(again));
        } else {
          columns(from, to, p.n, p.inner, first, std::min(p.inner, first + width));
        }
      }
    });
  }

 private:
  static auto whole(decltype(columns) loop) {
    return [loop](const T* x, T* y, int64_t n, int64_t inner) { loop(x, y, n, inner, 0, inner); };
  }

  // On one thread.
  void reduce_lines(const T* x, T* y, int64_t n, int64_t inner) const {
    if (inner == 1) {
      rows(x, y, 1, n);
    } else if (is_thin(n, inner)) {
      fold_thin<T>(x, y, n, inner, whole(columns), whole(again));
    } else {
      columns(x, y, n, inner, 0, inner);
    }
  }

  // The outers [begin, end), several side by side.
  void run_turned(const Pass& p, const T* x, T* y, int64_t begin, int64_t end) const {
    for_turned(x, begin, end, p.n, p.inner, [&](const T* block, int64_t first, int64_t count) {
      alignas(64) T results[kMostTurnedResults];
      columns(block, results, p.n, p.inner * count, 0, p.inner * count);
      turn_back(results, p.inner, count, y + first * p.inner);
    });
  }
};

// The reduction of results of `reduction` that gives the same as one of all elements.
WideReduction of_results(WideReduction reduction) {
  return reduction == WideReduction::kSumSquare || reduction == WideReduction::kL1 ? WideReduction::kSum : reduction;
}

Loops<double> loops_of(WideReduction reduction) {
  const auto at = static_cast<size_t>(reduction), again = static_cast<size_t>(of_results(reduction));
  return {double_table().reduce_rows[at], double_table().reduce_columns[at], double_table().reduce_columns[again]};
}

class DoubleReduceKernel final : public Kernel {
 public:
  DoubleReduceKernel(const Problem& problem, const Row& row, int64_t reduced)
      : problem_(problem), row_(row), reduced_(static_cast<double>(reduced)) {}

  Status run(KernelContext& context) const override {
    const auto* x = context.input<double>(0);
    auto* const y = context.output<double>(0);
    WideReduction last = row_.reduction;
    if (problem_.first) {
      auto* const between = reinterpret_cast<double*>(context.scratch);
      loops_of(last).run(*problem_.first, x, between, *context.pool);
      last = of_results(last);
      x = between;
    }
    loops_of(last).run(problem_.last, x, y, *context.pool);
    const int64_t n = problem_.last.result();
    if (row_.op_type == "ReduceMean") std::transform(y, y + n, y, [this](double sum) { return sum / reduced_; });
    if (row_.op_type == "ReduceL2") double_table().roots(y, y, n);
    if (row_.op_type == "ReduceLogSum") std::transform(y, y + n, y, [](double sum) { return std::log(sum); });
    return {};
  }
  size_t scratch_bytes() const override { return problem_.first ? problem_.first->result() * sizeof(double) : 0; }
  std::string_view name() const override {
    return problem_.first ? "reduce twice f64" : problem_.last.inner == 1 ? "reduce rows f64" : "reduce columns f64";
  }

 private:
  const Problem problem_;
  const Row& row_;
  const double reduced_;  // elements that make one result
};

class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(const Pass& pass) : pass_(pass) {}
  Status run(KernelContext& context) const override {
    const Loops<float> loops{double_table().product_rows, double_table().product_columns};
    loops.run(pass_, context.input<float>(0), context.output<float>(0), *context.pool);
    return {};
  }
  std::string_view name() const override { return pass_.inner == 1 ? "product of rows" : "product of columns"; }

 private:
  const Pass pass_;
};

}  // namespace

Status match_reduce_doubles(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  const bool product = node.node->op_type == "ReduceProd" && x.type == DataType::kFloat;
  TENON_UNSUPPORTED_IF(
      x.type != y.type || (x.type != DataType::kDouble && !product) || find_row(node.node->op_type) == nullptr,
      "{} of {} has no loop in float64.", node.node->op_type, data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.layout != Layout::kPlain || y.layout != Layout::kPlain || y.dynamic || !y.present(),
                       "A tensor is not plain, or its size is not known beforehand.");
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_UNSUPPORTED_IF(product && problem.first.has_value(), "The reduced axes are in two places.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_reduce_doubles(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  const Shape &x = input_spec(node, 0).shape, &y = output_spec(node, 0).shape;
  TENON_INVALID_IF(y.element_count() != problem.last.result(),
                   "The output of shape {} does not have the {} elements that remain.", y.to_string(),
                   problem.last.result());
  if (input_spec(node, 0).type == DataType::kFloat)
    return std::unique_ptr<Kernel>(std::make_unique<ProductKernel>(problem.last));
  return std::unique_ptr<Kernel>(std::make_unique<DoubleReduceKernel>(problem, *find_row(node.node->op_type),
                                                                      x.element_count() / y.element_count()));
}

}  // namespace tenon::cpu::nn
