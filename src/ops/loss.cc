#include "ops/loss.h"

#include <string_view>
#include <utility>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

Result<LossDesc::Reduction> read_reduction(const Node& node) {
  const std::string_view text = Attributes(node).text("reduction");
  if (text == "none") return LossDesc::Reduction::kNone;
  if (text == "sum") return LossDesc::Reduction::kSum;
  TENON_INVALID_IF(text != "mean", "Attribute \"reduction\" (\"{}\") is unknown.", text);
  return LossDesc::Reduction::kMean;
}

}  // namespace

Result<LossDesc> read_loss(const Node& node, const Shape& scores, const Shape& targets, const Shape* weights) {
  TENON_INVALID_IF(scores.rank() < 2, "{} needs scores of rank 2 or more, not {}.", node.op_type, scores.to_string());
  LossDesc desc{.softmax = node.op_type == "SoftmaxCrossEntropyLoss",
                .ignore_index = Attributes(node).find_integer("ignore_index"),
                .batch = scores[0],
                .classes = scores[1],
                .inner = span_product(scores, 2, scores.rank())};
  TENON_TRY_ASSIGN(desc.reduction, read_reduction(node));
  Shape wanted{scores[0]};
  for (int d = 2; d < scores.rank(); ++d) wanted.push_back(scores[d]);
  TENON_INVALID_IF(targets != wanted, "{} has targets of shape {} for scores of {}.", node.op_type, targets.to_string(),
                   scores.to_string());
  TENON_INVALID_IF(weights != nullptr && !(*weights == Shape{desc.classes}),
                   "{} has weights of shape {} for {} classes.", node.op_type, weights->to_string(), desc.classes);
  if (desc.reduction == LossDesc::Reduction::kNone) desc.output = targets;
  return desc;
}

namespace infer {
namespace {

Status infer_loss(Context& c) {
  TENON_TRY_ASSIGN(const LossDesc::Reduction reduction, read_reduction(c.node()));
  c.set_type(0, c.type(0));
  if (c.has_output(1)) TENON_TRY(c.copy(0, 1));  // SoftmaxCrossEntropyLoss: the logarithms of the probabilities
  if (reduction != LossDesc::Reduction::kNone) return c.set_dims(0, {});
  return c.ranked(1) ? c.set_dims(0, c.dims(1)) : Status();
}

constexpr Row kRows[] = {{"NegativeLogLikelihoodLoss", &infer_loss}, {"SoftmaxCrossEntropyLoss", &infer_loss}};

}  // namespace

std::span<const Row> loss_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
