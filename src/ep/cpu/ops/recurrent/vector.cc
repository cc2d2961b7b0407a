// LSTM, GRU and RNN on f32.
//
// Many steps' products with X are one matrix product, over all threads. Then the steps follow one another: where there
// are enough sequences (directions, parts of the batch), each thread takes whole ones; where there are few and a step
// is large, the threads share the units of each step.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/matmul/product.h"
#include "ep/cpu/ops/recurrent/rows.h"
#include "ep/cpu/ops/recurrent/weights.h"
#include "ep/cpu/ops/vector_kernel.h"

namespace tenon::cpu::nn {

namespace {

using Cell = RecurrentDesc::Cell;

// Products with X that wait for their steps: 2 MiB, which stay in the caches.
constexpr int64_t kMostGateFloats = int64_t{1} << 19;
// For each thread that shares a step: their meeting costs about a microsecond, and more the more they are.
constexpr double kLeastSharedFlops = 200e3;
// Half of a core's second-level cache, in most processors.
constexpr int64_t kLargeWeightBytes = 512 << 10;
// Whole groups of four panels, which the product takes fastest.
constexpr int64_t kBlocksAtOnce = 4;
// Fewer entries of the batch than this read the weights too often for the products that they bring.
constexpr int64_t kLeastEntries = 4;

bool backwards(const RecurrentDesc& desc, int64_t direction) { return desc.reverse || direction == 1; }

// Offsets into scratch, in floats.
struct Scratch {
  int64_t packed_w = 0, packed_r = 0, bias = 0, peepholes = 0;  // of weights that are no constants
  int64_t gates = 0, recurrent = 0, states[2] = {0, 0}, cells = 0, update = 0, reset = 0;
  int64_t count = 0;

  int64_t take(int64_t floats) {
    const int64_t at = count;
    count += (floats + 15) / 16 * 16;
    return at;
  }
};

struct Plan : RecurrentDesc {
  Plan(RecurrentDesc desc, int threads) : RecurrentDesc(std::move(desc)), sizes(*this) {
    limit = clip > 0 ? clip : std::numeric_limits<float>::infinity();
    const int64_t row_floats = directions * batch * sizes.row;
    chunk = std::clamp<int64_t>(kMostGateFloats / row_floats, 1, length);
    groups = std::clamp<int64_t>(batch / kLeastEntries, 1, std::max<int64_t>(1, threads / directions));
    const double flops = 2.0 * static_cast<double>(row_floats) * static_cast<double>(hidden);
    sharers = std::min<int64_t>(threads, static_cast<int64_t>(flops / kLeastSharedFlops));
    share_steps = directions * groups < sharers;
    if (share_steps) groups = 1;
  }
  CellSizes sizes;
  Scratch scratch;
  float limit = 0;
  int64_t chunk = 1;   // steps whose products with X are made at once
  int64_t groups = 1;  // parts of the batch that are computed apart
  bool share_steps = false;
  int64_t sharers = 1;  // threads that a step has enough work for
  bool lengths = false;
  std::shared_ptr<const std::byte> packed_w, packed_r, bias, peepholes;  // null: packed in each run, or absent
  bool has_peepholes = false;
};

class Run {
 public:
  Run(const Plan& plan, KernelContext& context)
      : p_(plan),
        pool_(*context.pool),
        scratch_(reinterpret_cast<float*>(context.scratch)),
        x_(context.input<float>(RecurrentDesc::kX)),
        lengths_(context.input<int32_t>(RecurrentDesc::kLengths)),
        y_(context.output<float>(0)),
        gates_(scratch_ + plan.scratch.gates) {
    packed_w_ = packed(context, p_.packed_w, RecurrentDesc::kW, p_.scratch.packed_w, &pack_cell_w);
    packed_r_ = packed(context, p_.packed_r, RecurrentDesc::kR, p_.scratch.packed_r, &pack_cell_r);
    bias_ = packed(context, p_.bias, RecurrentDesc::kBias, p_.scratch.bias, &pack_cell_bias);
    if (p_.has_peepholes)
      peepholes_ = packed(context, p_.peepholes, RecurrentDesc::kPeepholes, p_.scratch.peepholes, &pack_cell_peepholes);
  }

  Status run(const KernelContext& context) {
    for (int64_t b = 0; lengths_ != nullptr && b < p_.batch; ++b) {
      TENON_INVALID_IF(lengths_[b] < 0 || lengths_[b] > p_.length,
                       "Entry {} of the batch has length {}, which is not between 0 and {}.", b, lengths_[b],
                       p_.length);
    }
    start(context);
    for (int64_t first = 0; first < p_.length; first += p_.chunk) {
      const int64_t last = std::min(p_.length, first + p_.chunk);
      multiply_inputs(first, last);
      run_steps(first, last);
    }
    finish(context);
    return {};
  }

 private:
  const float* packed(const KernelContext& context, const std::shared_ptr<const std::byte>& constant, size_t input,
                      int64_t offset, PackCell* pack) const {
    if (constant) return reinterpret_cast<const float*>(constant.get());
    pack(p_, context.input<float>(input), scratch_ + offset, &pool_);
    return scratch_ + offset;
  }

  int64_t length_of(int64_t b) const { return lengths_ != nullptr ? lengths_[b] : p_.length; }
  // The time of step `step` of an entry.
  int64_t time_of(int64_t d, int64_t b, int64_t step) const {
    return backwards(p_, d) ? length_of(b) - 1 - step : step;
  }
  float* state(int64_t parity, int64_t d, int64_t b) const {
    return scratch_ + p_.scratch.states[parity & 1] + (d * p_.batch + b) * p_.sizes.state;
  }
  float* of_entry(int64_t offset, int64_t d, int64_t b) const {
    return scratch_ + offset + (d * p_.batch + b) * p_.sizes.state;
  }
  int64_t state_offset(int64_t d, int64_t b) const {
    return (p_.batch_first ? b * p_.directions + d : d * p_.batch + b) * p_.hidden;
  }
  int64_t y_offset(int64_t t, int64_t d, int64_t b) const {
    const int64_t row =
        p_.batch_first ? (b * p_.length + t) * p_.directions + d : (t * p_.directions + d) * p_.batch + b;
    return row * p_.hidden;
  }

  void start(const KernelContext& context) const {
    const auto fill = [&](float* to, const float* initial, int64_t d, int64_t b) {
      std::fill_n(to, p_.sizes.state, 0.0f);
      // A sequence without steps has the states 0, and not the initial ones, as in ONNX Runtime.
      if (initial != nullptr && length_of(b) > 0) std::copy_n(initial + state_offset(d, b), p_.hidden, to);
    };
    for (int64_t d = 0; d < p_.directions; ++d) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        fill(state(0, d, b), context.input<float>(RecurrentDesc::kInitialH), d, b);
        if (p_.cell == Cell::kLstm)
          fill(of_entry(p_.scratch.cells, d, b), context.input<float>(RecurrentDesc::kInitialC), d, b);
        for (int64_t t = length_of(b); y_ != nullptr && t < p_.length; ++t)
          std::fill_n(y_ + y_offset(t, d, b), p_.hidden, 0.0f);
      }
    }
  }

  void finish(const KernelContext& context) const {
    float* const last_h = context.output<float>(1);
    float* const last_c = p_.cell == Cell::kLstm ? context.output<float>(2) : nullptr;
    for (int64_t d = 0; d < p_.directions; ++d) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        if (last_h != nullptr) std::copy_n(state(p_.length, d, b), p_.hidden, last_h + state_offset(d, b));
        if (last_c != nullptr) std::copy_n(of_entry(p_.scratch.cells, d, b), p_.hidden, last_c + state_offset(d, b));
      }
    }
  }

  // Where the gates of an entry's first step of the chunk lie: its steps in the order of time.
  float* gates(int64_t d, int64_t time, int64_t b) const {
    return gates_ + ((d * p_.chunk + time) * p_.batch + b) * p_.sizes.row;
  }
  // The times of an entry's steps [first, last) begin here.
  int64_t first_time(int64_t d, int64_t b, int64_t first, int64_t last) const {
    return backwards(p_, d) ? std::max<int64_t>(0, length_of(b) - last) : first;
  }

  // The products with X of steps [first, last). One product for all of the batch where its rows lie in the same order
  // as the gates; one an entry otherwise.
  void multiply_inputs(int64_t first, int64_t last) const {
    const bool together = p_.batch == 1 || (!p_.batch_first && lengths_ == nullptr);
    const int64_t parts = together ? 1 : p_.batch;
    const int64_t rows = (last - first) * (together ? p_.batch : 1);
    const ProductSplit split = split_product(rows, p_.sizes.row, p_.input, p_.directions * parts, pool_.threads());
    const int64_t tasks = split.row_tasks * split.column_tasks;
    pool_.parallel_for(p_.directions * parts * tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t d = i / tasks / parts, b = i / tasks % parts;
        const int64_t column = i % tasks / split.row_tasks * split.columns, row = i % split.row_tasks * split.rows;
        const int64_t time = first_time(d, b, first, last);
        const int64_t steps = std::min(length_of(b) - first, last - first);
        const int64_t here = std::min(split.rows, steps * (together ? p_.batch : 1) - row);
        if (here <= 0) continue;
        const int64_t entry_stride = p_.batch_first ? p_.length : 1, time_stride = p_.batch_first ? 1 : p_.batch;
        const GemmTask task{
            .a =
                x_ + (b * entry_stride + time * time_stride) * p_.input + row * (together ? 1 : time_stride) * p_.input,
            .lda = (together ? 1 : time_stride) * p_.input,
            .b = packed_w_ + d * p_.sizes.packed_w + column * p_.input,
            .panel_stride = p_.input * kGemmPanel,
            .c = gates(d, 0, b) + row * (together ? 1 : p_.batch) * p_.sizes.row + column,
            .ldc = (together ? 1 : p_.batch) * p_.sizes.row,
            .m = here,
            .n = std::min(split.columns, p_.sizes.row - column),
            .k = p_.input,
            .bias = bias_ + d * p_.sizes.bias + column,
        };
        gemm_table().run(task);
      }
    });
  }

  void run_steps(int64_t first, int64_t last) const {
    if (!p_.share_steps) {
      pool_.parallel_for(p_.directions * p_.groups, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t d = i / p_.groups, group = i % p_.groups;
          Part part{.d = d,
                    .first_entry = group * p_.batch / p_.groups,
                    .last_entry = (group + 1) * p_.batch / p_.groups,
                    .first_block = 0,
                    .last_block = p_.sizes.blocks,
                    .first = first,
                    .last = last};
          for (part.step = first; part.step < last; ++part.step) {
            for (int phase = 0; phase < phases(); ++phase) run_blocks(part, phase);
          }
        }
      });
      return;
    }
    // Several shares a thread, so that a slow one holds up nobody; one a thread where not all threads are to come.
    const int64_t shares = p_.sharers < pool_.threads() ? p_.sharers : 4 * p_.sharers;
    const int64_t grain = std::max(kBlocksAtOnce, (p_.sizes.blocks * p_.directions + shares - 1) / shares);
    for (int64_t step = first; step < last; ++step) {
      for (int phase = 0; phase < phases(); ++phase) {
        pool_.parallel_for(p_.directions * p_.sizes.blocks, grain, [&](int64_t begin, int64_t end) {
          while (begin < end) {
            const int64_t d = begin / p_.sizes.blocks, block = begin % p_.sizes.blocks;
            const int64_t stop = std::min(p_.sizes.blocks, block + end - begin);
            run_part({.d = d,
                      .first_entry = 0,
                      .last_entry = p_.batch,
                      .first_block = block,
                      .last_block = stop,
                      .first = first,
                      .last = last,
                      .step = step},
                     phase);
            begin += stop - block;
          }
        });
      }
    }
  }

  // Some entries' and units' share of a step; [first, last) are the steps of the chunk.
  struct Part {
    int64_t d = 0;
    int64_t first_entry = 0, last_entry = 0;
    int64_t first_block = 0, last_block = 0;
    int64_t first = 0, last = 0, step = 0;
  };
  // A phase reads what the phase before has written for all units.
  int phases() const { return p_.sizes.hidden_apart ? 2 : 1; }

  // All blocks of a step. Weights that outgrow a core's cache are read to and fro, so that a step begins with those
  // that the step before it read last.
  void run_blocks(Part part, int phase) const {
    const int64_t at_once =
        p_.sizes.packed_r * static_cast<int64_t>(sizeof(float)) > kLargeWeightBytes ? kBlocksAtOnce : p_.sizes.blocks;
    const int64_t parts = (p_.sizes.blocks + at_once - 1) / at_once;
    for (int64_t i = 0; i < parts; ++i) {
      part.first_block = (part.step % 2 == 0 ? i : parts - 1 - i) * at_once;
      part.last_block = std::min(p_.sizes.blocks, part.first_block + at_once);
      run_part(part, phase);
    }
  }

  void run_part(const Part& part, int phase) const {
    const int64_t gates_here = !p_.sizes.hidden_apart ? p_.gates : phase == 0 ? 2 : 1;
    const int64_t width = gates_here * kCellBlock, row = gates_here * p_.sizes.state;
    const int64_t entries = part.last_entry - part.first_entry, blocks = part.last_block - part.first_block;
    float* const recurrent = scratch_ + p_.scratch.recurrent + (part.d * p_.batch + part.first_entry) * p_.sizes.row;
    const float* const weights =
        packed_r_ + part.d * p_.sizes.packed_r + (phase == 1 ? 2 * p_.sizes.state * p_.hidden : 0);
    const GemmTask task{
        .a = phase == 1 ? of_entry(p_.scratch.reset, part.d, part.first_entry)
                        : state(part.step, part.d, part.first_entry),
        .lda = p_.sizes.state,
        .b = weights + part.first_block * width * p_.hidden,
        .panel_stride = p_.hidden * kGemmPanel,
        .c = recurrent + part.first_block * width,
        .ldc = row,
        .m = entries,
        .n = blocks * width,
        .k = p_.hidden,
        .bias =
            p_.linear_before_reset ? bias_ + part.d * p_.sizes.bias + p_.sizes.row + part.first_block * width : nullptr,
    };
    gemm_table().run(task);
    for (int64_t b = part.first_entry; b < part.last_entry; ++b)
      run_cell(part, phase, b, recurrent + (b - part.first_entry) * row + part.first_block * width);
  }

  void run_cell(const Part& part, int phase, int64_t b, const float* recurrent) const {
    const int64_t unit = part.first_block * kCellBlock, blocks = part.last_block - part.first_block;
    const float* const before = state(part.step, part.d, b) + unit;
    float* const after = state(part.step + 1, part.d, b) + unit;
    if (part.step >= length_of(b)) {
      if (phase + 1 == phases()) std::copy_n(before, blocks * kCellBlock, after);
      return;
    }
    const int64_t time = time_of(part.d, b, part.step);
    CellTask task{
        .input = gates(part.d, time - first_time(part.d, b, part.first, part.last), b) + unit * p_.gates,
        .recurrent = recurrent,
        .before = before,
        .after = after,
        .blocks = blocks,
        .clip = p_.limit,
    };
    switch (p_.cell) {
      case Cell::kLstm:
        task.cell = of_entry(p_.scratch.cells, part.d, b) + unit;
        for (int i = 0; peepholes_ != nullptr && i < 3; ++i)
          task.peepholes[i] = peepholes_ + (3 * part.d + i) * p_.sizes.state + unit;
        task.couple_gates = p_.couple_gates;
        recurrent_table().lstm(task);
        break;
      case Cell::kGru:
        if (p_.sizes.hidden_apart) {
          task.update = of_entry(p_.scratch.update, part.d, b) + unit;
          task.reset = of_entry(p_.scratch.reset, part.d, b) + unit;
        }
        (!p_.sizes.hidden_apart ? recurrent_table().gru
         : phase == 0           ? recurrent_table().gru_reset
                                : recurrent_table().gru_hidden)(task);
        break;
      case Cell::kRnn:
        (p_.gate_functions[part.d].function == Unary::kRelu ? recurrent_table().rnn_relu : recurrent_table().rnn)(task);
        break;
    }
    if (y_ != nullptr && phase + 1 == phases())
      std::copy_n(after, std::min(blocks * kCellBlock, p_.hidden - unit), y_ + y_offset(time, part.d, b) + unit);
  }

  const Plan& p_;
  ThreadPool& pool_;
  float* const scratch_;
  const float* const x_;
  const int32_t* const lengths_;
  float* const y_;
  float* const gates_;
  const float* packed_w_ = nullptr;
  const float* packed_r_ = nullptr;
  const float* bias_ = nullptr;
  const float* peepholes_ = nullptr;
};

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(Plan plan) : plan_(std::move(plan)) {}
  Status run(KernelContext& context) const override { return Run(plan_, context).run(context); }
  size_t scratch_bytes() const override { return plan_.scratch.count * sizeof(float); }
  bool reads(size_t input) const override {
    return !(input == RecurrentDesc::kW && plan_.packed_w) && !(input == RecurrentDesc::kR && plan_.packed_r);
  }
  std::string_view name() const override { return plan_.packed_r ? "recurrent packed f32" : "recurrent f32"; }

 private:
  const Plan plan_;
};

// Packs a constant now, or finds room to pack it in each run.
Status place(const KernelNode& node, size_t input, const Plan& plan, std::string_view what, int64_t floats,
             PackCell* pack, std::shared_ptr<const std::byte>& packed, int64_t& offset, Scratch& scratch) {
  if (constant_input(node, input) == nullptr) {
    offset = scratch.take(floats);
    return {};
  }
  const std::string format = tenon::format("cell_{} {} {}x{}x{}{}", what, node.node->op_type, plan.directions,
                                           plan.hidden, plan.input, plan.linear_before_reset ? " linear" : "");
  TENON_TRY_ASSIGN(packed, packed_constant(node, node.constants[input], format, floats * sizeof(float),
                                           [&](const std::byte* weight, std::byte* out) {
                                             pack(plan, reinterpret_cast<const float*>(weight),
                                                  reinterpret_cast<float*>(out), node.pool);
                                           }));
  return {};
}

bool default_functions(const RecurrentDesc& desc) {
  for (size_t i = 0; i < desc.gate_functions.size(); ++i) {
    const Unary function = desc.gate_functions[i].function;
    if (desc.cell == Cell::kRnn) {
      if (function != Unary::kTanh && function != Unary::kRelu) return false;
    } else if (function != (static_cast<int64_t>(i) % desc.functions == 0 ? Unary::kSigmoid : Unary::kTanh)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Status match_recurrent(const KernelNode& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    if (!spec.present()) continue;
    const DataType wanted = i == RecurrentDesc::kLengths ? DataType::kInt32 : DataType::kFloat;
    TENON_UNSUPPORTED_IF(spec.type != wanted || spec.layout != Layout::kPlain, "Input {} is no plain {}.", i,
                         data_type_name(wanted));
  }
  for (const TensorSpec& spec : node.outputs)
    TENON_UNSUPPORTED_IF(
        spec.present() && (spec.type != DataType::kFloat || spec.layout != Layout::kPlain || spec.dynamic),
        "An output is no plain float32 of known size.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_recurrent(const KernelNode& node) {
  TENON_TRY_ASSIGN(RecurrentDesc desc, read_recurrent(*node.node, input_shapes(node)));
  TENON_UNSUPPORTED_IF(!default_functions(desc), "The functions of the gates are not the default ones.");
  TENON_UNSUPPORTED_IF(desc.length == 0 || desc.batch == 0 || desc.input == 0, "The input is empty.");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Shape wanted = i == 0 ? desc.y() : desc.state();
    TENON_UNSUPPORTED_IF(node.outputs[i].present() && !(node.outputs[i].shape == wanted),
                         "Output {} has shape {}, not {}.", i, node.outputs[i].shape.to_string(), wanted.to_string());
  }
  // Padding to 16 units makes the weights of few units up to 16 times as large.
  const auto largest = checked_product(std::array<int64_t, 5>{desc.directions, desc.gates, desc.hidden + kCellBlock,
                                                              std::max({desc.input, desc.hidden, desc.batch}), 64});
  TENON_UNSUPPORTED_IF(!largest, "The packed weights overflow.");
  Plan plan(std::move(desc), node.pool != nullptr ? node.pool->threads() : 1);
  Scratch scratch;
  const int64_t d = plan.directions;
  TENON_TRY(place(node, RecurrentDesc::kW, plan, "w", d * plan.sizes.packed_w, &pack_cell_w, plan.packed_w,
                  scratch.packed_w, scratch));
  TENON_TRY(place(node, RecurrentDesc::kR, plan, "r", d * plan.sizes.packed_r, &pack_cell_r, plan.packed_r,
                  scratch.packed_r, scratch));
  TENON_TRY(place(node, RecurrentDesc::kBias, plan, "bias", d * plan.sizes.bias, &pack_cell_bias, plan.bias,
                  scratch.bias, scratch));
  plan.has_peepholes = plan.cell == Cell::kLstm && input_spec(node, RecurrentDesc::kPeepholes).present();
  if (plan.has_peepholes) {
    TENON_TRY(place(node, RecurrentDesc::kPeepholes, plan, "p", 3 * d * plan.sizes.state, &pack_cell_peepholes,
                    plan.peepholes, scratch.peepholes, scratch));
  }
  const int64_t states = d * plan.batch * plan.sizes.state;
  scratch.gates = scratch.take(d * plan.batch * plan.chunk * plan.sizes.row);
  scratch.recurrent = scratch.take(d * plan.batch * plan.sizes.row);
  for (int64_t& offset : scratch.states) offset = scratch.take(states);
  if (plan.cell == Cell::kLstm) scratch.cells = scratch.take(states);
  if (plan.sizes.hidden_apart) {
    scratch.update = scratch.take(states);
    scratch.reset = scratch.take(states);
  }
  plan.scratch = scratch;
  return std::unique_ptr<Kernel>(std::make_unique<RecurrentKernel>(std::move(plan)));
}

}  // namespace tenon::cpu::nn
