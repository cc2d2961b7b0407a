// Products of com.microsoft with quantised operands: MatMulInteger16, MatMulIntegerToFloat, DynamicQuantizeMatMul and
// QGemm. Sums are exact and wrap as int32 does.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/matmul.h"

namespace tenon::cpu::ref {

namespace {

using ReadInteger = int32_t (*)(const void* data, int64_t index);
using IntegerTypes = TypeList<int8_t, uint8_t, int16_t, uint16_t>;

ReadInteger integer_reader(DataType type) {
  return select(IntegerTypes(), type, []<typename T>() -> ReadInteger {
    return [](const void* data, int64_t index) { return static_cast<int32_t>(static_cast<const T*>(data)[index]); };
  });
}

using ReadScale = float (*)(const void* data, int64_t index);
using WriteFloat = void (*)(float value, void* data, int64_t index);
using ScaleTypes = TypeList<float, Float16>;

// A scale or zero point: one for the operand, or one for each column.
struct Lines {
  size_t input = kNoInput;
  int64_t step = 0;
};

struct Plan {
  MatMulDesc desc;
  ReadInteger read_a = nullptr, read_b = nullptr, read_y_zero = nullptr;  // read_a is null where A is float32
  ReadScale read_scale = nullptr;
  WriteFloat write = nullptr;
  Lines b_scale, b_zero;
  DataType y = DataType::kUndefined;
};

// A quantised to uint8 with one scale for all of it, as DynamicQuantizeLinear does.
struct DynamicA {
  float scale = 1;
  int32_t zero = 0;

  DynamicA(const float* a, int64_t count) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < count; ++i) {
      low = std::min(low, a[i]);
      high = std::max(high, a[i]);
    }
    if (low != high) scale = (high - low) / 255.0f;
    const float number = std::nearbyint(-low / scale);
    zero = static_cast<int32_t>(number > 0 ? std::min(number, 255.0f) : 0.0f);
  }
  int32_t operator()(float x) const {
    const float q = std::nearbyint(x / scale) + static_cast<float>(zero);
    return static_cast<int32_t>(q > 0 ? std::min(q, 255.0f) : 0.0f);
  }
};

class Run {
 public:
  Run(const Plan& plan, KernelContext& context) : p_(plan), d_(plan.desc), context_(context) {
    a_ = reinterpret_cast<int32_t*>(context.scratch);
    b_ = a_ + d_.k;
    sums_ = reinterpret_cast<uint32_t*>(b_ + d_.k * d_.n);
  }

  void run() {
    const int64_t a_count = d_.a_batch.element_count() * d_.m * d_.k;
    const bool quantises = p_.read_a == nullptr;  // A is float32
    const auto* floats = quantises ? context_.input<float>(d_.a) : nullptr;
    const DynamicA dynamic(floats, quantises ? a_count : 0);
    const int32_t a_zero = quantises                     ? dynamic.zero
                           : d_.a_zero_point != kNoInput ? p_.read_a(context_.inputs[d_.a_zero_point], 0)
                                                         : 0;
    const float a_scale = quantises                ? dynamic.scale
                          : d_.a_scale != kNoInput ? p_.read_scale(context_.inputs[d_.a_scale], 0)
                                                   : 1;
    const int64_t products = d_.batch.element_count();
    for (int64_t product = 0; product < products; ++product) {
      const int64_t a_first = operand_matrix(d_.batch, d_.a_batch, product) * d_.m * d_.k;
      load_b(operand_matrix(d_.batch, d_.b_batch, product) * d_.k * d_.n);
      for (int64_t i = 0; i < d_.m; ++i) {
        for (int64_t p = 0; p < d_.k; ++p) {
          const int64_t at = a_first + i * d_.a_row() + p * d_.a_column();
          a_[p] = (quantises ? dynamic(floats[at]) : p_.read_a(context_.inputs[d_.a], at)) - a_zero;
        }
        for (int64_t j = 0; j < d_.n; ++j) sums_[j] = 0;
        for (int64_t p = 0; p < d_.k; ++p) {
          const auto factor = static_cast<uint32_t>(a_[p]);
          const int32_t* row = b_ + p * d_.n;
          for (int64_t j = 0; j < d_.n; ++j) sums_[j] += factor * static_cast<uint32_t>(row[j]);
        }
        for (int64_t j = 0; j < d_.n; ++j) store(product * d_.m + i, i, j, a_scale);
      }
    }
  }

 private:
  void load_b(int64_t first) {
    for (int64_t j = 0; j < d_.n; ++j) {
      const int32_t zero =
          p_.b_zero.input != kNoInput ? p_.read_b(context_.inputs[p_.b_zero.input], j * p_.b_zero.step) : 0;
      for (int64_t p = 0; p < d_.k; ++p) {
        b_[p * d_.n + j] = p_.read_b(context_.inputs[d_.b], first + p * d_.b_row() + j * d_.b_column()) - zero;
      }
    }
  }

  void store(int64_t row, int64_t row_of_c, int64_t j, float a_scale) {
    const int64_t at = row * d_.n + j;
    uint32_t sum = sums_[j];
    if (p_.b_scale.input == kNoInput) {  // MatMulInteger16
      context_.output<uint32_t>(0)[at] = sum;
      return;
    }
    const bool gemm = p_.desc.b == 3;
    if (gemm && d_.addend != kNoInput) {
      sum += context_.input<uint32_t>(d_.addend)[row_of_c * d_.addend_row + j * d_.addend_column];
    }
    const float scale = a_scale * p_.read_scale(context_.inputs[p_.b_scale.input], j * p_.b_scale.step) * d_.alpha;
    float value = static_cast<float>(static_cast<int32_t>(sum)) * scale;
    if (!gemm && d_.addend != kNoInput) value += p_.read_scale(context_.inputs[d_.addend], j * d_.addend_column);
    const bool is_signed = p_.y == DataType::kInt8;
    const bool bytes = is_signed || p_.y == DataType::kUint8;
    if (d_.y_scale == kNoInput && !bytes) return p_.write(value, context_.outputs[0], at);
    // As in ONNX Runtime: Y is quantised if it has a zero point, by 1 without a scale.
    const float y_scale = d_.y_scale != kNoInput ? context_.input<float>(d_.y_scale)[0] : 1.0F;
    if (!bytes) {
      // Quantised, but for the zero point and the rounding.
      context_.output<float>(0)[at] = value / y_scale;
      return;
    }
    const int32_t zero = d_.y_zero_point != kNoInput ? p_.read_y_zero(context_.inputs[d_.y_zero_point], 0) : 0;
    const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    const float q = std::nearbyint(value / y_scale) + static_cast<float>(zero);
    context_.output<uint8_t>(0)[at] = static_cast<uint8_t>(static_cast<int32_t>(q > low ? std::min(q, high) : low));
  }

  const Plan& p_;
  const MatMulDesc& d_;
  KernelContext& context_;
  int32_t* a_;      // a row of A less its zero point
  int32_t* b_;      // B less its zero points, [k][n]
  uint32_t* sums_;  // a row
};

// One element for the operand, or one for each of `columns`.
Result<Lines> read_lines(const RefNode& node, size_t input, int64_t columns) {
  if (input == kNoInput) return Lines{};
  const Shape& shape = node.inputs[input].shape;
  const int64_t count = shape.element_count();
  TENON_INVALID_IF(count != 1 && count != columns, "{} has input {} of shape {}; it needs 1 or {} elements.",
                   node.node->op_type, input, shape.to_string(), columns);
  return Lines{input, count == 1 ? 0 : 1};
}

Status check_single(const RefNode& node, size_t input) {
  if (input == kNoInput) return {};
  const Shape& shape = node.inputs[input].shape;
  TENON_UNSUPPORTED_IF(shape.element_count() != 1, "{} has input {} of shape {}; one element is possible.",
                       node.node->op_type, input, shape.to_string());
  return {};
}

Result<RefImpl> make(RefNode& node) {
  Plan plan;
  TENON_TRY_ASSIGN(plan.desc, read_matmul(*node.node, input_shapes(node)));
  const MatMulDesc& d = plan.desc;
  TENON_TRY(require_output(node, 0, d.y));
  const DataType a = node.inputs[d.a].type, b = node.inputs[d.b].type;
  if (a != DataType::kFloat) plan.read_a = integer_reader(a);
  plan.read_b = integer_reader(b);
  plan.y = output_spec(node, 0).type;
  TENON_UNSUPPORTED_IF(plan.read_b == nullptr || (a != DataType::kFloat && plan.read_a == nullptr),
                       "{} is not computed on {} and {}.", node.node->op_type, data_type_name(a), data_type_name(b));
  const auto same = [&](size_t zero, DataType type) { return zero == kNoInput || node.inputs[zero].type == type; };
  TENON_INVALID_IF(!same(d.a_zero_point, a) || !same(d.b_zero_point, b) || !same(d.y_zero_point, plan.y),
                   "{} has a zero point of another type than its operand.", node.node->op_type);
  for (size_t input : {d.a_scale, d.a_zero_point, d.y_scale, d.y_zero_point}) TENON_TRY(check_single(node, input));
  TENON_TRY_ASSIGN(plan.b_scale, read_lines(node, d.b_scale, d.n));
  TENON_TRY_ASSIGN(plan.b_zero, read_lines(node, d.b_zero_point, d.n));
  if (d.b_scale != kNoInput) {
    const DataType type = node.inputs[d.b_scale].type;
    plan.read_scale = select(ScaleTypes(), type, []<typename T>() -> ReadScale {
      return [](const void* data, int64_t index) { return static_cast<float>(static_cast<const T*>(data)[index]); };
    });
    plan.write = select(ScaleTypes(), type, []<typename T>() -> WriteFloat {
      return [](float value, void* data, int64_t index) { static_cast<T*>(data)[index] = T(value); };
    });
    TENON_UNSUPPORTED_IF(plan.read_scale == nullptr, "{} has scales of {}.", node.node->op_type, data_type_name(type));
    const DataType addend = d.addend == kNoInput ? type : node.inputs[d.addend].type;
    const DataType wanted = d.b == 3 && d.addend != kNoInput ? DataType::kInt32 : type;
    TENON_INVALID_IF(addend != wanted || (d.a_scale != kNoInput && node.inputs[d.a_scale].type != type),
                     "{} has scales and a bias of several types.", node.node->op_type);
  }
  if (d.y_zero_point != kNoInput) plan.read_y_zero = integer_reader(plan.y);
  std::optional<int64_t> bytes = checked_mul(d.k, d.n);
  for (int64_t more : {d.k, d.n}) bytes = bytes ? checked_add(*bytes, more) : bytes;
  bytes = bytes ? checked_mul(*bytes, int64_t{sizeof(int32_t)}) : bytes;
  TENON_UNSUPPORTED_IF(!bytes, "A product of depth {} and {} columns overflows.", d.k, d.n);
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(*bytes);
  impl.run = [plan](KernelContext& context) -> Status {
    Run(plan, context).run();
    return {};
  };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr TypeSet kWords = type_set(TypeList<int16_t, uint16_t>());
constexpr std::string_view kDomain = "com.microsoft";

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make>("DynamicQuantizeMatMul", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make>("MatMulIntegerToFloat", 1, kAnyVersion, kDomain),
    ref_row<kWords, &make>("MatMulInteger16", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make>("QGemm", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_contrib_product_rows() { return kRows; }

}  // namespace tenon::cpu::ref
