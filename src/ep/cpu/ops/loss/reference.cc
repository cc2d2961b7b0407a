// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include <algorithm>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/reference_access.h"
#include "ops/loss.h"

namespace tenon::cpu::ref {

namespace {

struct LossPlan {
  LossDesc desc;
  ReadNumber scores = nullptr, weights = nullptr;
  IndexReader targets = nullptr;
  WriteNumber write = nullptr, write_log = nullptr;
  bool gives_loss = false;
};

// The logarithm of the sum of e^score over the classes at one place.
double log_sum(const LossPlan& plan, const void* scores, int64_t first) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  const auto score = [&](int64_t c) { return plan.scores(scores, first + c * plan.desc.inner); };
  for (int64_t c = 0; c < plan.desc.classes; ++c) largest = std::max(largest, score(c));
  for (int64_t c = 0; c < plan.desc.classes; ++c) sum += std::exp(score(c) - largest);
  return largest + std::log(sum);
}

Status run_loss(const LossPlan& plan, KernelContext& context) {
  const LossDesc& desc = plan.desc;
  const void *const scores = context.inputs[0], *const weights = context.input<void>(2);
  double loss = 0, divisor = 0;
  for (int64_t i = 0; i < desc.batch * desc.inner; ++i) {
    const int64_t first = i / desc.inner * desc.classes * desc.inner + i % desc.inner;
    const double log_of_sum = desc.softmax ? log_sum(plan, scores, first) : 0;
    for (int64_t c = 0; plan.write_log != nullptr && c < desc.classes; ++c) {
      const int64_t at = first + c * desc.inner;
      plan.write_log(context.outputs[1], at, plan.scores(scores, at) - log_of_sum);
    }
    const int64_t target = plan.targets(context.inputs[1], i);
    double weight = 0, one = 0;
    if (!desc.ignore_index || target != *desc.ignore_index) {
      if (target < 0 || target >= desc.classes) {
        return out_of_range("Target {} is outside [0, {}).", target, desc.classes);
      }
      weight = plan.weights != nullptr ? plan.weights(weights, target) : 1;
      one = weight * (log_of_sum - plan.scores(scores, first + target * desc.inner));
    }
    if (desc.reduction == LossDesc::Reduction::kNone) {
      if (plan.gives_loss) plan.write(context.outputs[0], i, one);
      continue;
    }
    loss += one;
    divisor += weight;
  }
  if (desc.reduction == LossDesc::Reduction::kNone || !plan.gives_loss) return {};
  plan.write(context.outputs[0], 0, desc.reduction == LossDesc::Reduction::kMean ? loss / divisor : loss);
  return {};
}

Result<RefImpl> make_loss(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const TensorSpec& weights = input_spec(node, 2);
  LossPlan plan;
  TENON_TRY_ASSIGN(plan.desc, read_loss(*node.node, node.inputs[0].shape, node.inputs[1].shape,
                                        weights.present() ? &weights.shape : nullptr));
  TENON_TRY_ASSIGN(plan.scores, input_reader(node, 0));
  TENON_TRY_ASSIGN(plan.targets, index_reader(node, 1));
  if (weights.present()) {
    TENON_TRY_ASSIGN(plan.weights, input_reader(node, 2));
  }
  plan.gives_loss = output_spec(node, 0).present();
  if (plan.gives_loss) {
    TENON_TRY_ASSIGN(plan.write, output_writer(node, 0));
  }
  TENON_TRY(require_output(node, 0, plan.desc.output));
  if (output_spec(node, 1).present()) {
    TENON_TRY_ASSIGN(plan.write_log, output_writer(node, 1));
    TENON_TRY(require_output(node, 1, node.inputs[0].shape));
  }
  RefImpl impl;
  impl.run = [plan](KernelContext& context) -> Status { return run_loss(plan, context); };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_loss>("NegativeLogLikelihoodLoss", 12),
    ref_row<kFloatSet, &make_loss>("SoftmaxCrossEntropyLoss", 12),
};

}  // namespace

std::span<const KernelEntry> ref_loss_rows() { return kRows; }

}  // namespace tenon::cpu::ref
