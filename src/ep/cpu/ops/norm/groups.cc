// InstanceNormalization, GroupNormalization and MeanVarianceNormalization on float32; LpNormalization and Hardmax on
// float32, float16 and bfloat16.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/norm/rows.h"
#include "ep/cpu/ops/shared_lines.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/lines.h"
#include "ep/cpu/simd/norm.h"
#include "ops/norm.h"
#include "ops/softmax.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrain = 8192;  // elements of a chunk
// Columns that are worked on together, and rows of 16 bits that are widened on the stack.
constexpr int64_t kColumns = 512, kLongestNarrowRow = 4096;

auto binary(Binary op) { return eltwise_table().binary[static_cast<int>(op)]; }

// Parts of `inner` columns of each of `outer` matrices: body(matrix, first column, columns).
template <typename Body>
void for_columns(ThreadPool& pool, int64_t outer, int64_t n, int64_t inner, const Body& body) {
  const int64_t width = std::clamp<int64_t>(kGrain / n / 64 * 64, 64, kColumns);
  const int64_t parts = (inner + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kGrain / (n * std::min(width, inner)));
  pool.parallel_for(outer * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * width;
      body(i / parts, first, std::min(width, inner - first));
    }
  });
}

Status match_groups(const KernelNode& node) {
  TENON_TRY(match_any_floats(node));
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(x.type != y.type || x.shape != y.shape || x.shape.element_count() == 0,
                       "The output {}{} is not like the input {}{}, or both are empty.", data_type_name(y.type),
                       y.shape.to_string(), data_type_name(x.type), x.shape.to_string());
  return {};
}

class LpNormKernel final : public Kernel {
 public:
  LpNormKernel(const LpNormDesc& desc, DataType type) : desc_(desc), type_(type) {}

  Status run(KernelContext& context) const override {
    const Reduction norm = desc_.p == 1 ? Reduction::kL1 : Reduction::kL2;
    const int64_t n = desc_.length, inner = desc_.inner;
    if (inner == 1 ? n > 0 && n <= kShortRow
                   : type_ == DataType::kFloat && is_short_inner<float>(desc_.outer, n, inner))
      return run_turned(context, norm);
    if (inner == 1) {
      if (const Parts parts = parts_of(desc_.outer, n); parts.shared()) return run_shared(context, norm, parts);
      context.pool->parallel_for(desc_.outer, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
        alignas(64) float in[kLongestNarrowRow], out[kLongestNarrowRow];
        for (int64_t row = begin; row < end; ++row) {
          const float* const x = read_floats(type_, context.inputs[0], row * n, n, in);
          float* const y = begin_floats(type_, context.outputs[0], row * n, out);
          float divisor = 0;
          norm_table().reduce_rows(x, &divisor, 1, n, norm);
          if (divisor == 0) divisor = 1;
          binary(Binary::kDiv)(x, 1, &divisor, 0, y, n);
          end_floats(type_, context.outputs[0], row * n, n, y);
        }
      });
      return {};
    }
    for_columns(*context.pool, desc_.outer, n, inner, [&](int64_t matrix, int64_t first, int64_t columns) {
      alignas(64) float divisors[kColumns];
      const float* const x = context.input<float>(0) + matrix * n * inner + first;
      float* const y = context.output<float>(0) + matrix * n * inner + first;
      norm_table().reduce_columns(x, divisors, n, inner, 0, columns, norm);
      std::replace(divisors, divisors + columns, 0.0f, 1.0f);
      for (int64_t k = 0; k < n; ++k) binary(Binary::kDiv)(x + k * inner, 1, divisors, 1, y + k * inner, columns);
    });
    return {};
  }
  bool may_run_in_place(size_t, size_t) const override { return true; }
  std::string_view name() const override { return desc_.inner == 1 ? "lp_norm rows" : "lp_norm columns"; }

 private:
  // Rows of float32 that threads share.
  Status run_shared(KernelContext& context, Reduction norm, const Parts& parts) const {
    const auto* const x = context.input<float>(0);
    auto* const y = context.output<float>(0);
    OfParts<double> sums;
    for_parts(*context.pool, desc_.outer, parts, [&](int64_t row, int64_t part) {
      float sum = 0;
      norm_table().reduce_rows(x + row * desc_.length + parts.first(part), &sum, 1, parts.size(part),
                               norm == Reduction::kL1 ? Reduction::kL1 : Reduction::kSumSquare);
      sums[row * parts.count + part] = static_cast<double>(sum);
    });
    std::array<float, kFewChunks> divisors;
    for (int64_t row = 0; row < desc_.outer; ++row) {
      const double sum = sum_of_parts(sums.data(), parts, row);
      const auto divisor = static_cast<float>(norm == Reduction::kL1 ? sum : std::sqrt(sum));
      divisors[row] = divisor == 0 ? 1 : divisor;
    }
    for_parts(*context.pool, desc_.outer, parts, [&](int64_t row, int64_t part) {
      const int64_t first = row * desc_.length + parts.first(part);
      binary(Binary::kDiv)(x + first, 1, &divisors[row], 0, y + first, parts.size(part));
    });
    return {};
  }

  // Several outers side by side.
  Status run_turned(KernelContext& context, Reduction norm) const {
    const int64_t n = desc_.length, inner = desc_.inner, each = n * inner, most = turned_outers<float>(n, inner);
    context.pool->parallel_for(desc_.outer, std::max(kFewestTurned, kGrain / each), [&](int64_t begin, int64_t end) {
      alignas(64) float in[kTurnedElements<float>], out[kTurnedElements<float>], divisors[kMostTurnedResults];
      for (int64_t first = begin; first < end; first += most) {
        const int64_t outers = std::min(most, end - first), at = first * each;
        float* const y = begin_floats(type_, context.outputs[0], at, out);
        const float* const x = read_floats(type_, context.inputs[0], at, outers * each, in);
        for_turned(x, 0, outers, n, inner, [&](float* block, int64_t, int64_t count) {
          const int64_t columns = inner * count;
          norm_table().reduce_columns(block, divisors, n, columns, 0, columns, norm);
          std::replace(divisors, divisors + columns, 0.0f, 1.0f);
          for (int64_t k = 0; k < n; ++k) {
            float* const row = block + k * columns;
            binary(Binary::kDiv)(row, 1, divisors, 1, row, columns);
          }
          turn_back(block, each, count, y);
        });
        end_floats(type_, context.outputs[0], at, outers * each, y);
      }
    });
    return {};
  }

  const LpNormDesc desc_;
  const DataType type_;
};

// Sums in float32 of so many elements are added in double.
constexpr int64_t kSummed = 8192;

double sum_of(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kSummed) {
    float part = 0;
    norm_table().reduce_rows(x + i, &part, 1, std::min(kSummed, n - i), Reduction::kSum);
    sum += static_cast<double>(part);
  }
  return sum;
}

double squares_of(const float* x, int64_t n, float mean) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kSummed)
    sum += static_cast<double>(line_table().squares(x + i, std::min(kSummed, n - i), mean));
  return sum;
}

constexpr int64_t kMoments = 16;  // rows whose moments are taken at once

// The means of `rows` rows of n elements and the sums of their squared differences from these. Each step takes several
// rows, so that none waits for the one before it.
void moments(const float* x, int64_t rows, int64_t n, float* means, double* squares) {
  if (n > kSummed) {
    for (int64_t r = 0; r < rows; ++r) means[r] = static_cast<float>(sum_of(x + r * n, n) / static_cast<double>(n));
  } else {
    norm_table().reduce_rows(x, means, rows, n, Reduction::kSum);
    for (int64_t r = 0; r < rows; ++r)
      means[r] = static_cast<float>(static_cast<double>(means[r]) / static_cast<double>(n));
  }
  for (int64_t r = 0; r < rows; ++r) squares[r] = squares_of(x + r * n, n, means[r]);
}

// Calls body(row, mean, sum of squares) for rows [begin, end) of n elements; y may take the place of x there.
template <typename Body>
void for_moments(const float* x, int64_t begin, int64_t end, int64_t n, const Body& body) {
  constexpr int64_t kElements = 2048;  // of rows that are to stay in L1
  const int64_t together = std::clamp<int64_t>(kElements / n, 1, kMoments);
  for (int64_t first = begin; first < end; first += together) {
    const int64_t rows = std::min(together, end - first);
    float means[kMoments];
    double squares[kMoments];
    moments(x + first * n, rows, n, means, squares);
    for (int64_t r = 0; r < rows; ++r) body(first + r, means[r], squares[r]);
  }
}

// Whether rows are standardised several at a time, as columns.
bool are_short_rows(int64_t rows, int64_t n) { return n <= kShortRow && rows >= kFewestTurned; }

struct Line {
  float factor, offset;
};

// Rows [begin, end) of n elements: (x - mean) * factor + offset, with the Line that line_of(row, sum of squares) gives.
template <typename LineOf>
void standardise_short_rows(const float* x, float* y, int64_t begin, int64_t end, int64_t n, const LineOf& line_of) {
  for_turned(x, begin, end, n, 1, [&](float* block, int64_t first, int64_t count) {
    alignas(64) float means[kMostTurned], factors[kMostTurned], offsets[kMostTurned];
    norm_table().reduce_columns(block, means, n, count, 0, count, Reduction::kMean);
    const auto each_row = [&](Binary op, const float* operand) {
      for (int64_t k = 0; k < n; ++k) binary(op)(block + k * count, 1, operand, 1, block + k * count, count);
    };
    each_row(Binary::kSub, means);
    norm_table().reduce_columns(block, factors, n, count, 0, count, Reduction::kSumSquare);
    for (int64_t i = 0; i < count; ++i) {
      const Line line = line_of(first + i, factors[i]);
      factors[i] = line.factor;
      offsets[i] = line.offset;
    }
    each_row(Binary::kMul, factors);
    each_row(Binary::kAdd, offsets);
    turn_back(block, n, count, y + first * n);
  });
}

// Calls body(offset, index, count) for the pieces of elements [first, first + count) that lie in one of the
// neighbouring stretches of `length` elements: `index` counts these.
template <typename Body>
void for_stretches(int64_t first, int64_t count, int64_t length, const Body& body) {
  for (const int64_t end = first + count; first < end;) {
    const int64_t index = first / length, piece = std::min(end, (index + 1) * length) - first;
    body(first, index, piece);
    first += piece;
  }
}

// Groups that threads share: means, then sums of squared differences from these, then the results.
// pieces(group, first, count, body) calls body(x, n) for the elements [first, first + count) of a group, and
// standardise(group, first, count, mean, sum of squares) makes their results.
template <typename Pieces, typename Standardise>
void share_groups(ThreadPool& pool, int64_t groups, const Parts& parts, const Pieces& pieces,
                  const Standardise& standardise) {
  OfParts<double> sums;
  std::array<float, kFewChunks> means;
  const auto each_part = [&](const auto& sum_of_piece) {
    for_parts(pool, groups, parts, [&](int64_t group, int64_t part) {
      double sum = 0;
      pieces(group, parts.first(part), parts.size(part),
             [&](const float* x, int64_t n) { sum += sum_of_piece(group, x, n); });
      sums[group * parts.count + part] = sum;
    });
  };
  each_part([](int64_t, const float* x, int64_t n) { return sum_of(x, n); });
  for (int64_t group = 0; group < groups; ++group)
    means[group] = static_cast<float>(sum_of_parts(sums.data(), parts, group) / static_cast<double>(parts.n));
  each_part([&](int64_t group, const float* x, int64_t n) { return squares_of(x, n, means[group]); });
  for_parts(pool, groups, parts, [&](int64_t group, int64_t part) {
    standardise(group, parts.first(part), parts.size(part), means[group], sum_of_parts(sums.data(), parts, group));
  });
}

class GroupNormKernel final : public Kernel {
 public:
  explicit GroupNormKernel(const GroupNormDesc& desc) : d_(desc) {}

  Status run(KernelContext& context) const override {
    const int64_t channels = d_.group_channels(), n = channels * d_.inner;
    const float *const scale = context.input<float>(1), *const bias = context.input<float>(2);
    const auto inverse_deviation = [this, n](double squares) {
      return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(d_.epsilon)));
    };
    const int64_t groups = d_.batch * d_.groups;
    if (channels == 1 && are_short_rows(groups, n)) {
      const auto line_of = [&](int64_t row, float squares) {
        const int64_t c = row % d_.groups;
        return Line{1 / std::sqrt(squares / static_cast<float>(n) + d_.epsilon) * scale[c], bias[c]};
      };
      context.pool->parallel_for(groups, std::max(kFewestTurned, kGrain / n), [&](int64_t begin, int64_t end) {
        standardise_short_rows(context.input<float>(0), context.output<float>(0), begin, end, n, line_of);
      });
      return {};
    }
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    const auto standardise = [&](int64_t g, int64_t first, int64_t count, float mean, double squares) {
      const float inverse = inverse_deviation(squares);
      const int64_t group = g % d_.groups;
      for_stretches(first, count, d_.inner, [&](int64_t offset, int64_t channel, int64_t piece) {
        const int64_t c = d_.scale_each_group ? group : group * channels + channel, at = g * n + offset;
        line_table().standardise(x + at, y + at, piece, mean, inverse * scale[c], bias[c]);
      });
    };
    if (const Parts parts = parts_of(groups, n); parts.shared()) {
      const auto pieces = [&](int64_t g, int64_t first, int64_t count, const auto& body) {
        body(x + g * n + first, count);
      };
      share_groups(*context.pool, groups, parts, pieces, standardise);
      return {};
    }
    const auto groups_of = [&](int64_t begin, int64_t end) {
      for_moments(x, begin, end, n,
                  [&](int64_t g, float mean, double squares) { standardise(g, 0, n, mean, squares); });
    };
    context.pool->parallel_for(groups, std::max<int64_t>(1, kGrain / n), groups_of);
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0; }
  std::string_view name() const override { return "group_norm f32"; }

 private:
  const GroupNormDesc d_;
};

// X as [parts, groups, length]: a group is one row of each part.
struct MeanVarianceProblem {
  int64_t parts = 1, groups = 1, length = 1;
};

Result<MeanVarianceProblem> mean_variance_problem(const KernelNode& node) {
  const Shape& x = input_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const std::vector<int> axes, read_mean_variance_axes(*node.node, x.rank()));
  // Shared axes, others and shared ones again.
  int64_t sizes[3] = {1, 1, 1};
  int place = 0;
  for (int d = 0; d < x.rank(); ++d) {
    if (x[d] == 1) continue;
    const bool shared = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (shared == (place == 1)) ++place;
    TENON_UNSUPPORTED_IF(place > 2, "The axes of shape {} are in more than two places, or not the last ones.",
                         x.to_string());
    sizes[place] *= x[d];
  }
  if (place == 0) std::swap(sizes[0], sizes[2]);  // all of them
  TENON_UNSUPPORTED_IF(sizes[2] == 1, "The axes of shape {} are not the last ones.", x.to_string());
  return MeanVarianceProblem{sizes[0], sizes[1], sizes[2]};
}

class MeanVarianceKernel final : public Kernel {
 public:
  explicit MeanVarianceKernel(const MeanVarianceProblem& problem) : p_(problem) {}

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    const int64_t n = p_.length, grain = std::max<int64_t>(1, kGrain / (p_.parts * n));
    const auto inverse_deviation = [&](double squares) {
      return static_cast<float>(1 / (std::sqrt(squares / static_cast<double>(p_.parts * n)) + 1e-9));
    };
    if (p_.parts == 1 && are_short_rows(p_.groups, n)) {
      context.pool->parallel_for(p_.groups, std::max(kFewestTurned, grain), [&](int64_t begin, int64_t end) {
        standardise_short_rows(x, y, begin, end, n, [&](int64_t, float squares) {
          return Line{1 / (std::sqrt(squares / static_cast<float>(n)) + 1e-9f), 0};
        });
      });
      return {};
    }
    if (const Parts parts = nn::parts_of(p_.groups, p_.parts * n); parts.shared()) {
      const auto stretches = [&](int64_t group, int64_t first, int64_t count, const auto& body) {
        for_stretches(first, count, n, [&](int64_t offset, int64_t part, int64_t piece) {
          body((part * p_.groups + group) * n + offset - part * n, piece);
        });
      };
      share_groups(
          *context.pool, p_.groups, parts,
          [&](int64_t group, int64_t first, int64_t count, const auto& body) {
            stretches(group, first, count, [&](int64_t offset, int64_t piece) { body(x + offset, piece); });
          },
          [&](int64_t group, int64_t first, int64_t count, float mean, double squares) {
            stretches(group, first, count, [&](int64_t at, int64_t piece) {
              line_table().standardise(x + at, y + at, piece, mean, inverse_deviation(squares), 0);
            });
          });
      return {};
    }
    context.pool->parallel_for(p_.groups, grain, [&](int64_t begin, int64_t end) {
      if (p_.parts == 1) {
        return for_moments(x, begin, end, n, [&](int64_t group, float mean, double squares) {
          line_table().standardise(x + group * n, y + group * n, n, mean, inverse_deviation(squares), 0);
        });
      }
      for (int64_t group = begin; group < end; ++group) {
        const auto at = [&](int64_t part) { return (part * p_.groups + group) * n; };
        double sum = 0, squares = 0;
        for (int64_t part = 0; part < p_.parts; ++part) sum += sum_of(x + at(part), n);
        const auto mean = static_cast<float>(sum / static_cast<double>(p_.parts * n));
        for (int64_t part = 0; part < p_.parts; ++part) squares += squares_of(x + at(part), n, mean);
        const float inverse = inverse_deviation(squares);
        for (int64_t part = 0; part < p_.parts; ++part)
          line_table().standardise(x + at(part), y + at(part), n, mean, inverse, 0);
      }
    });
    return {};
  }
  bool may_run_in_place(size_t, size_t) const override { return true; }
  std::string_view name() const override { return "mean_variance f32"; }

 private:
  const MeanVarianceProblem p_;
};

// The place of the first of the largest numbers; a NaN is passed over.
int64_t place_of_largest(const float* x, int64_t n) {
  float largest = 0;
  norm_table().reduce_rows(x, &largest, 1, n, Reduction::kMax);
  if (largest == largest) return std::min(line_table().find(x, n, largest), n - 1);
  int64_t best = 0;
  float most = -INFINITY;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] > most) most = x[i], best = i;
  return best;
}

class HardmaxKernel final : public Kernel {
 public:
  HardmaxKernel(const SoftmaxDesc& desc, DataType type) : desc_(desc), type_(type) {}

  Status run(KernelContext& context) const override {
    const int64_t n = desc_.length, inner = desc_.inner;
    if (inner == 1) {
      context.pool->parallel_for(desc_.outer, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
        alignas(64) float in[kLongestNarrowRow], out[kLongestNarrowRow];
        for (int64_t row = begin; row < end; ++row) {
          const int64_t place = place_of_largest(read_floats(type_, context.inputs[0], row * n, n, in), n);
          float* const y = begin_floats(type_, context.outputs[0], row * n, out);
          std::fill_n(y, n, 0.0f);
          y[place] = 1;
          end_floats(type_, context.outputs[0], row * n, n, y);
        }
      });
      return {};
    }
    for_columns(*context.pool, desc_.outer, n, inner, [&](int64_t matrix, int64_t first, int64_t columns) {
      const float* const x = context.input<float>(0) + matrix * n * inner + first;
      float* const y = context.output<float>(0) + matrix * n * inner + first;
      float most[kColumns];
      int32_t place[kColumns];
      std::fill_n(most, columns, -INFINITY);
      std::fill_n(place, columns, 0);
      for (int64_t k = 0; k < n; ++k) {
        const float* const row = x + k * inner;
        for (int64_t i = 0; i < columns; ++i) {
          const bool larger = row[i] > most[i];
          most[i] = larger ? row[i] : most[i];
          place[i] = larger ? static_cast<int32_t>(k) : place[i];
        }
      }
      for (int64_t k = 0; k < n; ++k) std::fill_n(y + k * inner, columns, 0.0f);
      for (int64_t i = 0; i < columns; ++i) y[place[i] * inner + i] = 1;
    });
    return {};
  }
  std::string_view name() const override { return desc_.inner == 1 ? "hardmax rows" : "hardmax columns"; }

 private:
  const SoftmaxDesc desc_;
  const DataType type_;
};

// Rows of 16 bits have to fit on the stack, and there are no columns of them.
Status check_rows(DataType type, int64_t length, int64_t inner) {
  TENON_UNSUPPORTED_IF(is_narrow(type) && (inner != 1 || length > kLongestNarrowRow),
                       "{} elements of 16 bits are no row of at most {}.", length, kLongestNarrowRow);
  return {};
}

}  // namespace

Status match_lp_norm(const KernelNode& node) { return match_groups(node); }

Result<std::unique_ptr<Kernel>> create_lp_norm(const KernelNode& node) {
  TENON_TRY_ASSIGN(const LpNormDesc desc, read_lp_norm(*node.node, input_spec(node, 0).shape));
  TENON_TRY(check_rows(input_spec(node, 0).type, desc.length, desc.inner));
  return std::unique_ptr<Kernel>(std::make_unique<LpNormKernel>(desc, input_spec(node, 0).type));
}

Status match_group_norm(const KernelNode& node) {
  TENON_TRY(match_plain(node, DataType::kFloat));
  TENON_UNSUPPORTED_IF(!input_spec(node, 1).present() || !input_spec(node, 2).present(), "Scale or bias are absent.");
  TENON_UNSUPPORTED_IF(input_spec(node, 0).shape.element_count() == 0, "The input is empty.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_group_norm(const KernelNode& node) {
  const Shape& x = input_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const GroupNormDesc desc, read_group_norm(*node.node, x));
  TENON_INVALID_IF(output_spec(node, 0).shape != x, "The output of shape {} does not have the shape {} of X.",
                   output_spec(node, 0).shape.to_string(), x.to_string());
  for (size_t i : {1, 2}) {
    TENON_INVALID_IF(input_spec(node, i).shape != Shape{desc.parameters()}, "Input {} has shape {}; it needs [{}].", i,
                     input_spec(node, i).shape.to_string(), desc.parameters());
  }
  return std::unique_ptr<Kernel>(std::make_unique<GroupNormKernel>(desc));
}

Status match_mean_variance(const KernelNode& node) {
  TENON_TRY(match_groups(node));
  TENON_UNSUPPORTED_IF(is_narrow(input_spec(node, 0).type), "The operand is of 16 bits.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_mean_variance(const KernelNode& node) {
  TENON_TRY_ASSIGN(const MeanVarianceProblem problem, mean_variance_problem(node));
  return std::unique_ptr<Kernel>(std::make_unique<MeanVarianceKernel>(problem));
}

Result<std::unique_ptr<Kernel>> create_hardmax(const KernelNode& node) {
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_softmax(*node.node, input_spec(node, 0).shape));
  TENON_TRY(check_rows(input_spec(node, 0).type, desc.length, desc.inner));
  TENON_UNSUPPORTED_IF(desc.length > INT32_MAX, "A group has {} elements.", desc.length);
  return std::unique_ptr<Kernel>(std::make_unique<HardmaxKernel>(desc, input_spec(node, 0).type));
}

}  // namespace tenon::cpu::nn
