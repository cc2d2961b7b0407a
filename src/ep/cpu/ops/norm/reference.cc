// Normalisations: batch, instance, group, layer (also with skip, of domain tenon), RMS, Lp, LRN, mean-variance.
#include <algorithm>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/lines.h"
#include "ops/norm.h"

namespace tenon::cpu::ref {

namespace {

// Elements of a chunk that is worth claiming.
constexpr int64_t kGrain = 8192;

int64_t grain_of_rows(int64_t length) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, length)); }

// f(x[0]) + ... + f(x[length - 1]), in eight sums that do not wait for one another.
template <typename T, typename F>
double sum_of(const T* x, int64_t length, const F& f) {
  constexpr int64_t kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= length; i += kSums)
    for (int64_t k = 0; k < kSums; ++k) sums[k] += f(static_cast<double>(x[i + k]));
  for (; i < length; ++i) sums[0] += f(static_cast<double>(x[i]));
  for (int64_t k = 1; k < kSums; ++k) sums[0] += sums[k];
  return sums[0];
}

template <typename T>
void moments(const T* x, int64_t length, double& mean, double& variance) {
  mean = sum_of(x, length, [](double v) { return v; }) / static_cast<double>(length);
  variance = sum_of(x, length, [&](double v) { return (v - mean) * (v - mean); }) / static_cast<double>(length);
}

// y = (x - mean) * factor + offset; y may be x.
template <typename T>
void scale_row(const T* x, T* y, int64_t length, double mean, double factor, double offset) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto m = static_cast<C>(mean), f = static_cast<C>(factor), o = static_cast<C>(offset);
  if constexpr (std::is_same_v<T, float>) return line_table().standardise(x, y, length, m, f, o);
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < length; ++i) y[i] = T((static_cast<C>(x[i]) - m) * f + o);
}
using ScaleRow = void (*)(const void* x, void* y, int64_t first, int64_t length, double mean, double factor,
                          double offset);
ScaleRow scale_row_of(DataType x, DataType y) {
  if (x != y) return nullptr;
  return select(FloatTypes(), x, []<typename T>() -> ScaleRow {
    return [](const void* from, void* to, int64_t first, int64_t length, double mean, double factor, double offset) {
      scale_row(static_cast<const T*>(from) + first, static_cast<T*>(to) + first, length, mean, factor, offset);
    };
  });
}

// The sum of (x - mean) ^ power, of the first power or the second.
template <typename T>
double sum_row(const T* x, int64_t length, double mean, int power) {
  if (power == 1) return sum_of(x, length, [&](double v) { return v - mean; });
  return sum_of(x, length, [&](double v) { return (v - mean) * (v - mean); });
}
using SumRow = double (*)(const void* x, int64_t first, int64_t length, double mean, int power);
SumRow sum_row_of(DataType x) {
  return select(FloatTypes(), x, []<typename T>() -> SumRow {
    return [](const void* from, int64_t first, int64_t length, double mean, int power) {
      return sum_row(static_cast<const T*>(from) + first, length, mean, power);
    };
  });
}

template <typename T>
double at(const void* x, int64_t i) {
  return static_cast<double>(static_cast<const T*>(x)[i]);
}
// Reads an element of a parameter that may have another float type than X.
using Reader = double (*)(const void* x, int64_t i);
Result<Reader> reader_of(const KernelNode& node, size_t input) {
  const Reader reader =
      select(FloatTypes(), input_spec(node, input).type, []<typename T>() -> Reader { return &at<T>; });
  TENON_UNSUPPORTED_IF(reader == nullptr, "{} is not computed with input {} of {}.", node.node->op_type, input,
                       data_type_name(input_spec(node, input).type));
  return reader;
}
using Writer = void (*)(void* y, int64_t i, double value);
Writer writer_of(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> Writer {
    return [](void* y, int64_t i, double value) { static_cast<T*>(y)[i] = T(value); };
  });
}

Status require_vector(const KernelNode& node, size_t input, int64_t length) {
  const TensorSpec& spec = input_spec(node, input);
  TENON_INVALID_IF(spec.present() && !(spec.shape == Shape{length}), "{} has input {} of shape {}; it needs [{}].",
                   node.node->op_type, input, spec.shape.to_string(), length);
  return {};
}

struct BatchPlan {
  std::array<Reader, 5> readers{};
  SumRow sum = nullptr;
  Writer write_mean = nullptr, write_variance = nullptr;
  int64_t batch = 0, channels = 0, inner = 1;
  double epsilon = 0;
  bool training = false;
  double momentum = 0;
};

// The moments of a channel of X; the running ones move towards them.
void train_channel(const BatchPlan& plan, KernelContext& context, int64_t c, double& mean, double& variance) {
  const auto count = static_cast<double>(plan.batch * plan.inner);
  const auto sum = [&](double from, int power) {
    double total = 0;
    for (int64_t n = 0; n < plan.batch; ++n)
      total += plan.sum(context.inputs[0], (n * plan.channels + c) * plan.inner, plan.inner, from, power);
    return total;
  };
  mean = sum(0, 1) / count;
  variance = sum(mean, 2) / count;
  const auto move = [&](size_t input, double to, Writer write, size_t output) {
    if (context.output<void>(output) == nullptr) return;
    write(context.outputs[output], c,
          plan.readers[input](context.inputs[input], c) * plan.momentum + to * (1 - plan.momentum));
  };
  move(3, mean, plan.write_mean, 1);
  move(4, variance, plan.write_variance, 2);
}

// Channels of so few elements that lie side by side are scaled together.
constexpr int64_t kShortChannel = 16;

// Images [begin, end): a piece of all channels at a time, with numbers for each of its elements.
void scale_short_channels(const BatchPlan& plan, KernelContext& context, DataType type, int64_t begin, int64_t end) {
  constexpr int64_t kPiece = 256;
  alignas(64) float means[kPiece], factors[kPiece], offsets[kPiece], buffer[kPiece];
  const auto apply = [&](Binary op, const float* a, const float* b, float* y, int64_t n) {
    eltwise_table().binary[static_cast<int>(op)](a, 1, b, 1, y, n);
  };
  const int64_t image = plan.channels * plan.inner;
  // Of small images, as many as a piece has room for.
  const int64_t together = std::clamp<int64_t>(kPiece / std::max<int64_t>(1, image), 1, end - begin);
  for (int64_t first = 0; first < image; first += kPiece) {
    const int64_t piece = std::min(kPiece, together * image - first);
    for (int64_t i = 0; i < piece; ++i) {
      const int64_t c = (first + i) % image / plan.inner;
      const auto read = [&](size_t input) { return plan.readers[input](context.inputs[input], c); };
      means[i] = static_cast<float>(read(3));
      factors[i] = static_cast<float>(read(1) / std::sqrt(read(4) + plan.epsilon));
      offsets[i] = static_cast<float>(read(2));
    }
    for (int64_t b = begin; b < end; b += together) {
      const int64_t at = b * image + first, n = std::min(piece, (end - b) * image - first);
      float* const y = nn::begin_floats(type, context.outputs[0], at, buffer);
      apply(Binary::kSub, nn::read_floats(type, context.inputs[0], at, n, buffer), means, y, n);
      apply(Binary::kMul, y, factors, y, n);
      apply(Binary::kAdd, y, offsets, y, n);
      nn::end_floats(type, context.outputs[0], at, n, y);
    }
  }
}

Result<RefImpl> make_batch(RefNode& node) {
  TENON_TRY(require_inputs(node, 5));
  const Shape& x = node.inputs[0].shape;
  const BatchNormDesc desc = read_batch_norm(*node.node);
  TENON_INVALID_IF(x.rank() < 1, "BatchNormalization needs a batch, not a scalar.");
  BatchPlan plan{.batch = x[0],
                 .channels = x.rank() > 1 ? x[1] : 1,
                 .epsilon = static_cast<double>(desc.epsilon),
                 .training = desc.training,
                 .momentum = static_cast<double>(desc.momentum)};
  for (int d = 2; d < x.rank(); ++d) plan.inner *= x[d];
  for (size_t i = 0; i < 5; ++i) {
    TENON_TRY_ASSIGN(plan.readers[i], reader_of(node, i));
    if (i > 0) TENON_TRY(require_vector(node, i, plan.channels));
  }
  plan.sum = sum_row_of(node.inputs[0].type);
  TENON_TRY(require_output(node, 0, x));
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].present()) continue;
    // Before version 14 these outputs ask for training, whose form the standard changed then.
    TENON_UNSUPPORTED_IF(!desc.training, "BatchNormalization-{} is not computed for training (output {}).",
                         node.node->since_version, i);
    TENON_TRY(require_output(node, i, Shape{plan.channels}));
    (i == 1 ? plan.write_mean : plan.write_variance) = writer_of(node.outputs[i].type);
  }
  RefImpl impl;
  impl.elementwise = !plan.training;
  const ScaleRow scale = scale_row_of(node.inputs[0].type, node.outputs[0].type);
  TENON_UNSUPPORTED_IF(scale == nullptr, "BatchNormalization makes no {} of {}.", data_type_name(node.outputs[0].type),
                       data_type_name(node.inputs[0].type));
  const DataType type = node.inputs[0].type;
  impl.run = [plan, scale, type](KernelContext& context) -> Status {
    if (!plan.training && plan.inner < kShortChannel && nn::is_any_float(type)) {
      context.pool->parallel_for(
          plan.batch, grain_of_rows(plan.channels * plan.inner),
          [&](int64_t begin, int64_t end) { scale_short_channels(plan, context, type, begin, end); });
      return {};
    }
    // Row r is a channel of an image.
    const auto scale_one = [&](int64_t r, double mean, double variance) {
      const int64_t c = r % plan.channels;
      const double factor = plan.readers[1](context.inputs[1], c) / std::sqrt(variance + plan.epsilon);
      scale(context.inputs[0], context.outputs[0], r * plan.inner, plan.inner, mean, factor,
            plan.readers[2](context.inputs[2], c));
    };
    if (plan.training) {
      context.pool->parallel_for(plan.channels, grain_of_rows(plan.batch * plan.inner),
                                 [&](int64_t begin, int64_t end) {
                                   for (int64_t c = begin; c < end; ++c) {
                                     double mean = 0, variance = 0;
                                     train_channel(plan, context, c, mean, variance);
                                     for (int64_t n = 0; n < plan.batch; ++n)
                                       scale_one(n * plan.channels + c, mean, variance);
                                   }
                                 });
      return {};
    }
    context.pool->parallel_for(plan.batch * plan.channels, grain_of_rows(plan.inner), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t c = r % plan.channels;
        scale_one(r, plan.readers[3](context.inputs[3], c), plan.readers[4](context.inputs[4], c));
      }
    });
    return {};
  };
  return impl;
}

// Groups [begin, end) of all batches.
using GroupedLoop = void (*)(const GroupNormDesc& plan, const void* x, const void* scale, const void* bias, void* y,
                             int64_t begin, int64_t end);

template <typename T>
void grouped_loop(const GroupNormDesc& plan, const void* x, const void* scale, const void* bias, void* y, int64_t begin,
                  int64_t end) {
  const int64_t each = plan.group_channels(), length = each * plan.inner;
  for (int64_t g = begin; g < end; ++g) {
    double mean = 0, variance = 0;
    moments(static_cast<const T*>(x) + g * length, length, mean, variance);
    const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(plan.epsilon));
    const int64_t group = g % plan.groups;
    for (int64_t channel = 0; channel < each; ++channel) {
      const int64_t c = plan.scale_each_group ? group : group * each + channel,
                    first = g * length + channel * plan.inner;
      scale_row(static_cast<const T*>(x) + first, static_cast<T*>(y) + first, plan.inner, mean,
                inverse * at<T>(scale, c), at<T>(bias, c));
    }
  }
}

Result<RefImpl> make_grouped(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const GroupNormDesc plan, read_group_norm(*node.node, x));
  for (size_t i : {size_t{1}, size_t{2}}) {
    TENON_TRY(require_vector(node, i, plan.parameters()));
    TENON_INVALID_IF(node.inputs[i].type != node.inputs[0].type, "{} mixes {} and {}.", node.node->op_type,
                     data_type_name(node.inputs[0].type), data_type_name(node.inputs[i].type));
  }
  TENON_TRY(require_output(node, 0, x));
  const auto chosen =
      select(FloatTypes(), node.inputs[0].type, []<typename T>() -> GroupedLoop { return &grouped_loop<T>; });
  RefImpl impl;
  impl.run = [plan, chosen](KernelContext& context) -> Status {
    context.pool->parallel_for(
        plan.batch * plan.groups, grain_of_rows(plan.group_channels() * plan.inner), [&](int64_t begin, int64_t end) {
          chosen(plan, context.inputs[0], context.inputs[1], context.inputs[2], context.outputs[0], begin, end);
        });
    return {};
  };
  return impl;
}

// Y = scale * (X + skip - mean) / deviation + bias over the axes from `axis` on; RMS leaves the mean out.
struct Rows {
  LayerNormDesc desc;
  int64_t rows = 1, length = 1;
  double epsilon = 0;
  Reader x = nullptr, scale = nullptr, bias = nullptr;
  Walk parameters;  // offsets of {scale, bias, element} within a row
  Writer write = nullptr, write_mean = nullptr;
  // Where the scale and the bias of a row begin: strides over the axes before `axis`, 0 where they repeat.
  Shape outer;
  std::array<Strides, 2> outer_strides{};

  std::array<int64_t, 2> parameters_of(int64_t row) const {
    std::array<int64_t, 2> begin{};
    for (int d = outer.rank() - 1; d >= 0; --d) {
      for (size_t k = 0; k < 2; ++k) begin[k] += row % outer[d] * outer_strides[k][d];
      row /= outer[d];
    }
    return begin;
  }
};

void run_rows(const Rows& plan, const void* x, const void* skip, const void* scale, const void* bias, void* y,
              void* mean_out, void* deviation_out, void* sum_out, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const auto value = [&](int64_t i) {
      const int64_t e = r * plan.length + i;
      return plan.x(x, e) + (skip != nullptr ? plan.x(skip, e) : 0.0);
    };
    double mean = 0, squares = 0;
    if (plan.desc.subtract_mean) {
      for (int64_t i = 0; i < plan.length; ++i) mean += value(i);
      mean /= static_cast<double>(plan.length);
    }
    for (int64_t i = 0; i < plan.length; ++i) squares += (value(i) - mean) * (value(i) - mean);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(plan.length) + plan.epsilon);
    const std::array<int64_t, 2> first = plan.parameters_of(r);
    plan.parameters.run([&](const auto& offsets) {
      for (int64_t j = 0; j < plan.parameters.inner; ++j) {
        const int64_t i = offsets[2] + j * plan.parameters.inner_strides[2];
        const double sum = value(i);
        const double s = scale ? plan.scale(scale, first[0] + offsets[0] + j * plan.parameters.inner_strides[0]) : 1.0;
        const double b = bias ? plan.bias(bias, first[1] + offsets[1] + j * plan.parameters.inner_strides[1]) : 0.0;
        if (sum_out != nullptr) plan.write(sum_out, r * plan.length + i, sum);
        plan.write(y, r * plan.length + i, (sum - mean) * inverse * s + b);
      }
      return true;
    });
    if (mean_out != nullptr) plan.write_mean(mean_out, r, mean);
    if (deviation_out != nullptr) plan.write_mean(deviation_out, r, inverse);
  }
}

Result<Rows> prepare_rows(RefNode& node) {
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const LayerNormDesc desc, read_layer_norm(*node.node, x));
  const int axis = desc.axis;
  Rows plan;
  plan.desc = desc;
  plan.rows = desc.rows, plan.length = desc.columns;
  plan.epsilon = static_cast<double>(desc.epsilon);
  Shape row;
  for (int d = 0; d < x.rank(); ++d) (d < axis ? plan.outer : row).push_back(x[d]);
  Strides strides[2]{};
  const size_t inputs[] = {desc.scale, desc.bias};
  for (size_t k = 0; k < 2; ++k) {
    const TensorSpec& spec = input_spec(node, inputs[k]);
    if (!spec.present()) continue;
    TENON_TRY_ASSIGN((k == 0 ? plan.scale : plan.bias), reader_of(node, inputs[k]));
    TENON_TRY_ASSIGN(const Strides all, broadcast_strides(spec.shape, x));
    std::copy_n(all.begin(), axis, plan.outer_strides[k].begin());
    std::copy_n(all.begin() + axis, row.rank(), strides[k].begin());
  }
  TENON_TRY_ASSIGN(plan.x, reader_of(node, 0));
  plan.parameters = make_walk(row, {strides[0], strides[1], dense_strides(row)});
  plan.write = writer_of(output_spec(node, 0).type);
  TENON_UNSUPPORTED_IF(plan.write == nullptr, "{} makes no {}.", node.node->op_type,
                       data_type_name(output_spec(node, 0).type));
  TENON_TRY(require_output(node, 0, x));
  return plan;
}

Result<RefImpl> make_layer(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY_ASSIGN(Rows plan, prepare_rows(node));
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].present()) continue;
    plan.write_mean = writer_of(node.outputs[i].type);
    TENON_INVALID_IF(
        plan.write_mean == nullptr || (!node.outputs[i].dynamic && node.outputs[i].shape.element_count() != plan.rows),
        "Output {} of {} was planned as {}{} for {} rows.", i, node.node->op_type, data_type_name(node.outputs[i].type),
        node.outputs[i].shape.to_string(), plan.rows);
  }
  RefImpl impl;
  impl.run = [plan](KernelContext& context) -> Status {
    context.pool->parallel_for(plan.rows, grain_of_rows(4 * plan.length), [&](int64_t begin, int64_t end) {
      run_rows(plan, context.inputs[0], nullptr, context.inputs[1], context.input<void>(2), context.outputs[0],
               context.output<void>(1), context.output<void>(2), nullptr, begin, end);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_skip_layer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_INVALID_IF(!input_spec(node, 2).present(), "LayerNorm needs a scale.");
  TENON_TRY_ASSIGN(const Rows plan, prepare_rows(node));
  const TensorSpec& skip = input_spec(node, 1);
  TENON_INVALID_IF(skip.present() && (!(skip.shape == node.inputs[0].shape) || skip.type != node.inputs[0].type),
                   "LayerNorm has skip {} for X {}.", skip.shape.to_string(), node.inputs[0].shape.to_string());
  TENON_TRY(require_output(node, 1, node.inputs[0].shape));
  RefImpl impl;
  impl.run = [plan](KernelContext& context) -> Status {
    context.pool->parallel_for(plan.rows, grain_of_rows(4 * plan.length), [&](int64_t begin, int64_t end) {
      run_rows(plan, context.inputs[0], context.input<void>(1), context.inputs[2], context.input<void>(3),
               context.outputs[0], nullptr, nullptr, context.output<void>(1), begin, end);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_lp(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const LpNormDesc desc, read_lp_norm(*node.node, x));
  TENON_TRY(require_output(node, 0, x));
  TENON_TRY_ASSIGN(const Reader read, reader_of(node, 0));
  RefImpl impl;
  impl.run = [read, write = writer_of(node.inputs[0].type), desc](KernelContext& context) -> Status {
    const int64_t length = desc.length, inner = desc.inner, p = desc.p;
    const auto normalize = [&](int64_t g) {
      const int64_t first = g / inner * inner * length + g % inner;
      double norm = 0;
      for (int64_t i = 0; i < length; ++i) {
        const double v = read(context.inputs[0], first + i * inner);
        norm += p == 1 ? std::abs(v) : v * v;
      }
      if (p == 2) norm = std::sqrt(norm);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t e = first + i * inner;
        write(context.outputs[0], e, norm == 0 ? 0.0 : read(context.inputs[0], e) / norm);
      }
    };
    context.pool->parallel_for(desc.outer * inner, grain_of_rows(4 * length), [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) normalize(g);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_lrn(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const LrnDesc desc, read_lrn(*node.node, x.rank()));
  TENON_TRY(require_output(node, 0, x));
  TENON_TRY_ASSIGN(const Reader read, reader_of(node, 0));
  int64_t inner = 1;
  for (int d = 2; d < x.rank(); ++d) inner *= x[d];
  RefImpl impl;
  impl.run = [read, write = writer_of(node.inputs[0].type), batch = x[0], channels = x[1], inner, size = desc.size,
              alpha = static_cast<double>(desc.alpha), beta = static_cast<double>(desc.beta),
              bias = static_cast<double>(desc.bias)](KernelContext& context) -> Status {
    context.pool->parallel_for(batch * channels, grain_of_rows(32 * inner), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t n = row / channels, c = row % channels;
        const int64_t low = std::max<int64_t>(0, c - (size - 1) / 2);
        const int64_t high = std::min<int64_t>(channels - 1, c + size / 2);
        for (int64_t i = 0; i < inner; ++i) {
          double squares = 0;
          for (int64_t k = low; k <= high; ++k) {
            const double v = read(context.inputs[0], (n * channels + k) * inner + i);
            squares += v * v;
          }
          const int64_t e = row * inner + i;
          const double sum = bias + alpha / static_cast<double>(size) * squares;
          // The exponent of nearly all networks needs no power function.
          const double divisor = beta == 0.75 ? std::sqrt(sum) * std::sqrt(std::sqrt(sum)) : std::pow(sum, beta);
          write(context.outputs[0], e, read(context.inputs[0], e) / divisor);
        }
      }
    });
    return {};
  };
  return impl;
}

// The function that the standard defines it by: (X - mean) / (deviation + 1e-9).
Result<RefImpl> make_mean_variance(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const std::vector<int> axes, read_mean_variance_axes(*node.node, x.rank()));
  TENON_TRY(require_output(node, 0, x));
  TENON_TRY_ASSIGN(const Reader read, reader_of(node, 0));
  const Strides dense = dense_strides(x);
  // The groups that share a mean, and the elements of one.
  Shape groups = x, group;
  Strides strides{};
  for (int d = 0; d < x.rank(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) continue;
    groups[d] = 1;
    strides[group.rank()] = dense[d];
    group.push_back(x[d]);
  }
  RefImpl impl;
  impl.run = [read, write = writer_of(node.inputs[0].type), length = static_cast<double>(group.element_count()),
              outer = make_walk(groups, {dense}),
              inner = make_walk(group, {strides})](KernelContext& context) -> Status {
    const auto each = [](const Walk& walk, const auto& body) {
      walk.run([&](const auto& at) {
        for (int64_t i = 0; i < walk.inner; ++i) body(at[0] + i * walk.inner_strides[0]);
        return true;
      });
    };
    each(outer, [&](int64_t first) {
      double sum = 0, squares = 0;
      each(inner, [&](int64_t i) { sum += read(context.inputs[0], first + i); });
      const double mean = sum / length;
      each(inner, [&](int64_t i) {
        const double d = read(context.inputs[0], first + i) - mean;
        squares += d * d;
      });
      const double deviation = std::sqrt(squares / length) + 1e-9;
      each(inner, [&](int64_t i) {
        write(context.outputs[0], first + i, (read(context.inputs[0], first + i) - mean) / deviation);
      });
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_batch>("BatchNormalization", 7),
    ref_row<kFloatSet, &make_grouped>("InstanceNormalization", 6),
    ref_row<kFloatSet, &make_grouped>("GroupNormalization", 18),
    ref_row<kFloatSet, &make_layer>("LayerNormalization", 17),
    ref_row<kFloatSet, &make_layer>("RMSNormalization", 23),
    ref_row<kFloatSet, &make_skip_layer>("LayerNorm", 1, kAnyVersion, "tenon"),
    ref_row<kFloatSet, &make_lp>("LpNormalization", 1),
    ref_row<kFloatSet, &make_lrn>("LRN", 1),
    ref_row<kFloatSet, &make_mean_variance>("MeanVarianceNormalization", 9),
};

}  // namespace

std::span<const KernelEntry> ref_norm_rows() { return kRows; }

}  // namespace tenon::cpu::ref
