// attention: b batches, h heads, q queries, k keys of d numbers, values of v numbers; keys and values have g heads,
// each for several of the queries' (all of them in `exported`). cap= of scores cap * tanh(scores / cap). `nodes`:
// products, mask and softmax of tensors [b,h,t,d]; `exported`: from [b,t,h*d], as exporters write it, which the passes
// fuse; `Attention`: one node of opset 23. mask= full, row (one for each batch) or causal; causal is Attention's
// attribute. guarded: the model replaces NaN after the softmax by 0, and every key of the second query is masked with
// -infinity.
#include <limits>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Status build(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const int64_t batch = problem.size("b", 1), heads = problem.size("h", 1), queries = problem.size("q", 1),
                keys = problem.size("k", queries), depth = problem.size("d", 8), width = problem.size("v", depth),
                groups = problem.size("g", heads);
  const bool exported = problem.op == "exported", one_node = problem.op == "Attention";
  const std::string mask_kind = problem.word("mask");
  TENON_INVALID_IF(mask_kind == "causal" && !one_node, "mask=causal is an attribute of Attention.");
  const bool guarded = problem.has("guarded");
  TENON_INVALID_IF(guarded && one_node, "guarded is for nodes around a softmax.");
  if (one_node) test.needs_opset(23);
  TENON_INVALID_IF(groups < 1 || heads % groups != 0 || (exported && groups != heads),
                   "{} heads do not share {} of keys.", heads, groups);
  const double cap = problem.number("cap", 0);
  const auto part = [&](const char* name, int64_t count, int64_t tokens, int64_t size) {
    return exported ? test.data(name, {batch, tokens, count * size}) : test.data(name, {batch, count, tokens, size});
  };
  const Value q = part("q", heads, queries, depth), k = part("k", groups, keys, depth),
              v = part("v", groups, keys, width);
  const auto element = [&](const Value& value, int64_t n, int64_t h, int64_t t, int64_t i, int64_t tokens,
                           int64_t size) {
    const int64_t count = &value == &q ? heads : groups, head = &value == &q ? h : h / (heads / groups);
    return exported ? value.data[((n * tokens + t) * count + head) * size + i]
                    : value.data[((n * count + head) * tokens + t) * size + i];
  };
  const Dims scores = {batch, heads, queries, keys};
  Value mask;
  if (mask_kind == "full") mask = test.random("mask", type, {batch, 1, queries, keys}, -2, 2);
  if (mask_kind == "heads") mask = test.random("mask", type, {batch, heads, queries, keys}, -2, 2);
  if (mask_kind == "shared") mask = test.random("mask", type, {queries, keys}, -2, 2);
  if (mask_kind == "row") mask = test.random("mask", type, {batch, 1, 1, keys}, -2, 2);
  const double scale = round_to(problem.number("scale", 1 / std::sqrt(static_cast<double>(depth))), type);
  const double u = sum_roundoff(type), stored_once = unit_roundoff(type);
  Array y(type, exported ? Dims{batch, queries, heads * width} : Dims{batch, heads, queries, width});
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < queries; ++t) {
        std::vector<double> weights;
        double largest = -std::numeric_limits<double>::infinity(), bound = 0, total = 0;
        for (int64_t s = 0; s < keys; ++s) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < depth; ++i) {
            const double term = element(q, n, h, t, i, queries, depth) * element(k, n, h, s, i, keys, depth) * scale;
            sum += term;
            magnitude += std::fabs(term);
          }
          if (cap > 0) {
            sum = cap * std::tanh(sum / cap);
            magnitude += 8 * cap;
          }
          if (!mask.name.empty())
            sum += mask.data[broadcast_index(((n * heads + h) * queries + t) * keys + s, scores, mask.data.dims)];
          if ((mask_kind == "causal" && s > t) || (guarded && t == 1)) sum = -std::numeric_limits<double>::infinity();
          weights.push_back(sum);
          largest = std::max(largest, sum);
          // Scores may be stored before and after the mask, and as scaled queries and keys.
          if (std::isfinite(sum))
            bound = std::max(
                bound, product_bound(type, depth, magnitude) + stored_once * (3 * std::fabs(sum) + 2 * magnitude));
        }
        for (double& weight : weights) total += weight = std::exp(weight - largest);
        const double relative = 2 * bound + sum_bound(type, keys, 1) + 16 * u + 4 * stored_once;
        for (int64_t i = 0; i < width; ++i) {
          double sum = 0, magnitude = 0;
          for (int64_t s = 0; s < keys; ++s) {
            const double weight = guarded && t == 1 ? 0 : weights[static_cast<size_t>(s)] / total;
            const double term = weight * element(v, n, h, s, i, keys, width);
            sum += term;
            magnitude += std::fabs(term);
          }
          const int64_t to =
              exported ? ((n * queries + t) * heads + h) * width + i : ((n * heads + h) * queries + t) * width + i;
          put(y, to, stored({sum, relative * magnitude + product_bound(type, keys, magnitude)}, type));
        }
      }
  if (one_node) {
    std::vector<std::string> attributes;
    if (problem.has("scale")) attributes.push_back(float_attribute("scale", static_cast<float>(scale)));
    if (mask_kind == "causal") attributes.push_back(int_attribute("is_causal", 1));
    if (cap > 0) attributes.push_back(float_attribute("softcap", static_cast<float>(cap)));
    test.expect(test.node("Attention", {q.name, k.name, v.name, mask.name}, attributes), y);
    return {};
  }
  const auto split = [&](const Value& value, int64_t size, const Dims& order) -> std::string {
    if (!exported) {
      std::string all = value.name;
      if (&value != &q && groups != heads) {
        const Value wide = test.integers(value.name + "_wide", {batch, groups, heads / groups, keys, size}),
                    joined = test.integers(value.name + "_joined", {batch, heads, keys, size});
        all = test.node("Unsqueeze", {all, test.integers(value.name + "_axis", {2}).name});
        all = test.node("Reshape", {test.node("Expand", {all, wide.name}), joined.name});
      }
      return order[3] == 3 ? all : test.node("Transpose", {all}, {ints_attribute("perm", {0, 1, 3, 2})});
    }
    const Value to = test.integers(value.name + "_heads", {0, 0, heads, size});
    return test.node("Transpose", {test.node("Reshape", {value.name, to.name})}, {ints_attribute("perm", order)});
  };
  const std::string queries_of = split(q, depth, {0, 2, 1, 3}), keys_of = split(k, depth, {0, 2, 3, 1}),
                    values_of = split(v, width, {0, 2, 1, 3});
  const Value factor = test.values("scale", type, {}, {scale}, Role::kWeight);
  std::string scores_of = test.node("Mul", {test.node("MatMul", {queries_of, keys_of}), factor.name});
  if (cap > 0) {
    const Value most = test.values("cap", type, {}, {cap}, Role::kWeight);
    scores_of = test.node("Mul", {test.node("Tanh", {test.node("Div", {scores_of, most.name})}), most.name});
  }
  if (!mask.name.empty()) scores_of = test.node("Add", {scores_of, mask.name});
  if (guarded) {
    std::vector<double> never(static_cast<size_t>(queries));
    if (queries > 1) never[1] = -std::numeric_limits<double>::infinity();
    const Value second = test.values("never", type, {queries, 1}, never, Role::kWeight);
    scores_of = test.node("Add", {scores_of, second.name});
  }
  std::string weights_of = test.node("Softmax", {scores_of}, {int_attribute("axis", -1)});
  if (guarded) {
    const Value zero = test.values("zero", type, {}, {0}, Role::kWeight);
    weights_of = test.node("Where", {test.node("IsNaN", {weights_of}), zero.name, weights_of});
  }
  std::string result = test.node("MatMul", {weights_of, values_of});
  if (exported) {
    result = test.node("Transpose", {result}, {ints_attribute("perm", {0, 2, 1, 3})});
    result = test.node("Reshape", {result, test.integers("joined", {0, 0, heads * width}).name});
  }
  test.expect(result, y);
  return {};
}

}  // namespace

std::vector<Family> attention_families() {
  return {{.name = "attention",
           .operators = {"nodes", "exported", "Attention"},
           .sizes = {{"b", "h", "g", "q", "k", "d", "v"}},
           .options = {{"mask", Option::Kind::kWord, {"full", "row", "heads", "shared", "causal"}},
                       {"scale", Option::Kind::kNumber},
                       {"cap", Option::Kind::kNumber},
                       {"guarded"}},
           .types = kFloats,
           .build = build}};
}

}  // namespace tenon::problems
