#include "ep/cpu/ops/contrib/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/vector_kernel.h"

namespace tenon::cpu {

namespace {

using Activation = ExpertsDesc::Activation;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0F);
    case Activation::kGelu:
      return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
    case Activation::kSilu:
      return x * sigmoid(x);
    default:
      return x;
  }
}

class ExpertsKernel final : public Kernel {
 public:
  ExpertsKernel(const ExpertsDesc& desc, ExpertProducts products, std::string_view name)
      : desc_(desc), products_(std::move(products)), name_(name) {
    const auto take = [this](int64_t bytes) {
      return std::exchange(bytes_, bytes_ + nn::aligned_bytes(static_cast<size_t>(bytes)));
    };
    const int64_t rows = desc.tokens;
    depth_ = products_.first->depth();
    if (products_.third) depth_ = std::max(depth_, products_.third->depth());
    inner_depth_ = products_.second->depth();
    choices_at_ = take(rows * desc.chosen * static_cast<int64_t>(sizeof(Choice)));
    begins_at_ = take((desc.experts + 1) * static_cast<int64_t>(sizeof(int64_t)));
    order_at_ = take(rows * desc.chosen * static_cast<int64_t>(sizeof(int64_t)));
    ranking_at_ = take(desc.experts * static_cast<int64_t>(sizeof(int64_t)));
    a_at_ = take(rows * depth_ * 4);
    inner_at_ = take(rows * desc.first.n * 4);
    gate_at_ = take(products_.third ? rows * desc.inner * 4 : 0);
    active_at_ = take(rows * inner_depth_ * 4);
    result_at_ = take(rows * desc.hidden * 4);
    size_t most = 0;
    for (const auto* product : {products_.first.get(), products_.second.get(), products_.third.get()})
      if (product != nullptr) most = std::max(most, product->scratch_bytes(rows));
    product_at_ = take(static_cast<int64_t>(most));
  }

  Status run(KernelContext& context) const override {
    float* const y = context.output<float>(0);
    std::fill_n(y, desc_.tokens * desc_.hidden, 0.0F);
    if (desc_.tokens == 0) return {};
    auto* const choices = at<Choice>(context, choices_at_);
    choose(context, choices);
    auto* const begins = at<int64_t>(context, begins_at_);
    auto* const order = at<int64_t>(context, order_at_);
    sort_by_expert(choices, begins, order);
    for (int64_t expert = 0; expert < desc_.experts; ++expert) {
      const int64_t m = begins[expert + 1] - begins[expert];
      if (m > 0) run_expert(context, expert, choices, order + begins[expert], m);
    }
    return {};
  }
  size_t scratch_bytes() const override { return bytes_; }
  std::string_view name() const override { return name_; }

 private:
  struct Choice {
    int64_t expert = 0;
    float share = 0;
  };

  template <typename T>
  static T* at(const KernelContext& context, size_t offset) {
    return reinterpret_cast<T*>(context.scratch + offset);
  }

  // The experts of each token with the highest numbers of the router; of equal ones the last.
  void choose(const KernelContext& context, Choice* choices) const {
    const float* const router = context.input<float>(desc_.router);
    const float* const shares = desc_.shares == kNoInput ? nullptr : context.input<float>(desc_.shares);
    auto* const ranking = at<int64_t>(context, ranking_at_);
    for (int64_t token = 0; token < desc_.tokens; ++token) {
      const float* const scores = router + token * desc_.experts;
      std::iota(ranking, ranking + desc_.experts, int64_t{0});
      std::partial_sort(ranking, ranking + desc_.chosen, ranking + desc_.experts, [&](int64_t a, int64_t b) {
        return scores[a] > scores[b] || (scores[a] == scores[b] && a > b);
      });
      Choice* const mine = choices + token * desc_.chosen;
      const float highest = scores[ranking[0]];
      float sum = 0, kept = 0;
      for (int64_t e = 0; e < desc_.experts && shares == nullptr; ++e) sum += std::exp(scores[e] - highest);
      for (int64_t i = 0; i < desc_.chosen; ++i) {
        const int64_t expert = ranking[i];
        const float share =
            shares != nullptr ? shares[token * desc_.experts + expert] : std::exp(scores[expert] - highest) / sum;
        mine[i] = {expert, share};
        kept += share;
      }
      if (!desc_.normalised || kept == 0) continue;
      for (int64_t i = 0; i < desc_.chosen; ++i) mine[i].share /= kept;
    }
  }

  // The choices of each expert, by token.
  void sort_by_expert(const Choice* choices, int64_t* begins, int64_t* order) const {
    const int64_t count = desc_.tokens * desc_.chosen;
    std::fill_n(begins, desc_.experts + 1, int64_t{0});
    for (int64_t i = 0; i < count; ++i) ++begins[choices[i].expert + 1];
    for (int64_t e = 0; e < desc_.experts; ++e) begins[e + 1] += begins[e];
    for (int64_t i = 0; i < count; ++i) order[begins[choices[i].expert]++] = i;
    for (int64_t e = desc_.experts; e > 0; --e) begins[e] = begins[e - 1];
    begins[0] = 0;
  }

  void run_expert(const KernelContext& context, int64_t expert, const Choice* choices, const int64_t* order,
                  int64_t m) const {
    const float* const x = context.input<float>(0);
    auto* const a = at<float>(context, a_at_);
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(x + order[i] / desc_.chosen * desc_.hidden, desc_.hidden, a + i * depth_);
      std::fill_n(a + i * depth_ + desc_.hidden, depth_ - desc_.hidden, 0.0F);
    }
    auto *const inner = at<float>(context, inner_at_), *const gate = at<float>(context, gate_at_),
                *const active = at<float>(context, active_at_), *const result = at<float>(context, result_at_);
    std::byte* const scratch = context.scratch + product_at_;
    products_.first->run(context, expert, a, m, inner, scratch);
    if (products_.third) products_.third->run(context, expert, a, m, gate, scratch);
    context.pool->parallel_for(m, std::max<int64_t>(1, 2048 / desc_.inner), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        activate(inner + i * desc_.first.n, products_.third ? gate + i * desc_.inner : nullptr,
                 active + i * inner_depth_);
      }
    });
    products_.second->run(context, expert, active, m, result, scratch);
    for (int64_t i = 0; i < m; ++i) {
      const float share = choices[order[i]].share;
      float* const to = context.output<float>(0) + order[i] / desc_.chosen * desc_.hidden;
      for (int64_t j = 0; j < desc_.hidden; ++j) to[j] += share * result[i * desc_.hidden + j];
    }
  }

  void activate(const float* x, const float* gate, float* y) const {
    const int64_t step = desc_.fused && !desc_.halves ? 2 : 1, apart = desc_.halves ? desc_.inner : 1;
    for (int64_t i = 0; i < desc_.inner; ++i) {
      if (desc_.activation == Activation::kSwiglu) {
        const float g = std::min(x[i * step], desc_.limit);
        const float value = desc_.fused ? x[i * step + apart] : gate[i];
        y[i] = g * sigmoid(desc_.alpha * g) * (std::clamp(value, -desc_.limit, desc_.limit) + desc_.beta);
      } else {
        y[i] = activated(desc_.activation, x[i]);
        if (gate != nullptr) y[i] *= gate[i];
      }
    }
    std::fill(y + desc_.inner, y + inner_depth_, 0.0F);
  }

  const ExpertsDesc desc_;
  const ExpertProducts products_;
  const std::string name_;
  int64_t depth_ = 0, inner_depth_ = 0;
  size_t bytes_ = 0;
  size_t choices_at_ = 0, begins_at_ = 0, order_at_ = 0, ranking_at_ = 0, a_at_ = 0, inner_at_ = 0, gate_at_ = 0,
         active_at_ = 0, result_at_ = 0, product_at_ = 0;
};

// Reads the weights as they lie.
class PlainProduct final : public ExpertProduct {
 public:
  PlainProduct(const ExpertWeights& part, bool shared_zeros) : part_(part), shared_zeros_(shared_zeros) {}

  int64_t depth() const override { return part_.k; }
  size_t scratch_bytes(int64_t) const override { return 0; }
  void run(const KernelContext& context, int64_t expert, const float* a, int64_t m, float* c,
           std::byte*) const override {
    context.pool->parallel_for(part_.n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) column(context, expert, j, a, m, c);
    });
  }

 private:
  static constexpr int64_t kPiece = 64;  // elements that are widened at once

  void column(const KernelContext& context, int64_t expert, int64_t j, const float* a, int64_t m, float* c) const {
    const float* const bias = part_.bias == kNoInput ? nullptr : context.input<float>(part_.bias);
    for (int64_t i = 0; i < m; ++i) c[i * part_.n + j] = bias != nullptr ? bias[expert * part_.n + j] : 0;
    float piece[kPiece];
    for (int64_t first = 0; first < part_.k; first += kPiece) {
      const int64_t count = std::min(kPiece, part_.k - first);
      for (int64_t p = 0; p < count; ++p) piece[p] = element(context, expert * part_.n + j, expert, j, first + p);
      for (int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (int64_t p = 0; p < count; ++p) sum += a[i * part_.k + first + p] * piece[p];
        c[i * part_.n + j] += sum;
      }
    }
  }

  static int code(const uint8_t* bytes, int64_t index, int64_t bits) {
    return bytes[index * bits / 8] >> (index * bits % 8) & ((1 << bits) - 1);
  }

  float element(const KernelContext& context, int64_t row, int64_t expert, int64_t j, int64_t p) const {
    if (part_.bits == 0) return context.input<float>(part_.weights)[row * part_.k + p];
    const int64_t block = p / part_.block_size;
    int zero = 1 << (part_.bits - 1);
    if (part_.zeros != kNoInput) {
      const auto* const zeros = context.input<uint8_t>(part_.zeros);
      zero = shared_zeros_ ? code(zeros + expert * ((part_.n * part_.bits + 7) / 8), j, part_.bits)
                           : code(zeros + row * part_.zero_row_bytes(), block, part_.bits);
    }
    const int q = code(context.input<uint8_t>(part_.weights) + row * part_.row_bytes(), p, part_.bits);
    return static_cast<float>(q - zero) * context.input<float>(part_.scales)[row * part_.blocks + block];
  }

  const ExpertWeights part_;
  const bool shared_zeros_;
};

Result<std::unique_ptr<Kernel>> create_plain(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ExpertsDesc desc, read_experts(*node.node, input_shapes(node)));
  const auto product = [&](const ExpertWeights& part) {
    const bool shared = part.zeros != kNoInput && node.inputs[part.zeros].shape.rank() == 2;
    return std::make_unique<PlainProduct>(part, shared);
  };
  return make_experts(node, desc,
                      {product(desc.first), product(desc.second), desc.third.present() ? product(desc.third) : nullptr},
                      "ref");
}

constexpr KernelEntry kRows[] = {
    {"com.microsoft", "MoE", 1, kAnyVersion, "ref", &match_experts, &create_plain},
    {"com.microsoft", "QMoE", 1, kAnyVersion, "ref", &match_experts, &create_plain},
};

}  // namespace

Status match_experts(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(nn::output_spec(node, 0).dynamic, "The number of tokens is not known beforehand.");
  const auto is_code = [&](size_t i) {
    return node.node->op_type == "QMoE" && (i == 2 || i == 5 || i == 8 || (i >= 11 && i <= 13));
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    if (!spec.present()) continue;
    TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain, "Input {} is not in the plain layout.", i);
    const DataType wanted = is_code(i) ? DataType::kUint8 : DataType::kFloat;
    TENON_UNSUPPORTED_IF(spec.type != wanted, "Input {} is {}, not {}.", i, data_type_name(spec.type),
                         data_type_name(wanted));
  }
  return {};
}

Result<std::unique_ptr<Kernel>> make_experts(const KernelNode& node, const ExpertsDesc& desc, ExpertProducts products,
                                             std::string_view name) {
  TENON_INVALID_IF(nn::output_spec(node, 0).shape != node.inputs[0].shape, "The output has shape {} instead of {}.",
                   nn::output_spec(node, 0).shape.to_string(), node.inputs[0].shape.to_string());
  return std::unique_ptr<Kernel>(std::make_unique<ExpertsKernel>(desc, std::move(products), name));
}

namespace ref {

std::span<const KernelEntry> expert_rows() { return kRows; }

}  // namespace ref

}  // namespace tenon::cpu
