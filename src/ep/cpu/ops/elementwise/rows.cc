#include "ep/cpu/ops/elementwise/rows.h"

#include <algorithm>
#include <iterator>

#include "ep/cpu/ops/elementwise/broadcast.h"
#include "ep/cpu/ops/elementwise/casts.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ops/activation_formula.h"
#include "ops/elementwise.h"
#include "ops/unary.h"

namespace tenon::cpu::nn {

namespace {

// Elements of a chunk that is worth claiming: 64 KiB of f32 for what memory bounds, less for what computes.
constexpr int64_t kCheapGrain = 16384, kDearGrain = 4096;

// Of kernels whose float operands all have one type; kUndefined: they do not.
std::string_view float_name(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "elementwise f32";
    case DataType::kFloat16:
      return "elementwise f16";
    case DataType::kBfloat16:
      return "elementwise bf16";
    default:
      return "elementwise, mixed floats";
  }
}

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(const UnaryDesc& unary, const TensorSpec& spec, DataType to)
      : from_(spec.type),
        to_(to),
        loop_(eltwise_table().unary[static_cast<int>(unary.function)]),
        grain_(row_of(unary.function).cheap ? kCheapGrain : kDearGrain),
        alpha_(static_cast<float>(unary.alpha)),
        beta_(static_cast<float>(unary.beta)),
        count_(static_cast<int64_t>(spec.size_bytes() / data_type_size(spec.type))) {
    // Missing channels of the blocked layout must stay zero.
    if (spec.layout == Layout::kBlocked8 && spec.shape.rank() >= 3 && spec.shape[1] % 8 != 0 &&
        evaluate(unary.function, 0.0, unary.alpha, unary.beta) != 0) {
      batch_ = spec.shape[0];
      channels_ = spec.shape[1];
      positions_ = span_count(spec.shape, 2, spec.shape.rank());
    }
  }

  Status run(KernelContext& context) const override {
    if (is_narrow(from_) || is_narrow(to_)) return run_narrow(context);
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    context.pool->parallel_for(
        count_, grain_, [&](int64_t begin, int64_t end) { loop_(x + begin, y + begin, end - begin, alpha_, beta_); });
    const int64_t blocks = (channels_ + 7) / 8;
    for (int64_t n = 0; n < batch_; ++n) {
      float* const last = y + (n * blocks + blocks - 1) * positions_ * 8;
      for (int64_t p = 0; p < positions_; ++p)
        for (int64_t lane = channels_ % 8; lane < 8; ++lane) last[p * 8 + lane] = 0;
    }
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0 && from_ == to_; }
  std::string_view name() const override { return float_name(from_ == to_ ? to_ : DataType::kUndefined); }

 private:
  Status run_narrow(KernelContext& context) const {
    const void* const x = context.inputs[0];
    void* const y = context.outputs[0];
    context.pool->parallel_for(count_, grain_, [&](int64_t begin, int64_t end) {
      alignas(64) float in[kNarrowBlock], out[kNarrowBlock];
      for (int64_t at = begin; at < end; at += kNarrowBlock) {
        const int64_t n = std::min(kNarrowBlock, end - at);
        loop_(read_floats(from_, x, at, n, in), begin_floats(to_, y, at, out), n, alpha_, beta_);
        end_floats(to_, y, at, n, out);
      }
    });
    return {};
  }

  const DataType from_, to_;
  void (*const loop_)(const float* x, float* y, int64_t n, float alpha, float beta);
  const int64_t grain_;
  const float alpha_, beta_;
  const int64_t count_;
  int64_t batch_ = 0, channels_ = 0, positions_ = 0;  // set where lanes must be cleared
};

// Clip whose bounds may come at run time.
class ClipKernel final : public Kernel {
 public:
  ClipKernel(int64_t count, const ClipDesc& unbounded) : count_(count), unbounded_(unbounded) {}
  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    const float* const low = context.input<float>(1);
    const float* const high = context.input<float>(2);
    float* const y = context.output<float>(0);
    const float alpha = low ? *low : unbounded_.low, beta = high ? *high : unbounded_.high;
    context.pool->parallel_for(count_, kCheapGrain, [&](int64_t begin, int64_t end) {
      eltwise_table().unary[static_cast<int>(Unary::kClip)](x + begin, y + begin, end - begin, alpha, beta);
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0; }
  std::string_view name() const override { return "clip f32"; }

 private:
  const int64_t count_;
  const ClipDesc unbounded_;
};

struct BinaryRow {
  std::string_view op_type;
  Binary op;
};

constexpr BinaryRow kBinaryRows[] = {{"Add", Binary::kAdd}, {"Sub", Binary::kSub},    {"Mul", Binary::kMul},
                                     {"Div", Binary::kDiv}, {"Max", Binary::kMax},    {"Min", Binary::kMin},
                                     {"Sum", Binary::kAdd}, {"PRelu", Binary::kPRelu}};

const BinaryRow* find_binary(std::string_view op_type) {
  for (const BinaryRow& row : kBinaryRows)
    if (row.op_type == op_type) return &row;
  return nullptr;
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(Binary op, const BroadcastWalk& walk, bool whole_a, bool whole_b, const KernelNode& node)
      : op_(op),
        walk_(walk),
        whole_{whole_a, whole_b},
        types_{node.inputs[0].type, node.inputs[1].type, node.outputs[0].type} {}
  Status run(KernelContext& context) const override {
    if (std::any_of(std::begin(types_), std::end(types_), &is_narrow)) return run_narrow(context);
    const float* const a = context.input<float>(0);
    const float* const b = context.input<float>(1);
    float* const y = context.output<float>(0);
    const auto apply = eltwise_table().binary[static_cast<int>(op_)];
    if (constexpr int64_t kGathered = 8; walk_.has_short_rows(kGathered)) {
      context.pool->parallel_for(walk_.count(), kCheapGrain, [&](int64_t begin, int64_t end) {
        for (SpreadRows rows(walk_, {{a, sizeof *a}, {b, sizeof *b}}, begin, end); rows.next();)
          apply(rows.elements<float>(0), 1, rows.elements<float>(1), 1, y + rows.at(), rows.count());
      });
      return {};
    }
    // A row of one element may have stride 0 on both sides, which the loop does not take.
    const int64_t a_stride = walk_.row() == 1 ? 1 : walk_.row_stride(0);
    const int64_t b_stride = walk_.row() == 1 ? 1 : walk_.row_stride(1);
    context.pool->parallel_for(walk_.count(), kCheapGrain, [&](int64_t begin, int64_t end) {
      walk_.pieces(begin, end, [&](int64_t at, const auto& offset, int64_t n) {
        apply(a + offset[0], a_stride, b + offset[1], b_stride, y + at, n);
      });
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override {
    return input < 2 && whole_[input] && types_[input] == types_[2];
  }
  std::string_view name() const override {
    const bool one = types_[0] == types_[2] && types_[1] == types_[2];
    return float_name(one ? types_[2] : DataType::kUndefined);
  }

 private:
  Status run_narrow(KernelContext& context) const {
    if (walk_.row() < kShortRow) return run_narrow_short_rows(context);
    const auto apply = eltwise_table().binary[static_cast<int>(op_)];
    const int64_t strides[] = {walk_.row() == 1 ? 1 : walk_.row_stride(0), walk_.row() == 1 ? 1 : walk_.row_stride(1)};
    context.pool->parallel_for(walk_.count(), kCheapGrain, [&](int64_t begin, int64_t end) {
      alignas(64) float buffers[2][kNarrowBlock], out[kNarrowBlock];
      walk_.pieces(begin, end, [&](int64_t first, const auto& offset, int64_t count) {
        for (int64_t done = 0; done < count; done += kNarrowBlock) {
          const int64_t n = std::min(kNarrowBlock, count - done), at = first + done;
          const float* x[2];
          for (size_t i = 0; i < 2; ++i)
            x[i] = read_floats(types_[i], context.inputs[i], offset[i] + done * strides[i], strides[i] == 0 ? 1 : n,
                               buffers[i]);
          apply(x[0], strides[0], x[1], strides[1], begin_floats(types_[2], context.outputs[0], at, out), n);
          end_floats(types_[2], context.outputs[0], at, n, out);
        }
      });
    });
    return {};
  }

  // Rows whose conversions would take longer than they: many of them are brought together first.
  Status run_narrow_short_rows(KernelContext& context) const {
    const auto apply = eltwise_table().binary[static_cast<int>(op_)];
    context.pool->parallel_for(walk_.count(), kCheapGrain, [&](int64_t begin, int64_t end) {
      alignas(64) std::byte together[2][kNarrowBlock * sizeof(float)];
      alignas(64) float buffers[2][kNarrowBlock], out[kNarrowBlock];
      int64_t held = 0, first = begin;
      const auto compute = [&] {
        const float* const a = read_floats(types_[0], together[0], 0, held, buffers[0]);
        const float* const b = read_floats(types_[1], together[1], 0, held, buffers[1]);
        apply(a, 1, b, 1, begin_floats(types_[2], context.outputs[0], first, out), held);
        end_floats(types_[2], context.outputs[0], first, held, out);
        first += held;
        held = 0;
      };
      walk_.pieces(begin, end, [&](int64_t, const auto& offset, int64_t n) {
        if (held + n > kNarrowBlock) compute();
        for (int i = 0; i < 2; ++i) {
          if (is_narrow(types_[i])) {
            take_row(context.input<uint16_t>(i) + offset[i], walk_.row_stride(i), n,
                     reinterpret_cast<uint16_t*>(together[i]) + held);
          } else {
            take_row(context.input<float>(i) + offset[i], walk_.row_stride(i), n,
                     reinterpret_cast<float*>(together[i]) + held);
          }
        }
        held += n;
      });
      compute();
    });
    return {};
  }
  template <typename T>
  static void take_row(const T* from, int64_t stride, int64_t n, T* to) {
    for (int64_t j = 0; j < n; ++j) to[j] = from[j * stride];
  }

  static constexpr int64_t kShortRow = 32;
  const Binary op_;
  const BroadcastWalk walk_;
  const bool whole_[2];      // the operand has as many elements as the output
  const DataType types_[3];  // of a, b and y
};

class CastKernel final : public Kernel {
 public:
  CastKernel(const CastSteps& steps, size_t from_size, size_t to_size, int64_t count)
      : steps_(steps), from_size_(from_size), to_size_(to_size), count_(count) {}
  Status run(KernelContext& context) const override {
    context.pool->parallel_for(count_, kCheapGrain, [&](int64_t begin, int64_t end) {
      steps_.run(context.input<std::byte>(0) + begin * from_size_, context.output<std::byte>(0) + begin * to_size_,
                 end - begin);
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0 && from_size_ == to_size_; }
  std::string_view name() const override { return "cast"; }

 private:
  const CastSteps steps_;
  const size_t from_size_, to_size_;
  const int64_t count_;
};

Status check_same_count(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_INVALID_IF(x.shape.element_count() != y.shape.element_count(),
                   "The output of shape {} does not fit the input of shape {}.", y.shape.to_string(),
                   x.shape.to_string());
  return {};
}

// The exponent of Pow as a unary operator.
Result<Unary> power_of(const KernelNode& node) {
  const Constant* exponent = constant_input(node, 1);
  TENON_UNSUPPORTED_IF(exponent == nullptr || exponent->type != DataType::kFloat || exponent->as<float>().size() != 1,
                       "The exponent is not one constant float.");
  const float value = exponent->as<float>()[0];
  if (value == 2) return Unary::kSquare;
  if (value == 3) return Unary::kCube;
  if (value == 1) return Unary::kNone;
  if (value == -1) return Unary::kReciprocal;
  return unsupported("The exponent is {}, neither 1, 2, 3 nor -1.", value);
}

}  // namespace

Status match_unary(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(!is_any_float(x.type) || !is_any_float(y.type) || y.dynamic,
                       "The operand is not float32, float16 or bfloat16 of known size.");
  TENON_UNSUPPORTED_IF(x.layout != y.layout, "Input and output have different layouts.");
  TENON_UNSUPPORTED_IF(x.layout != Layout::kPlain && (is_narrow(x.type) || is_narrow(y.type)),
                       "The operand is of 16 bits and not in the plain layout.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_unary(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  TENON_TRY_ASSIGN(const UnaryDesc unary, read_unary(*node.node));
  TENON_UNSUPPORTED_IF(!row_of(unary.function).has_vector_loop(), "The operator {} has no loop.", node.node->op_type);
  return std::unique_ptr<Kernel>(std::make_unique<UnaryKernel>(unary, input_spec(node, 0), output_spec(node, 0).type));
}

Status match_clip(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_clip(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  for (size_t i : {1, 2}) {
    const TensorSpec& bound = input_spec(node, i);
    TENON_INVALID_IF(bound.present() && bound.shape.element_count() != 1, "The bound of shape {} is not one value.",
                     bound.shape.to_string());
  }
  return std::unique_ptr<Kernel>(
      std::make_unique<ClipKernel>(input_spec(node, 0).shape.element_count(), read_clip(*node.node)));
}

Status match_binary(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.size() != 2, "There are {} operands, not 2.", node.inputs.size());
  const TensorSpec &a = node.inputs[0], &b = node.inputs[1], &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(!is_any_float(a.type) || !is_any_float(b.type) || !is_any_float(y.type) || y.dynamic,
                       "The operands are not float32, float16 or bfloat16 of known size.");
  if (a.layout == Layout::kPlain && b.layout == Layout::kPlain && y.layout == Layout::kPlain) return {};
  TENON_UNSUPPORTED_IF(is_narrow(a.type) || is_narrow(b.type) || is_narrow(y.type),
                       "An operand is of 16 bits and not in the plain layout.");
  // Padding lanes are zero on both sides and stay so, unless they are divided.
  const BinaryRow* row = find_binary(node.node->op_type);
  TENON_UNSUPPORTED_IF(a.layout != b.layout || a.layout != y.layout || a.shape != b.shape || a.shape != y.shape ||
                           row == nullptr || row->op == Binary::kDiv,
                       "The layouts or shapes of the operands differ.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_binary(const KernelNode& node) {
  const BinaryRow* row = find_binary(node.node->op_type);
  TENON_UNSUPPORTED_IF(row == nullptr, "The operator {} has no loop.", node.node->op_type);
  const TensorSpec &a = node.inputs[0], &b = node.inputs[1], &y = output_spec(node, 0);
  if (y.layout != Layout::kPlain) {
    const Shape flat{static_cast<int64_t>(y.size_bytes() / sizeof(float))};
    TENON_TRY_ASSIGN(const BroadcastWalk walk, BroadcastWalk::create(flat, {&flat, &flat}));
    return std::unique_ptr<Kernel>(std::make_unique<BinaryKernel>(row->op, walk, true, true, node));
  }
  TENON_TRY_ASSIGN(const BroadcastWalk walk, BroadcastWalk::create(y.shape, {&a.shape, &b.shape}));
  const int64_t count = y.shape.element_count();
  return std::unique_ptr<Kernel>(std::make_unique<BinaryKernel>(row->op, walk, a.shape.element_count() == count,
                                                                b.shape.element_count() == count, node));
}

Status match_power(const KernelNode& node) {
  TENON_TRY(match_plain(node, DataType::kFloat));
  return power_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_power(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  TENON_TRY_ASSIGN(const Unary op, power_of(node));
  return std::unique_ptr<Kernel>(std::make_unique<UnaryKernel>(UnaryDesc{op}, input_spec(node, 0), DataType::kFloat));
}

Status match_cast(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(x.layout != Layout::kPlain || y.layout != Layout::kPlain || y.dynamic,
                       "The operand is not plain and of known size.");
  TENON_UNSUPPORTED_IF(!CastSteps(x.type, y.type), "There is no loop from {} to {}.", data_type_name(x.type),
                       data_type_name(y.type));
  return {};
}

Result<std::unique_ptr<Kernel>> create_cast(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  return std::unique_ptr<Kernel>(std::make_unique<CastKernel>(CastSteps(x.type, y.type), data_type_size(x.type),
                                                              data_type_size(y.type), x.shape.element_count()));
}

}  // namespace tenon::cpu::nn
