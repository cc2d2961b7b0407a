#include "ep/cpu/ops/matmul/integer_float_rows.h"

#include <algorithm>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/matmul/integer_product.h"
#include "ep/cpu/ops/quantize/rows.h"
#include "ep/cpu/ops/vector_kernel.h"

namespace tenon::cpu::nn {

namespace {

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

// The context of a kernel within this one.
class InnerContext final : public KernelContext {
 public:
  explicit InnerContext(KernelContext& outer) : outer_(outer) { pool = outer.pool; }
  Result<void*> allocate_output(size_t index, const Shape& shape) override {
    return outer_.allocate_output(index, shape);
  }

 private:
  KernelContext& outer_;
};

// Behind the node's inputs the product has what is made before it: A as bytes with a scale and a zero point, or C of
// QGemm as a float bias.
struct Made {
  size_t a = kNoInput, a_scale = kNoInput, a_zero = kNoInput, bias = kNoInput;
  size_t count = 0;
};

class PreparedProduct final : public Kernel {
 public:
  PreparedProduct(const MatMulDesc& desc, const KernelNode& node, const Made& made, std::unique_ptr<Kernel> quantize,
                  std::unique_ptr<Kernel> product)
      : desc_(desc),
        made_(made),
        inputs_(node.inputs.size()),
        quantize_(std::move(quantize)),
        product_(std::move(product)) {
    const auto take = [this](size_t bytes) {
      return std::exchange(scratch_bytes_, scratch_bytes_ + aligned_bytes(bytes));
    };
    if (made.a != kNoInput) {
      a_offset_ = take(static_cast<size_t>(node.inputs[desc.a].shape.element_count()));
      scale_offset_ = take(2 * kScratchAlignment);
    }
    if (made.bias != kNoInput) {
      bias_offset_ = take(static_cast<size_t>(desc.n) * sizeof(float));
      b_scales_ = node.inputs[desc.b_scale].shape.element_count();
    }
    inner_offset_ = take(std::max(product_->scratch_bytes(), quantize_ ? quantize_->scratch_bytes() : 0));
  }

  Status run(KernelContext& context) const override {
    InnerContext inner(context);
    inner.scratch = context.scratch + inner_offset_;
    std::array<const void*, 16> inputs{};
    std::copy(context.inputs.begin(), context.inputs.end(), inputs.begin());
    if (quantize_) {
      auto* const scale = context.scratch + scale_offset_;
      std::array<const void*, 1> from = {context.inputs[desc_.a]};
      std::array<void*, 3> to = {context.scratch + a_offset_, scale, scale + kScratchAlignment};
      inner.inputs = from;
      inner.outputs = to;
      TENON_TRY(quantize_->run(inner));
      inputs[made_.a] = to[0];
      inputs[made_.a_scale] = to[1];
      inputs[made_.a_zero] = to[2];
    }
    if (made_.bias != kNoInput) inputs[made_.bias] = float_bias(context);
    inner.inputs = std::span(inputs).first(inputs_ + made_.count);
    inner.outputs = context.outputs;
    return product_->run(inner);
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string_view name() const override { return product_->name(); }

 private:
  const float* float_bias(KernelContext& context) const {
    auto* const bias = reinterpret_cast<float*>(context.scratch + bias_offset_);
    const auto* const c = context.input<int32_t>(desc_.addend);
    const float a_scale = *context.input<float>(desc_.a_scale);
    const auto* const b_scale = context.input<float>(desc_.b_scale);
    for (int64_t j = 0; j < desc_.n; ++j) {
      bias[j] = static_cast<float>(c[j * desc_.addend_column]) * (a_scale * b_scale[b_scales_ > 1 ? j : 0]);
    }
    return bias;
  }

  const MatMulDesc desc_;
  const Made made_;
  const size_t inputs_;
  const std::unique_ptr<Kernel> quantize_, product_;
  int64_t b_scales_ = 1;
  size_t a_offset_ = 0, scale_offset_ = 0, bias_offset_ = 0, inner_offset_ = 0, scratch_bytes_ = 0;
};

// One element, or one for each column.
Status check_columns(const KernelNode& node, size_t input, int64_t columns) {
  if (input == kNoInput) return {};
  const int64_t count = node.inputs[input].shape.element_count();
  TENON_UNSUPPORTED_IF(count != 1 && count != columns, "Input {} has shape {} for {} columns.", input,
                       node.inputs[input].shape.to_string(), columns);
  return {};
}

}  // namespace

Status match_integer_float(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "A tensor is not plain, or its size is not known beforehand.");
    }
  }
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  const bool gemm = node.node->op_type == "QGemm", dynamic = node.node->op_type == "DynamicQuantizeMatMul";
  const auto type = [&](size_t input) { return input == kNoInput ? DataType::kUndefined : node.inputs[input].type; };
  const auto fits = [&](size_t input, DataType wanted) { return input == kNoInput || type(input) == wanted; };
  const DataType y = output_spec(node, 0).type;
  TENON_UNSUPPORTED_IF((dynamic ? type(desc.a) != DataType::kFloat : !is_byte(type(desc.a))) || !is_byte(type(desc.b)),
                       "The product of {} and {} is not one of bytes.", data_type_name(type(desc.a)),
                       data_type_name(type(desc.b)));
  TENON_UNSUPPORTED_IF(desc.y_scale != kNoInput ? !is_byte(y) : y != DataType::kFloat, "Y is {}.", data_type_name(y));
  TENON_UNSUPPORTED_IF(!fits(desc.a_zero_point, type(desc.a)) || !fits(desc.b_zero_point, type(desc.b)) ||
                           !fits(desc.y_zero_point, y) || !fits(desc.a_scale, DataType::kFloat) ||
                           !fits(desc.b_scale, DataType::kFloat) || !fits(desc.y_scale, DataType::kFloat) ||
                           !fits(desc.addend, gemm ? DataType::kInt32 : DataType::kFloat),
                       "A scale, a zero point or a bias has another type.");
  for (size_t input : {desc.a_scale, desc.a_zero_point, desc.y_scale, desc.y_zero_point})
    TENON_TRY(check_columns(node, input, 1));
  for (size_t input : {desc.b_scale, desc.b_zero_point}) TENON_TRY(check_columns(node, input, desc.n));
  TENON_UNSUPPORTED_IF(desc.trans_a || desc.alpha != 1, "A is transposed, or alpha is {}.", desc.alpha);
  TENON_UNSUPPORTED_IF(gemm && desc.addend_row != 0, "C has several rows.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_integer_float(const KernelNode& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  TENON_INVALID_IF(output_spec(node, 0).shape != desc.y, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  std::vector<TensorSpec> inputs(node.inputs.begin(), node.inputs.end());
  std::vector<ConstantRef> constants(node.constants.begin(), node.constants.end());
  constants.resize(inputs.size());
  Made made;
  const auto add = [&](DataType type, const Shape& shape) {
    inputs.push_back({.type = type, .shape = shape});
    constants.emplace_back();
    ++made.count;
    return inputs.size() - 1;
  };
  IntegerProduct product{.m = desc.m,
                         .n = desc.n,
                         .k = desc.k,
                         .a_index = {},
                         .b_index = {},
                         .trans_b = desc.trans_b,
                         .a = desc.a,
                         .b = desc.b,
                         .a_scale = desc.a_scale,
                         .a_zero = desc.a_zero_point,
                         .b_scale = desc.b_scale,
                         .b_zero = desc.b_zero_point,
                         .bias = desc.addend,
                         .y_scale = desc.y_scale,
                         .y_zero = desc.y_zero_point,
                         .epilogue = {}};
  fill_integer_batches(desc, product);
  std::unique_ptr<Kernel> quantize;
  if (node.inputs[desc.a].type == DataType::kFloat) {
    product.a = made.a = add(DataType::kUint8, node.inputs[desc.a].shape);
    product.a_scale = made.a_scale = add(DataType::kFloat, {});
    product.a_zero = made.a_zero = add(DataType::kUint8, {});
    KernelNode step = node;
    step.inputs = std::span(node.inputs).subspan(desc.a, 1);
    step.outputs = std::span<const TensorSpec>(inputs).subspan(made.a, 3);
    TENON_TRY_ASSIGN(quantize, create_dynamic_quantize(step));
  } else if (node.node->op_type == "QGemm" && desc.addend != kNoInput) {
    product.bias = made.bias = add(DataType::kFloat, Shape{desc.n});
  }
  KernelNode prepared = node;
  prepared.inputs = inputs;
  prepared.constants = constants;
  TENON_TRY_ASSIGN(std::unique_ptr<Kernel> kernel, make_integer_product(prepared, std::move(product)));
  if (made.count == 0) return kernel;
  return std::unique_ptr<Kernel>(
      std::make_unique<PreparedProduct>(desc, node, made, std::move(quantize), std::move(kernel)));
}

}  // namespace tenon::cpu::nn
