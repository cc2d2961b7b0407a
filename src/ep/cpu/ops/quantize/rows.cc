#include "ep/cpu/ops/quantize/rows.h"

#include <algorithm>

#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/quantize/step.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/quantize.h"
#include "ops/attributes.h"
#include "ops/quantize.h"

namespace tenon::cpu::nn {

namespace {

bool is_byte(const TensorSpec& spec) { return spec.type == DataType::kUint8 || spec.type == DataType::kInt8; }

// Elements that one task takes: about 4 us.
constexpr int64_t kGrain = 16384;
// Runs of one scale that are shorter than this are worked on together.
constexpr int64_t kLeastRun = 16;

// Runs of elements with one scale and zero point.
class RunKernel final : public Kernel {
 public:
  RunKernel(const KernelNode& node, const QuantizationDesc& desc, bool quantizes)
      : desc_(desc), quantizes_(quantizes), count_(stored_count(node.inputs[0])) {
    const TensorSpec& bytes = quantizes ? node.outputs[0] : node.inputs[0];
    signed_ = bytes.type == DataType::kInt8;
    run_ = desc.granularity == QuantizationDesc::Granularity::kTensor ? std::max<int64_t>(count_, 1) : desc.inner;
  }

  Status run(KernelContext& context) const override {
    const auto* const scales = context.input<float>(1);
    const auto* const zeros = context.input<uint8_t>(2);
    context.pool->parallel_for(count_, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t parameter = desc_.parameter_of(begin);
        const int64_t length = std::min(end, (begin / run_ + 1) * run_) - begin;
        const int32_t zero = integer_zero(zeros, signed_, parameter) + (signed_ ? 128 : 0);
        const ByteStep step{.scale = scales[parameter],
                            .zero = static_cast<float>(zero),
                            .flip = static_cast<uint8_t>(signed_ ? 0x80 : 0)};
        if (quantizes_) {
          quantize_table().quantize(context.input<float>(0) + begin, step, length, context.output<uint8_t>(0) + begin);
        } else {
          quantize_table().dequantize(context.input<uint8_t>(0) + begin, step, length,
                                      context.output<float>(0) + begin);
        }
        begin += length;
      }
    });
    return {};
  }
  std::string_view name() const override { return quantizes_ ? "quantize int8" : "dequantize int8"; }

 private:
  const QuantizationDesc desc_;
  const bool quantizes_;
  bool signed_ = false;
  int64_t count_ = 0, run_ = 1;
};

// Scales and zero points along an axis whose indices have few elements: a piece of all of them at a time, with numbers
// for each element. Bytes, and int32 without zero points.
class ShortRunKernel final : public Kernel {
 public:
  ShortRunKernel(const KernelNode& node, const QuantizationDesc& desc, bool quantizes)
      : desc_(desc),
        quantizes_(quantizes),
        type_((quantizes ? node.outputs[0] : node.inputs[0]).type),
        period_(desc.length * desc.inner),
        outer_(period_ == 0 ? 0 : node.inputs[0].shape.element_count() / period_) {}

  Status run(KernelContext& context) const override {
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, period_));
    context.pool->parallel_for(outer_, grain, [&](int64_t begin, int64_t end) {
      alignas(64) float scales[kPiece], zeros[kPiece], numbers[kPiece];
      for (int64_t first = 0; first < period_; first += kPiece) {
        const int64_t n = std::min(kPiece, period_ - first);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t at = (first + i) / desc_.inner;
          scales[i] = context.input<float>(1)[at];
          zeros[i] = static_cast<float>(integer_zero(context.input<uint8_t>(2), type_ == DataType::kInt8, at));
        }
        for (int64_t o = begin; o < end; ++o) {
          const int64_t at = o * period_ + first;
          quantizes_ ? quantize(context, at, n, scales, zeros, numbers) : dequantize(context, at, n, scales, zeros);
        }
      }
    });
    return {};
  }
  std::string_view name() const override { return quantizes_ ? "quantize short runs" : "dequantize short runs"; }

 private:
  static constexpr int64_t kPiece = 256;

  static void apply(Binary op, const float* a, const float* b, float* y, int64_t n) {
    eltwise_table().binary[static_cast<int>(op)](a, 1, b, 1, y, n);
  }
  // Of bytes as they are.
  ByteStep whole() const {
    const bool is_signed = type_ == DataType::kInt8;
    return {.scale = 1, .zero = is_signed ? 128.0f : 0.0f, .flip = static_cast<uint8_t>(is_signed ? 0x80 : 0)};
  }
  void dequantize(KernelContext& context, int64_t at, int64_t n, const float* scales, const float* zeros) const {
    float* const y = context.output<float>(0) + at;
    if (type_ == DataType::kInt32) {
      eltwise_table().float_from_int32(context.input<int32_t>(0) + at, y, n);
    } else {
      quantize_table().dequantize(context.input<uint8_t>(0) + at, whole(), n, y);
      apply(Binary::kSub, y, zeros, y, n);
    }
    apply(Binary::kMul, y, scales, y, n);
  }
  void quantize(KernelContext& context, int64_t at, int64_t n, const float* scales, const float* zeros,
                float* numbers) const {
    apply(Binary::kDiv, context.input<float>(0) + at, scales, numbers, n);
    eltwise_table().unary[static_cast<int>(Unary::kRound)](numbers, numbers, n, 0, 0);
    apply(Binary::kAdd, numbers, zeros, numbers, n);
    quantize_table().quantize(numbers, whole(), n, context.output<uint8_t>(0) + at);
  }

  const QuantizationDesc desc_;
  const bool quantizes_;
  const DataType type_;
  const int64_t period_, outer_;
};

// Runs of floats that become integers of 16 bits.
class WordRunKernel final : public Kernel {
 public:
  WordRunKernel(const KernelNode& node, const QuantizationDesc& desc)
      : desc_(desc), signed_(node.outputs[0].type == DataType::kInt16), count_(node.inputs[0].shape.element_count()) {
    run_ = desc.granularity == QuantizationDesc::Granularity::kTensor ? std::max<int64_t>(count_, 1) : desc.inner;
  }

  Status run(KernelContext& context) const override {
    const auto* const scales = context.input<float>(1);
    const auto* const zeros = context.input<uint16_t>(2);
    context.pool->parallel_for(count_, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t parameter = desc_.parameter_of(begin);
        const int64_t length = std::min(end, (begin / run_ + 1) * run_) - begin;
        const auto flip = static_cast<uint16_t>(signed_ ? 0x8000 : 0);
        const auto zero = static_cast<uint16_t>((zeros == nullptr ? 0 : zeros[parameter]) ^ flip);
        const WordStep step{.scale = scales[parameter], .zero = static_cast<float>(zero), .flip = flip};
        quantize_table().quantize_words(context.input<float>(0) + begin, step, length,
                                        context.output<uint16_t>(0) + begin);
        begin += length;
      }
    });
    return {};
  }
  std::string_view name() const override { return "quantize int16"; }

 private:
  const QuantizationDesc desc_;
  const bool signed_;
  int64_t count_ = 0, run_ = 1;
};

// Runs of integers of 16 and 32 bits with one scale and zero point.
class WideRunKernel final : public Kernel {
 public:
  WideRunKernel(const KernelNode& node, const QuantizationDesc& desc)
      : desc_(desc), type_(node.inputs[0].type), count_(node.inputs[0].shape.element_count()) {
    run_ = desc.granularity == QuantizationDesc::Granularity::kTensor ? std::max<int64_t>(count_, 1) : desc.inner;
  }

  Status run(KernelContext& context) const override {
    if (type_ == DataType::kInt32) {
      run_as<int32_t>(context);
    } else if (type_ == DataType::kInt16) {
      run_as<int16_t>(context);
    } else {
      run_as<uint16_t>(context);
    }
    return {};
  }
  std::string_view name() const override { return "dequantize integers"; }

 private:
  template <typename T>
  void run_as(KernelContext& context) const {
    const auto* const scales = context.input<float>(1);
    const auto* const zeros = context.input<T>(2);
    context.pool->parallel_for(count_, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t parameter = desc_.parameter_of(begin);
        const int64_t n = std::min(end, (begin / run_ + 1) * run_) - begin;
        const float scale = scales[parameter];
        const T* const x = context.input<T>(0) + begin;
        float* const y = context.output<float>(0) + begin;
        const T zero = zeros == nullptr ? T(0) : zeros[parameter];
        if (sizeof(T) == 4 && zero != 0) {
          // The difference is exact; its product with the scale is one of float32.
          for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(int64_t{x[i]} - int64_t{zero}) * scale;
        } else {
          for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(int32_t{x[i]} - int32_t{zero}) * scale;
        }
        begin += n;
      }
    });
  }

  const QuantizationDesc desc_;
  const DataType type_;
  int64_t count_ = 0, run_ = 1;
};

bool is_word(DataType type) { return type == DataType::kInt16 || type == DataType::kUint16; }
bool is_wide_integer(DataType type) { return type == DataType::kInt32 || is_word(type); }

Result<std::unique_ptr<Kernel>> create_runs(const KernelNode& node, bool quantizes) {
  TENON_TRY_ASSIGN(const QuantizationDesc desc,
                   read_quantization(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  TENON_INVALID_IF(node.outputs[0].shape != node.inputs[0].shape, "{} of {} makes {}.", node.node->op_type,
                   node.inputs[0].shape.to_string(), node.outputs[0].shape.to_string());
  if (desc.granularity == QuantizationDesc::Granularity::kAxis && desc.inner < kLeastRun)
    return std::unique_ptr<Kernel>(std::make_unique<ShortRunKernel>(node, desc, quantizes));
  if (!quantizes && is_wide_integer(node.inputs[0].type))
    return std::unique_ptr<Kernel>(std::make_unique<WideRunKernel>(node, desc));
  if (quantizes && is_word(node.outputs[0].type))
    return std::unique_ptr<Kernel>(std::make_unique<WordRunKernel>(node, desc));
  return std::unique_ptr<Kernel>(std::make_unique<RunKernel>(node, desc, quantizes));
}

class DynamicQuantizeKernel final : public Kernel {
 public:
  explicit DynamicQuantizeKernel(int64_t count) : count_(count) {}

  Status run(KernelContext& context) const override {
    const auto* const x = context.input<float>(0);
    // One pair of extremes for each task.
    auto* const ends = reinterpret_cast<float*>(context.scratch);
    const int64_t tasks = (count_ + kGrain - 1) / kGrain;
    context.pool->parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ends[2 * i] = ends[2 * i + 1] = 0;
        quantize_table().extremes(x + i * kGrain, std::min(kGrain, count_ - i * kGrain), ends + 2 * i,
                                  ends + 2 * i + 1);
      }
    });
    float low = 0, high = 0;
    for (int64_t i = 0; i < tasks; ++i) {
      // A NaN stays: then no comparison holds any more.
      if (low == low && !(ends[2 * i] >= low)) low = ends[2 * i];
      if (high == high && !(ends[2 * i + 1] <= high)) high = ends[2 * i + 1];
    }
    const DynamicQuantization q = dynamic_quantization(low, high);
    const ByteStep step{.scale = q.scale, .zero = static_cast<float>(q.zero_point)};
    if (auto* const y = context.output<uint8_t>(0); y != nullptr) {
      context.pool->parallel_for(count_, kGrain, [&](int64_t begin, int64_t end) {
        quantize_table().quantize(x + begin, step, end - begin, y + begin);
      });
    }
    if (auto* const scale = context.output<float>(1); scale != nullptr) *scale = q.scale;
    if (auto* const zero = context.output<uint8_t>(2); zero != nullptr) *zero = q.zero_point;
    return {};
  }
  size_t scratch_bytes() const override { return static_cast<size_t>((count_ + kGrain - 1) / kGrain) * 8; }
  std::string_view name() const override { return "quantize dynamic"; }

 private:
  const int64_t count_;
};

class LookupBytesKernel final : public Kernel {
 public:
  LookupBytesKernel(int64_t count, const LookupDesc& desc) : count_(count), desc_(desc) {}

  Status run(KernelContext& context) const override {
    const auto* const x = context.input<uint8_t>(0);
    const auto* const table = context.input<uint8_t>(1);
    auto* const y = context.output<uint8_t>(0);
    context.pool->parallel_for(count_, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t line = i / desc_.inner, n = std::min(end, (line + 1) * desc_.inner) - i;
        quantize_table().lookup(x + i, table + line % desc_.tables * 256, n, y + i);
        i += n;
      }
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t output) const override { return input == 0 && output == 0; }
  std::string_view name() const override { return "lookup bytes"; }

 private:
  const int64_t count_;
  const LookupDesc desc_;
};

}  // namespace

Status match_quantize(const KernelNode& node) {
  TENON_TRY(expect_one_layout(node));
  const bool quantizes = node.node->op_type == "QuantizeLinear";
  const TensorSpec& bytes = quantizes ? output_spec(node, 0) : input_spec(node, 0);
  const TensorSpec& floats = quantizes ? input_spec(node, 0) : output_spec(node, 0);
  TENON_UNSUPPORTED_IF(!(is_byte(bytes) || (quantizes ? is_word(bytes.type) : is_wide_integer(bytes.type))) ||
                           floats.type != DataType::kFloat || input_spec(node, 1).type != DataType::kFloat,
                       "{} between {} and {} has no fast kernel.", node.node->op_type, data_type_name(floats.type),
                       data_type_name(bytes.type));
  const TensorSpec& zero = input_spec(node, 2);
  TENON_UNSUPPORTED_IF(zero.present() && (zero.type != bytes.type || zero.shape != input_spec(node, 1).shape),
                       "The zero point is no {} of shape {}.", data_type_name(bytes.type),
                       input_spec(node, 1).shape.to_string());
  const int64_t precision = quantizes && node.node->domain.empty() ? Attributes(*node.node).integer("precision") : 0;
  TENON_UNSUPPORTED_IF(precision != 0 && precision != static_cast<int64_t>(DataType::kFloat),
                       "The quotient has type {}.", data_type_name(static_cast<DataType>(precision)));
  TENON_TRY_ASSIGN(const QuantizationDesc desc,
                   read_quantization(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  const bool whole = desc.granularity == QuantizationDesc::Granularity::kTensor;
  if (node.inputs[0].layout == Layout::kBlocked8) {
    TENON_UNSUPPORTED_IF(!whole, "Blocks have several scales.");
    // Channels of float32 that only fill up the last block have to be zero.
    TENON_UNSUPPORTED_IF(!quantizes && floats.shape[1] % 8 != 0, "{} channels are no whole blocks of 8.",
                         floats.shape[1]);
  }
  TENON_UNSUPPORTED_IF(!whole && desc.granularity != QuantizationDesc::Granularity::kAxis,
                       "Blocks of {} elements along the axis have a scale.", desc.block_size);
  const bool short_runs = is_byte(bytes) || (bytes.type == DataType::kInt32 && !zero.present());
  TENON_UNSUPPORTED_IF(!whole && desc.inner < kLeastRun && !short_runs, "Runs of {} elements with one scale are short.",
                       desc.inner);
  return {};
}

Result<std::unique_ptr<Kernel>> create_quantize(const KernelNode& node) { return create_runs(node, true); }
Result<std::unique_ptr<Kernel>> create_dequantize(const KernelNode& node) { return create_runs(node, false); }

Status match_dynamic_quantize(const KernelNode& node) { return expect_one_layout(node); }

Result<std::unique_ptr<Kernel>> create_dynamic_quantize(const KernelNode& node) {
  TENON_INVALID_IF(input_spec(node, 0).type != DataType::kFloat, "DynamicQuantizeLinear reads {}, not float32.",
                   data_type_name(input_spec(node, 0).type));
  return std::unique_ptr<Kernel>(std::make_unique<DynamicQuantizeKernel>(stored_count(node.inputs[0])));
}

Status match_lookup_bytes(const KernelNode& node) {
  TENON_TRY(expect_one_layout(node));
  TENON_UNSUPPORTED_IF(!is_byte(input_spec(node, 0)) || !is_byte(output_spec(node, 0)), "LookupBytes maps {} to {}.",
                       data_type_name(input_spec(node, 0).type), data_type_name(output_spec(node, 0).type));
  TENON_UNSUPPORTED_IF(input_spec(node, 1).shape.rank() > 1 && input_spec(node, 0).layout != Layout::kPlain,
                       "There is a table for each channel, and the channels lie in blocks.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_lookup_bytes(const KernelNode& node) {
  const TensorSpec& x = node.inputs[0];
  TENON_TRY_ASSIGN(const LookupDesc desc, read_lookup(x.shape, input_spec(node, 1).shape));
  return std::unique_ptr<Kernel>(std::make_unique<LookupBytesKernel>(stored_count(x), desc));
}

}  // namespace tenon::cpu::nn
