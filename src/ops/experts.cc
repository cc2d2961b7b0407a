#include "ops/experts.h"

#include <limits>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/axes.h"

namespace tenon {

namespace {

using Activation = ExpertsDesc::Activation;

Result<Activation> activation_of(std::string_view name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "silu") return Activation::kSilu;
  if (name == "swiglu") return Activation::kSwiglu;
  if (name == "identity") return Activation::kIdentity;
  return invalid_argument("Experts have the activation \"{}\".", name);
}

// Inputs that are there; the others are kNoInput.
size_t if_present(const InputShapes& shapes, size_t input) { return shapes.find(input) != nullptr ? input : kNoInput; }

Status read_scales(const Node& node, const InputShapes& shapes, int64_t experts, ExpertWeights& part) {
  const int64_t stated = Attributes(node).find_integer("block_size").value_or(0);
  part.block_size = stated > 0 ? stated : part.k;
  TENON_INVALID_IF(part.k % part.block_size != 0, "Rows of {} elements do not divide into blocks of {}.", part.k,
                   part.block_size);
  part.blocks = part.k / part.block_size;
  const Shape* scales = shapes.find(part.scales);
  TENON_INVALID_IF(scales == nullptr, "{} has no scales of input {}.", node.op_type, part.weights);
  const bool by_block = *scales == Shape{experts, part.n, part.blocks};
  TENON_INVALID_IF(!by_block && !(part.blocks == 1 && *scales == Shape{experts, part.n}),
                   "The scales {} are not {} for each of {} rows of {} experts.", scales->to_string(), part.blocks,
                   part.n, experts);
  const Shape* zeros = shapes.find(part.zeros);
  if (zeros == nullptr) return {};
  // Without blocks a byte has the zero points of several rows.
  const bool shared = zeros->rank() == 2;
  const int64_t bytes = shared ? (part.n * part.bits + 7) / 8 : part.n * part.zero_row_bytes();
  TENON_INVALID_IF((shared && part.blocks != 1) || zeros->element_count() != experts * bytes,
                   "The zero points {} are not those of {} rows of {} experts with {} blocks.", zeros->to_string(),
                   part.n, experts, part.blocks);
  return {};
}

// One projection, whose rows have `k` elements. `bits_name` is the attribute that states its bits.
Status read_part(const Node& node, const InputShapes& shapes, const ExpertsDesc& desc, int64_t k,
                 std::string_view bits_name, ExpertWeights& part) {
  const Shape& weights = *shapes.find(part.weights);
  const Attributes attributes(node);
  if (part.scales != kNoInput) {
    part.bits = attributes.find_integer(bits_name).value_or(attributes.integer("expert_weight_bits"));
    TENON_INVALID_IF(part.bits != 2 && part.bits != 4 && part.bits != 8, "Weights of experts have {} bits.", part.bits);
  }
  part.k = k;
  part.n = weights.rank() == 3 ? weights[1] : 0;
  TENON_INVALID_IF(
      k * part.bits % 8 != 0 || weights != Shape({desc.experts, part.n, part.bits == 0 ? k : k * part.bits / 8}),
      "The weights {} of input {} are not rows of {} elements for {} experts.", weights.to_string(), part.weights, k,
      desc.experts);
  part.bias = if_present(shapes, part.bias);
  part.zeros = if_present(shapes, part.zeros);
  const Shape* bias = shapes.find(part.bias);
  TENON_INVALID_IF(bias != nullptr && *bias != Shape({desc.experts, part.n}), "The bias {} is not {} for {} experts.",
                   bias->to_string(), part.n, desc.experts);
  if (part.bits != 0) TENON_TRY(read_scales(node, shapes, desc.experts, part));
  return {};
}

Status read_attributes(const Node& node, ExpertsDesc& desc) {
  const Attributes attributes(node);
  TENON_TRY_ASSIGN(desc.activation, activation_of(attributes.text("activation_type")));
  desc.chosen = attributes.integer("k");
  desc.normalised = attributes.flag("normalize_routing_weights");
  desc.alpha = attributes.number("activation_alpha"), desc.beta = attributes.number("activation_beta");
  desc.limit = attributes.find_number("swiglu_limit").value_or(std::numeric_limits<float>::infinity());
  const int64_t fusion = attributes.integer("swiglu_fusion");
  TENON_INVALID_IF(fusion < 0 || fusion > 2, "Attribute \"swiglu_fusion\" ({}) is not in [0, 2].", fusion);
  desc.fused = desc.activation == Activation::kSwiglu && fusion != 0;
  desc.halves = fusion == 2;
  TENON_INVALID_IF(desc.chosen < 1 || desc.chosen > desc.experts, "{} of {} experts are chosen for a token.",
                   desc.chosen, desc.experts);
  return {};
}

}  // namespace

Result<ExpertsDesc> read_experts(const Node& node, const InputShapes& shapes) {
  const bool quantised = node.op_type == "QMoE";
  ExpertsDesc desc;
  if (quantised) {
    desc.first = {.weights = 2, .scales = 3, .bias = 4, .zeros = 11};
    desc.second = {.weights = 5, .scales = 6, .bias = 7, .zeros = 12};
    desc.third = {.weights = if_present(shapes, 8), .scales = 9, .bias = 10, .zeros = 13};
    desc.shares = if_present(shapes, 14);
    const std::string_view kind = Attributes(node).text("quant_type");
    TENON_UNSUPPORTED_IF(kind != "int", "QMoE is not computed with weights of the kind \"{}\".", kind);
    TENON_UNSUPPORTED_IF(Attributes(node).integer("weights_prepacked") == 1,
                         "QMoE is not computed with weights that another library packed.");
  } else {
    desc.first = {.weights = 2, .bias = 3};
    desc.second = {.weights = 4, .bias = 5};
    desc.third = {.weights = if_present(shapes, 6), .bias = 7};
  }
  for (size_t input : {size_t{0}, desc.router, desc.first.weights, desc.second.weights})
    TENON_INVALID_IF(shapes.find(input) == nullptr, "{} lacks its input {}.", node.op_type, input);
  const Shape &x = *shapes.find(0), &router = *shapes.find(desc.router), &first = *shapes.find(desc.first.weights);
  TENON_INVALID_IF(x.rank() != 2 && x.rank() != 3, "{} takes rows of 2 or 3 dimensions, not {}.", node.op_type,
                   x.to_string());
  desc.hidden = x[x.rank() - 1];
  desc.tokens = span_product(x, 0, x.rank() - 1);
  desc.experts = first.rank() == 3 ? first[0] : 0;
  TENON_INVALID_IF(desc.hidden < 1 || desc.experts < 1 || router != Shape({desc.tokens, desc.experts}),
                   "{} has rows {}, a router {} and weights {}.", node.op_type, x.to_string(), router.to_string(),
                   first.to_string());
  const Shape* shares = shapes.find(desc.shares);
  TENON_INVALID_IF(shares != nullptr && *shares != router, "The shares {} are not those of the router's {}.",
                   shares->to_string(), router.to_string());
  // Without shares of its own QMoE divides them by their sum, whatever the node says.
  TENON_TRY(read_attributes(node, desc));
  if (quantised && shares == nullptr) desc.normalised = true;
  TENON_TRY(read_part(node, shapes, desc, desc.hidden, "fc1_expert_weight_bits", desc.first));
  TENON_INVALID_IF(desc.fused && desc.first.n % 2 != 0, "{} rows are no pairs of gates and values.", desc.first.n);
  desc.inner = desc.fused ? desc.first.n / 2 : desc.first.n;
  TENON_INVALID_IF(desc.inner < 1, "The first product of {} makes no elements.", node.op_type);
  TENON_TRY(read_part(node, shapes, desc, desc.inner, "fc2_expert_weight_bits", desc.second));
  TENON_INVALID_IF(desc.second.n != desc.hidden, "Experts make {} elements of {}.", desc.second.n, desc.hidden);
  if (desc.third.present()) {
    TENON_INVALID_IF(desc.fused, "{} has a third product beside gates that are fused.", node.op_type);
    TENON_TRY(read_part(node, shapes, desc, desc.hidden, "fc3_expert_weight_bits", desc.third));
    TENON_INVALID_IF(desc.third.n != desc.inner, "The third product makes {} elements, not {}.", desc.third.n,
                     desc.inner);
  }
  TENON_INVALID_IF(desc.activation == Activation::kSwiglu && !desc.fused && !desc.third.present(),
                   "{} with swiglu needs a third product, or a swiglu_fusion.", node.op_type);
  return desc;
}

}  // namespace tenon
