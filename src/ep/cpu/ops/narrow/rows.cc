#include <algorithm>
#include <array>
#include <iterator>

#include "ep/cpu/kernel_list.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ops/unary.h"

namespace tenon::cpu::nn {

namespace {

constexpr NarrowedOperator kNarrowed[] = {
    {"", "GlobalAveragePool"},
    {"", "GlobalMaxPool"},
    {"", "Add"},
    {"", "Div"},
    {"", "Hardmax"},
    {"", "LayerNormalization"},
    {"", "LogSoftmax"},
    {"", "LpNormalization"},
    {"", "Max"},
    {"", "Min"},
    {"", "Mul"},
    {"", "PRelu"},
    {"", "ReduceL1"},
    {"", "ReduceL2"},
    {"", "ReduceMax"},
    {"", "ReduceMean"},
    {"", "ReduceMin"},
    {"", "ReduceSum"},
    {"", "ReduceSumSquare"},
    {"", "Softmax"},
    {"", "Sub"},
    {"tenon", "Activation"},
    {"tenon", "CachedAttention"},
    {"tenon", "LayerNorm"},
};

constexpr size_t kMostOperands = 12;
constexpr int64_t kGrain = 16384;

// An operand that is converted: its elements lie in float32 at `offset` of the scratch memory.
struct Copy {
  size_t index, offset;
  int64_t count;
  DataType type;
};

class InnerContext final : public KernelContext {
 public:
  Result<void*> allocate_output(size_t index, const Shape&) override {
    return internal_error("Output {} has a known size and is not allocated.", index);
  }
  std::array<const void*, kMostOperands> from{};
  std::array<void*, kMostOperands> to{};
};

class NarrowKernel final : public Kernel {
 public:
  NarrowKernel(std::unique_ptr<Kernel> kernel, std::vector<Copy> inputs, std::vector<Copy> outputs, size_t bytes)
      : kernel_(std::move(kernel)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        own_bytes_(bytes),
        name_(format("{}, widened", kernel_->name())) {}

  Status run(KernelContext& context) const override {
    InnerContext inner;
    std::copy(context.inputs.begin(), context.inputs.end(), inner.from.begin());
    std::copy(context.outputs.begin(), context.outputs.end(), inner.to.begin());
    const auto at = [&](const Copy& copy) { return reinterpret_cast<float*>(context.scratch + copy.offset); };
    for (const Copy& copy : inputs_) {
      const void* const data = context.inputs[copy.index];
      context.pool->parallel_for(copy.count, kGrain, [&](int64_t begin, int64_t end) {
        read_floats(copy.type, data, begin, end - begin, at(copy) + begin);
      });
      inner.from[copy.index] = at(copy);
    }
    for (const Copy& copy : outputs_) inner.to[copy.index] = at(copy);
    inner.inputs = std::span<const void* const>(inner.from).first(context.inputs.size());
    inner.outputs = std::span<void* const>(inner.to).first(context.outputs.size());
    inner.scratch = context.scratch + own_bytes_;
    inner.pool = context.pool;
    TENON_TRY(kernel_->run(inner));
    for (const Copy& copy : outputs_) {
      void* const data = context.outputs[copy.index];
      context.pool->parallel_for(copy.count, kGrain, [&](int64_t begin, int64_t end) {
        end_floats(copy.type, data, begin, end - begin, at(copy) + begin);
      });
    }
    return {};
  }
  size_t scratch_bytes() const override { return own_bytes_ + kernel_->scratch_bytes(); }
  std::string_view name() const override { return name_; }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<Copy> inputs_, outputs_;
  const size_t own_bytes_;
  const std::string name_;
};

// The operands as float32; those that were not are listed in `copies`, and `bytes` grows by what they take.
std::vector<TensorSpec> widened(std::span<const TensorSpec> specs, std::vector<Copy>& copies, size_t& bytes) {
  std::vector<TensorSpec> wide(specs.begin(), specs.end());
  for (size_t i = 0; i < wide.size(); ++i) {
    if (!is_narrow(wide[i].type)) continue;
    const int64_t count = wide[i].shape.element_count();
    copies.push_back({i, bytes, count, wide[i].type});
    wide[i].type = DataType::kFloat;
    bytes += aligned_bytes(count * sizeof(float));
  }
  return wide;
}

}  // namespace

Status match_any_floats(const KernelNode& node) {
  for (const auto& specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      if (!spec.present()) continue;
      TENON_UNSUPPORTED_IF(!is_any_float(spec.type), "An operand is {}, not float32, float16 or bfloat16.",
                           data_type_name(spec.type));
      TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain || spec.dynamic,
                           "An operand is not in the plain layout and of known size.");
    }
  }
  return {};
}

Status match_narrow(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.size() > kMostOperands || node.outputs.size() > kMostOperands,
                       "There are more than {} inputs or outputs.", kMostOperands);
  bool any = false;
  for (const auto& specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      any = any || is_narrow(spec.type);
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "An operand is not in the plain layout and of known size.");
    }
  }
  TENON_UNSUPPORTED_IF(!any, "No operand is float16 or bfloat16.");
  return {};
}

std::span<const NarrowedOperator> narrowed_operators() { return kNarrowed; }

bool is_narrowed(const KernelNode& node) {
  if (!match_narrow(node).ok()) return false;
  const auto same = [&](const NarrowedOperator& one) {
    return one.domain == node.node->domain && one.op_type == node.node->op_type;
  };
  const bool is_function = node.node->domain.empty() && find_unary_row(node.node->op_type) != nullptr;
  if (!is_function && std::none_of(std::begin(kNarrowed), std::end(kNarrowed), same)) return false;
  if (!node.node->domain.empty()) return true;
  const DataType type = output_spec(node, 0).type;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [type](const TensorSpec& spec) {
    return spec.present() && is_any_float(spec.type) && spec.type != type;
  });
}

Result<std::unique_ptr<Kernel>> create_narrow(const KernelNode& node) {
  return create_narrow(node, rows_of(*node.node));
}

Result<std::unique_ptr<Kernel>> create_narrow(const KernelNode& node, std::span<const KernelEntry* const> rows) {
  std::vector<Copy> inputs, outputs;
  size_t bytes = 0;
  const std::vector<TensorSpec> wide_inputs = widened(node.inputs, inputs, bytes);
  const std::vector<TensorSpec> wide_outputs = widened(node.outputs, outputs, bytes);
  std::vector<ConstantRef> constants(node.constants.begin(), node.constants.end());
  for (const Copy& copy : inputs)
    if (copy.index < constants.size()) constants[copy.index] = nullptr;
  KernelNode wide = node;
  wide.inputs = wide_inputs;
  wide.outputs = wide_outputs;
  wide.constants = constants;
  for (const KernelEntry* row : rows) {
    if (!row->match(wide).ok()) continue;
    Result<std::unique_ptr<Kernel>> kernel = row->create(wide);
    if (!kernel.ok() && kernel.status().code() == StatusCode::kUnsupported) continue;
    if (!kernel.ok()) return std::move(kernel).status();
    return std::unique_ptr<Kernel>(
        std::make_unique<NarrowKernel>(std::move(*kernel), std::move(inputs), std::move(outputs), bytes));
  }
  return unsupported("No kernel takes the node with float32 operands.");
}

}  // namespace tenon::cpu::nn
