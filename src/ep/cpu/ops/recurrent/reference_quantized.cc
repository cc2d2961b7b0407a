// DynamicQuantizeLSTM of com.microsoft: X, and the hidden state before each step, become uint8 with one scale for all
// of their elements; products with the weights are exact integers.
#include <algorithm>
#include <array>
#include <cmath>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/activation_formula.h"
#include "ops/recurrent.h"

namespace tenon::cpu::ref {

namespace {

using Desc = RecurrentDesc;

struct GateFunction {
  float (*apply)(float x, float alpha, float beta) = nullptr;
  float alpha = 0, beta = 0;

  explicit GateFunction(const UnaryDesc& function)
      : alpha(static_cast<float>(function.alpha)), beta(static_cast<float>(function.beta)) {
#define TENON_APPLY_(Name) \
  if (function.function == Unary::k##Name) apply = &formula::apply<Unary::k##Name, float>;
    TENON_CELL_FUNCTIONS(TENON_APPLY_)
#undef TENON_APPLY_
  }
  float operator()(float x) const { return apply(x, alpha, beta); }
};

// Numbers as uint8: q = round(x / scale) + zero_point. Of zeros alone the scale is 1.
struct ByteQuantization {
  float scale = 1;
  int32_t zero_point = 0;

  ByteQuantization(float low, float high) {
    if (low != high) scale = (high - low) / 255.0f;
    const float zero = std::nearbyint(-low / scale);
    zero_point = static_cast<int32_t>(zero > 0 ? std::min(zero, 255.0f) : 0.0f);
  }
};

// One weight operand: [directions][depth][width] bytes with scales and zero points.
struct Weights {
  size_t data = 0, scale = 0, zero = 0;  // inputs
  int64_t depth = 0, width = 0;
  bool is_signed = false, column_scales = false, column_zeros = false;

  int32_t number(const void* bytes, int64_t at) const {
    return is_signed ? static_cast<const int8_t*>(bytes)[at] : static_cast<const uint8_t*>(bytes)[at];
  }
};

struct Cell : Desc {
  std::vector<GateFunction> functions;
  Weights weights[2];
  size_t gates = 0, bytes = 0, states = 0, scratch_bytes = 0;
};

class Run {
 public:
  Run(const Cell& cell, KernelContext& context) : c_(cell), context_(context) {
    gates_ = reinterpret_cast<float*>(context.scratch + c_.gates);
    bytes_ = reinterpret_cast<uint8_t*>(context.scratch + c_.bytes);
    h_ = reinterpret_cast<float*>(context.scratch + c_.states);
    cell_ = h_ + c_.batch * c_.hidden;
    lengths_ = context.input<int32_t>(Desc::kLengths);
  }

  Status run() {
    for (int64_t b = 0; lengths_ != nullptr && b < c_.batch; ++b) {
      TENON_INVALID_IF(lengths_[b] < 0 || lengths_[b] > c_.length,
                       "Entry {} of the batch has length {}, which is not between 0 and {}.", b, lengths_[b],
                       c_.length);
    }
    for (int64_t d = 0; d < c_.directions; ++d) run_direction(d);
    return {};
  }

 private:
  int64_t length_of(int64_t b) const { return lengths_ != nullptr ? lengths_[b] : c_.length; }

  ByteQuantization quantize(const float* x, int64_t count) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < count; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    const ByteQuantization q(low, high);
    for (int64_t i = 0; i < count; ++i) {
      const float value = std::nearbyint(x[i] / q.scale) + static_cast<float>(q.zero_point);
      bytes_[i] = static_cast<uint8_t>(value > 0 ? std::min(value, 255.0f) : 0.0f);
    }
    return q;
  }

  // gates[row] += bytes[row] * weights of direction d, for `rows` rows.
  void add_product(const Weights& w, int64_t d, int64_t rows, const ByteQuantization& q, float* gates) const {
    const float* scales = context_.input<float>(w.scale) + d * (w.column_scales ? w.width : 1);
    const int64_t zeros = d * (w.column_zeros ? w.width : 1), begin = d * w.depth * w.width;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < w.width; ++j) {
        const int32_t zero = w.number(context_.inputs[w.zero], zeros + (w.column_zeros ? j : 0));
        // Wraps beyond 2^31, as int32 sums do.
        uint32_t sum = 0;
        for (int64_t i = 0; i < w.depth; ++i) {
          const int32_t x = bytes_[r * w.depth + i] - q.zero_point;
          const int32_t weight = w.number(context_.inputs[w.data], begin + i * w.width + j) - zero;
          sum += static_cast<uint32_t>(x * weight);
        }
        gates[r * w.width + j] +=
            static_cast<float>(static_cast<int32_t>(sum)) * (q.scale * scales[w.column_scales ? j : 0]);
      }
    }
  }

  void run_direction(int64_t d) {
    const int64_t n = c_.hidden, width = c_.width(), rows = c_.length * c_.batch;
    const float* bias = context_.input<float>(Desc::kBias);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        gates_[r * width + j] = bias != nullptr ? bias[2 * d * width + j] + bias[(2 * d + 1) * width + j] : 0;
      }
    }
    add_product(c_.weights[0], d, rows, quantize(context_.input<float>(Desc::kX), rows * c_.input), gates_);
    const float* first_h = context_.input<float>(Desc::kInitialH);
    const float* first_c = context_.input<float>(Desc::kInitialC);
    for (int64_t i = 0; i < c_.batch * n; ++i) {
      const bool runs = length_of(i / n) > 0;
      h_[i] = runs && first_h != nullptr ? first_h[d * c_.batch * n + i] : 0;
      cell_[i] = runs && first_c != nullptr ? first_c[d * c_.batch * n + i] : 0;
    }
    const bool backwards = c_.reverse || d == 1;
    float* const y = context_.output<float>(0);
    for (int64_t step = 0; step < c_.length; ++step) {
      const ByteQuantization q = quantize(h_, c_.batch * n);
      float* const recurrent = cell_ + c_.batch * n;
      std::fill_n(recurrent, c_.batch * width, 0.0f);
      add_product(c_.weights[1], d, c_.batch, q, recurrent);
      for (int64_t b = 0; b < c_.batch; ++b) {
        const int64_t length = length_of(b);
        if (step >= length) {
          if (y != nullptr) std::fill_n(y + ((step * c_.directions + d) * c_.batch + b) * n, n, 0.0f);
          continue;
        }
        const int64_t t = backwards ? length - 1 - step : step;
        float* gates = gates_ + (t * c_.batch + b) * width;
        for (int64_t j = 0; j < width; ++j) gates[j] += recurrent[b * width + j];
        step_cell(d, gates, h_ + b * n, cell_ + b * n);
        if (y != nullptr) std::copy_n(h_ + b * n, n, y + ((t * c_.directions + d) * c_.batch + b) * n);
      }
    }
    if (float* last = context_.output<float>(1)) std::copy_n(h_, c_.batch * n, last + d * c_.batch * n);
    if (float* last = context_.output<float>(2)) std::copy_n(cell_, c_.batch * n, last + d * c_.batch * n);
  }

  float clipped(float x) const { return c_.clip > 0 ? std::clamp(x, -c_.clip, c_.clip) : x; }

  // Gates in the order input, output, forget, cell; peepholes input, output, forget.
  void step_cell(int64_t d, const float* gates, float* h, float* c) const {
    const int64_t n = c_.hidden;
    const float* peep = context_.input<float>(Desc::kPeepholes);
    if (peep != nullptr) peep += 3 * d * n;
    const auto with_peep = [&](int64_t gate, int64_t j, float state) {
      return gates[gate * n + j] + (peep != nullptr ? peep[gate * n + j] * state : 0);
    };
    const GateFunction* f = c_.functions.data() + 3 * d;
    for (int64_t j = 0; j < n; ++j) {
      const float before = c[j];
      const float in = f[0](clipped(with_peep(0, j, before)));
      const float forget = c_.couple_gates ? 1 - in : f[0](clipped(with_peep(2, j, before)));
      c[j] = forget * before + in * f[1](clipped(gates[3 * n + j]));
      h[j] = f[0](clipped(with_peep(1, j, c[j]))) * f[2](c[j]);
    }
  }

  const Cell& c_;
  KernelContext& context_;
  float* gates_;    // [length][batch][4 * hidden]
  uint8_t* bytes_;  // what is multiplied
  float* h_;        // [batch][hidden]
  float* cell_;     // [batch][hidden]; [batch][4 * hidden] products with h behind it
  const int32_t* lengths_;
};

Status check_types_of(const RefNode& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    const bool weight = i == Desc::kW || i == Desc::kR || i == Desc::kWZero || i == Desc::kRZero;
    const bool fits = i == Desc::kLengths ? spec.type == DataType::kInt32
                      : weight            ? spec.type == DataType::kInt8 || spec.type == DataType::kUint8
                                          : spec.type == DataType::kFloat;
    TENON_INVALID_IF(spec.present() && !fits, "DynamicQuantizeLSTM has input {} of {}.", i, data_type_name(spec.type));
  }
  for (size_t i : {Desc::kWScale, Desc::kWZero, Desc::kRScale, Desc::kRZero}) {
    TENON_INVALID_IF(!input_spec(node, i).present(), "DynamicQuantizeLSTM needs input {}, which is absent.", i);
  }
  return {};
}

Result<RefImpl> make_quantized_lstm(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  TENON_TRY(check_types_of(node));
  TENON_TRY_ASSIGN(Desc desc, read_recurrent(*node.node, input_shapes(node)));
  Cell cell{std::move(desc), {}, {}};
  for (const UnaryDesc& function : cell.gate_functions) cell.functions.emplace_back(function);
  TENON_TRY(require_output(node, 0, cell.y()));
  TENON_TRY(require_output(node, 1, cell.state()));
  TENON_TRY(require_output(node, 2, cell.state()));
  for (size_t i = 0; i < 2; ++i) {
    Weights& w = cell.weights[i];
    w = {.data = Desc::kW + i,
         .scale = i == 0 ? Desc::kWScale : Desc::kRScale,
         .zero = i == 0 ? Desc::kWZero : Desc::kRZero};
    w.depth = i == 0 ? cell.input : cell.hidden;
    w.width = cell.width();
    w.is_signed = node.inputs[w.data].type == DataType::kInt8;
    w.column_scales = node.inputs[w.scale].shape.rank() == 2;
    w.column_zeros = node.inputs[w.zero].shape.rank() == 2;
    TENON_INVALID_IF(node.inputs[w.zero].type != node.inputs[w.data].type, "Weights of {} have zero points of {}.",
                     data_type_name(node.inputs[w.data].type), data_type_name(node.inputs[w.zero].type));
  }
  const auto take = [&](int64_t bytes) {
    const size_t at = cell.scratch_bytes;
    cell.scratch_bytes += (static_cast<size_t>(bytes) + 63) / 64 * 64;
    return at;
  };
  const int64_t rows = cell.length * cell.batch, state = cell.batch * cell.hidden;
  TENON_TRY_ASSIGN(const size_t gate_bytes, tensor_size_bytes(DataType::kFloat, Shape{rows, cell.width()}));
  cell.gates = take(static_cast<int64_t>(gate_bytes));
  cell.bytes = take(std::max(rows * cell.input, state));
  cell.states = take(6 * state * static_cast<int64_t>(sizeof(float)));
  RefImpl impl;
  impl.scratch_bytes = cell.scratch_bytes;
  impl.run = [cell = std::move(cell)](KernelContext& context) { return Run(cell, context).run(); };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make_quantized_lstm>("DynamicQuantizeLSTM", 1, kAnyVersion, "com.microsoft"),
};

}  // namespace

std::span<const KernelEntry> ref_quantized_recurrent_rows() { return kRows; }

}  // namespace tenon::cpu::ref
