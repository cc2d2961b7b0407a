// Attention on f32: heads are read by stride, keys and values by blocks that stay in the cache, scores live on the tile
// just computed. A query's result is the weighted sum over the blocks so far, scaled again when a larger score comes.
#include "ep/cpu/ops/attention/rows.h"

#include <algorithm>
#include <cmath>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/attention/key_cache.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/attention.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/norm.h"
#include "ops/attention.h"

namespace tenon::cpu::nn {

namespace {

// Scores of one row tile should stay in L1.
constexpr int64_t kScoreFloats = 4096;
constexpr int64_t kMostKeys = 512;  // of a block
// Up to so many rows share a block of keys that is read where it lies; for more it is packed.
constexpr int64_t kFewRows = 8;
constexpr int64_t kFewRowsKeys = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const AttentionDesc& desc, KeyCacheWriter cache, DataType mask_type, int threads)
      : p_(desc), cache_(cache), bool_mask_(mask_type == DataType::kBool) {
    group_ = p_.heads / std::max<int64_t>(1, p_.kv_heads);
    by_heads_ = p_.queries == 1;
    rows_ = by_heads_ ? group_ : p_.queries;
    units_ = by_heads_ ? 1 : group_;
    few_ = rows_ * units_ <= kFewRows;
    const int64_t most_keys = std::max<int64_t>(1, p_.total_keys());
    block_ = std::min(most_keys, few_ ? kFewRowsKeys : kMostKeys);
    // A part of a task's rows that works on one tile of scores.
    tile_ = std::clamp(kScoreFloats / block_ / kGemmRows * kGemmRows, kGemmRows, 4 * kGemmRows);
    span_ = std::max<int64_t>(1, rows_);
    const int64_t pairs = p_.batch * p_.kv_heads;
    if (threads > 1 && pairs < int64_t{4} * threads) {
      const int64_t parts = std::max<int64_t>(1, 4 * threads / std::max<int64_t>(1, pairs));
      const int64_t even = (rows_ + parts - 1) / parts;
      span_ = std::clamp((even + tile_ - 1) / tile_ * tile_, std::min(span_, 2 * tile_), span_);
    }
    spans_ = (rows_ + span_ - 1) / span_;
    tasks_ = pairs * spans_;
    slots_ = threads <= 1 ? 1 : std::min<int64_t>(tasks_, int64_t{8} * threads);
    k_bytes_ = few_ ? 0 : aligned_bytes(gemm_packed_floats(p_.depth, block_) * sizeof(float));
    v_bytes_ = few_ ? 0 : aligned_bytes(gemm_packed_floats(block_, p_.value_depth) * sizeof(float));
    score_bytes_ = aligned_bytes(tile_ * block_ * sizeof(float));
    state_bytes_ = aligned_bytes(2 * units_ * span_ * sizeof(float));
    line_bytes_ = bool_mask_ ? aligned_bytes(block_ * sizeof(float)) : 0;
    part_bytes_ = few_ ? 0 : aligned_bytes(tile_ * p_.value_depth * sizeof(float));
    slot_bytes_ = k_bytes_ + v_bytes_ + score_bytes_ + state_bytes_ + line_bytes_ + part_bytes_;
  }

  Status run(KernelContext& context) const override {
    TENON_TRY_ASSIGN(const KeyCacheWriter::Run keys, cache_.begin(context, context.scratch));
    if (KeyCacheWriter::writes(keys)) {
      context.pool->parallel_for(p_.batch * p_.kv_heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) cache_.write(context, keys, i / p_.kv_heads, i % p_.kv_heads);
      });
    }
    std::byte* const slots = context.scratch + cache_.scratch_bytes();
    // A slot is a range of tasks with memory of its own.
    context.pool->parallel_for(slots_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        for (int64_t task = tasks_ * slot / slots_; task < tasks_ * (slot + 1) / slots_; ++task) {
          attend(context, keys, task, slots + slot * slot_bytes_);
        }
      }
    });
    return {};
  }

  size_t scratch_bytes() const override { return cache_.scratch_bytes() + slots_ * slot_bytes_; }
  std::string_view name() const override { return few_ ? "attention few rows f32" : "attention f32"; }

 private:
  // The rows of one task: queries of a batch that read the same keys and values.
  struct Task {
    const KernelContext& context;
    int64_t batch, kv_head, first_row, rows;
    int64_t keys, before, offset;  // keys in all, and those in the past
    float *packed_k, *packed_v, *scores, *tops, *sums, *line, *sums_of_block;

    float& top(int64_t unit, int64_t row) const { return tops[unit * rows + row]; }
    float& sum(int64_t unit, int64_t row) const { return sums[unit * rows + row]; }
  };
  // Keys [first, last), and where the rows of the first one lie.
  struct Block {
    int64_t first, last;
    const float *k, *v;
    int64_t k_row, v_row;
  };

  int64_t query_of(const Task& task, int64_t row) const { return by_heads_ ? 0 : task.first_row + row; }
  int64_t head_of(const Task& task, int64_t unit, int64_t row) const {
    return task.kv_head * group_ + (by_heads_ ? task.first_row + row : unit);
  }
  KeyRange range(const Task& task, int64_t row) const {
    return key_range(p_, query_of(task, row), task.offset, task.keys);
  }
  // The keys that any of rows [first, last) reads.
  KeyRange range(const Task& task, int64_t first, int64_t last) const {
    KeyRange all = range(task, first);
    const KeyRange end = range(task, last - 1);  // ranges move to later keys with the rows
    all.last = std::max(all.last, end.last);
    return all;
  }
  const float* q_row(const Task& task, int64_t unit, int64_t row) const {
    return task.context.input<float>(p_.q) + task.batch * p_.q_at.batch + head_of(task, unit, row) * p_.q_at.head +
           query_of(task, row) * p_.q_at.row;
  }
  float* y_row(const Task& task, int64_t unit, int64_t row) const {
    float* const y = static_cast<float*>(task.context.outputs[0]);
    return y + task.batch * p_.y_at.batch + head_of(task, unit, row) * p_.y_at.head + query_of(task, row) * p_.y_at.row;
  }
  int64_t q_step() const { return by_heads_ ? p_.q_at.head : p_.q_at.row; }
  int64_t y_step() const { return by_heads_ ? p_.y_at.head : p_.y_at.row; }

  void attend(const KernelContext& context, const KeyCacheWriter::Run& run, int64_t number, std::byte* memory) const {
    const int64_t pair = number / spans_, batch = pair / p_.kv_heads, head = pair % p_.kv_heads;
    const int64_t first_row = number % spans_ * span_;
    Task task{.context = context,
              .batch = batch,
              .kv_head = head,
              .first_row = first_row,
              .rows = std::min(span_, rows_ - first_row),
              .keys = cache_.keys(context, run, batch),
              .before = cache_.before(context, run, batch),
              .offset = cache_.offset(context, run, batch)};
    const auto take = [&](size_t bytes) {
      auto* const floats = reinterpret_cast<float*>(memory);
      memory += bytes;
      return floats;
    };
    task.packed_k = take(k_bytes_), task.packed_v = take(v_bytes_);
    task.scores = take(score_bytes_);
    task.tops = take(state_bytes_), task.sums = task.tops + units_ * span_;
    task.line = take(line_bytes_);
    task.sums_of_block = take(part_bytes_);
    std::fill_n(task.tops, units_ * task.rows, -kInfinity);
    std::fill_n(task.sums, units_ * task.rows, -1.0F);  // less than 0: nothing was added to y yet
    const KeyRange all = range(task, 0, task.rows);
    const auto part = [&](int64_t begin, int64_t end, const KeyCacheWriter::Rows& k, const KeyCacheWriter::Rows& v) {
      const int64_t from = begin + std::max<int64_t>(0, all.first - begin) / block_ * block_;
      for (int64_t first = from; first < std::min(end, all.last); first += block_) {
        const auto row = [&](const KeyCacheWriter::Rows& rows) {
          return reinterpret_cast<const float*>(rows.data) + batch * rows.at.batch + head * rows.at.head +
                 (first - begin) * rows.at.row;
        };
        const Block block{first, std::min({first + block_, end, all.last}), row(k), row(v), k.at.row, v.at.row};
        if (!few_) pack(task, block);
        for (int64_t unit = 0; unit < units_; ++unit) {
          for (int64_t row = 0; row < task.rows; row += tile_) tile(task, block, unit, row);
        }
      }
    };
    if (task.before > 0) part(0, task.before, run.past_k, run.past_v);
    part(task.before, task.keys, run.k, run.v);
    for (int64_t unit = 0; unit < units_; ++unit) finish(task, unit);
  }

  void pack(const Task& task, Block block) const {
    const int64_t keys = block.last - block.first;
    gemm_table().pack(block.k, 1, block.k_row, p_.depth, keys, 0, gemm_panels(keys), task.packed_k);
    gemm_table().pack(block.v, block.v_row, 1, keys, p_.value_depth, 0, gemm_panels(p_.value_depth), task.packed_v);
  }

  // Adds a block's part of rows [row, row + tile_) to Y.
  void tile(const Task& task, Block block, int64_t unit, int64_t row) const {
    const int64_t rows = std::min(tile_, task.rows - row);
    const KeyRange wanted = range(task, row, row + rows);
    const int64_t last = std::min(wanted.last, block.last);
    const int64_t first = block.first + std::max<int64_t>(0, wanted.first - block.first) / kGemmPanel * kGemmPanel;
    const int64_t keys = last - first;
    if (keys <= 0) return;
    products(task, block, unit, row, rows, first, keys);
    float factors[4 * kGemmRows];
    const bool begun = !(task.sum(unit, row) < 0);
    for (int64_t i = 0; i < rows; ++i) {
      factors[i] = weigh(task, unit, row + i, first, keys, task.scores + i * block_);
    }
    float* const y = y_row(task, unit, row);
    if (few_) {
      for (int64_t i = 0; i < rows; ++i) {
        attention_table().weighted_sum(task.scores + i * block_, block.v + (first - block.first) * block.v_row,
                                       block.v_row, keys, p_.value_depth, begun ? factors[i] : 0, y + i * y_step());
      }
      return;
    }
    gemm_table().run({.a = task.scores,
                      .lda = block_,
                      .b = task.packed_v + (first - block.first) * kGemmPanel,
                      .panel_stride = (block.last - block.first) * kGemmPanel,
                      .c = begun ? task.sums_of_block : y,
                      .ldc = begun ? p_.value_depth : y_step(),
                      .m = rows,
                      .n = p_.value_depth,
                      .k = keys});
    if (!begun) return;
    constexpr float kOnce = 1;
    for (int64_t i = 0; i < rows; ++i) {
      attention_table().weighted_sum(&kOnce, task.sums_of_block + i * p_.value_depth, 0, 1, p_.value_depth, factors[i],
                                     y + i * y_step());
    }
  }

  // Scores of `rows` rows with keys [first, first + keys).
  void products(const Task& task, Block block, int64_t unit, int64_t row, int64_t rows, int64_t first,
                int64_t keys) const {
    const float* const q = q_row(task, unit, row);
    const bool capped = p_.softcap > 0;
    const auto scale = static_cast<float>(p_.scale), factor = capped ? scale / p_.softcap : scale;
    if (few_) {
      const auto tanh = eltwise_table().unary[static_cast<int>(Unary::kTanh)];
      for (int64_t i = 0; i < rows; ++i) {
        float* const scores = task.scores + i * block_;
        attention_table().scores(q + i * q_step(), block.k + (first - block.first) * block.k_row, block.k_row, keys,
                                 p_.depth, factor, scores);
        if (capped) tanh(scores, scores, keys, 0, 0);
      }
    } else {
      gemm_table().run({.a = q,
                        .lda = q_step(),
                        .b = task.packed_k + (first - block.first) / kGemmPanel * p_.depth * kGemmPanel,
                        .panel_stride = p_.depth * kGemmPanel,
                        .c = task.scores,
                        .ldc = block_,
                        .m = rows,
                        .n = keys,
                        .k = p_.depth,
                        .alpha = factor,
                        .epilogue = {.activation = capped ? Activation::kTanh : Activation::kNone}});
    }
    if (!capped) return;
    float caps[4 * kGemmRows];
    std::fill_n(caps, rows, p_.softcap);
    norm_table().scale_rows(task.scores, block_, rows, keys, caps);
  }

  // A row's scores with keys [first, first + keys) become weights; the factor of what Y had before.
  float weigh(const Task& task, int64_t unit, int64_t row, int64_t first, int64_t keys, float* scores) const {
    const KeyRange own = range(task, row);
    const int64_t begin = std::max<int64_t>(0, own.first - first), end = std::min(own.last - first, keys);
    float &top = task.top(unit, row), &sum = task.sum(unit, row);
    if (begin >= end) {
      std::fill_n(scores, keys, 0.0F);
      sum = std::max(sum, 0.0F);
      return 1;
    }
    std::fill_n(scores, begin, 0.0F);
    std::fill_n(scores + end, keys - end, 0.0F);
    const auto& steps = p_.mask_strides;
    const int64_t mask_at = task.batch * steps[0] + head_of(task, unit, row) * steps[1] +
                            query_of(task, row) * steps[2] + (first + begin) * steps[3];
    const float* mask = nullptr;
    if (bool_mask_) {
      const auto* const allowed = task.context.input<uint8_t>(p_.mask) + mask_at;
      for (int64_t s = 0; s < end - begin; ++s) task.line[s] = allowed[s * steps[3]] != 0 ? 0 : -kInfinity;
      mask = task.line;
    } else if (p_.mask != kNoInput) {
      mask = task.context.input<float>(p_.mask) + mask_at;
    }
    const float before = top;
    const float added = norm_table().exponentials(scores + begin, mask, bool_mask_ ? 1 : steps[3], end - begin, &top);
    if (sum < 0) {
      sum = added;
      return 1;
    }
    const float factor = before == top ? 1 : std::exp(before - top);
    sum = sum * factor + added;
    return factor;
  }

  // Divides the rows by their sums of weights.
  void finish(const Task& task, int64_t unit) const {
    float* const y = y_row(task, unit, 0);
    for (int64_t row = 0; row < task.rows; ++row) {
      float& sum = task.sum(unit, row);
      // No block had a key for it.
      if (sum < 0 || (sum == 0 && p_.empty != EmptyQuery::kNaN) ||
          (p_.empty == EmptyQuery::kZerosForNaN && !(sum > 0))) {
        std::fill_n(y + row * y_step(), p_.value_depth, 0.0F);
        sum = 1;
        continue;
      }
      if (p_.sink != kNoInput) {
        sum += std::exp(task.context.input<float>(p_.sink)[head_of(task, unit, row)] - task.top(unit, row));
      }
      sum = 1 / sum;
    }
    norm_table().scale_rows(y, y_step(), task.rows, p_.value_depth, task.sums + unit * task.rows);
  }

  const AttentionDesc p_;
  const KeyCacheWriter cache_;
  const bool bool_mask_;
  int64_t group_ = 1;
  bool by_heads_ = false;  // one query: the rows of a task are the heads that read the same keys
  bool few_ = false;
  int64_t rows_ = 0, units_ = 1;  // of each head of keys: units_ times rows_ queries
  int64_t block_ = 0, tile_ = 0, span_ = 0, spans_ = 0, tasks_ = 0, slots_ = 1;
  size_t k_bytes_ = 0, v_bytes_ = 0, score_bytes_ = 0, state_bytes_ = 0, line_bytes_ = 0, part_bytes_ = 0,
         slot_bytes_ = 0;
};

}  // namespace

Status match_attention(const KernelNode& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    TENON_UNSUPPORTED_IF(spec.present() && spec.layout != Layout::kPlain, "Input {} is not in the plain layout.", i);
    // Masks may be bool, and lengths are integers.
    const bool other = i == 3 || i == 6 || i == 7;
    TENON_UNSUPPORTED_IF(spec.present() && !other && spec.type != DataType::kFloat, "Input {} is {}, not float32.", i,
                         data_type_name(spec.type));
    TENON_UNSUPPORTED_IF(i == 3 && spec.present() && spec.type != DataType::kFloat && spec.type != DataType::kBool,
                         "The mask is {}.", data_type_name(spec.type));
  }
  TENON_UNSUPPORTED_IF(output_spec(node, 3).present(), "The scores are asked for.");
  for (const TensorSpec& spec : node.outputs) {
    TENON_UNSUPPORTED_IF(spec.present() && spec.layout != Layout::kPlain, "An output is not in the plain layout.");
  }
  return {};
}

Result<std::unique_ptr<Kernel>> create_attention(const KernelNode& node) {
  TENON_TRY_ASSIGN(const AttentionDesc desc, read_attention(*node.node, input_shapes(node)));
  TENON_UNSUPPORTED_IF(output_spec(node, 0).dynamic, "The size of the output is not known beforehand.");
  TENON_INVALID_IF(!(output_spec(node, 0).shape == desc.y), "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  TENON_UNSUPPORTED_IF(desc.total_keys() == 0, "There are no keys to attend to.");
  TENON_TRY_ASSIGN(KeyCacheWriter cache, KeyCacheWriter::create(node, desc));
  const int threads = node.pool != nullptr ? node.pool->threads() : 1;
  const DataType mask = input_spec(node, desc.mask).type;
  return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel>(desc, cache, mask, threads));
}

}  // namespace tenon::cpu::nn
