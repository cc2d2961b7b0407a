#include "ops/random.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

RandomDesc read_random(const Node& node) {
  const Attributes attributes(node);
  if (node.op_type.starts_with("RandomNormal"))
    return {.normal = true, .mean = attributes.number("mean"), .scale = attributes.number("scale")};
  return {.low = attributes.number("low"), .high = attributes.number("high")};
}

std::optional<float> read_seed(const Node& node) { return Attributes(node).find_number("seed"); }

Result<MultinomialDesc> read_multinomial(const Node& node, const Shape& weights) {
  TENON_INVALID_IF(weights.rank() != 2, "Multinomial needs a matrix of weights, not {}.", weights.to_string());
  const MultinomialDesc desc{
      .batch = weights[0], .classes = weights[1], .samples = Attributes(node).integer("sample_size")};
  TENON_INVALID_IF(desc.samples < 0, "Multinomial has sample_size {}.", desc.samples);
  TENON_INVALID_IF(desc.classes == 0 && desc.batch > 0 && desc.samples > 0,
                   "Multinomial has nothing to draw from: its input is {}.", weights.to_string());
  return desc;
}

bool is_random_operator(const Node& node) {
  return node.domain.empty() &&
         (node.op_type.starts_with("Random") || node.op_type == "Bernoulli" || node.op_type == "Multinomial");
}

namespace infer {
namespace {

Status infer_random(Context& c) {
  const Attributes attributes(c.node());
  c.set_type(0, static_cast<DataType>(attributes.integer("dtype")));
  TENON_TRY_ASSIGN(Dims dims, known_dims(attributes.integers("shape")));
  return c.set_dims(0, std::move(dims));
}

Status infer_multinomial(Context& c) {
  const Attributes attributes(c.node());
  c.set_type(0, static_cast<DataType>(attributes.integer("dtype")));
  TENON_TRY(c.require_rank(0, 2, "input"));
  const int64_t samples = attributes.integer("sample_size");
  TENON_INVALID_IF(samples < 0, "Attribute \"sample_size\" is {}.", samples);
  return c.set_dims(0, {c.ranked(0) ? c.dims(0)[0] : Dim{}, number(samples)});
}

constexpr Row kRows[] = {
    {"Multinomial", &infer_multinomial},
    {"RandomNormal", &infer_random},
    {"RandomUniform", &infer_random},
};

}  // namespace

std::span<const Row> random_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
