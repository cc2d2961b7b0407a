#include "ep/cpu/kernels/nn_eltwise.h"

#include <cfloat>

#include "ep/cpu/kernels/nn_broadcast.h"
#include "ep/cpu/kernels/nn_common.h"
#include "ep/cpu/parse_epilogue.h"
#include "ep/cpu/simd/eltwise.h"

namespace tenon::cpu::nn {

namespace {

// Elements of a chunk that is worth claiming: 64 KiB of f32 for what memory bounds, less for what computes.
constexpr int64_t kCheapGrain = 16384, kDearGrain = 4096;

struct UnaryRow {
  std::string_view op_type;
  Unary op;
  const char* alpha_name;
  float alpha;
  const char* beta_name;
  float beta;
};

constexpr UnaryRow kUnaryRows[] = {
    {"Abs", Unary::kAbs},
    {"Ceil", Unary::kCeil},
    {"Clip", Unary::kClip, "min", -FLT_MAX, "max", FLT_MAX},
    {"Elu", Unary::kElu, "alpha", 1.0f},
    {"Erf", Unary::kErf},
    {"Exp", Unary::kExp},
    {"Floor", Unary::kFloor},
    {"Gelu", Unary::kGelu},
    {"HardSigmoid", Unary::kHardSigmoid, "alpha", 0.2f, "beta", 0.5f},
    {"HardSwish", Unary::kHardSwish, "", 1.0f / 6, "", 0.5f},
    {"LeakyRelu", Unary::kLeakyRelu, "alpha", 0.01f},
    {"Log", Unary::kLog},
    {"Mish", Unary::kMish},
    {"Neg", Unary::kNeg},
    {"Reciprocal", Unary::kReciprocal},
    {"Relu", Unary::kRelu},
    {"Round", Unary::kRound},
    {"Selu", Unary::kSelu, "alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f},
    {"Sigmoid", Unary::kSigmoid},
    {"Sign", Unary::kSign},
    {"Softplus", Unary::kSoftplus},
    {"Softsign", Unary::kSoftsign},
    {"Sqrt", Unary::kSqrt},
    {"Tanh", Unary::kTanh},
    {"ThresholdedRelu", Unary::kThresholdedRelu, "alpha", 1.0f},
};

const UnaryRow* find_unary(std::string_view op_type) {
  for (const UnaryRow& row : kUnaryRows)
    if (row.op_type == op_type) return &row;
  return nullptr;
}

Unary unary_of(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return Unary::kIdentity;
    case Activation::kRelu:
      return Unary::kRelu;
    case Activation::kClip:
      return Unary::kClip;
    case Activation::kLeakyRelu:
      return Unary::kLeakyRelu;
    case Activation::kSigmoid:
      return Unary::kSigmoid;
    case Activation::kHardSigmoid:
      return Unary::kHardSigmoid;
    case Activation::kHardSwish:
      return Unary::kHardSwish;
    case Activation::kSilu:
      return Unary::kSilu;
    case Activation::kGelu:
      return Unary::kGelu;
    case Activation::kGeluTanh:
      return Unary::kGeluTanh;
    case Activation::kTanh:
      return Unary::kTanh;
  }
  return Unary::kIdentity;
}

// Bounded by memory, not by arithmetic.
bool is_cheap(Unary op) {
  switch (op) {
    case Unary::kSigmoid:
    case Unary::kSilu:
    case Unary::kGelu:
    case Unary::kGeluTanh:
    case Unary::kTanh:
    case Unary::kExp:
    case Unary::kLog:
    case Unary::kErf:
    case Unary::kSoftplus:
    case Unary::kElu:
    case Unary::kSelu:
    case Unary::kMish:
      return false;
    default:
      return true;
  }
}

float value_at_zero(Unary op, float alpha, float beta) {
  const float zero = 0;
  float value = 0;
  eltwise_table().unary[static_cast<int>(op)](&zero, &value, 1, alpha, beta);
  return value;
}

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(Unary op, float alpha, float beta, const TensorSpec& spec)
      : op_(op), alpha_(alpha), beta_(beta), count_(static_cast<int64_t>(spec.size_bytes() / sizeof(float))) {
    // Missing channels of the blocked layout must stay zero.
    if (spec.layout == Layout::kBlocked8 && spec.shape.rank() >= 3 && spec.shape[1] % 8 != 0 &&
        value_at_zero(op, alpha, beta) != 0) {
      batch_ = spec.shape[0];
      channels_ = spec.shape[1];
      positions_ = span_count(spec.shape, 2, spec.shape.rank());
    }
  }

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    const auto apply = eltwise_table().unary[static_cast<int>(op_)];
    context.pool->parallel_for(count_, is_cheap(op_) ? kCheapGrain : kDearGrain, [&](int64_t begin, int64_t end) {
      apply(x + begin, y + begin, end - begin, alpha_, beta_);
    });
    const int64_t blocks = (channels_ + 7) / 8;
    for (int64_t n = 0; n < batch_; ++n) {
      float* const last = y + (n * blocks + blocks - 1) * positions_ * 8;
      for (int64_t p = 0; p < positions_; ++p)
        for (int64_t lane = channels_ % 8; lane < 8; ++lane) last[p * 8 + lane] = 0;
    }
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0; }
  std::string_view name() const override { return "elementwise f32"; }

 private:
  const Unary op_;
  const float alpha_, beta_;
  const int64_t count_;
  int64_t batch_ = 0, channels_ = 0, positions_ = 0;  // set where lanes must be cleared
};

// Clip whose bounds may come at run time.
class ClipKernel final : public Kernel {
 public:
  explicit ClipKernel(int64_t count) : count_(count) {}
  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    const float* const low = context.input<float>(1);
    const float* const high = context.input<float>(2);
    float* const y = context.output<float>(0);
    const float alpha = low ? *low : -FLT_MAX, beta = high ? *high : FLT_MAX;
    context.pool->parallel_for(count_, kCheapGrain, [&](int64_t begin, int64_t end) {
      eltwise_table().unary[static_cast<int>(Unary::kClip)](x + begin, y + begin, end - begin, alpha, beta);
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0; }
  std::string_view name() const override { return "clip f32"; }

 private:
  const int64_t count_;
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
  BinaryKernel(Binary op, const BroadcastWalk& walk, bool whole_a, bool whole_b)
      : op_(op), walk_(walk), whole_{whole_a, whole_b} {}
  Status run(KernelContext& context) const override {
    const float* const a = context.input<float>(0);
    const float* const b = context.input<float>(1);
    float* const y = context.output<float>(0);
    const auto apply = eltwise_table().binary[static_cast<int>(op_)];
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
  bool may_run_in_place(size_t input, size_t) const override { return input < 2 && whole_[input]; }
  std::string_view name() const override { return "elementwise f32"; }

 private:
  const Binary op_;
  const BroadcastWalk walk_;
  const bool whole_[2];  // the operand has as many elements as the output
};

class WhereKernel final : public Kernel {
 public:
  explicit WhereKernel(const BroadcastWalk& walk) : walk_(walk) {}
  Status run(KernelContext& context) const override {
    const auto* const c = context.input<uint8_t>(0);
    const float* const a = context.input<float>(1);
    const float* const b = context.input<float>(2);
    float* const y = context.output<float>(0);
    context.pool->parallel_for(walk_.count(), kCheapGrain, [&](int64_t begin, int64_t end) {
      walk_.pieces(begin, end, [&](int64_t at, const auto& offset, int64_t n) {
        eltwise_table().where(c + offset[0], walk_.row_stride(0), a + offset[1], walk_.row_stride(1), b + offset[2],
                              walk_.row_stride(2), y + at, n);
      });
    });
    return {};
  }
  std::string_view name() const override { return "where f32"; }

 private:
  const BroadcastWalk walk_;
};

using CastLoop = void (*)(const void* x, void* y, int64_t n);

CastLoop cast_loop(DataType from, DataType to) {
  if (to == DataType::kFloat) {
    if (from == DataType::kInt64)
      return [](const void* x, void* y, int64_t n) {
        eltwise_table().float_from_int64(static_cast<const int64_t*>(x), static_cast<float*>(y), n);
      };
    if (from == DataType::kInt32)
      return [](const void* x, void* y, int64_t n) {
        eltwise_table().float_from_int32(static_cast<const int32_t*>(x), static_cast<float*>(y), n);
      };
    if (from == DataType::kUint8 || from == DataType::kBool)
      return [](const void* x, void* y, int64_t n) {
        eltwise_table().float_from_uint8(static_cast<const uint8_t*>(x), static_cast<float*>(y), n);
      };
  }
  if (from == DataType::kFloat) {
    if (to == DataType::kInt64)
      return [](const void* x, void* y, int64_t n) {
        eltwise_table().int64_from_float(static_cast<const float*>(x), static_cast<int64_t*>(y), n);
      };
    if (to == DataType::kInt32)
      return [](const void* x, void* y, int64_t n) {
        eltwise_table().int32_from_float(static_cast<const float*>(x), static_cast<int32_t*>(y), n);
      };
    if (to == DataType::kBool)
      return [](const void* x, void* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) static_cast<bool*>(y)[i] = static_cast<const float*>(x)[i] != 0;
      };
  }
  return nullptr;
}

class CastKernel final : public Kernel {
 public:
  CastKernel(CastLoop loop, size_t from_size, size_t to_size, int64_t count)
      : loop_(loop), from_size_(from_size), to_size_(to_size), count_(count) {}
  Status run(KernelContext& context) const override {
    const auto* const x = context.input<std::byte>(0);
    auto* const y = context.output<std::byte>(0);
    context.pool->parallel_for(count_, kCheapGrain, [&](int64_t begin, int64_t end) {
      loop_(x + static_cast<size_t>(begin) * from_size_, y + static_cast<size_t>(begin) * to_size_, end - begin);
    });
    return {};
  }
  std::string_view name() const override { return "cast"; }

 private:
  const CastLoop loop_;
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
  if (value == 1) return Unary::kIdentity;
  if (value == -1) return Unary::kReciprocal;
  return unsupported("The exponent is {}, neither 1, 2, 3 nor -1.", value);
}

}  // namespace

Status match_unary(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat || y.type != DataType::kFloat || y.dynamic,
                       "The operand is not float32 of known size.");
  TENON_UNSUPPORTED_IF(x.layout != y.layout, "Input and output have different layouts.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_unary(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  const TensorSpec& x = input_spec(node, 0);
  if (node.node->op_type == "Activation") {
    TENON_TRY_ASSIGN(const Epilogue e, parse_epilogue(*node.node));
    return std::unique_ptr<Kernel>(std::make_unique<UnaryKernel>(unary_of(e.activation), e.alpha, e.beta, x));
  }
  const UnaryRow* row = find_unary(node.node->op_type);
  TENON_UNSUPPORTED_IF(row == nullptr, "The operator {} has no loop.", node.node->op_type);
  Unary op = row->op;
  if (op == Unary::kGelu && node.node->string_or("approximate", "none") == "tanh") op = Unary::kGeluTanh;
  const float alpha = row->alpha_name ? node.node->float_or(row->alpha_name, row->alpha) : 0;
  const float beta = row->beta_name ? node.node->float_or(row->beta_name, row->beta) : 0;
  return std::unique_ptr<Kernel>(std::make_unique<UnaryKernel>(op, alpha, beta, x));
}

Status match_clip(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_clip(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  for (size_t i : {1, 2}) {
    const TensorSpec& bound = input_spec(node, i);
    TENON_INVALID_IF(bound.present() && bound.shape.element_count() != 1, "The bound of shape {} is not one value.",
                     bound.shape.to_string());
  }
  return std::unique_ptr<Kernel>(std::make_unique<ClipKernel>(input_spec(node, 0).shape.element_count()));
}

Status match_binary(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.size() != 2, "There are {} operands, not 2.", node.inputs.size());
  const TensorSpec &a = node.inputs[0], &b = node.inputs[1], &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(
      a.type != DataType::kFloat || b.type != DataType::kFloat || y.type != DataType::kFloat || y.dynamic,
      "The operands are not float32 of known size.");
  if (a.layout == Layout::kPlain && b.layout == Layout::kPlain && y.layout == Layout::kPlain) return {};
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
    return std::unique_ptr<Kernel>(std::make_unique<BinaryKernel>(row->op, walk, true, true));
  }
  TENON_TRY_ASSIGN(const BroadcastWalk walk, BroadcastWalk::create(y.shape, {&a.shape, &b.shape}));
  const int64_t count = y.shape.element_count();
  return std::unique_ptr<Kernel>(std::make_unique<BinaryKernel>(row->op, walk, a.shape.element_count() == count,
                                                                b.shape.element_count() == count));
}

Status match_power(const KernelNode& node) {
  TENON_TRY(match_plain(node, DataType::kFloat));
  return power_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_power(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  TENON_TRY_ASSIGN(const Unary op, power_of(node));
  return std::unique_ptr<Kernel>(std::make_unique<UnaryKernel>(op, 0.0f, 0.0f, input_spec(node, 0)));
}

Status match_where(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.size() != 3 || node.inputs[0].type != DataType::kBool ||
                           node.inputs[1].type != DataType::kFloat || node.inputs[2].type != DataType::kFloat,
                       "The operands are not bool, float32 and float32.");
  for (const TensorSpec& spec : node.inputs)
    TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain, "An operand is not in the plain layout.");
  TENON_UNSUPPORTED_IF(output_spec(node, 0).layout != Layout::kPlain || output_spec(node, 0).dynamic,
                       "The output is not plain and of known size.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_where(const KernelNode& node) {
  TENON_TRY_ASSIGN(const BroadcastWalk walk,
                   BroadcastWalk::create(output_spec(node, 0).shape,
                                         {&node.inputs[0].shape, &node.inputs[1].shape, &node.inputs[2].shape}));
  return std::unique_ptr<Kernel>(std::make_unique<WhereKernel>(walk));
}

Status match_cast(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(x.layout != Layout::kPlain || y.layout != Layout::kPlain || y.dynamic,
                       "The operand is not plain and of known size.");
  TENON_UNSUPPORTED_IF(cast_loop(x.type, y.type) == nullptr, "There is no loop from {} to {}.", data_type_name(x.type),
                       data_type_name(y.type));
  return {};
}

Result<std::unique_ptr<Kernel>> create_cast(const KernelNode& node) {
  TENON_TRY(check_same_count(node));
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  return std::unique_ptr<Kernel>(std::make_unique<CastKernel>(cast_loop(x.type, y.type), data_type_size(x.type),
                                                              data_type_size(y.type), x.shape.element_count()));
}

}  // namespace tenon::cpu::nn
