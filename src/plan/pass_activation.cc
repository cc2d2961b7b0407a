// Turns activations, written as one operator or as several, into tenon.Activation; Mish and Swish written as several
// become those operators.
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/unary.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Exporters print these constants with float32 or fewer digits, and models in 16 bits have them rounded to the 11 bits
// of a float16 or the 8 of a bfloat16.
bool near(float value, double wanted) {
  if (std::fabs(value - wanted) <= 1e-4 * std::fabs(wanted)) return true;
  int exponent = 0;
  const double fraction = std::frexp(wanted, &exponent);
  for (int bits : {11, 8})
    if (value == std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits)) return true;
  return false;
}

// The activation of x.
struct Found : Epilogue {
  explicit Found(ValueId from, Activation kind, float a = 0, float b = 0)
      : Epilogue{.activation = kind, .alpha = a, .beta = b}, x(from) {}
  ValueId x;
};

class Matcher {
 public:
  explicit Matcher(const Rewriter& rewriter) : r_(rewriter) {}

  std::optional<Found> match(const Node& node) const {
    if (node.outputs.size() != 1 || node.input(0) == kNoValue || !r_.is_float(node.outputs[0])) return std::nullopt;
    if (!node.domain.empty() && node.domain != "tenon") return std::nullopt;
    if (node.domain.empty()) {
      if (std::optional<Found> found = single(node)) return found;
    }
    if (node.op_type == "Mul" && node.domain.empty()) {
      if (std::optional<Found> found = gated(node)) return found;
      if (std::optional<Found> found = gelu(node)) return found;
    }
    if (node.op_type == "Div" && node.domain.empty() && r_.scalar_beside(node.input(1), node.inputs[0]) == 2.0f) {
      if (std::optional<Found> found = gelu(node)) return found;
    }
    if ((node.op_type == "Div" || node.op_type == "Mul") && node.domain.empty()) return hardswish_of_clip(node);
    return std::nullopt;
  }

  // x * tanh(softplus(x)) and x * sigmoid(alpha * x) as one operator.
  std::optional<Node> function_of(const Node& node) const {
    constexpr int kMish = 18, kSwish = 24;  // the versions that they came with
    if (node.op_type != "Mul" || !node.domain.empty() || node.inputs.size() != 2 || !r_.is_float(node.outputs[0]))
      return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const ValueId gate = node.inputs[side], x = node.inputs[1 - side];
      const Node* const maker = r_.read_once(gate) ? r_.producer(gate) : nullptr;
      const std::optional<Found> outer = maker == nullptr ? std::nullopt : activation_of(*maker);
      if (!outer || !r_.read_once(outer->x)) continue;
      if (outer->activation == Activation::kTanh) {
        const Node* const softplus = r_.made_by(outer->x, "Softplus");
        if (softplus != nullptr && softplus->inputs[0] == x)
          return make_node("Mish", kMish, node.name, {x}, node.outputs);
      }
      if (outer->activation != Activation::kSigmoid) continue;
      float alpha = 0;
      if (beside_scalar(outer->x, "Mul", alpha) != x) continue;
      Node swish = make_node("Swish", kSwish, node.name, {x}, node.outputs);
      swish.set_float("alpha", alpha);
      return swish;
    }
    return std::nullopt;
  }

 private:
  // x of "number op x" or "x op number" with a scalar that does not change the shape; the number through `number`.
  std::optional<ValueId> beside_scalar(const Node& node, float& number) const {
    auto parts = split_operands(node, [&](ValueId a, ValueId b) { return r_.scalar_beside(a, b).has_value(); });
    if (!parts) return std::nullopt;
    number = *r_.scalar(parts->first);
    return parts->second;
  }

  // The same where the node is `op_type` and its result is read by the pattern alone.
  std::optional<ValueId> beside_scalar(ValueId id, std::string_view op_type, float& number) const {
    const Node* node = r_.made_by(id, op_type);
    if (!node || !r_.read_once(id)) return std::nullopt;
    return beside_scalar(*node, number);
  }

  // x of id = x * factor, spelled Mul or Div.
  std::optional<ValueId> scaled(ValueId id, double factor) const {
    float number = 0;
    if (std::optional<ValueId> x = beside_scalar(id, "Mul", number)) return near(number, factor) ? x : std::nullopt;
    const Node* node = r_.made_by(id, "Div");
    if (!node || !r_.read_once(id)) return std::nullopt;
    std::optional<float> divisor = r_.scalar_beside(node->inputs[1], node->inputs[0]);
    if (!divisor || !near(*divisor, 1 / factor)) return std::nullopt;
    return node->inputs[0];
  }

  // An operator that is an activation.
  std::optional<Found> single(const Node& node) const {
    if (node.op_type == "PRelu" && node.domain.empty() && node.inputs.size() == 2) {
      const std::optional<float> slope = r_.scalar_beside(node.inputs[1], node.inputs[0]);
      return slope ? std::optional(Found(node.inputs[0], Activation::kLeakyRelu, *slope)) : std::nullopt;
    }
    if (!node.domain.empty() || !is_unary(node)) return std::nullopt;
    const Result<UnaryDesc> unary = read_unary(node);
    if (!unary.ok()) return std::nullopt;
    const ValueId x = node.inputs[0];
    if (unary->function == Unary::kSwish && unary->alpha == 1) return Found(x, Activation::kSilu);
    if (static_cast<int>(unary->function) >= kActivationCount) return std::nullopt;
    Found found(x, static_cast<Activation>(unary->function), static_cast<float>(unary->alpha),
                static_cast<float>(unary->beta));
    if (found.activation == Activation::kClip && !read_bounds(node, found)) return std::nullopt;
    return found;
  }

  // False where a bound is not constant, or the bounds cross: operators differ in which of those wins.
  bool read_bounds(const Node& node, Epilogue& clip) const {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.input(i) == kNoValue) continue;
      std::optional<float> bound = r_.scalar(node.inputs[i]);
      if (!bound || std::isnan(*bound)) return false;
      (i == 1 ? clip.alpha : clip.beta) = *bound;
    }
    return clip.alpha <= clip.beta;
  }

  // The same, or tenon.Activation.
  std::optional<Found> activation_of(const Node& node) const {
    if (node.domain != "tenon") return single(node);
    if (node.op_type != "Activation") return std::nullopt;
    const Result<Epilogue> read = read_epilogue(node);
    if (!read.ok()) return std::nullopt;
    return Found(node.inputs[0], read->activation, read->alpha, read->beta);
  }

  // x * sigmoid(x), x * hardsigmoid(x); the gate may be a tenon.Activation already.
  std::optional<Found> gated(const Node& node) const {
    for (size_t side = 0; side < 2 && node.inputs.size() == 2; ++side) {
      const ValueId gate = node.inputs[side], x = node.inputs[1 - side];
      if (!r_.read_once(gate)) continue;
      const Node* maker = r_.producer(gate);
      if (!maker || maker->input(0) != x || maker->outputs[0] != gate) continue;
      const std::optional<Found> inner = activation_of(*maker);
      if (!inner) continue;
      if (inner->activation == Activation::kSigmoid) return Found(x, Activation::kSilu);
      if (inner->activation == Activation::kHardSigmoid)
        return Found(x, Activation::kHardSwish, inner->alpha, inner->beta);
    }
    return std::nullopt;
  }

  // Clip(x + 3, 0, 6), as an operator or already rewritten.
  std::optional<ValueId> relu6_of_x_plus_3(ValueId id) const {
    const Node* node = r_.producer(id);
    if (!node || !r_.read_once(id)) return std::nullopt;
    const std::optional<Found> clip = activation_of(*node);
    if (!clip || clip->activation != Activation::kClip) return std::nullopt;
    float three = 0;
    std::optional<ValueId> x = beside_scalar(node->input(0), "Add", three);
    return x && clip->alpha == 0 && clip->beta == 6 && three == 3 ? x : std::nullopt;
  }

  // x * clip(x + 3, 0, 6) / 6 with the division anywhere.
  std::optional<Found> hardswish_of_clip(const Node& node) const {
    const auto hardswish = [](ValueId x) { return Found(x, Activation::kHardSwish, 1.0f / 6, 0.5f); };
    // (x * clip) / 6, or * 1/6
    if (std::optional<ValueId> product = scaled_node(node, 1.0 / 6)) {
      const Node* mul = r_.made_by(*product, "Mul");
      if (!mul || !r_.read_once(*product) || mul->inputs.size() != 2) return std::nullopt;
      for (size_t side = 0; side < 2; ++side) {
        std::optional<ValueId> x = relu6_of_x_plus_3(mul->inputs[side]);
        if (x && *x == mul->inputs[1 - side]) return hardswish(*x);
      }
      return std::nullopt;
    }
    if (node.op_type != "Mul" || node.inputs.size() != 2) return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const ValueId part = node.inputs[side], rest = node.inputs[1 - side];
      // x * (clip / 6)
      if (std::optional<ValueId> clip = scaled(part, 1.0 / 6)) {
        std::optional<ValueId> x = relu6_of_x_plus_3(*clip);
        if (x && *x == rest) return hardswish(*x);
        // clip times (x / 6)
        x = relu6_of_x_plus_3(rest);
        if (x && *x == *clip) return hardswish(*x);
      }
    }
    return std::nullopt;
  }

  // x of node = x * factor.
  std::optional<ValueId> scaled_node(const Node& node, double factor) const {
    if (node.inputs.size() != 2) return std::nullopt;
    if (node.op_type == "Mul") {
      float number = 0;
      std::optional<ValueId> x = beside_scalar(node, number);
      return x && near(number, factor) ? x : std::nullopt;
    }
    std::optional<float> divisor = r_.scalar_beside(node.inputs[1], node.inputs[0]);
    return divisor && near(*divisor, 1 / factor) ? std::optional(node.inputs[0]) : std::nullopt;
  }

  // 1 + erf(x / sqrt 2) or 1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)): which it is, and x.
  std::optional<Found> gelu_factor(ValueId id) const {
    float one = 0;
    std::optional<ValueId> inner = beside_scalar(id, "Add", one);
    if (!inner || one != 1 || !r_.read_once(*inner)) return std::nullopt;
    if (const Node* erf = r_.made_by(*inner, "Erf")) {
      std::optional<ValueId> x = scaled(erf->inputs[0], std::sqrt(0.5));
      if (x) return Found(*x, Activation::kGelu);
      return std::nullopt;
    }
    ValueId argument = kNoValue;
    if (const Node* tanh = r_.producer(*inner)) {
      const std::optional<Found> activation = activation_of(*tanh);
      if (activation && activation->activation == Activation::kTanh) argument = activation->x;
    }
    if (argument == kNoValue) return std::nullopt;
    std::optional<ValueId> sum = scaled(argument, std::sqrt(2 / 3.14159265358979323846));
    if (!sum) return std::nullopt;
    std::optional<ValueId> x = cubic(*sum);
    if (!x) return std::nullopt;
    return Found(*x, Activation::kGeluTanh);
  }

  // x of x + 0.044715 x^3, or of x (1 + 0.044715 x^2).
  std::optional<ValueId> cubic(ValueId id) const {
    const Node* sum = r_.producer(id);
    if (!sum || !r_.read_once(id) || !sum->domain.empty() || sum->inputs.size() != 2) return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const ValueId x = sum->inputs[side], rest = sum->inputs[1 - side];
      if (sum->op_type == "Add" && power_times(rest, x, 3, 0.044715)) return x;
      if (sum->op_type == "Mul") {
        float one = 0;
        std::optional<ValueId> square = beside_scalar(rest, "Add", one);
        if (square && one == 1 && power_times(*square, x, 2, 0.044715)) return x;
      }
    }
    return std::nullopt;
  }

  // id = factor * x^power, a product in any order; Pow counts as its exponent.
  bool power_times(ValueId id, ValueId x, int power, double factor) const {
    double number = 1;
    int found = 0;
    std::vector<ValueId> parts{id};
    for (int steps = 0; !parts.empty(); ++steps) {
      if (steps > 8) return false;
      const ValueId part = parts.back();
      parts.pop_back();
      if (part == x) {
        ++found;
        continue;
      }
      if (std::optional<float> constant = r_.scalar_beside(part, x)) {
        number *= *constant;
        continue;
      }
      const Node* node = r_.producer(part);
      if (!node || !r_.read_once(part) || !node->domain.empty() || node->inputs.size() != 2) return false;
      if (node->op_type == "Mul") {
        parts.push_back(node->inputs[0]);
        parts.push_back(node->inputs[1]);
      } else if (node->op_type == "Pow" && node->inputs[0] == x) {
        std::optional<float> exponent = r_.scalar_beside(node->inputs[1], x);
        if (!exponent || (*exponent != 2 && *exponent != 3)) return false;
        found += static_cast<int>(*exponent);
      } else {
        return false;
      }
    }
    return found == power && near(static_cast<float>(number), factor);
  }

  // A product of x, 0.5 and the gelu factor in any order and grouping.
  std::optional<Found> gelu(const Node& node) const {
    if (node.inputs.size() != 2) return std::nullopt;
    std::vector<ValueId> leaves;
    bool half = node.op_type == "Div";
    for (ValueId part : node.inputs) {
      if (node.op_type == "Div" && part == node.inputs[1]) continue;
      const Node* inner = r_.made_by(part, "Mul");
      if (inner && r_.read_once(part) && leaves.size() < 2 && inner->inputs.size() == 2) {
        leaves.insert(leaves.end(), inner->inputs.begin(), inner->inputs.end());
      } else if (const Node* halved = r_.made_by(part, "Div");
                 halved && r_.read_once(part) && r_.scalar(halved->inputs[1]) == 2.0f) {
        leaves.push_back(halved->inputs[0]);
        half = true;
      } else {
        leaves.push_back(part);
      }
    }
    std::optional<Found> factor;
    ValueId x = kNoValue;
    for (ValueId leaf : leaves) {
      if (!half && r_.scalar(leaf) == 0.5f) {
        half = true;
        continue;
      }
      if (!factor) {
        factor = gelu_factor(leaf);
        if (factor) continue;
      }
      if (x != kNoValue) return std::nullopt;
      x = leaf;
    }
    if (!half || !factor || x == kNoValue || factor->x != x) return std::nullopt;
    if (!r_.same_shape(x, node.outputs[0]) && !only_scalars_beside(leaves, x)) return std::nullopt;
    return factor;
  }

  // The constants cannot have raised the rank.
  bool only_scalars_beside(const std::vector<ValueId>& leaves, ValueId x) const {
    for (ValueId leaf : leaves)
      if (r_.scalar(leaf) && !r_.scalar_beside(leaf, x)) return false;
    return true;
  }

  const Rewriter& r_;
};

}  // namespace

Status pass_activations(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  const Matcher matcher(rewriter);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (std::optional<Node> function = matcher.function_of(node)) {
      rewriter.replace(i, *std::move(function));
      continue;
    }
    std::optional<Found> found = matcher.match(node);
    if (!found) continue;
    Node fused = make_internal("Activation", node.name, {found->x}, node.outputs);
    write_activation(fused, *found);
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
