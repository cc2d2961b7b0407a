// Each tap of the outer axes adds a row of the image to a line, and each tap along the last axis adds a shift of the
// line to the outputs: all loops go over neighbours.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ep/cpu/ops/quantize/bytes.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/pool.h"
#include "ops/pool.h"

namespace tenon::cpu::nn {

namespace {

// Elements of the image that a line holds; the outputs of a piece read no more.
constexpr int64_t kLine = 2048;
constexpr int64_t kTaps = 16384;  // of a chunk

// The taps of an axis that lie in the image: [first, last), the first one at element `begin`.
struct Inside {
  int64_t first = 0, last = 0, begin = 0;
  Inside(const WindowAxis& axis, int64_t out) {
    const int64_t start = out * axis.stride - axis.pad_begin;
    first = start < 0 ? std::min(axis.kernel, (-start + axis.dilation - 1) / axis.dilation) : 0;
    last = start >= axis.in ? first : std::min(axis.kernel, (axis.in - 1 - start) / axis.dilation + 1);
    last = std::max(first, last);
    begin = start + first * axis.dilation;
  }
  int64_t count() const { return last - first; }
};

// Taps of output `out` that are elements or padding: windows that reach beyond the padding (ceil_mode) have fewer.
int64_t padded_taps(const WindowAxis& axis, int64_t out) {
  const int64_t room = axis.in + axis.pad_end - (out * axis.stride - axis.pad_begin);
  return std::min(axis.kernel, (room + axis.dilation - 1) / axis.dilation);
}

int64_t outputs_a_piece(const WindowAxis& axis) { return std::min(kLine, (kLine - axis.reach()) / axis.stride + 1); }

// X and Y of QLinearAveragePool.
struct ByteOperands {
  ref::ByteTensor x, y;
};

class PlainPool final : public Kernel {
 public:
  PlainPool(PoolDesc pool, DataType type, std::optional<ByteOperands> bytes)
      : pool_(std::move(pool)), type_(type), bytes_(bytes), row_(pool_.window.axes.back()) {
    rows_ = pool_.batch * pool_.channels;
    for (size_t d = 0; d + 1 < pool_.window.axes.size(); ++d) rows_ *= pool_.window.axes[d].out;
    if (maximum()) return;
    for (int64_t out = 0; out < row_.out; ++out)
      divisors_.push_back(static_cast<float>(divisor(row_, Inside(row_, out), out)));
  }

  Status run(KernelContext& context) const override {
    const int64_t taps = row_.out * pool_.window.kernel_count();
    Steps steps;
    if (bytes_) {
      // Sums of whole numbers are exact.
      steps = {bytes_->x.step(context), bytes_->y.step(context)};
      steps.y.scale /= std::exchange(steps.x.scale, 1.0f);
    }
    context.pool->parallel_for(rows_, std::max<int64_t>(1, kTaps / taps), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (bytes_) {
          run_row<float>(context, row, pool_table().sum_f32, 0, steps);
        } else if (type_ == DataType::kUint8) {
          run_row<uint8_t>(context, row, pool_table().maximum_u8, 0);
        } else if (type_ == DataType::kInt8) {
          run_row<int8_t>(context, row, pool_table().maximum_i8, std::numeric_limits<int8_t>::lowest());
        } else if (maximum()) {
          run_row<float>(context, row, pool_table().maximum_f32, -std::numeric_limits<float>::infinity());
        } else {
          run_row<float>(context, row, pool_table().sum_f32, 0);
        }
      }
    });
    return {};
  }
  std::string_view name() const override {
    return bytes_ ? "average_pool int8" : maximum() ? "max_pool plain" : "average_pool plain";
  }

 private:
  bool maximum() const { return pool_.kind == PoolDesc::Kind::kMax; }
  int64_t divisor(const WindowAxis& axis, const Inside& inside, int64_t out) const {
    return pool_.count_include_pad ? padded_taps(axis, out) : inside.count();
  }

  // The taps of the outer axes for one row of outputs: each_row(body) calls body(element) for the first element of the
  // image's row that each of them reads.
  class OuterTaps {
   public:
    OuterTaps(const PlainPool& pool, int64_t row) : axes_(pool.pool_.window.axes), outer_(axes_.size() - 1) {
      int64_t stride = axes_.back().in;
      for (size_t d = outer_; d-- > 0;) {
        const int64_t out = row % axes_[d].out;
        const Inside inside(axes_[d], out);
        row /= axes_[d].out;
        counts_[d] = inside.count();
        steps_[d] = axes_[d].dilation * stride;
        first_ += inside.begin * stride;
        divisor_ *= pool.divisor(axes_[d], inside, out);
        stride *= axes_[d].in;
      }
      first_ += row * stride;
    }
    int64_t count() const {
      int64_t count = 1;
      for (size_t d = 0; d < outer_; ++d) count *= counts_[d];
      return count;
    }
    int64_t divisor() const { return divisor_; }

    template <typename Body>
    void each_row(const Body& body) const {
      std::array<int64_t, Shape::kMaxRank> tap{};
      int64_t at = first_;
      while (true) {
        body(at);
        size_t d = outer_;
        for (; d > 0; --d) {
          at += steps_[d - 1];
          if (++tap[d - 1] < counts_[d - 1]) break;
          at -= steps_[d - 1] * counts_[d - 1];
          tap[d - 1] = 0;
        }
        if (d == 0) return;
      }
    }

   private:
    const std::vector<WindowAxis>& axes_;
    const size_t outer_;
    std::array<int64_t, Shape::kMaxRank> counts_{}, steps_{};
    int64_t first_ = 0, divisor_ = 1;
  };

  struct Steps {
    ByteStep x, y;
  };

  // T is the type of the loops: float for every float type, and for bytes with steps.
  template <typename T>
  void run_row(KernelContext& context, int64_t row, PoolTap<T> tap, T start, const Steps& steps = {}) const {
    const OuterTaps outer(*this, row);
    const int64_t piece = outputs_a_piece(row_);
    for (int64_t begin = 0; begin < row_.out; begin += piece) {
      const int64_t end = std::min(row_.out, begin + piece);
      // The elements of a row that these outputs read.
      const int64_t low = std::max<int64_t>(0, begin * row_.stride - row_.pad_begin);
      const int64_t high = std::min(row_.in, (end - 1) * row_.stride - row_.pad_begin + row_.reach());
      alignas(64) T sums[kLine], widened[kLine], results[kLine];
      const T* line = nullptr;
      outer.each_row([&](int64_t element) {
        const T* const from = read(context, element + low, high - low, line == nullptr ? sums : widened, steps);
        if (line == nullptr && outer.count() == 1) {
          line = from;
        } else if (line == nullptr) {
          if (from != sums) std::copy_n(from, high - low, sums);
          line = sums;
        } else {
          tap(from, 1, sums, high - low);
        }
      });
      T* const y = open(context, row * row_.out + begin, results);
      std::fill_n(y, end - begin, start);
      for (int64_t k = 0; k < row_.kernel; ++k) {
        // Output p reads element p * stride + shift of the row.
        const int64_t shift = k * row_.dilation - row_.pad_begin;
        const int64_t from = std::max(begin, shift >= 0 ? 0 : (-shift + row_.stride - 1) / row_.stride);
        const int64_t to = std::min(end, shift >= row_.in ? 0 : (row_.in - 1 - shift) / row_.stride + 1);
        if (from < to) tap(line + (from * row_.stride + shift - low), row_.stride, y + (from - begin), to - from);
      }
      if constexpr (std::is_same_v<T, float>) {
        if (!maximum()) {
          const auto outer_divisor = static_cast<float>(outer.divisor());
          const auto apply = [&](Binary op, const float* x, const float* by, int64_t stride, float* to) {
            eltwise_table().binary[static_cast<int>(op)](x, 1, by, stride, to, end - begin);
          };
          apply(Binary::kMul, divisors_.data() + begin, &outer_divisor, 0, widened);
          apply(Binary::kDiv, y, widened, 1, y);
        }
        close(context, row * row_.out + begin, end - begin, y, steps);
      }
    }
  }
  template <typename T>
  const T* read(KernelContext& context, int64_t at, int64_t n, T* buffer, const Steps& steps) const {
    if constexpr (std::is_same_v<T, float>) {
      if (!bytes_) return read_floats(type_, context.inputs[0], at, n, buffer);
      quantize_table().dequantize(context.input<uint8_t>(0) + at, steps.x, n, buffer);
      return buffer;
    }
    return context.input<T>(0) + at;
  }
  // Where outputs from `at` on are made; close() puts them where they belong.
  template <typename T>
  T* open(KernelContext& context, int64_t at, T* buffer) const {
    if constexpr (std::is_same_v<T, float>) {
      return bytes_ ? buffer : begin_floats(type_, context.outputs[0], at, buffer);
    }
    return context.output<T>(0) + at;
  }
  void close(KernelContext& context, int64_t at, int64_t n, const float* y, const Steps& steps) const {
    if (!bytes_) return end_floats(type_, context.outputs[0], at, n, y);
    quantize_table().quantize(y, steps.y, n, context.output<uint8_t>(0) + at);
  }

  const PoolDesc pool_;
  const DataType type_;
  const std::optional<ByteOperands> bytes_;
  const WindowAxis row_;  // the last axis
  int64_t rows_ = 0;      // of the output
  // AveragePool: the taps of each output along the last axis.
  std::vector<float> divisors_;
};

Status match_windows(const PoolDesc& pool, const Shape& y) {
  TENON_UNSUPPORTED_IF(pool.window.axes.empty() || y.element_count() == 0, "There are no windows.");
  for (const WindowAxis& axis : pool.window.axes)
    for (int64_t out = 0; out < axis.out; ++out)
      TENON_UNSUPPORTED_IF(Inside(axis, out).count() == 0, "Some windows hold no input.");
  TENON_UNSUPPORTED_IF(pool.window.axes.back().reach() > kLine / 2, "The windows are {} elements wide.",
                       pool.window.axes.back().reach());
  return {};
}

}  // namespace

Status match_plain_pool(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(x.layout != Layout::kPlain || y.layout != Layout::kPlain || x.dynamic || y.dynamic,
                       "A tensor is not plain, or its size is not known beforehand.");
  const bool bytes = x.type == DataType::kUint8 || x.type == DataType::kInt8;
  TENON_UNSUPPORTED_IF(!is_any_float(x.type) && !(bytes && node.node->op_type == "MaxPool"),
                       "{} of {} has no fast kernel.", node.node->op_type, data_type_name(x.type));
  TENON_UNSUPPORTED_IF(output_spec(node, 1).present(), "The output of indices is not served.");
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(*node.node, x.shape));
  TENON_INVALID_IF(!(pool.output() == y.shape) || y.type != x.type, "The output is {}{}, not {}{}.",
                   data_type_name(y.type), y.shape.to_string(), data_type_name(x.type), pool.output().to_string());
  return match_windows(pool, y.shape);
}

Result<std::unique_ptr<Kernel>> create_plain_pool(const KernelNode& node) {
  TENON_TRY_ASSIGN(PoolDesc pool, read_pool(*node.node, node.inputs[0].shape));
  return std::unique_ptr<Kernel>(std::make_unique<PlainPool>(std::move(pool), node.inputs[0].type, std::nullopt));
}

Status match_byte_pool(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs})
    for (const TensorSpec& spec : specs)
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "A tensor is not plain, or its size is not known beforehand.");
  TENON_TRY_ASSIGN(const QuantizedPoolDesc desc, read_quantized_pool(*node.node, input_spec(node, 0).shape));
  TENON_UNSUPPORTED_IF(desc.channels_last, "The channels are the last axis.");
  TENON_INVALID_IF(desc.output != output_spec(node, 0).shape, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.output.to_string());
  for (const WindowAxis& axis : desc.pool.window.axes)
    TENON_UNSUPPORTED_IF(desc.pool.count_include_pad && axis.out > 0 && padded_taps(axis, axis.out - 1) != axis.kernel,
                         "Windows reach beyond the padding.");
  return match_windows(desc.pool, desc.output);
}

Result<std::unique_ptr<Kernel>> create_byte_pool(const KernelNode& node) {
  TENON_TRY_ASSIGN(QuantizedPoolDesc desc, read_quantized_pool(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  for (size_t input : {form.x[0].scale, form.y.scale})
    TENON_INVALID_IF(!input_spec(node, input).present(), "{} needs input {}, which is absent.", node.node->op_type,
                     input);
  ByteOperands bytes;
  TENON_TRY_ASSIGN(bytes.x, ref::byte_tensor(node, form.x[0], node.inputs[0].type));
  TENON_TRY_ASSIGN(bytes.y, ref::byte_tensor(node, form.y, node.outputs[0].type));
  return std::unique_ptr<Kernel>(std::make_unique<PlainPool>(std::move(desc.pool), node.inputs[0].type, bytes));
}

}  // namespace tenon::cpu::nn
