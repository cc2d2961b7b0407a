// TensorScatter, CausalConvWithState and LinearAttention: what carries a state from one run to the next.
#include <algorithm>
#include <cstring>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/attention/state_rows.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/state.h"
#include "ops/recurrent_state.h"

namespace tenon::cpu::ref {

namespace {

using Widen = void (*)(const void* x, int64_t at, int64_t stride, int64_t n, float* y);
using Narrow = void (*)(const float* x, int64_t n, void* y, int64_t at);

Widen widen_of(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> Widen {
    return [](const void* x, int64_t at, int64_t stride, int64_t n, float* y) {
      const T* const from = static_cast<const T*>(x) + at;
      if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(from[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(from[i * stride]);
      }
    };
  });
}

Narrow narrow_of(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> Narrow {
    return [](const float* x, int64_t n, void* y, int64_t at) {
      T* const to = static_cast<T*>(y) + at;
      for (int64_t i = 0; i < n; ++i) to[i] = T(x[i]);
    };
  });
}

Status same_types(const KernelNode& node, size_t except = SIZE_MAX) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    TENON_UNSUPPORTED_IF(i != except && node.inputs[i].present() && node.inputs[i].type != node.inputs[0].type,
                         "{} has input {} of {} beside {}.", node.node->op_type, i, data_type_name(node.inputs[i].type),
                         data_type_name(node.inputs[0].type));
  }
  return {};
}

Result<RefImpl> make_tensor_scatter(RefNode& node) {
  TENON_TRY_ASSIGN(const TensorScatterDesc desc, read_tensor_scatter(*node.node, input_shapes(node)));
  TENON_UNSUPPORTED_IF(input_spec(node, 2).present() && input_spec(node, 2).type != DataType::kInt64,
                       "TensorScatter has write indices of {}.", data_type_name(input_spec(node, 2).type));
  TENON_INVALID_IF(node.inputs[0].type != node.inputs[1].type, "TensorScatter has a cache of {} and an update of {}.",
                   data_type_name(node.inputs[0].type), data_type_name(node.inputs[1].type));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.run = [desc, all = node.inputs[0].size_bytes(),
              row = desc.inner *
                    static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    const auto* const first = context.input<int64_t>(2);
    for (int64_t b = 0; b < desc.batch && first != nullptr; ++b) {
      TENON_INVALID_IF(!desc.circular && (first[b] < 0 || first[b] > desc.room - desc.positions),
                       "Batch {} writes {} positions from {} on into a cache of {}.", b, desc.positions, first[b],
                       desc.room);
    }
    if (context.outputs[0] != context.inputs[0] && all > 0) std::memcpy(context.outputs[0], context.inputs[0], all);
    if (desc.room == 0) return {};
    for (int64_t b = 0; b < desc.batch; ++b) {
      const int64_t start = first == nullptr ? 0 : ((first[b] % desc.room) + desc.room) % desc.room;
      for (int64_t m = b * desc.middle; m < (b + 1) * desc.middle; ++m) {
        for (int64_t s = 0; s < desc.positions; ++s) {
          std::memcpy(context.output<std::byte>(0) + (m * desc.room + (start + s) % desc.room) * row,
                      context.input<std::byte>(1) + (m * desc.positions + s) * row, row);
        }
      }
    }
    return {};
  };
  return impl;
}

// One new position of float32, as each step of a language model has it, for channels [begin, end) of all batches. The
// new state may be the old one's memory.
void convolve_one(const CausalConvDesc& desc, const KernelContext& context, int64_t begin, int64_t end) {
  const float *const x = context.input<float>(0), *const bias = context.input<float>(2);
  const float* const past = context.input<float>(3);
  float* const present = context.output<float>(1);
  const int64_t before = desc.taps - 1;
  for (int64_t row = begin; row < end; ++row) {
    const float* const weights = context.input<float>(1) + row % desc.channels * desc.taps;
    float sum = weights[before] * x[row] + (bias != nullptr ? bias[row % desc.channels] : 0.0F);
    for (int64_t k = 0; k < before && past != nullptr; ++k) sum += weights[k] * past[row * before + k];
    context.output<float>(0)[row] = desc.silu ? sum / (1 + std::exp(-sum)) : sum;
    if (present == nullptr || before == 0) continue;
    for (int64_t k = 0; k + 1 < before; ++k)
      present[row * before + k] = past != nullptr ? past[row * before + k + 1] : 0;
    present[row * before + before - 1] = x[row];
  }
}

Result<RefImpl> make_causal_conv(RefNode& node) {
  TENON_TRY_ASSIGN(const CausalConvDesc desc, read_causal_conv(*node.node, input_shapes(node)));
  TENON_TRY(same_types(node));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY(require_output(node, 1, Shape{desc.batch, desc.channels, desc.taps - 1}));
  const DataType type = node.inputs[0].type;
  const int64_t rows = desc.batch * desc.channels;
  const int threads = node.pool != nullptr ? node.pool->threads() : 1;
  const int64_t slots = threads <= 1 ? 1 : std::min<int64_t>(rows, int64_t{4} * threads);
  // Of each slot: a channel with what came before it, its result and the weights.
  const int64_t padded = desc.length + desc.taps - 1, floats = padded + desc.length + desc.taps + 1;
  RefImpl impl;
  if (desc.length == 1 && type == DataType::kFloat) {
    impl.run = [desc, rows](KernelContext& context) -> Status {
      context.pool->parallel_for(rows, 2048,
                                 [&](int64_t begin, int64_t end) { convolve_one(desc, context, begin, end); });
      return {};
    };
    return impl;
  }
  impl.scratch_bytes = slots * floats * sizeof(float);
  impl.run = [desc, rows, slots, padded, floats, widen = widen_of(type),
              narrow = narrow_of(type)](KernelContext& context) -> Status {
    context.pool->parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = rows * begin / slots; row < rows * end / slots; ++row) {
        float* const x = reinterpret_cast<float*>(context.scratch) + begin * floats;
        float *const y = x + padded, *const w = y + desc.length, *const bias = w + desc.taps;
        const int64_t before = desc.taps - 1, channel = row % desc.channels;
        std::fill_n(x, before, 0.0F);
        if (context.input<void>(3) != nullptr) widen(context.inputs[3], row * before, 1, before, x);
        widen(context.inputs[0], row * desc.length, 1, desc.length, x + before);
        widen(context.inputs[1], channel * desc.taps, 1, desc.taps, w);
        *bias = 0;
        if (context.input<void>(2) != nullptr) widen(context.inputs[2], channel, 1, 1, bias);
        std::fill_n(y, desc.length, *bias);
        for (int64_t k = 0; k < desc.taps; ++k) {
          for (int64_t t = 0; t < desc.length; ++t) y[t] += w[k] * x[t + k];
        }
        if (desc.silu) {
          for (int64_t t = 0; t < desc.length; ++t) y[t] /= 1 + std::exp(-y[t]);
        }
        narrow(y, desc.length, context.outputs[0], row * desc.length);
        if (context.output<void>(1) != nullptr) narrow(x + desc.length, before, context.outputs[1], row * before);
      }
    });
    return {};
  };
  return impl;
}

// The loops over a state (simd/state.h), one element after the other.
void plain_read(const float* state, const float* x, float scale, int64_t depth, int64_t width, float* y) {
  std::fill_n(y, width, 0.0F);
  for (int64_t d = 0; d < depth; ++d) {
    for (int64_t i = 0; i < width; ++i) y[i] += x[d] * state[d * width + i];
  }
  for (int64_t i = 0; i < width; ++i) y[i] *= scale;
}
void plain_update(float* state, const float* factor, const float* k, const float* v, const float* q, float scale,
                  int64_t depth, int64_t width, float* y) {
  for (int64_t d = 0; d < depth; ++d) {
    for (int64_t i = 0; i < width; ++i) state[d * width + i] = factor[d] * state[d * width + i] + k[d] * v[i];
  }
  plain_read(state, q, scale, depth, width, y);
}
constexpr StateTable kPlainLoops = {&plain_read, &plain_update};

struct LinearAttention {
  LinearAttentionDesc desc;
  StateTable loops;
  Widen widen = nullptr, widen_state = nullptr;
  Narrow narrow = nullptr, narrow_state = nullptr;
  bool state_in_output = false;  // a state of float32 is kept where it goes

  // Floats of a slot: q, k, factors, coefficients; v, result, what the state says of k; the state.
  int64_t floats() const {
    return 4 * desc.depth + 3 * desc.value_depth + (state_in_output ? 0 : desc.depth * desc.value_depth);
  }

  // The factors of the state, by which it is multiplied before row `row` of head `h` is added.
  void read_factors(const KernelContext& context, int64_t row, int64_t h, float* factors) const {
    const int64_t each = desc.decay_width;
    widen(context.inputs[4], (row * desc.kv_heads + h) * each, 1, each, factors);
    for (int64_t d = 0; d < each; ++d) factors[d] = std::exp(factors[d]);
    if (each == 1) std::fill_n(factors + 1, desc.depth - 1, factors[0]);
  }

  // One head of keys of one batch, with the queries that read it.
  void head(const KernelContext& context, int64_t batch, int64_t h, float* memory) const {
    const int64_t depth = desc.depth, width = desc.value_depth, group = desc.heads / desc.kv_heads;
    float *const q = memory, *const k = q + depth, *const factors = k + depth, *const known = factors + depth,
                 *const v = known + depth, *const out = v + width, *const said = out + width;
    const int64_t state_at = (batch * desc.kv_heads + h) * depth * width;
    float* const state = state_in_output ? context.output<float>(1) + state_at : said + width;
    std::fill_n(factors, depth, 1.0F);
    if (context.input<void>(3) != nullptr) {
      widen_state(context.inputs[3], state_at, 1, depth * width, state);
    } else {
      std::fill_n(state, depth * width, 0.0F);
    }
    for (int64_t t = 0; t < desc.positions; ++t) {
      const int64_t row = batch * desc.positions + t;
      widen(context.inputs[1], (row * desc.kv_heads + h) * depth, 1, depth, k);
      widen(context.inputs[2], (row * desc.kv_heads + h) * width, 1, width, v);
      if (desc.decays) read_factors(context, row, h, factors);
      if (desc.corrects) {
        float beta = 0;
        widen(context.inputs[5], row * desc.betas + (desc.betas == 1 ? 0 : h), 1, 1, &beta);
        for (int64_t d = 0; d < depth; ++d) known[d] = factors[d] * k[d];
        loops.read(state, known, 1, depth, width, said);
        for (int64_t i = 0; i < width; ++i) v[i] = beta * (v[i] - said[i]);
      }
      for (int64_t g = 0; g < group; ++g) {
        const int64_t to = row * desc.heads + h * group + g;
        widen(context.inputs[0], to * depth, 1, depth, q);
        if (g == 0) {
          loops.update(state, factors, k, v, q, desc.scale, depth, width, out);
        } else {
          loops.read(state, q, desc.scale, depth, width, out);
        }
        narrow(out, width, context.outputs[0], to * width);
      }
    }
    if (!state_in_output && context.output<void>(1) != nullptr) {
      narrow_state(state, depth * width, context.outputs[1], state_at);
    }
  }
};

Result<RefImpl> make_linear_attention_with(RefNode& node, const StateTable& loops) {
  TENON_TRY_ASSIGN(const LinearAttentionDesc desc, read_linear_attention(*node.node, input_shapes(node)));
  TENON_TRY(same_types(node, 3));
  const DataType type = node.inputs[0].type;
  const DataType state = input_spec(node, 3).present() ? input_spec(node, 3).type : type;
  LinearAttention rule{desc, loops, widen_of(type), widen_of(state), narrow_of(type), narrow_of(state)};
  TENON_UNSUPPORTED_IF(rule.widen_state == nullptr, "LinearAttention has a state of {}.", data_type_name(state));
  TENON_TRY(require_output(node, 0, Shape{desc.batch, desc.positions, desc.heads * desc.value_depth}));
  TENON_TRY(require_output(node, 1, Shape{desc.batch, desc.kv_heads, desc.depth, desc.value_depth}));
  rule.state_in_output = state == DataType::kFloat && output_spec(node, 1).present();
  const int64_t heads = desc.batch * desc.kv_heads;
  const int threads = node.pool != nullptr ? node.pool->threads() : 1;
  const int64_t slots = threads <= 1 ? 1 : std::min<int64_t>(heads, int64_t{4} * threads);
  RefImpl impl;
  impl.scratch_bytes = slots * rule.floats() * sizeof(float);
  impl.run = [rule, heads, slots](KernelContext& context) -> Status {
    context.pool->parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      float* const memory = reinterpret_cast<float*>(context.scratch) + begin * rule.floats();
      for (int64_t i = heads * begin / slots; i < heads * end / slots; ++i)
        rule.head(context, i / rule.desc.kv_heads, i % rule.desc.kv_heads, memory);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_linear_attention(RefNode& node) { return make_linear_attention_with(node, kPlainLoops); }
Result<RefImpl> make_fast_linear_attention(RefNode& node) { return make_linear_attention_with(node, state_table()); }

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_causal_conv>("CausalConvWithState", 27),
    ref_row<kFloatSet, &make_linear_attention>("LinearAttention", 27),
    ref_row<~TypeSet{0}, &make_tensor_scatter>("TensorScatter", 24),
};

}  // namespace

std::span<const KernelEntry> ref_state_rows() { return kRows; }

}  // namespace tenon::cpu::ref

namespace tenon::cpu::nn {

namespace {

class LinearAttentionKernel final : public Kernel {
 public:
  explicit LinearAttentionKernel(std::unique_ptr<Kernel> loops) : loops_(std::move(loops)) {}
  Status run(KernelContext& context) const override { return loops_->run(context); }
  size_t scratch_bytes() const override { return loops_->scratch_bytes(); }
  std::string_view name() const override { return "linear attention"; }

 private:
  const std::unique_ptr<Kernel> loops_;
};

}  // namespace

Status match_linear_attention(const KernelNode& node) { return ref::match_ref<ref::kFloatSet>(node); }
Result<std::unique_ptr<Kernel>> create_linear_attention(const KernelNode& node) {
  TENON_TRY_ASSIGN(std::unique_ptr<Kernel> loops, ref::wrap(node, &ref::make_fast_linear_attention));
  return std::unique_ptr<Kernel>(std::make_unique<LinearAttentionKernel>(std::move(loops)));
}

}  // namespace tenon::cpu::nn
