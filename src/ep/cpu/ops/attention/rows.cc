// tenon.Attention and tenon.PackedAttention: heads are read by stride, scores live on the tile just computed.
#include "ep/cpu/ops/attention/rows.h"

#include <algorithm>
#include <cmath>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/norm.h"
#include "ops/attention.h"

namespace tenon::cpu::nn {

namespace {

// Scores of one row tile should stay in L1.
constexpr int64_t kScoreFloats = 4096;

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const AttentionDesc& desc, int threads) : p_(desc) {
    rows_ = std::clamp(kScoreFloats / std::max<int64_t>(1, p_.keys) / kGemmRows * kGemmRows, kGemmRows, 4 * kGemmRows);
    tiles_ = (p_.queries + rows_ - 1) / rows_;
    slots_ = threads <= 1 ? 1 : std::min<int64_t>(p_.batch * p_.heads * tiles_, int64_t{8} * threads);
    k_bytes_ = aligned_bytes(gemm_packed_floats(p_.depth, p_.keys) * sizeof(float));
    v_bytes_ = aligned_bytes(gemm_packed_floats(p_.keys, p_.value_depth) * sizeof(float));
    score_bytes_ = aligned_bytes(rows_ * p_.keys * sizeof(float));
  }

  Status run(KernelContext& context) const override {
    const int64_t heads = p_.batch * p_.heads;
    std::byte* const scores = context.scratch + heads * (k_bytes_ + v_bytes_);
    const bool alone = slots_ == 1;
    if (!alone)
      context.pool->parallel_for(heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t head = begin; head < end; ++head) pack(context, head);
      });
    // A slot is a task with scores of its own; it takes every slots_-th part of the tiles, in order.
    const int64_t tiles = heads * tiles_;
    context.pool->parallel_for(slots_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        auto* const own = reinterpret_cast<float*>(scores + slot * score_bytes_);
        for (int64_t tile = tiles * slot / slots_; tile < tiles * (slot + 1) / slots_; ++tile) {
          // On one thread a head is packed just before its use: K and V then come from L1.
          if (alone && tile % tiles_ == 0) pack(context, tile / tiles_);
          attend(context, tile / tiles_, tile % tiles_ * rows_, own);
        }
      }
    });
    return {};
  }

  size_t scratch_bytes() const override { return p_.batch * p_.heads * (k_bytes_ + v_bytes_) + slots_ * score_bytes_; }
  std::string_view name() const override { return "attention f32"; }

 private:
  float* packed_k(const KernelContext& context, int64_t head) const {
    return reinterpret_cast<float*>(context.scratch + head * (k_bytes_ + v_bytes_));
  }
  float* packed_v(const KernelContext& context, int64_t head) const {
    return reinterpret_cast<float*>(context.scratch + head * (k_bytes_ + v_bytes_) + k_bytes_);
  }

  void pack(const KernelContext& context, int64_t head) const {
    const int64_t b = head / p_.heads, h = head % p_.heads;
    const float* const k = context.input<float>(p_.k) + b * p_.keys * p_.k_row + p_.k_offset + h * p_.depth;
    const float* const v = context.input<float>(p_.v) + b * p_.keys * p_.v_row + p_.v_offset + h * p_.value_depth;
    gemm_table().pack(k, 1, p_.k_row, p_.depth, p_.keys, 0, gemm_panels(p_.keys), packed_k(context, head));
    gemm_table().pack(v, p_.v_row, 1, p_.keys, p_.value_depth, 0, gemm_panels(p_.value_depth), packed_v(context, head));
  }

  void attend(const KernelContext& context, int64_t head, int64_t row, float* scores) const {
    const int64_t b = head / p_.heads, h = head % p_.heads;
    const int64_t rows = std::min(rows_, p_.queries - row);
    gemm_table().run({.a = context.input<float>(p_.q) + (b * p_.queries + row) * p_.q_row + h * p_.depth,
                      .lda = p_.q_row,
                      .b = packed_k(context, head),
                      .panel_stride = p_.depth * kGemmPanel,
                      .c = scores,
                      .ldc = p_.keys,
                      .m = rows,
                      .n = p_.keys,
                      .k = p_.depth,
                      .alpha = p_.scale});
    const auto& steps = p_.mask_strides;
    const float* mask = context.input<float>(p_.mask);
    if (mask != nullptr) mask += b * steps[0] + h * steps[1] + row * steps[2];
    float factors[4 * kGemmRows];
    for (int64_t i = 0; i < rows; ++i) {
      const float* const row_mask = mask ? mask + i * steps[2] : nullptr;
      const float sum = norm_table().exponentials(scores + i * p_.keys, row_mask, steps[3], p_.keys);
      // A row that is masked with -infinity throughout becomes NaN, as Softmax makes it where it stands alone.
      factors[i] = p_.keys == 0 ? 0 : 1 / sum;
      if (p_.guarded && !(sum > 0)) {
        std::fill_n(scores + i * p_.keys, p_.keys, 0.0F);
        factors[i] = 0;
      }
    }
    float* const y = context.output<float>(0) + ((b * p_.queries + row) * p_.heads + h) * p_.value_depth;
    const int64_t y_row = p_.heads * p_.value_depth;
    gemm_table().run({.a = scores,
                      .lda = p_.keys,
                      .b = packed_v(context, head),
                      .panel_stride = p_.keys * kGemmPanel,
                      .c = y,
                      .ldc = y_row,
                      .m = rows,
                      .n = p_.value_depth,
                      .k = p_.keys});
    norm_table().scale_rows(y, y_row, rows, p_.value_depth, factors);
  }

  const AttentionDesc p_;
  int64_t rows_ = 0, tiles_ = 0, slots_ = 1;
  size_t k_bytes_ = 0, v_bytes_ = 0, score_bytes_ = 0;
};

}  // namespace

Status match_attention(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_attention(const KernelNode& node) {
  TENON_TRY_ASSIGN(const AttentionDesc desc, read_attention(*node.node, input_shapes(node)));
  TENON_INVALID_IF(!(output_spec(node, 0).shape == desc.y), "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  TENON_UNSUPPORTED_IF(desc.keys == 0, "There are no keys to attend to.");
  const int threads = node.pool != nullptr ? node.pool->threads() : 1;
  return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel>(desc, threads));
}

}  // namespace tenon::cpu::nn
