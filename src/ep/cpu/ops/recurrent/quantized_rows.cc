#include "ep/cpu/ops/recurrent/quantized_rows.h"

#include <algorithm>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/quantize/step.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/int8.h"
#include "ep/cpu/simd/quantize.h"
#include "ops/quantize.h"
#include "ops/recurrent.h"

namespace tenon::cpu::nn {

namespace {

using Desc = RecurrentDesc;

// Columns that a task of the product with X takes.
constexpr int64_t kTaskColumns = 4 * kInt8TileColumns;

// W or R: packed for the product of bytes, direction by direction, the sums of the columns behind each.
struct Weights {
  int64_t depth = 0, width = 0;
  std::shared_ptr<const std::byte> packed;
  std::vector<float> scales;     // [directions][columns], columns in whole panels
  std::vector<int32_t> factors;  // zero points as the product counts them
  bool has_factors = false;

  int64_t columns() const { return int8_columns(width); }
  int64_t bytes() const { return int8_packed_bytes(depth, width) + 4 * columns(); }  // of a direction
  const uint8_t* panels(int64_t d) const { return reinterpret_cast<const uint8_t*>(packed.get()) + d * bytes(); }
  const int32_t* sums(int64_t d) const {
    return reinterpret_cast<const int32_t*>(panels(d) + int8_packed_bytes(depth, width));
  }
};

Result<Weights> pack_weights(const KernelNode& node, const Desc& desc, size_t input) {
  const bool of_x = input == Desc::kW;
  Weights w{
      .depth = of_x ? desc.input : desc.hidden, .width = desc.width(), .packed = nullptr, .scales = {}, .factors = {}};
  const Constant& data = *constant_input(node, input);
  const Constant& scale = *constant_input(node, of_x ? Desc::kWScale : Desc::kRScale);
  const Constant& zero = *constant_input(node, of_x ? Desc::kWZero : Desc::kRZero);
  const bool is_signed = data.type == DataType::kInt8;
  const auto* const zeros = zero.as<uint8_t>().data();
  const int64_t columns = w.columns(), size = w.depth * w.width;
  for (int64_t d = 0; d < desc.directions; ++d) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t column = std::min(j, w.width - 1);
      w.scales.push_back(scale.as<float>()[scale.shape.rank() == 2 ? d * w.width + column : d]);
      w.factors.push_back(integer_zero(zeros, is_signed, zero.shape.rank() == 2 ? d * w.width + column : d) -
                          (is_signed ? 0 : 128));
      w.has_factors |= w.factors.back() != 0;
    }
  }
  const auto pack = [&](const std::byte* weight, std::byte* out) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(weight);
    for (int64_t d = 0; d < desc.directions; ++d) {
      auto* const panels = reinterpret_cast<uint8_t*>(out) + d * w.bytes();
      auto* const sums = reinterpret_cast<int32_t*>(panels + int8_packed_bytes(w.depth, w.width));
      int8_table().pack(bytes + d * size, is_signed, w.width, 1, w.depth, w.width, 0, columns / kInt8Panel, panels,
                        sums);
    }
  };
  const std::string format = tenon::format("{} lstm {}x{}x{}", int8_table().name, desc.directions, w.depth, w.width);
  TENON_TRY_ASSIGN(w.packed, packed_constant(node, node.constants[input], format,
                                             static_cast<size_t>(desc.directions * w.bytes()), pack));
  return w;
}

class QuantizedLstm final : public Kernel {
 public:
  QuantizedLstm(Desc desc, Weights w, Weights r)
      : d_(std::move(desc)), w_(std::move(w)), r_(std::move(r)), columns_(w_.columns()) {
    const auto take = [this](int64_t bytes) {
      return std::exchange(scratch_bytes_, scratch_bytes_ + aligned_bytes(static_cast<size_t>(bytes)));
    };
    const int64_t rows = d_.length * d_.batch;
    x_offset_ = take(rows * d_.input);
    gates_offset_ = take(d_.directions * rows * columns_ * 4);
    // Of each direction: terms and scales of the columns and a bias, then the state.
    state_bytes_ = aligned_bytes(static_cast<size_t>(d_.batch * (d_.hidden * 13 + columns_ * 4))) +
                   aligned_bytes(static_cast<size_t>(columns_) * 12);
    state_offset_ = take(d_.directions * static_cast<int64_t>(state_bytes_));
  }

  Status run(KernelContext& context) const override {
    multiply_x(context);
    // The directions do not wait for each other.
    context.pool->parallel_for(d_.directions, 1, [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) run_direction(context, d);
    });
    return {};
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string_view name() const override { return "lstm int8"; }

 private:
  template <typename T>
  T* scratch(const KernelContext& context, size_t offset) const {
    return reinterpret_cast<T*>(context.scratch + offset);
  }
  float* gates(const KernelContext& context, int64_t d) const {
    return scratch<float>(context, gates_offset_) + d * d_.length * d_.batch * columns_;
  }

  // What changes with the numbers that are multiplied: see Int8Task.
  struct Columns {
    int32_t* terms;
    float* scales;
    float* bias;
  };
  Columns columns_of(const KernelContext& context, int64_t d) const {
    auto* const base = scratch<int32_t>(context, state_offset_ + static_cast<size_t>(d) * state_bytes_);
    return {base, reinterpret_cast<float*>(base + columns_), reinterpret_cast<float*>(base + 2 * columns_)};
  }

  Int8Task task_of(const Weights& w, int64_t d, const DynamicQuantization& q, const Columns& columns) const {
    const int32_t* const factors = w.factors.data() + d * columns_;
    const int32_t* const sums = w.sums(d);
    // Sums wrap as int32 does.
    const auto zero = static_cast<uint32_t>(q.zero_point), depth = static_cast<uint32_t>(w.depth);
    for (int64_t j = 0; j < columns_; ++j) {
      columns.terms[j] =
          static_cast<int32_t>(zero * (depth * static_cast<uint32_t>(factors[j]) - static_cast<uint32_t>(sums[j])));
      columns.scales[j] = q.scale * w.scales[d * columns_ + j];
    }
    return {.lda = w.depth,
            .b = w.panels(d),
            .panel_stride = int8_depth(w.depth) * kInt8Panel,
            .n = w.width,
            .k = w.depth,
            .column_terms = columns.terms,
            .column_factors = w.has_factors ? factors : nullptr,
            .column_scales = columns.scales,
            .epilogue = {},
            .output = Int8Output::kFloat,
            .ldc = columns_};
  }

  static DynamicQuantization quantize(const float* x, int64_t count, uint8_t* bytes) {
    float low = 0, high = 0;
    quantize_table().extremes(x, count, &low, &high);
    const DynamicQuantization q = dynamic_quantization(low, high);
    quantize_table().quantize(x, {.scale = q.scale, .zero = static_cast<float>(q.zero_point)}, count, bytes);
    return q;
  }

  void multiply_x(KernelContext& context) const {
    const int64_t rows = d_.length * d_.batch;
    auto* const bytes = scratch<uint8_t>(context, x_offset_);
    const DynamicQuantization q = quantize(context.input<float>(Desc::kX), rows * d_.input, bytes);
    const int64_t parts = (w_.width + kTaskColumns - 1) / kTaskColumns;
    std::array<Int8Task, 2> tasks;
    for (int64_t d = 0; d < d_.directions; ++d) {
      const Columns columns = columns_of(context, d);
      tasks[d] = task_of(w_, d, q, columns);
      if (const float* bias = context.input<float>(Desc::kBias)) {
        bias += 2 * d * w_.width;
        for (int64_t j = 0; j < w_.width; ++j) columns.bias[j] = bias[j] + bias[w_.width + j];
        std::fill(columns.bias + w_.width, columns.bias + columns_, 0.0f);
        tasks[d].column_bias = columns.bias;
      }
      tasks[d].a = bytes;
      tasks[d].m = rows;
      tasks[d].c = gates(context, d);
    }
    context.pool->parallel_for(d_.directions * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Int8Task task = tasks[i / parts];
        const int64_t first = i % parts * kTaskColumns;
        task.b += first * int8_depth(w_.depth);
        task.n = std::min(kTaskColumns, w_.width - first);
        task.column_terms += first;
        task.column_scales += first;
        if (task.column_factors != nullptr) task.column_factors += first;
        if (task.column_bias != nullptr) task.column_bias += first;
        task.c = static_cast<float*>(task.c) + first;
        int8_table().run(task);
      }
    });
  }

  void run_direction(KernelContext& context, int64_t d) const {
    const int64_t n = d_.hidden, states = d_.batch * n;
    const Columns columns = columns_of(context, d);
    float* const h = reinterpret_cast<float*>(context.scratch + state_offset_ + static_cast<size_t>(d) * state_bytes_ +
                                              aligned_bytes(static_cast<size_t>(columns_) * 12));
    float* const c = h + states;
    float* const after = c + states;          // tanh of the cell state
    float* const recurrent = after + states;  // [batch][columns]
    auto* const bytes = reinterpret_cast<uint8_t*>(recurrent + d_.batch * columns_);
    const auto start = [&](float* state, size_t input) {
      const float* const given = context.input<float>(input);
      if (given != nullptr) {
        std::copy_n(given + d * states, states, state);
      } else {
        std::fill_n(state, states, 0.0f);
      }
    };
    const bool runs = d_.length > 0;  // without steps the states are 0, and not the initial ones
    start(h, runs ? Desc::kInitialH : SIZE_MAX);
    start(c, runs ? Desc::kInitialC : SIZE_MAX);
    const bool backwards = d_.reverse || d == 1;
    float* const y = context.output<float>(0);
    for (int64_t step = 0; step < d_.length; ++step) {
      const int64_t t = backwards ? d_.length - 1 - step : step;
      const DynamicQuantization q = quantize(h, states, bytes);
      Int8Task task = task_of(r_, d, q, columns);
      task.a = bytes;
      task.m = d_.batch;
      task.residual = gates(context, d) + t * d_.batch * columns_;
      task.ldr = columns_;
      task.c = recurrent;
      int8_table().run(task);
      for (int64_t b = 0; b < d_.batch; ++b) {
        step_cell(recurrent + b * columns_, h + b * n, c + b * n, after + b * n);
        if (y != nullptr) std::copy_n(h + b * n, n, y + ((t * d_.directions + d) * d_.batch + b) * n);
      }
    }
    if (float* const last = context.output<float>(1)) std::copy_n(h, states, last + d * states);
    if (float* const last = context.output<float>(2)) std::copy_n(c, states, last + d * states);
  }

  // Gates in the order input, output, forget, cell.
  void step_cell(float* gates, float* h, float* c, float* after) const {
    const int64_t n = d_.hidden;
    const auto& unary = eltwise_table().unary;
    const auto sigmoid = unary[static_cast<int>(Unary::kSigmoid)], tanh = unary[static_cast<int>(Unary::kTanh)];
    sigmoid(gates, gates, 3 * n, 0, 0);
    tanh(gates + 3 * n, gates + 3 * n, n, 0, 0);
    const float *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n;
    if (d_.couple_gates) {
      for (int64_t j = 0; j < n; ++j) c[j] = (1 - in[j]) * c[j] + in[j] * cell[j];
    } else {
      for (int64_t j = 0; j < n; ++j) c[j] = forget[j] * c[j] + in[j] * cell[j];
    }
    tanh(c, after, n, 0, 0);
    for (int64_t j = 0; j < n; ++j) h[j] = out[j] * after[j];
  }

  const Desc d_;
  const Weights w_, r_;
  const int64_t columns_;  // of the gates, in whole panels
  size_t x_offset_ = 0, gates_offset_ = 0, state_offset_ = 0, state_bytes_ = 0, scratch_bytes_ = 0;
};

bool has_default_functions(const Desc& desc) {
  for (size_t i = 0; i < desc.gate_functions.size(); ++i) {
    if (desc.gate_functions[i].function != (i % 3 == 0 ? Unary::kSigmoid : Unary::kTanh)) return false;
  }
  return desc.clip == 0;
}

}  // namespace

Status match_quantized_lstm(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "A tensor is not plain, or its size is not known beforehand.");
    }
  }
  for (size_t i : {size_t{Desc::kLengths}, size_t{Desc::kPeepholes}})
    TENON_UNSUPPORTED_IF(input_spec(node, i).present(), "Input {} is given.", i);
  for (size_t i : {size_t{Desc::kW}, size_t{Desc::kR}, size_t{Desc::kWScale}, size_t{Desc::kWZero},
                   size_t{Desc::kRScale}, size_t{Desc::kRZero}})
    TENON_UNSUPPORTED_IF(constant_input(node, i) == nullptr, "Input {} is not constant.", i);
  for (size_t i : {size_t{Desc::kX}, size_t{Desc::kBias}, size_t{Desc::kInitialH}, size_t{Desc::kInitialC},
                   size_t{Desc::kWScale}, size_t{Desc::kRScale}})
    TENON_UNSUPPORTED_IF(input_spec(node, i).present() && node.inputs[i].type != DataType::kFloat, "Input {} is {}.", i,
                         data_type_name(node.inputs[i].type));
  for (const auto& [data, zero] :
       {std::pair(size_t{Desc::kW}, size_t{Desc::kWZero}), {size_t{Desc::kR}, size_t{Desc::kRZero}}})
    TENON_UNSUPPORTED_IF(node.inputs[data].type != node.inputs[zero].type, "Weights of {} have zero points of {}.",
                         data_type_name(node.inputs[data].type), data_type_name(node.inputs[zero].type));
  TENON_TRY_ASSIGN(const Desc desc, read_recurrent(*node.node, input_shapes(node)));
  TENON_UNSUPPORTED_IF(!has_default_functions(desc),
                       "The gates have other functions than sigmoid and tanh, or a clip.");
  TENON_UNSUPPORTED_IF(desc.batch == 0 || desc.input == 0, "A batch or an input is empty.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_quantized_lstm(const KernelNode& node) {
  TENON_TRY_ASSIGN(Desc desc, read_recurrent(*node.node, input_shapes(node)));
  const std::array<Shape, 3> shapes = {desc.y(), desc.state(), desc.state()};
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    TENON_INVALID_IF(output_spec(node, i).present() && output_spec(node, i).shape != shapes[i],
                     "Output {} has shape {} instead of {}.", i, output_spec(node, i).shape.to_string(),
                     shapes[i].to_string());
  }
  // The largest part of the scratch memory.
  TENON_TRY(
      tensor_size_bytes(DataType::kFloat, Shape{desc.directions, desc.length, desc.batch, int8_columns(desc.width())})
          .status());
  TENON_TRY_ASSIGN(Weights w, pack_weights(node, desc, Desc::kW));
  TENON_TRY_ASSIGN(Weights r, pack_weights(node, desc, Desc::kR));
  return std::unique_ptr<Kernel>(std::make_unique<QuantizedLstm>(std::move(desc), std::move(w), std::move(r)));
}

}  // namespace tenon::cpu::nn
