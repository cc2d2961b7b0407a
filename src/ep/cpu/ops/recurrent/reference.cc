// LSTM, GRU and RNN.
//
// Weights are transposed ([input][gate * hidden]) so that the inner loop runs along the gates: once for a session where
// they are constants, in each run otherwise.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/activation_formula.h"
#include "ops/recurrent.h"

namespace tenon::cpu::ref {

namespace {

// C is what a cell computes in: double for double, float for the other types.
template <typename C>
struct GateFunction {
  C (*apply)(C x, C alpha, C beta) = nullptr;
  C alpha = 0, beta = 0;
  C operator()(C x) const { return apply(x, alpha, beta); }

  static GateFunction of(const UnaryDesc& function) {
    GateFunction made{nullptr, static_cast<C>(function.alpha), static_cast<C>(function.beta)};
#define TENON_APPLY_(Name) \
  if (function.function == Unary::k##Name) made.apply = &formula::apply<Unary::k##Name, C>;
    TENON_CELL_FUNCTIONS(TENON_APPLY_)
#undef TENON_APPLY_
    return made;
  }
};

using Cell = RecurrentDesc::Cell;

// One LSTM, GRU or RNN, as far as it does not change from run to run.
template <typename C>
struct Recurrence : RecurrentDesc {
  std::vector<GateFunction<C>> gate_loops;      // one for each of gate_functions
  std::shared_ptr<const std::byte> weights[2];  // W and R transposed; null where they are no constants
  // Offsets into scratch, in elements of C.
  size_t transposed[2] = {0, 0}, gate_values = 0, recurrent = 0, hidden_state = 0, cell_state = 0, scratch_count = 0;
  // Inputs and outputs that have another type than C are copied from and to scratch: offset and elements, 0 for none.
  std::array<std::pair<size_t, size_t>, 8> copied_inputs{};
  std::array<std::pair<size_t, size_t>, 3> copied_outputs{};
};

// [directions][rows][columns] to [directions][columns][rows].
template <typename T, typename C>
void turn(const T* src, C* dst, int64_t directions, int64_t rows, int64_t columns) {
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        dst[(d * columns + c) * rows + r] = static_cast<C>(src[(d * rows + r) * columns + c]);
      }
    }
  }
}

// y[j] += sum over i of x[i] * w[i][j], for `width` j that are `stride` apart in rows of w.
template <typename C>
void add_product(C* y, const C* x, const C* w, int64_t count, int64_t width, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    const C factor = x[i];
    const C* row = w + i * stride;
    for (int64_t j = 0; j < width; ++j) y[j] += factor * row[j];
  }
}

// The pointers of one run on tensors of T.
template <typename T, typename C>
class Run {
 public:
  Run(const Recurrence<C>& recurrence, KernelContext& context) : r_(recurrence) {
    scratch_ = reinterpret_cast<C*>(context.scratch);
    lengths_ = context.input<int32_t>(4);
    const int64_t columns[2] = {r_.input, r_.hidden};
    for (size_t i = 0; i < 2; ++i) {
      if (r_.weights[i]) {
        weights_[i] = reinterpret_cast<const C*>(r_.weights[i].get());
        continue;
      }
      C* to = scratch_ + r_.transposed[i];
      turn(context.input<T>(i + 1), to, r_.directions, r_.width(), columns[i]);
      weights_[i] = to;
    }
    for (size_t i : {0, 3, 5, 6, 7}) inputs_[i] = read(context.input<T>(i), r_.copied_inputs[i]);
    for (size_t i = 0; i < 3; ++i) {
      results_[i] = context.output<T>(i);
      if (results_[i] == nullptr) continue;
      if constexpr (std::is_same_v<T, C>) {
        outputs_[i] = results_[i];
      } else {
        outputs_[i] = scratch_ + r_.copied_outputs[i].first;
      }
    }
  }

  Status run() {
    const int32_t* lengths = lengths_;
    for (int64_t b = 0; lengths != nullptr && b < r_.batch; ++b) {
      TENON_INVALID_IF(lengths[b] < 0 || lengths[b] > r_.length,
                       "Entry {} of the batch has length {}, which is not between 0 and {}.", b, lengths[b], r_.length);
    }
    for (int64_t d = 0; d < r_.directions; ++d) {
      for (int64_t b = 0; b < r_.batch; ++b) run_sequence(d, b, lengths != nullptr ? lengths[b] : r_.length);
    }
    if constexpr (!std::is_same_v<T, C>) {
      for (size_t i = 0; i < 3; ++i) {
        for (size_t e = 0; results_[i] != nullptr && e < r_.copied_outputs[i].second; ++e) {
          results_[i][e] = T(outputs_[i][e]);
        }
      }
    }
    return {};
  }

 private:
  const C* read(const T* input, std::pair<size_t, size_t> copied) {
    if constexpr (std::is_same_v<T, C>) {
      return input;
    } else {
      if (input == nullptr) return nullptr;
      C* to = scratch_ + copied.first;
      for (size_t e = 0; e < copied.second; ++e) to[e] = static_cast<C>(input[e]);
      return to;
    }
  }
  int64_t state_offset(int64_t d, int64_t b) const {
    return (r_.batch_first ? b * r_.directions + d : d * r_.batch + b) * r_.hidden;
  }
  int64_t y_offset(int64_t t, int64_t d, int64_t b) const {
    const int64_t row =
        r_.batch_first ? (b * r_.length + t) * r_.directions + d : (t * r_.directions + d) * r_.batch + b;
    return row * r_.hidden;
  }

  void run_sequence(int64_t d, int64_t b, int64_t length) {
    C* h = scratch_ + r_.hidden_state;
    C* c = scratch_ + r_.cell_state;
    const auto start = [&](C* state, size_t input) {
      const C* initial = inputs_[input];
      for (int64_t j = 0; j < r_.hidden; ++j) state[j] = initial != nullptr ? initial[state_offset(d, b) + j] : 0;
    };
    if (length > 0) {
      start(h, 5);
      if (r_.cell == Cell::kLstm) start(c, 6);
    } else {
      // A sequence without steps has the states 0, and not the initial ones, as in ONNX Runtime.
      std::fill_n(h, r_.hidden, 0.0f);
      if (r_.cell == Cell::kLstm) std::fill_n(c, r_.hidden, 0.0f);
    }
    const bool backwards = r_.reverse || d == 1;
    for (int64_t step = 0; step < length; ++step) {
      const int64_t t = backwards ? length - 1 - step : step;
      run_step(t, d, b, h, c);
      if (C* y = outputs_[0]) std::copy_n(h, r_.hidden, y + y_offset(t, d, b));
    }
    if (C* y = outputs_[0]) {
      for (int64_t t = length; t < r_.length; ++t) std::fill_n(y + y_offset(t, d, b), r_.hidden, C(0));
    }
    if (C* last = outputs_[1]) std::copy_n(h, r_.hidden, last + state_offset(d, b));
    if (r_.cell != Cell::kLstm) return;
    if (C* last = outputs_[2]) std::copy_n(c, r_.hidden, last + state_offset(d, b));
  }

  C clipped(C x) const {
    const auto limit = static_cast<C>(r_.clip);
    return limit > 0 ? std::clamp(x, -limit, limit) : x;
  }
  const GateFunction<C>& activation(int64_t d, int64_t which) const { return r_.gate_loops[d * r_.functions + which]; }

  void run_step(int64_t t, int64_t d, int64_t b, C* h, C* c) {
    const int64_t width = r_.width(), n = r_.hidden;
    C* gates = scratch_ + r_.gate_values;
    const C* bias = inputs_[3];
    for (int64_t j = 0; j < width; ++j) gates[j] = bias != nullptr ? bias[2 * d * width + j] : 0;
    const C* x = inputs_[0] + (r_.batch_first ? b * r_.length + t : t * r_.batch + b) * r_.input;
    add_product(gates, x, weights_[0] + d * r_.input * width, r_.input, width, width);
    const C* recurrent_bias = bias != nullptr ? bias + (2 * d + 1) * width : nullptr;
    const C* weights = weights_[1] + d * n * width;
    if (r_.cell == Cell::kGru) {
      gru_step(d, gates, recurrent_bias, weights, h);
      return;
    }
    for (int64_t j = 0; recurrent_bias != nullptr && j < width; ++j) gates[j] += recurrent_bias[j];
    add_product(gates, h, weights, n, width, width);
    if (r_.cell == Cell::kRnn) {
      for (int64_t j = 0; j < n; ++j) h[j] = activation(d, 0)(clipped(gates[j]));
      return;
    }
    lstm_step(d, gates, h, c);
  }

  // Gates in the order input, output, forget, cell; peepholes input, output, forget.
  void lstm_step(int64_t d, const C* gates, C* h, C* c) const {
    const int64_t n = r_.hidden;
    const C* peep = inputs_[7];
    if (peep != nullptr) peep += 3 * d * n;
    const GateFunction<C>&f = activation(d, 0), &g = activation(d, 1), &last = activation(d, 2);
    for (int64_t j = 0; j < n; ++j) {
      const C before = c[j];
      const C in = f(clipped(gates[j] + (peep != nullptr ? peep[j] * before : 0)));
      const C forget =
          r_.couple_gates ? 1 - in : f(clipped(gates[2 * n + j] + (peep != nullptr ? peep[2 * n + j] * before : 0)));
      c[j] = forget * before + in * g(clipped(gates[3 * n + j]));
      const C out = f(clipped(gates[n + j] + (peep != nullptr ? peep[n + j] * c[j] : 0)));
      h[j] = out * last(c[j]);
    }
  }

  // Gates in the order update, reset, hidden.
  void gru_step(int64_t d, C* gates, const C* recurrent_bias, const C* weights, C* h) {
    const int64_t n = r_.hidden, width = r_.width();
    C* recurrent = scratch_ + r_.recurrent;  // [3n]: products with h; then [n]: reset * h
    for (int64_t j = 0; j < width; ++j) recurrent[j] = recurrent_bias != nullptr ? recurrent_bias[j] : 0;
    add_product(recurrent, h, weights, n, r_.linear_before_reset ? width : 2 * n, width);
    const GateFunction<C>&f = activation(d, 0), &g = activation(d, 1);
    for (int64_t j = 0; j < 2 * n; ++j) gates[j] = f(clipped(gates[j] + recurrent[j]));
    if (r_.linear_before_reset) {
      for (int64_t j = 0; j < n; ++j) gates[2 * n + j] += gates[n + j] * recurrent[2 * n + j];
    } else {
      C* reset = recurrent + width;
      for (int64_t j = 0; j < n; ++j) reset[j] = gates[n + j] * h[j];
      add_product(recurrent + 2 * n, reset, weights + 2 * n, n, n, width);
      for (int64_t j = 0; j < n; ++j) gates[2 * n + j] += recurrent[2 * n + j];
    }
    for (int64_t j = 0; j < n; ++j) h[j] = (1 - gates[j]) * g(clipped(gates[2 * n + j])) + gates[j] * h[j];
  }

  const Recurrence<C>& r_;
  C* scratch_;
  const int32_t* lengths_;
  const C* weights_[2] = {nullptr, nullptr};
  std::array<const C*, 8> inputs_{};
  std::array<C*, 3> outputs_{};
  std::array<T*, 3> results_{};
};

template <typename C>
Status check_tensors(RefNode& node, const Recurrence<C>& r) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const DataType wanted = i == RecurrentDesc::kLengths ? DataType::kInt32 : node.inputs[0].type;
    TENON_INVALID_IF(node.inputs[i].present() && node.inputs[i].type != wanted, "{} has input {} of {}; it needs {}.",
                     node.node->op_type, i, data_type_name(node.inputs[i].type), data_type_name(wanted));
  }
  TENON_TRY(require_output(node, 0, r.y()));
  TENON_TRY(require_output(node, 1, r.state()));
  return r.cell == Cell::kLstm ? require_output(node, 2, r.state()) : Status();
}

template <typename T, typename C>
Status turn_weights(const KernelNode& node, Recurrence<C>& r) {
  const int64_t columns[2] = {r.input, r.hidden};
  for (size_t i = 0; i < 2; ++i) {
    const size_t count = r.directions * r.width() * columns[i];
    if (node.constants[i + 1] != nullptr && node.weights != nullptr) {
      TENON_TRY_ASSIGN(r.weights[i],
                       node.weights->get(node.constants.subspan(i + 1, 1), "recurrent_turned", count * sizeof(C),
                                         [&](const Constant& weight, std::byte* data) {
                                           const std::shared_ptr<const std::byte> aligned = weight.data.read();
                                           turn(reinterpret_cast<const T*>(aligned.get()), reinterpret_cast<C*>(data),
                                                r.directions, r.width(), columns[i]);
                                         }));
      continue;
    }
    r.transposed[i] = r.scratch_count;
    r.scratch_count += count;
  }
  return {};
}

template <typename T>
Result<RefImpl> make_cell(RefNode& node) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  TENON_TRY_ASSIGN(RecurrentDesc desc, read_recurrent(*node.node, input_shapes(node)));
  Recurrence<C> r{std::move(desc)};
  for (const UnaryDesc& function : r.gate_functions) r.gate_loops.push_back(GateFunction<C>::of(function));
  TENON_TRY(check_tensors(node, r));
  TENON_TRY((turn_weights<T, C>(node, r)));
  const auto take = [&](int64_t count) {
    const size_t at = r.scratch_count;
    r.scratch_count += count;
    return at;
  };
  r.gate_values = take(r.width());
  r.recurrent = take(r.width() + r.hidden);
  r.hidden_state = take(r.hidden);
  r.cell_state = take(r.hidden);
  if constexpr (!std::is_same_v<T, C>) {
    for (size_t i : {0, 3, 5, 6, 7}) {
      const TensorSpec& spec = input_spec(node, i);
      if (!spec.present()) continue;
      const int64_t count = spec.shape.element_count();
      r.copied_inputs[i] = {take(count), count};
    }
    const int64_t states = r.directions * r.batch * r.hidden;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t count = i == 0 ? states * r.length : states;
      if (output_spec(node, i).present()) r.copied_outputs[i] = {take(count), count};
    }
  }
  RefImpl impl;
  impl.scratch_bytes = r.scratch_count * sizeof(C);
  impl.run = [r = std::move(r)](KernelContext& context) { return Run<T, C>(r, context).run(); };
  return impl;
}

Result<RefImpl> make_recurrent(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  using Make = Result<RefImpl> (*)(RefNode&);
  const Make make = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Make { return &make_cell<T>; });
  TENON_UNSUPPORTED_IF(make == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  return make(node);
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_recurrent>("LSTM", 7),
    ref_row<kFloatSet, &make_recurrent>("GRU", 7),
    ref_row<kFloatSet, &make_recurrent>("RNN", 7),
};

}  // namespace

std::span<const KernelEntry> ref_recurrent_rows() { return kRows; }

}  // namespace tenon::cpu::ref
