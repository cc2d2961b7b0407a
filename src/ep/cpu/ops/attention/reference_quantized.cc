// QAttention and QEmbedLayerNormalization.
#include <algorithm>
#include <cmath>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/gather/indices.h"
#include "ops/quantized_attention.h"

namespace tenon::cpu::ref {

namespace {

// One byte of an input, or 0 where the input is absent.
struct Bytes {
  const uint8_t* data = nullptr;
  bool is_signed = false;

  Bytes(const KernelContext& context, size_t input, DataType type)
      : data(context.input<uint8_t>(input)), is_signed(type == DataType::kInt8) {}
  int32_t operator[](int64_t i) const {
    if (data == nullptr) return 0;
    return is_signed ? static_cast<int8_t>(data[i]) : data[i];
  }
};

bool is_byte(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

// --- QAttention ---

using Attention = QuantizedAttentionDesc;

struct AttentionPlan : Attention {
  DataType x_type = DataType::kUndefined, w_type = DataType::kUndefined;
  bool column_scales = false, column_zeros = false;
  size_t scores = 0, keys_at = 0, scratch_bytes = 0;  // offsets of scratch
};

class AttentionRun {
 public:
  AttentionRun(const AttentionPlan& plan, KernelContext& context)
      : p_(plan),
        context_(context),
        qkv_(reinterpret_cast<float*>(context.scratch)),
        scores_(reinterpret_cast<float*>(context.scratch + plan.scores)),
        keys_(reinterpret_cast<float*>(context.scratch + plan.keys_at)) {}

  void run() {
    project();
    float* const present = context_.output<float>(1);
    const int64_t state = p_.keys() * p_.depth(), half = p_.batch * p_.heads * state;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.heads; ++h) {
        const int64_t at = (b * p_.heads + h) * state;
        float* const k = present != nullptr ? present + at : keys_;
        float* const v = present != nullptr ? present + half + at : keys_ + state;
        collect(b, h, 1, k);
        collect(b, h, 2, v);
        attend(b, h, k, v);
      }
    }
  }

 private:
  int64_t width() const { return 3 * p_.hidden; }

  // X W + bias: exact integer sums, which wrap as int32 does.
  void project() {
    const Bytes x(context_, Attention::kX, p_.x_type), w(context_, Attention::kW, p_.w_type);
    const Bytes w_zero(context_, Attention::kWZero, p_.w_type);
    const int32_t x_zero = Bytes(context_, Attention::kXZero, p_.x_type)[0];
    const float x_scale = *context_.input<float>(Attention::kXScale);
    const float* const w_scale = context_.input<float>(Attention::kWScale);
    const float* const bias = context_.input<float>(Attention::kBias);
    context_.pool->parallel_for(p_.batch * p_.queries, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t j = 0; j < width(); ++j) {
          const int32_t zero = w_zero[p_.column_zeros ? j : 0];
          uint32_t sum = 0;
          for (int64_t i = 0; i < p_.input; ++i) {
            sum += static_cast<uint32_t>((x[row * p_.input + i] - x_zero) * (w[i * width() + j] - zero));
          }
          const float scale = x_scale * w_scale[p_.column_scales ? j : 0];
          qkv_[row * width() + j] = static_cast<float>(static_cast<int32_t>(sum)) * scale + bias[j];
        }
      }
    });
  }

  // The keys (third 1) or values (third 2) of a head, those of past first.
  void collect(int64_t b, int64_t h, int64_t third, float* to) {
    const int64_t depth = p_.depth();
    if (const float* past = context_.input<float>(Attention::kPast)) {
      const int64_t head = ((third - 1) * p_.batch + b) * p_.heads + h;
      std::copy_n(past + head * p_.past * depth, p_.past * depth, to);
    }
    for (int64_t s = 0; s < p_.queries; ++s) {
      const float* row = qkv_ + (b * p_.queries + s) * width() + third * p_.hidden + h * depth;
      std::copy_n(row, depth, to + (p_.past + s) * depth);
    }
  }

  bool is_masked(int64_t b, int64_t query, int64_t key) const {
    const auto* mask = context_.input<int32_t>(Attention::kMask);
    switch (p_.mask) {
      case Attention::Mask::kNone:
        return false;
      case Attention::Mask::kEnd:
        return key >= mask[b];
      case Attention::Mask::kEndAndStart:
        return key >= mask[b] || key < mask[p_.batch + b];
      case Attention::Mask::kKeys:
        return mask[b * p_.keys() + key] <= 0;
      case Attention::Mask::kQueries:
        return mask[(b * p_.queries + query) * p_.keys() + key] <= 0;
    }
    return false;
  }

  void attend(int64_t b, int64_t h, const float* k, const float* v) {
    const int64_t depth = p_.depth(), keys = p_.keys();
    for (int64_t s = 0; s < p_.queries; ++s) {
      const float* q = qkv_ + (b * p_.queries + s) * width() + h * depth;
      const int64_t last = p_.causal ? p_.past + s : keys - 1;  // keys behind it have no weight
      float most = -std::numeric_limits<float>::infinity();
      for (int64_t t = 0; t <= last; ++t) {
        double sum = 0;
        for (int64_t d = 0; d < depth; ++d) sum += static_cast<double>(q[d]) * static_cast<double>(k[t * depth + d]);
        scores_[t] = static_cast<float>(sum) * p_.scale + (is_masked(b, s, t) ? p_.mask_value : 0);
        most = std::max(most, scores_[t]);
      }
      double total = 0;
      for (int64_t t = 0; t <= last; ++t) {
        scores_[t] = std::exp(scores_[t] - most);
        total += static_cast<double>(scores_[t]);
      }
      float* const y = context_.output<float>(0) + (b * p_.queries + s) * p_.hidden + h * depth;
      for (int64_t d = 0; d < depth; ++d) {
        double sum = 0;
        for (int64_t t = 0; t <= last; ++t)
          sum += static_cast<double>(scores_[t]) * static_cast<double>(v[t * depth + d]);
        y[d] = static_cast<float>(sum / total);
      }
    }
  }

  const AttentionPlan& p_;
  KernelContext& context_;
  float* qkv_;     // [batch][queries][3 * hidden]
  float* scores_;  // [keys]
  float* keys_;    // keys and values of a head, where no output has them
};

Result<RefImpl> make_attention(RefNode& node) {
  TENON_TRY_ASSIGN(Attention desc, read_quantized_attention(*node.node, input_shapes(node)));
  AttentionPlan plan{std::move(desc), node.inputs[Attention::kX].type, node.inputs[Attention::kW].type};
  TENON_UNSUPPORTED_IF(!is_byte(plan.x_type) || !is_byte(plan.w_type) || output_spec(node, 0).type != DataType::kFloat,
                       "QAttention is not computed on {} and {} to {}.", data_type_name(plan.x_type),
                       data_type_name(plan.w_type), data_type_name(output_spec(node, 0).type));
  TENON_INVALID_IF(
      input_spec(node, Attention::kMask).present() && input_spec(node, Attention::kMask).type != DataType::kInt32,
      "QAttention has a mask of {}.", data_type_name(input_spec(node, Attention::kMask).type));
  TENON_TRY(require_output(node, 0, plan.y));
  TENON_TRY(require_output(node, 1, plan.present));
  plan.column_scales = node.inputs[Attention::kWScale].shape.element_count() > 1;
  const TensorSpec& zero = input_spec(node, Attention::kWZero);
  plan.column_zeros = zero.present() && zero.shape.element_count() > 1;
  TENON_TRY_ASSIGN(const size_t qkv,
                   tensor_size_bytes(DataType::kFloat, Shape{plan.batch, plan.queries, 3 * plan.hidden}));
  TENON_TRY_ASSIGN(const size_t scores, tensor_size_bytes(DataType::kFloat, Shape{plan.keys()}));
  TENON_TRY_ASSIGN(const size_t keys, tensor_size_bytes(DataType::kFloat, Shape{2, plan.keys(), plan.depth()}));
  plan.scores = (qkv + 63) / 64 * 64;
  plan.keys_at = plan.scores + (scores + 63) / 64 * 64;
  plan.scratch_bytes = plan.keys_at + keys;
  RefImpl impl;
  impl.scratch_bytes = plan.scratch_bytes;
  impl.run = [plan = std::move(plan)](KernelContext& context) -> Status {
    AttentionRun(plan, context).run();
    return {};
  };
  return impl;
}

// --- QEmbedLayerNormalization ---

using Embedding = QuantizedEmbeddingDesc;

// A dequantised row of one of the five tables.
struct Table {
  Bytes bytes;
  float scale = 1;
  int32_t zero = 0;

  // `index` counts words, positions, segments, gamma and beta.
  Table(const KernelContext& context, size_t input, size_t index, DataType type) : bytes(context, input, type) {
    if (bytes.data == nullptr) return;
    scale = *context.input<float>(Embedding::kScales + index);
    zero = Bytes(context, Embedding::kZeros + index, type)[0];
  }
  float at(int64_t i) const { return bytes.data == nullptr ? 0 : static_cast<float>(bytes[i] - zero) * scale; }
};

Status run_embedding(const Embedding& desc, DataType type, KernelContext& context) {
  const Table word(context, Embedding::kWord, 0, type), position(context, Embedding::kPosition, 1, type),
      segment(context, Embedding::kSegment, 2, type), gamma(context, Embedding::kGamma, 3, type),
      beta(context, Embedding::kBeta, 4, type);
  const auto *ids = context.input<int32_t>(Embedding::kIds), *segments = context.input<int32_t>(Embedding::kSegmentIds);
  const int64_t n = desc.hidden;
  for (int64_t row = 0; row < desc.batch * desc.length; ++row) {
    TENON_INVALID_IF(ids[row] < 0 || ids[row] >= desc.words, "Id {} of row {} is outside [0, {}).", ids[row], row,
                     desc.words);
    const int64_t part = segments != nullptr ? segments[row] : 0;
    TENON_INVALID_IF(segments != nullptr && (part < 0 || part >= desc.segments),
                     "Segment {} of row {} is outside [0, {}).", part, row, desc.segments);
    float* const y = context.output<float>(0) + row * n;
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < n; ++j) {
      y[j] = word.at(ids[row] * n + j) + position.at(row % desc.length * n + j) + segment.at(part * n + j);
      sum += static_cast<double>(y[j]);
    }
    const double mean = sum / static_cast<double>(n);
    for (int64_t j = 0; j < n; ++j) squares += (static_cast<double>(y[j]) - mean) * (static_cast<double>(y[j]) - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(n) + static_cast<double>(desc.epsilon));
    for (int64_t j = 0; j < n; ++j) {
      y[j] = static_cast<float>((static_cast<double>(y[j]) - mean) / deviation) * gamma.at(j) + beta.at(j);
    }
  }
  const auto* mask = context.input<int32_t>(Embedding::kMask);
  if (auto* lengths = context.output<int32_t>(1)) {
    for (int64_t b = 0; b < desc.batch; ++b) {
      const int32_t* row = mask + b * desc.length;
      lengths[b] = mask == nullptr ? 0 : static_cast<int32_t>(std::count(row, row + desc.length, 1));
    }
  }
  return {};
}

Result<RefImpl> make_embedding(RefNode& node) {
  TENON_TRY_ASSIGN(const Embedding desc, read_quantized_embedding(*node.node, input_shapes(node)));
  const DataType type = node.inputs[Embedding::kWord].type;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    const bool ids = i <= Embedding::kSegmentIds || i == Embedding::kMask;
    const bool scale = i >= Embedding::kScales && i < Embedding::kZeros;
    const DataType wanted = ids ? DataType::kInt32 : scale ? DataType::kFloat : type;
    TENON_INVALID_IF(spec.present() && (spec.type != wanted || !is_byte(type)),
                     "QEmbedLayerNormalization has input {} of {}.", i, data_type_name(spec.type));
  }
  for (size_t i : {0, 1, 3, 4}) {
    TENON_INVALID_IF(!input_spec(node, Embedding::kScales + i).present(),
                     "QEmbedLayerNormalization needs input {}, which is absent.", Embedding::kScales + i);
  }
  TENON_INVALID_IF(desc.segments > 0 && !input_spec(node, Embedding::kScales + 2).present(),
                   "QEmbedLayerNormalization needs input {}, which is absent.", Embedding::kScales + 2);
  TENON_TRY(require_output(node, 0, desc.y));
  TENON_TRY(require_output(node, 1, Shape{desc.batch}));
  RefImpl impl;
  impl.run = [desc, type](KernelContext& context) { return run_embedding(desc, type, context); };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr std::string_view kDomain = "com.microsoft";

constexpr KernelEntry kRows[] = {
    ref_row<kBytes, &make_attention>("QAttention", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_embedding, 2>("QEmbedLayerNormalization", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_quantized_attention_rows() { return kRows; }

}  // namespace tenon::cpu::ref
