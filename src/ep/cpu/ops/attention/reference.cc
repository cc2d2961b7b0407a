// Attention and PackedAttention of domain tenon (docs/reference/internal-operators.md).
#include <algorithm>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/attention.h"

namespace tenon::cpu::ref {

namespace {

void attend(const AttentionDesc& desc, const float* q, const float* k, const float* v, const float* mask, float* y,
            double* scores) {
  for (int64_t b = 0; b < desc.batch; ++b) {
    for (int64_t h = 0; h < desc.heads; ++h) {
      for (int64_t t = 0; t < desc.queries; ++t) {
        const float* query = q + (b * desc.queries + t) * desc.q_row + h * desc.depth;
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t s = 0; s < desc.keys; ++s) {
          const float* key = k + (b * desc.keys + s) * desc.k_row + h * desc.depth;
          double score = 0;
          for (int64_t i = 0; i < desc.depth; ++i) score += static_cast<double>(query[i]) * static_cast<double>(key[i]);
          score *= static_cast<double>(desc.scale);
          if (mask != nullptr) {
            score += static_cast<double>(mask[b * desc.mask_strides[0] + h * desc.mask_strides[1] +
                                              t * desc.mask_strides[2] + s * desc.mask_strides[3]]);
          }
          scores[s] = score;
          most = std::max(most, score);
        }
        for (int64_t s = 0; s < desc.keys; ++s) sum += scores[s] = std::exp(scores[s] - most);
        const bool zero = desc.keys == 0 || (desc.guarded && !(sum > 0));
        float* to = y + ((b * desc.queries + t) * desc.heads + h) * desc.value_depth;
        for (int64_t i = 0; i < desc.value_depth; ++i) {
          double value = 0;
          for (int64_t s = 0; s < desc.keys; ++s) {
            value += scores[s] * static_cast<double>(v[(b * desc.keys + s) * desc.v_row + h * desc.value_depth + i]);
          }
          to[i] = zero ? 0 : static_cast<float>(value / sum);
        }
      }
    }
  }
}

Result<RefImpl> make_attention(RefNode& node) {
  TENON_TRY_ASSIGN(const AttentionDesc desc, read_attention(*node.node, input_shapes(node)));
  for (const TensorSpec& spec : node.inputs) {
    TENON_UNSUPPORTED_IF(spec.present() && spec.type != DataType::kFloat, "{} is computed on float32, not {}.",
                         node.node->op_type, data_type_name(spec.type));
  }
  TENON_TRY(require_output(node, 0, desc.y));
  RefImpl impl;
  impl.scratch_bytes = desc.keys * sizeof(double);
  impl.run = [desc](KernelContext& context) -> Status {
    attend(desc, context.input<float>(desc.q), context.input<float>(desc.k) + desc.k_offset,
           context.input<float>(desc.v) + desc.v_offset, context.input<float>(desc.mask), context.output<float>(0),
           reinterpret_cast<double*>(context.scratch));
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make_attention>("Attention", 1, kAnyVersion, "tenon"),
    ref_row<kFloat32Set, &make_attention>("PackedAttention", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_attention_rows() { return kRows; }

}  // namespace tenon::cpu::ref
