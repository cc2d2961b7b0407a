#include "ep/cpu/ops/norm/rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ep/cpu/ops/narrow/operands.h"
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

// Rows up to this length are widened one at a time on the stack.
constexpr int64_t kLongestNarrowRow = 4096;

// Rows of x and y, either of which may be float16 or bfloat16: body(x, y, count) with some rows of each in float32.
template <typename Body>
void narrow_rows(KernelContext& context, DataType from, DataType to, int64_t rows, int64_t n, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n));
  context.pool->parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float in[kLongestNarrowRow], out[kLongestNarrowRow];
    // As many short ones as stay in the first cache.
    const int64_t together = std::max<int64_t>(1, 1024 / std::max<int64_t>(1, n));
    for (int64_t row = begin; row < end; row += together) {
      const int64_t count = std::min(together, end - row);
      body(read_floats(from, context.inputs[0], row * n, count * n, in),
           begin_floats(to, context.outputs[0], row * n, out), count);
      end_floats(to, context.outputs[0], row * n, count * n, out);
    }
  });
}

// The same for nodes: what the loop over narrow rows takes besides the types.
Status check_narrow_rows(const KernelNode& node, int64_t n) {
  const bool narrow = is_narrow(input_spec(node, 0).type) || is_narrow(output_spec(node, 0).type);
  TENON_UNSUPPORTED_IF(narrow && n > kLongestNarrowRow, "Rows of {} elements are longer than {}.", n,
                       kLongestNarrowRow);
  return {};
}

class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(const LayerNormDesc& desc, DataType from, DataType to)
      : desc_(desc), rows_(desc.rows), n_(desc.columns), from_(from), to_(to) {}

  Status run(KernelContext& context) const override {
    if (is_narrow(from_) || is_narrow(to_)) {
      const LayerNormTask row{.scale = context.input<float>(desc_.scale),
                              .bias = context.input<float>(desc_.bias),
                              .n = n_,
                              .epsilon = desc_.epsilon,
                              .subtract_mean = desc_.subtract_mean};
      narrow_rows(context, from_, to_, rows_, n_, [&row](const float* x, float* y, int64_t count) {
        LayerNormTask task = row;
        task.rows = count;
        task.x = x;
        task.y = y;
        norm_table().layer_norm(task);
      });
      return {};
    }
    const LayerNormTask whole{.x = context.input<float>(0),
                              .skip = context.input<float>(desc_.skip),
                              .scale = context.input<float>(desc_.scale),
                              .bias = context.input<float>(desc_.bias),
                              .y = context.output<float>(0),
                              .sum = context.output<float>(desc_.sum),
                              .mean = context.output<float>(desc_.mean),
                              .inverse_std = context.output<float>(desc_.inverse_deviation),
                              .rows = rows_,
                              .n = n_,
                              .epsilon = desc_.epsilon,
                              .subtract_mean = desc_.subtract_mean};
    if (const Parts parts = parts_of(rows_, n_); parts.shared()) return run_shared(whole, parts, *context.pool);
    const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n_));
    context.pool->parallel_for(rows_, grain, [&](int64_t begin, int64_t end) {
      LayerNormTask task = whole;
      task.rows = end - begin;
      task.x += begin * n_;
      task.y += begin * n_;
      if (task.skip) task.skip += begin * n_;
      if (task.sum) task.sum += begin * n_;
      if (task.mean) task.mean += begin;
      if (task.inverse_std) task.inverse_std += begin;
      norm_table().layer_norm(task);
    });
    return {};
  }

  // Each element of x and skip is read before y is written there.
  bool may_run_in_place(size_t input, size_t output) const override {
    return from_ == to_ && output == 0 && (input == 0 || input == desc_.skip);
  }
  std::string_view name() const override {
    return is_narrow(from_) || is_narrow(to_) ? "layer_norm, 16 bits" : "layer_norm f32";
  }

 private:
  // Rows that threads share: their sums, those of squares, then the results.
  static Status run_shared(const LayerNormTask& t, const Parts& parts, ThreadPool& pool) {
    constexpr int64_t kBlock = 1024;  // which stays in L1 for the steps
    const auto binary = [](Binary op) { return eltwise_table().binary[static_cast<int>(op)]; };
    OfParts<double> sums;
    std::array<float, kFewChunks> means, factors;
    // With a skip its sum with x takes the place of x.
    float* const kept = t.sum != nullptr ? t.sum : t.y;
    const float* const x = t.skip != nullptr ? kept : t.x;
    for_parts(pool, t.rows, parts, [&](int64_t row, int64_t part) {
      const int64_t first = row * t.n + parts.first(part), size = parts.size(part);
      if (t.skip != nullptr) {
        binary(Binary::kAdd)(t.x + first, 1, t.skip + first, 1, kept + first, size);
      } else if (t.sum != nullptr) {
        std::copy_n(t.x + first, size, t.sum + first);
      }
      float sum = 0;
      if (t.subtract_mean) norm_table().reduce_rows(x + first, &sum, 1, size, Reduction::kSum);
      sums[row * parts.count + part] = static_cast<double>(sum);
    });
    const auto mean_of = [&](int64_t row) { return sum_of_parts(sums.data(), parts, row) / static_cast<double>(t.n); };
    for (int64_t row = 0; row < t.rows; ++row) means[row] = static_cast<float>(mean_of(row));
    for_parts(pool, t.rows, parts, [&](int64_t row, int64_t part) {
      const float squares = line_table().squares(x + row * t.n + parts.first(part), parts.size(part), means[row]);
      sums[row * parts.count + part] = static_cast<double>(squares);
    });
    for (int64_t row = 0; row < t.rows; ++row) {
      factors[row] = static_cast<float>(1 / std::sqrt(mean_of(row) + static_cast<double>(t.epsilon)));
      if (t.mean != nullptr) t.mean[row] = means[row];
      if (t.inverse_std != nullptr) t.inverse_std[row] = factors[row];
    }
    for_parts(pool, t.rows, parts, [&](int64_t row, int64_t part) {
      const int64_t end = parts.first(part) + parts.size(part);
      for (int64_t i = parts.first(part); i < end; i += kBlock) {
        const int64_t size = std::min(kBlock, end - i);
        float* const y = t.y + row * t.n + i;
        line_table().standardise(x + row * t.n + i, y, size, means[row], factors[row], 0);
        binary(Binary::kMul)(y, 1, t.scale + i, 1, y, size);
        if (t.bias != nullptr) binary(Binary::kAdd)(y, 1, t.bias + i, 1, y, size);
      }
    });
    return {};
  }

  const LayerNormDesc desc_;
  const int64_t rows_, n_;
  const DataType from_, to_;
};

// Does `parameter` have one value for each element of a row of `x`, the same ones for every row? Leading 1s aside, its
// shape is that of the row: an equal number of elements could also broadcast along another axis.
bool is_row(const Shape& parameter, const Shape& x, int axis) {
  int from = 0;
  while (from < parameter.rank() && parameter[from] == 1) ++from;
  while (axis < x.rank() && x[axis] == 1) ++axis;
  return parameter.rank() - from == x.rank() - axis &&
         std::equal(parameter.begin() + from, parameter.end(), x.begin() + axis);
}

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const SoftmaxDesc& desc, DataType from, DataType to)
      : from_(from),
        to_(to),
        outer_(desc.outer),
        n_(desc.length),
        inner_(desc.inner),
        log_(desc.kind == SoftmaxDesc::Kind::kLogSoftmax),
        guarded_(desc.guarded) {
    const int64_t short_row = log_ ? 24 : 20;  // longer ones fill vectors well enough themselves
    turned_ = inner_ == 1 ? n_ <= short_row && outer_ >= kFewestTurned : is_short_inner<float>(outer_, n_, inner_);
  }

  Status run(KernelContext& context) const override {
    if (is_narrow(from_) || is_narrow(to_)) {
      narrow_rows(context, from_, to_, outer_, n_,
                  [this](const float* x, float* y, int64_t count) { run_outers(x, y, count); });
      return {};
    }
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    if (inner_ == 1 || turned_) {
      if (const Parts parts = parts_of(outer_, n_); inner_ == 1 && parts.shared()) return run_shared(context, parts);
      const int64_t each = n_ * inner_;
      context.pool->parallel_for(
          outer_, std::max(turned_ ? kFewestTurned : 1, 2048 / each),
          [&](int64_t begin, int64_t end) { run_outers(x + begin * each, y + begin * each, end - begin); });
      return {};
    }
    // Parts of 64 columns or more of one outer index.
    const int64_t width = std::max<int64_t>(64, 2048 / n_ / 64 * 64);
    const int64_t parts = (inner_ + width - 1) / width;
    context.pool->parallel_for(outer_ * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / parts * n_ * inner_, first = i % parts * width;
        const int64_t last = std::min(inner_, first + width);
        norm_table().softmax_columns(x + at, y + at, n_, inner_, first, last, log_);
        if (!guarded_) continue;
        for (int64_t row = 0; row < n_; ++row) drop_nan(y + at + row * inner_ + first, last - first);
      }
    });
    return {};
  }

  bool may_run_in_place(size_t, size_t) const override { return from_ == to_; }
  std::string_view name() const override {
    if (is_narrow(from_) || is_narrow(to_)) return "softmax rows, 16 bits";
    return inner_ == 1 ? "softmax rows f32" : "softmax columns f32";
  }

 private:
  // Rows, or with few inner elements outers.
  void run_outers(const float* x, float* y, int64_t count) const {
    const int64_t each = n_ * inner_;
    if (!turned_) {
      norm_table().softmax_rows(x, y, count, n_, log_);
      if (guarded_) drop_nan(y, count * n_);
      return;
    }
    for_turned(x, 0, count, n_, inner_, [&](float* block, int64_t first, int64_t outers) {
      const int64_t columns = inner_ * outers;
      norm_table().softmax_columns(block, block, n_, columns, 0, columns, log_);
      if (guarded_) drop_nan(block, n_ * columns);
      turn_back(block, each, outers, y + first * each);
    });
  }

  // Rows that threads share: their largest elements, the sums of exponentials, then the quotients.
  Status run_shared(KernelContext& context, const Parts& parts) const {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    OfParts<float> tops;
    OfParts<double> sums;
    for_parts(*context.pool, outer_, parts, [&](int64_t row, int64_t part) {
      norm_table().reduce_rows(x + row * n_ + parts.first(part), &tops[row * parts.count + part], 1, parts.size(part),
                               Reduction::kMax);
    });
    for (int64_t row = 0; row < outer_; ++row)
      norm_table().reduce_rows(tops.data() + row * parts.count, &tops[row], 1, parts.count, Reduction::kMax);
    for_parts(*context.pool, outer_, parts, [&](int64_t row, int64_t part) {
      const int64_t first = row * n_ + parts.first(part);
      sums[row * parts.count + part] =
          norm_table().row_exponentials(x + first, log_ ? nullptr : y + first, parts.size(part), tops[row]);
    });
    for (int64_t row = 0; row < outer_; ++row) sums[row] = sum_of_parts(sums.data(), parts, row);
    for_parts(*context.pool, outer_, parts, [&](int64_t row, int64_t part) {
      const int64_t first = row * n_ + parts.first(part), size = parts.size(part);
      const auto factor = static_cast<float>(1 / sums[row]);
      if (log_) {
        line_table().standardise(x + first, y + first, size, tops[row], 1, -static_cast<float>(std::log(sums[row])));
      } else {
        norm_table().scale_rows(y + first, size, 1, size, &factor);
      }
      if (guarded_) drop_nan(y + first, size);
    });
    return {};
  }

  static void drop_nan(float* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) y[i] = std::isnan(y[i]) ? 0 : y[i];
  }

  const DataType from_, to_;
  const int64_t outer_, n_, inner_;
  const bool log_, guarded_;
  bool turned_ = false;  // several outers are worked on side by side
};

}  // namespace

Status match_norm(const KernelNode& node) { return match_any_floats(node); }

Result<std::unique_ptr<Kernel>> create_layer_norm(const KernelNode& node) {
  const Shape& shape = input_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const LayerNormDesc desc, read_layer_norm(*node.node, shape));
  const int64_t elements = desc.rows * desc.columns;
  for (size_t input : {desc.scale, desc.bias}) {
    const TensorSpec& spec = input_spec(node, input);
    TENON_UNSUPPORTED_IF(spec.present() && !is_row(spec.shape, shape, desc.axis),
                         "The scale or bias of shape {} is not a row of X {} from axis {} on.", spec.shape.to_string(),
                         shape.to_string(), desc.axis);
  }
  const TensorSpec& skip = input_spec(node, desc.skip);
  TENON_INVALID_IF(skip.present() && skip.shape.element_count() != elements,
                   "The skip of shape {} does not have the shape {} of X.", skip.shape.to_string(), shape.to_string());
  for (auto [index, count] : {std::pair{size_t{0}, elements},
                              {desc.sum, elements},
                              {desc.mean, desc.rows},
                              {desc.inverse_deviation, desc.rows}}) {
    const TensorSpec& spec = output_spec(node, index);
    TENON_INVALID_IF(spec.present() && spec.shape.element_count() != count,
                     "Output {} of shape {} does not have {} elements.", index, spec.shape.to_string(), count);
  }
  TENON_UNSUPPORTED_IF(!output_spec(node, 0).present(), "The normalised output is absent.");
  TENON_UNSUPPORTED_IF(desc.columns == 0 && desc.rows > 0, "The normalised rows are empty.");
  TENON_TRY(check_narrow_rows(node, desc.columns));
  const DataType from = input_spec(node, 0).type, to = output_spec(node, 0).type;
  // Beside x and y of 16 bits, every operand is float32, and there is no sum of two.
  for (size_t input : {desc.scale, desc.bias})
    TENON_UNSUPPORTED_IF(is_narrow(input_spec(node, input).type), "The scale or bias is {}.",
                         data_type_name(input_spec(node, input).type));
  const bool plain = !skip.present() && !output_spec(node, desc.sum).present() &&
                     !output_spec(node, desc.mean).present() && !output_spec(node, desc.inverse_deviation).present();
  const bool narrow = is_narrow(from) || is_narrow(to) || is_narrow(skip.type) ||
                      is_narrow(output_spec(node, desc.sum).type) || is_narrow(output_spec(node, desc.mean).type) ||
                      is_narrow(output_spec(node, desc.inverse_deviation).type);
  TENON_UNSUPPORTED_IF(narrow && !plain, "There is more than X and Y of 16 bits.");
  return std::unique_ptr<Kernel>(std::make_unique<LayerNormKernel>(desc, from, to));
}

Result<std::unique_ptr<Kernel>> create_softmax(const KernelNode& node) {
  const Shape& shape = input_spec(node, 0).shape;
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != shape.element_count(),
                   "The output of shape {} does not fit the input of shape {}.", output_spec(node, 0).shape.to_string(),
                   shape.to_string());
  TENON_UNSUPPORTED_IF(shape.element_count() == 0, "The input of shape {} is empty.", shape.to_string());
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_softmax(*node.node, shape));
  TENON_TRY(check_narrow_rows(node, desc.length));
  const DataType from = input_spec(node, 0).type, to = output_spec(node, 0).type;
  TENON_UNSUPPORTED_IF((is_narrow(from) || is_narrow(to)) && desc.inner != 1,
                       "The axis is not the last one, and an operand is of 16 bits.");
  return std::unique_ptr<Kernel>(std::make_unique<SoftmaxKernel>(desc, from, to));
}

}  // namespace tenon::cpu::nn
