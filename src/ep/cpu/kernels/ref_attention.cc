// Attention and PackedAttention of domain tenon (docs/internal-operators.md).
#include <algorithm>

#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

namespace {

struct Plan {
  int64_t batch = 0, heads = 1, queries = 0, keys = 0;
  int64_t head = 0, value_head = 0;         // elements of one head
  int64_t q_row = 0, k_row = 0, v_row = 0;  // elements between tokens
  double scale = 1;
  Strides mask{};  // over [B, H, T, S]
};

void attend(const Plan& plan, const float* q, const float* k, const float* v, const float* mask, float* y,
            double* scores) {
  for (int64_t b = 0; b < plan.batch; ++b) {
    for (int64_t h = 0; h < plan.heads; ++h) {
      for (int64_t t = 0; t < plan.queries; ++t) {
        const float* query = q + (b * plan.queries + t) * plan.q_row + h * plan.head;
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t s = 0; s < plan.keys; ++s) {
          const float* key = k + (b * plan.keys + s) * plan.k_row + h * plan.head;
          double score = 0;
          for (int64_t i = 0; i < plan.head; ++i) score += static_cast<double>(query[i]) * static_cast<double>(key[i]);
          score *= plan.scale;
          if (mask != nullptr) {
            score +=
                static_cast<double>(mask[b * plan.mask[0] + h * plan.mask[1] + t * plan.mask[2] + s * plan.mask[3]]);
          }
          scores[s] = score;
          most = std::max(most, score);
        }
        for (int64_t s = 0; s < plan.keys; ++s) sum += scores[s] = std::exp(scores[s] - most);
        float* to = y + ((b * plan.queries + t) * plan.heads + h) * plan.value_head;
        for (int64_t i = 0; i < plan.value_head; ++i) {
          double value = 0;
          for (int64_t s = 0; s < plan.keys; ++s) {
            value += scores[s] * static_cast<double>(v[(b * plan.keys + s) * plan.v_row + h * plan.value_head + i]);
          }
          to[i] = plan.keys == 0 ? 0 : static_cast<float>(value / sum);
        }
      }
    }
  }
}

// Checks the mask, where there is one, and the output.
Result<RefImpl> finish(RefNode& node, Plan plan, size_t mask_input, bool packed) {
  plan.scale = static_cast<double>(node.node->float_or("scale", 1));
  const TensorSpec& mask = input_spec(node, mask_input);
  if (mask.present()) {
    TENON_TRY_ASSIGN(plan.mask, broadcast_strides(mask.shape, Shape{plan.batch, plan.heads, plan.queries, plan.keys}));
  }
  for (const TensorSpec& spec : node.inputs) {
    TENON_UNSUPPORTED_IF(spec.present() && spec.type != DataType::kFloat, "{} is computed on float32, not {}.",
                         node.node->op_type, data_type_name(spec.type));
  }
  TENON_TRY(require_output(node, 0, Shape{plan.batch, plan.queries, plan.heads * plan.value_head}));
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(plan.keys) * sizeof(double);
  impl.run = [plan, packed, mask_input](KernelContext& context) -> Status {
    const auto* q = context.input<float>(0);
    const int64_t third = plan.heads * plan.head;
    attend(plan, q, packed ? q + third : context.input<float>(1), packed ? q + 2 * third : context.input<float>(2),
           context.input<float>(mask_input), context.output<float>(0), reinterpret_cast<double*>(context.scratch));
    return {};
  };
  return impl;
}

Result<RefImpl> make_attention(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  const Shape &q = node.inputs[0].shape, &k = node.inputs[1].shape, &v = node.inputs[2].shape;
  Plan plan;
  plan.heads = node.node->int_or("num_heads", 1);
  const bool fits = q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && plan.heads >= 1 && q[2] == k[2] &&
                    q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && q[2] % plan.heads == 0 && v[2] % plan.heads == 0;
  TENON_INVALID_IF(!fits, "Attention has Q {}, K {} and V {} for {} heads.", q.to_string(), k.to_string(),
                   v.to_string(), plan.heads);
  plan.batch = q[0];
  plan.queries = q[1];
  plan.keys = k[1];
  plan.head = q[2] / plan.heads;
  plan.value_head = v[2] / plan.heads;
  plan.q_row = q[2];
  plan.k_row = k[2];
  plan.v_row = v[2];
  return finish(node, plan, 3, false);
}

Result<RefImpl> make_packed_attention(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  Plan plan;
  plan.heads = node.node->int_or("num_heads", 1);
  TENON_INVALID_IF(x.rank() != 3 || plan.heads < 1 || x[2] % (3 * plan.heads) != 0,
                   "PackedAttention has QKV {} for {} heads.", x.to_string(), plan.heads);
  plan.batch = x[0];
  plan.queries = plan.keys = x[1];
  plan.head = plan.value_head = x[2] / 3 / plan.heads;
  plan.q_row = plan.k_row = plan.v_row = x[2];
  return finish(node, plan, 1, true);
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make_attention>("Attention", 1, kAnyVersion, "tenon"),
    ref_row<kFloat32Set, &make_packed_attention>("PackedAttention", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_attention_rows() { return kRows; }

}  // namespace tenon::cpu::ref
