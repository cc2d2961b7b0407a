// tenon.Attention and tenon.PackedAttention: heads are read by stride, scores live on the tile just computed.
#include "ep/cpu/kernels/nn_attention.h"

#include <algorithm>
#include <cmath>

#include "ep/cpu/kernels/nn_common.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/norm.h"

namespace tenon::cpu::nn {

namespace {

// Scores of one row tile should stay in L1.
constexpr int64_t kScoreFloats = 4096;

struct AttentionProblem {
  int64_t batch = 0, heads = 0;
  int64_t queries = 0, keys = 0;                     // T and S
  int64_t depth = 0, value_depth = 0;                // D and E, of one head
  int64_t q_row = 0, k_row = 0, v_row = 0;           // floats from one position to the next
  int64_t q_offset = 0, k_offset = 0, v_offset = 0;  // of the first head within a row
  size_t k_input = 1, v_input = 2, mask_input = 3;
  bool masked = false;
  int64_t mask_stride[4] = {};  // of the mask over [B,H,T,S], 0 where it broadcasts
  float scale = 1;
};

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const AttentionProblem& problem, int threads) : p_(problem) {
    rows_ = std::clamp(kScoreFloats / std::max<int64_t>(1, p_.keys) / kGemmRows * kGemmRows, kGemmRows, 4 * kGemmRows);
    tiles_ = (p_.queries + rows_ - 1) / rows_;
    slots_ = threads <= 1 ? 1 : std::min<int64_t>(p_.batch * p_.heads * tiles_, int64_t{8} * threads);
    k_bytes_ = aligned_bytes(static_cast<size_t>(gemm_packed_floats(p_.depth, p_.keys)) * sizeof(float));
    v_bytes_ = aligned_bytes(static_cast<size_t>(gemm_packed_floats(p_.keys, p_.value_depth)) * sizeof(float));
    score_bytes_ = aligned_bytes(static_cast<size_t>(rows_ * p_.keys) * sizeof(float));
  }

  Status run(KernelContext& context) const override {
    const int64_t heads = p_.batch * p_.heads;
    std::byte* const scores = context.scratch + static_cast<size_t>(heads) * (k_bytes_ + v_bytes_);
    const bool alone = slots_ == 1;
    if (!alone)
      context.pool->parallel_for(heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t head = begin; head < end; ++head) pack(context, head);
      });
    // A slot is a task with scores of its own; it takes every slots_-th part of the tiles, in order.
    const int64_t tiles = heads * tiles_;
    context.pool->parallel_for(slots_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        auto* const own = reinterpret_cast<float*>(scores + static_cast<size_t>(slot) * score_bytes_);
        for (int64_t tile = tiles * slot / slots_; tile < tiles * (slot + 1) / slots_; ++tile) {
          // On one thread a head is packed just before its use: K and V then come from L1.
          if (alone && tile % tiles_ == 0) pack(context, tile / tiles_);
          attend(context, tile / tiles_, tile % tiles_ * rows_, own);
        }
      }
    });
    return {};
  }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(p_.batch * p_.heads) * (k_bytes_ + v_bytes_) +
           static_cast<size_t>(slots_) * score_bytes_;
  }
  std::string_view name() const override { return "attention f32"; }

 private:
  float* packed_k(const KernelContext& context, int64_t head) const {
    return reinterpret_cast<float*>(context.scratch + static_cast<size_t>(head) * (k_bytes_ + v_bytes_));
  }
  float* packed_v(const KernelContext& context, int64_t head) const {
    return reinterpret_cast<float*>(context.scratch + static_cast<size_t>(head) * (k_bytes_ + v_bytes_) + k_bytes_);
  }

  void pack(const KernelContext& context, int64_t head) const {
    const int64_t b = head / p_.heads, h = head % p_.heads;
    const float* const k = context.input<float>(p_.k_input) + b * p_.keys * p_.k_row + p_.k_offset + h * p_.depth;
    const float* const v = context.input<float>(p_.v_input) + b * p_.keys * p_.v_row + p_.v_offset + h * p_.value_depth;
    gemm_table().pack(k, 1, p_.k_row, p_.depth, p_.keys, 0, gemm_panels(p_.keys), packed_k(context, head));
    gemm_table().pack(v, p_.v_row, 1, p_.keys, p_.value_depth, 0, gemm_panels(p_.value_depth), packed_v(context, head));
  }

  void attend(const KernelContext& context, int64_t head, int64_t row, float* scores) const {
    const int64_t b = head / p_.heads, h = head % p_.heads;
    const int64_t rows = std::min(rows_, p_.queries - row);
    gemm_table().run({.a = context.input<float>(0) + (b * p_.queries + row) * p_.q_row + p_.q_offset + h * p_.depth,
                      .lda = p_.q_row,
                      .b = packed_k(context, head),
                      .panel_stride = p_.depth * kGemmPanel,
                      .c = scores,
                      .ldc = p_.keys,
                      .m = rows,
                      .n = p_.keys,
                      .k = p_.depth,
                      .alpha = p_.scale});
    const float* mask = nullptr;
    if (p_.masked)
      mask =
          context.input<float>(p_.mask_input) + b * p_.mask_stride[0] + h * p_.mask_stride[1] + row * p_.mask_stride[2];
    float factors[4 * kGemmRows];
    for (int64_t i = 0; i < rows; ++i) {
      const float* const row_mask = mask ? mask + i * p_.mask_stride[2] : nullptr;
      const float sum = norm_table().exponentials(scores + i * p_.keys, row_mask, p_.mask_stride[3], p_.keys);
      // A row that is masked with -infinity throughout becomes NaN, as Softmax makes it where it stands alone.
      factors[i] = p_.keys == 0 ? 0 : 1 / sum;
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

  const AttentionProblem p_;
  int64_t rows_ = 0, tiles_ = 0, slots_ = 1;
  size_t k_bytes_ = 0, v_bytes_ = 0, score_bytes_ = 0;
};

Status fill_mask(const KernelNode& node, size_t input, AttentionProblem& p) {
  const TensorSpec& mask = input_spec(node, input);
  if (!mask.present()) return {};
  const int64_t full[4] = {p.batch, p.heads, p.queries, p.keys};
  const int rank = mask.shape.rank();
  TENON_INVALID_IF(rank > 4, "The mask of shape {} has more than 4 dimensions.", mask.shape.to_string());
  p.masked = true;
  p.mask_input = input;
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const int axis = 4 - rank + i;
    const int64_t dim = mask.shape[i];
    TENON_INVALID_IF(dim != 1 && dim != full[axis], "The mask of shape {} does not broadcast to [{},{},{},{}].",
                     mask.shape.to_string(), full[0], full[1], full[2], full[3]);
    p.mask_stride[axis] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  return {};
}

Result<std::unique_ptr<Kernel>> make_attention(const KernelNode& node, const AttentionProblem& problem) {
  const int64_t count = problem.batch * problem.queries * problem.heads * problem.value_depth;
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != count,
                   "The output of shape {} does not have the {} elements of the attention.",
                   output_spec(node, 0).shape.to_string(), count);
  TENON_UNSUPPORTED_IF(problem.keys == 0, "There are no keys to attend to.");
  const int threads = node.pool != nullptr ? node.pool->threads() : 1;
  return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel>(problem, threads));
}

Result<int64_t> head_depth(int64_t hidden, int64_t heads) {
  TENON_INVALID_IF(heads <= 0 || hidden % heads != 0, "{} values do not divide into {} heads.", hidden, heads);
  return hidden / heads;
}

}  // namespace

Status match_attention(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_attention(const KernelNode& node) {
  const Shape &q = input_spec(node, 0).shape, &k = input_spec(node, 1).shape, &v = input_spec(node, 2).shape;
  TENON_INVALID_IF(q.rank() != 3 || k.rank() != 3 || v.rank() != 3,
                   "Attention takes [B,T,H*D] tensors, not shapes {}, {} and {}.", q.to_string(), k.to_string(),
                   v.to_string());
  AttentionProblem p;
  p.batch = q[0];
  p.queries = q[1];
  p.keys = k[1];
  p.heads = node.node->int_or("num_heads", 0);
  TENON_TRY_ASSIGN(p.depth, head_depth(q[2], p.heads));
  TENON_TRY_ASSIGN(p.value_depth, head_depth(v[2], p.heads));
  TENON_INVALID_IF(k[0] != p.batch || v[0] != p.batch || v[1] != p.keys || k[2] != q[2],
                   "The shapes {}, {} and {} of Q, K and V do not match.", q.to_string(), k.to_string(), v.to_string());
  p.q_row = q[2];
  p.k_row = k[2];
  p.v_row = v[2];
  p.scale = node.node->float_or("scale", 1 / std::sqrt(static_cast<float>(std::max<int64_t>(1, p.depth))));
  TENON_TRY(fill_mask(node, 3, p));
  return make_attention(node, p);
}

Result<std::unique_ptr<Kernel>> create_packed_attention(const KernelNode& node) {
  const Shape& x = input_spec(node, 0).shape;
  TENON_INVALID_IF(x.rank() != 3 || x[2] % 3 != 0, "PackedAttention takes [B,T,3*H*D], not shape {}.", x.to_string());
  AttentionProblem p;
  p.batch = x[0];
  p.queries = p.keys = x[1];
  p.heads = node.node->int_or("num_heads", 0);
  TENON_TRY_ASSIGN(p.depth, head_depth(x[2] / 3, p.heads));
  p.value_depth = p.depth;
  p.q_row = p.k_row = p.v_row = x[2];
  p.k_offset = x[2] / 3;
  p.v_offset = x[2] / 3 * 2;
  p.k_input = p.v_input = 0;
  p.scale = node.node->float_or("scale", 1 / std::sqrt(static_cast<float>(std::max<int64_t>(1, p.depth))));
  TENON_TRY(fill_mask(node, 1, p));
  return make_attention(node, p);
}

}  // namespace tenon::cpu::nn
