#include "ep/cpu/kernels/nn_norm.h"

#include <algorithm>

#include "ep/cpu/kernels/nn_common.h"
#include "ep/cpu/simd/norm.h"

namespace tenon::cpu::nn {

namespace {

class LayerNormKernel final : public Kernel {
 public:
  struct Inputs {
    size_t x, skip, scale, bias;
  };
  struct Outputs {
    size_t y, sum, mean, inverse_std;
  };

  LayerNormKernel(Inputs in, Outputs out, int64_t rows, int64_t n, float epsilon)
      : in_(in), out_(out), rows_(rows), n_(n), epsilon_(epsilon) {}

  Status run(KernelContext& context) const override {
    const LayerNormTask whole{.x = context.input<float>(in_.x),
                              .skip = context.input<float>(in_.skip),
                              .scale = context.input<float>(in_.scale),
                              .bias = context.input<float>(in_.bias),
                              .y = context.output<float>(out_.y),
                              .sum = context.output<float>(out_.sum),
                              .mean = context.output<float>(out_.mean),
                              .inverse_std = context.output<float>(out_.inverse_std),
                              .rows = rows_,
                              .n = n_,
                              .epsilon = epsilon_};
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
    return output == out_.y && (input == in_.x || input == in_.skip);
  }
  std::string_view name() const override { return "layer_norm f32"; }

 private:
  const Inputs in_;
  const Outputs out_;
  const int64_t rows_, n_;
  const float epsilon_;
};

constexpr size_t kAbsent = SIZE_MAX;

// Does `parameter` have one value for each element of a row of `x`, the same ones for every row? Leading 1s aside, its
// shape is that of the row: an equal number of elements could also broadcast along another axis.
bool is_row(const Shape& parameter, const Shape& x, int axis) {
  int from = 0;
  while (from < parameter.rank() && parameter[from] == 1) ++from;
  while (axis < x.rank() && x[axis] == 1) ++axis;
  return parameter.dims().size() - static_cast<size_t>(from) == x.dims().size() - static_cast<size_t>(axis) &&
         std::equal(parameter.begin() + from, parameter.end(), x.begin() + axis);
}

Result<std::unique_ptr<Kernel>> make_layer_norm(const KernelNode& node, LayerNormKernel::Inputs in,
                                                LayerNormKernel::Outputs out) {
  const Shape& shape = input_spec(node, in.x).shape;
  TENON_TRY_ASSIGN(const int axis, checked_axis(node.node->int_or("axis", -1), shape.rank()));
  const int64_t rows = span_count(shape, 0, axis), n = span_count(shape, axis, shape.rank());
  for (size_t input : {in.scale, in.bias}) {
    const TensorSpec& spec = input_spec(node, input);
    TENON_UNSUPPORTED_IF(spec.present() && !is_row(spec.shape, shape, axis),
                         "The scale or bias of shape {} is not a row of X {} from axis {} on.", spec.shape.to_string(),
                         shape.to_string(), axis);
  }
  const TensorSpec& skip = input_spec(node, in.skip);
  TENON_INVALID_IF(skip.present() && skip.shape.element_count() != rows * n,
                   "The skip of shape {} does not have the shape {} of X.", skip.shape.to_string(), shape.to_string());
  for (auto [index, count] :
       {std::pair{out.y, rows * n}, {out.sum, rows * n}, {out.mean, rows}, {out.inverse_std, rows}}) {
    const TensorSpec& spec = output_spec(node, index);
    TENON_INVALID_IF(spec.present() && spec.shape.element_count() != count,
                     "Output {} of shape {} does not have {} elements.", index, spec.shape.to_string(), count);
  }
  TENON_UNSUPPORTED_IF(!output_spec(node, out.y).present(), "The normalised output is absent.");
  TENON_UNSUPPORTED_IF(n == 0 && rows > 0, "The normalised rows are empty.");
  return std::unique_ptr<Kernel>(
      std::make_unique<LayerNormKernel>(in, out, rows, n, node.node->float_or("epsilon", 1e-5f)));
}

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(int64_t outer, int64_t n, int64_t inner, bool log) : outer_(outer), n_(n), inner_(inner), log_(log) {}

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    if (inner_ == 1) {
      const int64_t grain = std::max<int64_t>(1, 2048 / n_);
      context.pool->parallel_for(outer_, grain, [&](int64_t begin, int64_t end) {
        norm_table().softmax_rows(x + begin * n_, y + begin * n_, end - begin, n_, log_);
      });
      return {};
    }
    // Parts of 64 columns or more of one outer index.
    const int64_t width = std::max<int64_t>(64, 2048 / n_ / 64 * 64);
    const int64_t parts = (inner_ + width - 1) / width;
    context.pool->parallel_for(outer_ * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / parts * n_ * inner_, first = i % parts * width;
        norm_table().softmax_columns(x + at, y + at, n_, inner_, first, std::min(inner_, first + width), log_);
      }
    });
    return {};
  }

  bool may_run_in_place(size_t, size_t) const override { return true; }
  std::string_view name() const override { return inner_ == 1 ? "softmax rows f32" : "softmax columns f32"; }

 private:
  const int64_t outer_, n_, inner_;
  const bool log_;
};

Result<std::unique_ptr<Kernel>> make_softmax(const KernelNode& node, bool flat, bool log) {
  const Shape& shape = input_spec(node, 0).shape;
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != shape.element_count(),
                   "The output of shape {} does not fit the input of shape {}.", output_spec(node, 0).shape.to_string(),
                   shape.to_string());
  TENON_UNSUPPORTED_IF(shape.element_count() == 0, "The input of shape {} is empty.", shape.to_string());
  if (shape.rank() == 0) return std::unique_ptr<Kernel>(std::make_unique<SoftmaxKernel>(1, 1, 1, log));
  // A flat axis may also be one past the last.
  const int64_t wanted = node.node->int_or("axis", flat ? 1 : -1);
  int axis = shape.rank();
  if (!flat || wanted != shape.rank()) {
    TENON_TRY_ASSIGN(axis, checked_axis(wanted, shape.rank()));
  }
  const int last = flat ? shape.rank() : axis + 1;
  return std::unique_ptr<Kernel>(std::make_unique<SoftmaxKernel>(
      span_count(shape, 0, axis), span_count(shape, axis, last), span_count(shape, last, shape.rank()), log));
}

}  // namespace

Status match_norm(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_layer_norm(const KernelNode& node) {
  return make_layer_norm(node, {.x = 0, .skip = 1, .scale = 2, .bias = 3},
                         {.y = 0, .sum = 1, .mean = kAbsent, .inverse_std = kAbsent});
}

Result<std::unique_ptr<Kernel>> create_layer_normalization(const KernelNode& node) {
  return make_layer_norm(node, {.x = 0, .skip = kAbsent, .scale = 1, .bias = 2},
                         {.y = 0, .sum = kAbsent, .mean = 1, .inverse_std = 2});
}

Result<std::unique_ptr<Kernel>> create_softmax(const KernelNode& node) { return make_softmax(node, false, false); }
Result<std::unique_ptr<Kernel>> create_flat_softmax(const KernelNode& node) { return make_softmax(node, true, false); }
Result<std::unique_ptr<Kernel>> create_log_softmax(const KernelNode& node) { return make_softmax(node, false, true); }
Result<std::unique_ptr<Kernel>> create_flat_log_softmax(const KernelNode& node) {
  return make_softmax(node, true, true);
}

}  // namespace tenon::cpu::nn
