// QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearWhere, QLinearConcat, and MulInteger.
#include "ep/cpu/ops/quantize/bytes.h"

#include <cstring>

#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/elementwise/broadcast.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/quantize/byte_rows.h"
#include "ep/cpu/simd/integers.h"
#include "ep/cpu/simd/quantize.h"
#include "ops/attributes.h"
#include "ops/concat.h"

namespace tenon::cpu::ref {

Result<ByteTensor> byte_tensor(const KernelNode& node, const ByteInputs& inputs, DataType type) {
  TENON_UNSUPPORTED_IF(type != DataType::kUint8 && type != DataType::kInt8, "{} is not computed on {}.",
                       node.node->op_type, data_type_name(type));
  const TensorSpec &scale = input_spec(node, inputs.scale), &zero = input_spec(node, inputs.zero_point);
  TENON_INVALID_IF(scale.present() && (scale.type != DataType::kFloat || scale.shape.element_count() != 1),
                   "{} has the scale {}{}; it needs one float32.", node.node->op_type, data_type_name(scale.type),
                   scale.shape.to_string());
  TENON_INVALID_IF(zero.present() && (zero.type != type || zero.shape.element_count() != 1),
                   "{} has the zero point {}{}; it needs one {}.", node.node->op_type, data_type_name(zero.type),
                   zero.shape.to_string(), data_type_name(type));
  return ByteTensor{inputs, type};
}

namespace {

// Elements of a chunk that is worth claiming.
constexpr int64_t kGrain = 1 << 14;

using Table = std::array<uint8_t, 256>;

// The bytes of Y for all bytes of X.
template <typename F>
Table table_of(const ByteTensor& x, const ByteTensor& y, const KernelContext& context, F&& function) {
  const ByteValues values = x.values(context);
  const ByteStore store(y, context);
  Table table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = store(function(values[i]));
  return table;
}

// Whether bytes stay what they are, as those of X with the step of Y do.
bool is_identity(const Table& table) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != i) return false;
  return true;
}

struct Operands {
  std::vector<ByteTensor> x;
  ByteTensor y;
};

// The inputs of a node that are constants, as a run finds them.
class ConstantInputs final : public KernelContext {
 public:
  explicit ConstantInputs(const RefNode& node) {
    for (const ConstantRef& constant : node.constants)
      data_.push_back(constant != nullptr ? static_cast<const std::byte*>(constant->data) : nullptr);
    inputs = data_;
  }
  Result<void*> allocate_output(size_t, const Shape&) override {
    return internal_error("A table is made without outputs.");
  }

 private:
  std::vector<const void*> data_;
};

bool has_constant_step(const RefNode& node, const ByteTensor& x) {
  for (size_t input : {x.inputs.scale, x.inputs.zero_point})
    if (input_spec(node, input).present() && (input >= node.constants.size() || node.constants[input] == nullptr))
      return false;
  return true;
}

// The bytes of Y for those of each X, where all steps are known before the run; else none.
template <typename F>
std::vector<Table> known_tables(const RefNode& node, const Operands& operands, const F& function) {
  std::vector<Table> tables;
  if (!has_constant_step(node, operands.y)) return tables;
  const ConstantInputs constants(node);
  for (const ByteTensor& x : operands.x) {
    if (!has_constant_step(node, x)) return {};
    tables.push_back(table_of(x, operands.y, constants, function));
  }
  return tables;
}

// The operands' types; every x is there.
Result<Operands> read_operands(const RefNode& node) {
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  Operands operands;
  for (const ByteInputs& inputs : form.x) {
    for (size_t input : {inputs.data, inputs.scale}) {
      TENON_INVALID_IF(input != kNoInput && !input_spec(node, input).present(), "{} needs input {}, which is absent.",
                       node.node->op_type, input);
    }
    TENON_TRY_ASSIGN(ByteTensor x, byte_tensor(node, inputs, input_spec(node, inputs.data).type));
    operands.x.push_back(x);
  }
  if (form.y.scale == kNoInput) return operands;
  TENON_INVALID_IF(!input_spec(node, form.y.scale).present(), "{} needs input {}, which is absent.", node.node->op_type,
                   form.y.scale);
  TENON_TRY_ASSIGN(operands.y, byte_tensor(node, form.y, output_spec(node, 0).type));
  return operands;
}

template <float (*function)(float x, float alpha)>
Result<RefImpl> make_table(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const float alpha = node.node->op_type == "QLinearLeakyRelu" ? Attributes(*node.node).number("alpha") : 0;
  RefImpl impl;
  impl.elementwise = true;
  impl.name = "lookup int8";
  const auto of_x = [alpha](float x) { return function(x, alpha); };
  impl.run = [operands, of_x, count = stored_count(node.inputs[0]),
              known = known_tables(node, operands, of_x)](KernelContext& context) -> Status {
    const Table table = known.empty() ? table_of(operands.x[0], operands.y, context, of_x) : known[0];
    const auto* x = context.input<uint8_t>(0);
    auto* y = context.output<uint8_t>(0);
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      quantize_table().lookup(x + begin, table.data(), end - begin, y + begin);
    });
    return {};
  };
  return impl;
}

float sigmoid(float x, float) { return 1 / (1 + std::exp(-x)); }
float leaky_relu(float x, float alpha) { return x < 0 ? alpha * x : x; }

// Where the operands of a broadcast are, for each element of the output.
Result<Walk> walk_of(const Shape& out, const Shape& a, const Shape& b) {
  TENON_TRY_ASSIGN(const Strides of_a, broadcast_strides(a, out));
  TENON_TRY_ASSIGN(const Strides of_b, broadcast_strides(b, out));
  return make_walk(out, {dense_strides(out), of_a, of_b});
}

struct Sum {
  float operator()(float a, float b) const { return a + b; }
};
struct Product {
  float operator()(float a, float b) const { return a * b; }
};

template <typename Op>
Result<RefImpl> make_binary(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  const Shape &a = node.inputs[0].shape, &b = node.inputs[3].shape;
  TENON_TRY_ASSIGN(const Shape out, broadcast_shape(a, b));
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(const Walk walk, walk_of(out, a, b));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [operands, walk](KernelContext& context) -> Status {
    const ByteValues a = operands.x[0].values(context), b = operands.x[1].values(context);
    const ByteStore store(operands.y, context);
    walk.run([&](const auto& at) {
      auto* y = context.output<uint8_t>(0) + at[0];
      const auto *p = context.input<uint8_t>(0) + at[1], *q = context.input<uint8_t>(3) + at[2];
      for (int64_t i = 0; i < walk.inner; ++i) {
        y[i * walk.inner_strides[0]] = store(Op()(a[p[i * walk.inner_strides[1]]], b[q[i * walk.inner_strides[2]]]));
      }
      return true;
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_mul_integer(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  const Shape &a = node.inputs[0].shape, &b = node.inputs[2].shape;
  TENON_TRY_ASSIGN(const Shape out, broadcast_shape(a, b));
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(const Walk walk, walk_of(out, a, b));
  RefImpl impl;
  impl.run = [operands, walk](KernelContext& context) -> Status {
    const ByteTensor &a = operands.x[0], &b = operands.x[1];
    const int32_t a_zero = a.zero_point(context), b_zero = b.zero_point(context);
    walk.run([&](const auto& at) {
      auto* y = context.output<int32_t>(0) + at[0];
      const auto *p = context.input<uint8_t>(0) + at[1], *q = context.input<uint8_t>(2) + at[2];
      for (int64_t i = 0; i < walk.inner; ++i) {
        y[i * walk.inner_strides[0]] =
            (a.number(p[i * walk.inner_strides[1]]) - a_zero) * (b.number(q[i * walk.inner_strides[2]]) - b_zero);
      }
      return true;
    });
    return {};
  };
  return impl;
}

// `n` elements of an operand in Y's bytes: its table's, one where it repeats. `buffer` has room for them.
const uint8_t* looked_up(const Table& table, bool moves, const uint8_t* x, int64_t stride, int64_t n, uint8_t* buffer) {
  if (moves) return x;
  quantize_table().lookup(x, table.data(), stride == 0 ? 1 : n, buffer);
  return buffer;
}

Result<RefImpl> make_where(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  const Shape &condition = node.inputs[0].shape, &a = node.inputs[1].shape, &b = node.inputs[4].shape;
  TENON_TRY_ASSIGN(Shape out, broadcast_shape(a, b));
  TENON_TRY_ASSIGN(out, broadcast_shape(out, condition));
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(const nn::BroadcastWalk walk, nn::BroadcastWalk::create(out, {&condition, &a, &b}));
  RefImpl impl;
  impl.run = [operands, walk, empty = out.element_count() == 0](KernelContext& context) -> Status {
    if (empty) return {};
    const auto same = [](float x) { return x; };
    const Table a = table_of(operands.x[0], operands.y, context, same);
    const Table b = table_of(operands.x[1], operands.y, context, same);
    const bool moves_a = is_identity(a), moves_b = is_identity(b);
    const int64_t steps[] = {walk.row_stride(0), walk.row_stride(1), walk.row_stride(2)};
    context.pool->parallel_for(walk.count(), kGrain, [&](int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 1024;
      uint8_t yes[kBlock], no[kBlock];
      walk.pieces(begin, end, [&](int64_t first, const auto& offset, int64_t count) {
        for (int64_t done = 0; done < count; done += kBlock) {
          const int64_t n = std::min(kBlock, count - done);
          const auto* const p = context.input<uint8_t>(1) + offset[1] + done * steps[1];
          const auto* const q = context.input<uint8_t>(4) + offset[2] + done * steps[2];
          integer_table().where8(context.input<uint8_t>(0) + offset[0] + done * steps[0], steps[0],
                                 looked_up(a, moves_a, p, steps[1], n, yes), steps[1],
                                 looked_up(b, moves_b, q, steps[2], n, no), steps[2],
                                 context.output<uint8_t>(0) + first + done, n);
        }
      });
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_concat(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  std::vector<Shape> shapes;
  shapes.reserve(operands.x.size());
  for (const ByteTensor& x : operands.x) shapes.push_back(node.inputs[x.inputs.data].shape);
  TENON_TRY_ASSIGN(ConcatDesc desc, read_concat(*node.node, shapes));
  TENON_TRY(require_output(node, 0, desc.output));
  if (output_spec(node, 0).layout == Layout::kBlocked8) {
    // Along the channels, whose blocks are whole but for the last one.
    desc.span.inner *= 8;
    for (int64_t& length : desc.lengths) length = (length + 7) / 8;
    desc.span.length = (desc.span.length + 7) / 8;
  }
  RefImpl impl;
  impl.name = "concat int8";
  const auto same = [](float x) { return x; };
  impl.run = [operands, desc, same, known = known_tables(node, operands, same)](KernelContext& context) -> Status {
    int64_t offset = 0;
    const int64_t row = desc.span.length * desc.span.inner;
    for (size_t i = 0; i < operands.x.size(); ++i) {
      const Table table = known.empty() ? table_of(operands.x[i], operands.y, context, same) : known[i];
      const bool moves = is_identity(table);
      const int64_t part = desc.lengths[i] * desc.span.inner;
      const auto* const x = context.input<uint8_t>(operands.x[i].inputs.data);
      auto* const y = context.output<uint8_t>(0) + offset;
      context.pool->parallel_for(desc.span.outer * part, kGrain, [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t o = begin / part, n = std::min(end, (o + 1) * part) - begin;
          uint8_t* const to = y + o * row + begin % part;
          if (moves) {
            std::memcpy(to, x + begin, static_cast<size_t>(n));
          } else {
            quantize_table().lookup(x + begin, table.data(), n, to);
          }
          begin += n;
        }
      });
      offset += part;
    }
    return {};
  };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr std::string_view kDomain = "com.microsoft";

constexpr KernelEntry kRows[] = {
    ref_row<kBytes, &make_binary<Sum>>("QLinearAdd", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_binary<Product>>("QLinearMul", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_table<&sigmoid>>("QLinearSigmoid", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_table<&leaky_relu>>("QLinearLeakyRelu", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_where, 1>("QLinearWhere", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_concat, 1>("QLinearConcat", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_mul_integer>("MulInteger", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_bytes_rows() { return kRows; }

}  // namespace tenon::cpu::ref

namespace tenon::cpu::nn {

Status match_byte_table(const KernelNode& node) {
  TENON_TRY(expect_one_layout(node));
  TENON_UNSUPPORTED_IF(!is_byte_type(node.inputs[0].type), "The operand is {}.", data_type_name(node.inputs[0].type));
  return {};
}

Result<std::unique_ptr<Kernel>> create_byte_table(const KernelNode& node) {
  return ref::wrap(node, node.node->op_type == "QLinearSigmoid" ? &ref::make_table<&ref::sigmoid>
                                                                : &ref::make_table<&ref::leaky_relu>);
}

Status match_byte_concat(const KernelNode& node) {
  TENON_TRY(expect_known(node));
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  std::vector<TensorSpec> parts;
  parts.reserve(form.x.size());
  for (const ByteInputs& x : form.x) parts.push_back(ref::input_spec(node, x.data));
  const TensorSpec& whole = ref::output_spec(node, 0);
  return match_parts(read_concat_axis(*node.node, whole.shape.rank()), parts, whole);
}

Result<std::unique_ptr<Kernel>> create_byte_concat(const KernelNode& node) {
  return ref::wrap(node, &ref::make_concat);
}

}  // namespace tenon::cpu::nn
