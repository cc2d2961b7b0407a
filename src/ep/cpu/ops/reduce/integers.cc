// ReduceSum, ReduceMean, ReduceProd, ReduceMax and ReduceMin of integers: neighbouring elements, or neighbouring
// results, are folded side by side.
#include <algorithm>
#include <functional>
#include <limits>
#include <type_traits>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/reduce/problem.h"
#include "ep/cpu/ops/reduce/rows.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/integers.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrain = 16384;  // elements read by a chunk
constexpr int64_t kSide = 64;      // elements of a row that are folded side by side
constexpr int64_t kColumns = 512;  // results that are

// Integers wrap around.
template <typename Op, typename A>
A wrapped(A a, A b) {
  using U = std::make_unsigned_t<A>;
  return static_cast<A>(Op()(static_cast<U>(a), static_cast<U>(b)));
}

struct Sum {
  static constexpr WideOp kWide = WideOp::kAdd;
  static constexpr RowFold kRows = RowFold::kSum;
  template <typename A>
  static A start() {
    return 0;
  }
  template <typename A>
  static A fold(A a, A b) {
    return wrapped<std::plus<>>(a, b);
  }
};
struct Product {
  static constexpr WideOp kWide = WideOp::kMul;
  template <typename A>
  static A start() {
    return 1;
  }
  template <typename A>
  static A fold(A a, A b) {
    return wrapped<std::multiplies<>>(a, b);
  }
};
struct Maximum {
  static constexpr WideOp kWide = WideOp::kMax;
  static constexpr RowFold kRows = RowFold::kMax;
  template <typename A>
  static A start() {
    return std::numeric_limits<A>::lowest();
  }
  template <typename A>
  static A fold(A a, A b) {
    return a > b ? a : b;
  }
};
struct Minimum {
  static constexpr WideOp kWide = WideOp::kMin;
  static constexpr RowFold kRows = RowFold::kMin;
  template <typename A>
  static A start() {
    return std::numeric_limits<A>::max();
  }
  template <typename A>
  static A fold(A a, A b) {
    return a < b ? a : b;
  }
};

// From so many elements on, a call costs less than what 64-bit vectors gain.
constexpr int64_t kWorthACall = 16;

// y[i] is folded with x[i].
template <typename Op, typename A, typename T>
void fold(const T* x, A* y, int64_t n) {
  if constexpr (std::is_same_v<T, int64_t>) {
    if (n >= kWorthACall) return integer_table().wide[static_cast<int>(Op::kWide)](y, x, 1, y, n);
  }
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = Op::fold(y[i], static_cast<A>(x[i]));
}

// A mean is cut off. Quotients of integers that float64 holds with a bit to spare are right in it, and take less time.
template <typename T, typename A>
T finish(A value, int64_t count, bool mean) {
  constexpr int64_t kExact = int64_t{1} << 52;
  if constexpr (std::is_same_v<A, int64_t>) {
    if (mean && value > -kExact && value < kExact && count < kExact)
      return static_cast<T>(static_cast<double>(value) / static_cast<double>(count));
    if (mean) return static_cast<T>(value / count);
  }
  return static_cast<T>(value);
}

// A function of its own, with those below: each is called in several places, and there are many types.
template <typename Op, typename A, typename T>
[[gnu::noinline]] A fold_row(const T* x, int64_t n) {
  A sums[kSide], result = Op::template start<A>();
  const int64_t whole = n / kSide * kSide;
  if (whole > 0) {
    std::fill_n(sums, kSide, Op::template start<A>());
    for (int64_t i = 0; i < whole; i += kSide) fold<Op>(x + i, sums, kSide);
    for (const A sum : sums) result = Op::fold(result, sum);
  }
  for (int64_t i = whole; i < n; ++i) result = Op::fold(result, static_cast<A>(x[i]));
  return result;
}

template <typename Op, typename A, typename T>
[[gnu::noinline]] void fold_columns(const T* x, A* sums, int64_t n, int64_t inner, int64_t columns) {
  std::fill_n(sums, columns, Op::template start<A>());
  for (int64_t k = 0; k < n; ++k) fold<Op>(x + k * inner, sums, columns);
}

template <typename Op, typename T>
void fold_rows(const T* x, T* y, int64_t rows, int64_t n) {
  constexpr int kFold = static_cast<int>(Op::kRows);
  if constexpr (sizeof(T) == 4) {
    integer_table().rows32[kFold](x, y, rows, n);
  } else {
    integer_table().rows64[kFold](x, y, rows, n);
  }
}

// Whether vectors fold rows.
template <typename Op, typename A, typename T>
inline constexpr bool kHasRows = requires { Op::kRows; } && std::is_same_v<A, T> && sizeof(T) >= 4;

template <typename Op, typename A, typename T>
[[gnu::noinline]] void fold_lines(const T* x, A* sums, int64_t n, int64_t inner, int64_t columns) {
  if (inner == 1) {
    if constexpr (kHasRows<Op, A, T>) {
      fold_rows<Op>(x, sums, 1, n);
    } else {
      *sums = fold_row<Op, A>(x, n);
    }
  } else if (is_thin(n, inner)) {
    const auto folded = [](const auto* from, A* to, int64_t rows, int64_t width) {
      fold_columns<Op>(from, to, rows, width, width);
    };
    fold_thin<A>(x, sums, n, inner, folded, folded);
  } else {
    fold_columns<Op>(x, sums, n, inner, columns);
  }
}

template <typename Op, typename A, typename T>
void reduce_columns(const T* x, T* y, const Pass& p, int64_t columns, bool mean) {
  A sums[kColumns];
  fold_lines<Op>(x, sums, p.n, p.inner, columns);
  for (int64_t i = 0; i < columns; ++i) y[i] = finish<T>(sums[i], p.n, mean);
}

// The outers [begin, end), several side by side.
template <typename Op, typename A, typename T>
void run_turned(const Pass& p, bool mean, const T* x, T* y, int64_t begin, int64_t end) {
  for_turned(x, begin, end, p.n, p.inner, [&](const T* block, int64_t first, int64_t count) {
    alignas(64) T results[kMostTurnedResults];
    const Pass turned{.n = p.n, .inner = p.inner * count};
    for (int64_t c = 0; c < turned.inner; c += kColumns)
      reduce_columns<Op, A>(block + c, results + c, turned, std::min(kColumns, turned.inner - c), mean);
    turn_back(results, p.inner, count, y + first * p.inner);
  });
}

template <typename Op, typename A, typename T>
void run_pass(const Pass& p, bool mean, const void* from, void* to, ThreadPool& pool) {
  const auto* const x = static_cast<const T*>(from);
  auto* const y = static_cast<T*>(to);
  if (const Parts parts = parts_of(p); parts.shared()) {
    fold_shared<A>(
        p, parts, x, pool,
        [&](const T* begin, A* sums, int64_t n) { fold_lines<Op>(begin, sums, n, p.inner, p.inner); },
        [&](const A* between, int64_t count, int64_t outer) {
          A sums[kFewChunks * kTogether];
          fold_columns<Op>(between, sums, count, p.inner, p.inner);
          for (int64_t i = 0; i < p.inner; ++i) y[outer * p.inner + i] = finish<T>(sums[i], p.n, mean);
        });
    return;
  }
  if constexpr (kHasRows<Op, A, T>) {
    if (p.inner == 1) {
      pool.parallel_for(p.outer, std::max<int64_t>(1, kGrain / p.n), [&](int64_t begin, int64_t end) {
        fold_rows<Op>(x + begin * p.n, y + begin, end - begin, p.n);
        for (int64_t i = begin; mean && i < end; ++i) y[i] = finish<T>(y[i], p.n, true);
      });
      return;
    }
  }
  // The compiler's vectors along rows of int32 catch up earlier than those of other types.
  constexpr int64_t kShort = sizeof(T) == 4 ? kShortRow / 2 : kShortRow;
  if (p.inner == 1 ? p.n <= kShort : is_short_inner<T>(p.outer, p.n, p.inner)) {
    pool.parallel_for(p.outer, std::max(kFewestTurned, kGrain / (p.n * p.inner)),
                      [&](int64_t begin, int64_t end) { run_turned<Op, A>(p, mean, x, y, begin, end); });
    return;
  }
  if (p.inner == 1) {
    pool.parallel_for(p.outer, std::max<int64_t>(1, kGrain / p.n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = finish<T>(fold_row<Op, A>(x + i * p.n, p.n), p.n, mean);
    });
    return;
  }
  const int64_t width = std::clamp<int64_t>(kGrain / p.n / kSide * kSide, kSide, kColumns);
  const int64_t parts = (p.inner + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kGrain / (p.n * std::min(width, p.inner)));
  pool.parallel_for(p.outer * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t outer = i / parts, first = i % parts * width;
      reduce_columns<Op, A>(x + outer * p.n * p.inner + first, y + outer * p.inner + first, p,
                            std::min(width, p.inner - first), mean);
    }
  });
}

using Loop = void (*)(const Pass& p, bool mean, const void* x, void* y, ThreadPool& pool);

// Null where there is none.
Loop loop_of(std::string_view op_type, DataType type) {
  const bool maximum = op_type == "ReduceMax";
  if (maximum || op_type == "ReduceMin") {
    return ref::select(ref::TypeList<int8_t, uint8_t, int32_t, int64_t>(), type, [&]<typename T>() -> Loop {
      return maximum ? &run_pass<Maximum, T, T> : &run_pass<Minimum, T, T>;
    });
  }
  if (op_type == "ReduceProd") {
    if (type == DataType::kInt64) return &run_pass<Product, int64_t, int64_t>;
    return type == DataType::kInt32 ? &run_pass<Product, int32_t, int32_t> : nullptr;
  }
  if (type == DataType::kInt64) return &run_pass<Sum, int64_t, int64_t>;
  if (type != DataType::kInt32) return nullptr;
  // A sum wraps around as its own type; the quotient of a mean is that of the whole sum.
  return op_type == "ReduceMean" ? &run_pass<Sum, int64_t, int32_t> : &run_pass<Sum, int32_t, int32_t>;
}

class IntegerReduceKernel final : public Kernel {
 public:
  IntegerReduceKernel(const Pass& pass, Loop loop, bool mean) : pass_(pass), loop_(loop), mean_(mean) {}
  Status run(KernelContext& context) const override {
    loop_(pass_, mean_, context.inputs[0], context.outputs[0], *context.pool);
    return {};
  }
  std::string_view name() const override { return pass_.inner == 1 ? "reduce integer rows" : "reduce integer columns"; }

 private:
  const Pass pass_;
  const Loop loop_;
  const bool mean_;
};

}  // namespace

Status match_reduce_integers(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(loop_of(node.node->op_type, x.type) == nullptr || y.type != x.type,
                       "{} of {} has no loop over integers.", node.node->op_type, data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.layout != Layout::kPlain || y.layout != Layout::kPlain || y.dynamic || !y.present(),
                       "A tensor is not plain, or its size is not known beforehand.");
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_UNSUPPORTED_IF(problem.first.has_value(), "The reduced axes are in two places.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_reduce_integers(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != problem.last.result(),
                   "The output of shape {} does not have the {} elements that remain.",
                   output_spec(node, 0).shape.to_string(), problem.last.result());
  return std::unique_ptr<Kernel>(std::make_unique<IntegerReduceKernel>(
      problem.last, loop_of(node.node->op_type, input_spec(node, 0).type), node.node->op_type == "ReduceMean"));
}

}  // namespace tenon::cpu::nn
