// unary: a function of one number, from the list of src/ops/activation_list.h, on one shape; also Not, BitwiseNot,
// IsNaN, IsInf, Identity and Clip as `pointwise`.
#include <limits>

#include "base/status.h"
#include "graph/model_writer.h"
#include "ops/activation_formula.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// A parameter of a row of the list.
struct Parameter {
  std::string_view attribute;
  double number = 0;
};
Parameter attribute(std::string_view name) { return {name}; }
Parameter fixed(double number) { return {"", number}; }
Parameter unused() { return {}; }

struct Row {
  Unary function;
  std::string op;
  int since;
  Parameter alpha, beta;
};

const std::vector<Row>& rows() {
#define ROW_(Name, text, op, since, alpha, beta, cost, formula) {Unary::k##Name, op, since, alpha, beta},
  static const std::vector<Row> all = {TENON_FUNCTIONS(ROW_)};
#undef ROW_
  return all;
}

Status build(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const std::string& op = problem.op;
  if (op == "Not" || op == "BitwiseNot" || op == "IsNaN" || op == "IsInf" || op == "Identity") {
    const Value x =
        test.data("x", problem.shapes[0], type == DataType::kBool ? 0 : -2, type == DataType::kBool ? 1 : 3);
    Array y = x.data;
    if (op == "IsNaN" || op == "IsInf") {
      // Divided by zero: infinities of both signs, and no number where x is zero.
      const Value zero = test.values("zero", type, {}, {0}, Role::kWeight);
      const std::string divided = test.node("Div", {test.node("Round", {x.name}), zero.name});
      for (double& value : y.v) {
        const double at = std::nearbyint(value);
        value = op == "IsNaN" ? at == 0 : at != 0;
      }
      y.type = DataType::kBool;
      test.expect(test.node(op, {divided}), y);
      return {};
    }
    for (double& value : y.v) {
      if (op == "Not") value = value == 0;
      if (op == "BitwiseNot") value = lowest(type) < 0 ? -1 - value : highest(type) - value;
    }
    test.expect(test.node(op, {x.name}), y);
    return {};
  }
  if (op == "Clip") {
    const Value x = test.data("x", problem.shapes[0], is_float(type) ? -4 : std::max(lowest(type), -9.0), 9);
    const std::vector<double> bounds = problem.numbers("bounds", {is_float(type) ? -0.5 : 1, 1.5});
    const Value low = std::isnan(bounds[0]) ? Value() : test.values("low", type, {}, {bounds[0]}, Role::kWeight),
                high =
                    std::isnan(bounds.back()) ? Value() : test.values("high", type, {}, {bounds.back()}, Role::kWeight);
    Array y = x.data;
    for (double& value : y.v) {
      if (!low.name.empty()) value = std::max(value, low.data[0]);
      if (!high.name.empty()) value = std::min(value, high.data[0]);
    }
    test.expect(test.node(op, {x.name, low.name, high.name}), y);
    return {};
  }
  const Row* row = nullptr;
  for (const Row& one : rows())
    if (one.op == op) row = &one;
  test.needs_opset(row->since);
  const Value x =
      test.data("x", problem.shapes[0], is_float(type) ? -4 : std::max(lowest(type), -9.0), is_float(type) ? 4 : 9);
  std::vector<std::string> attributes;
  double parameters[2] = {row->alpha.number, row->beta.number};
  for (int i = 0; i < 2; ++i) {
    const Parameter& parameter = i == 0 ? row->alpha : row->beta;
    if (parameter.attribute.empty()) continue;
    const char* option = i == 0 ? "alpha" : "beta";
    parameters[i] = static_cast<float>(problem.number(option, schema_default(op, parameter.attribute)));
    if (problem.has(option))
      attributes.push_back(float_attribute(parameter.attribute, static_cast<float>(parameters[i])));
  }
  const bool tanh_gelu = op == "Gelu" && problem.word("approximate") == "tanh";
  if (problem.has("approximate")) attributes.push_back(string_attribute("approximate", problem.word("approximate")));
  const Unary function = tanh_gelu ? Unary::kGeluTanh : row->function;
  const auto f = [&](double value) { return evaluate(function, value, parameters[0], parameters[1]); };
  Array y(type, problem.shapes[0]);
  for (int64_t i = 0; i < y.count(); ++i)
    put(y, i, is_float(type) ? stored(through(at(x.data, i), type, 8, f), type) : Number{f(x.data[i])});
  test.expect(test.node(op, {x.name}, attributes), y);
  return {};
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Row& row : rows())
    if (!row.op.empty() && row.op != "Clip") names.push_back(row.op);
  return names;
}

}  // namespace

std::vector<Family> unary_families() {
  return {{.name = "unary",
           .operators = names(),
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"alpha", Option::Kind::kNumber},
                       {"beta", Option::Kind::kNumber},
                       {"approximate", Option::Kind::kWord, {"none", "tanh"}}},
           .types = kNumbers,
           .build = build},
          {.name = "pointwise",
           .operators = {"Not", "BitwiseNot", "IsNaN", "IsInf", "Identity", "Clip"},
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"bounds", Option::Kind::kNumbers}},
           .types = kAll,
           .build = build}};
}

}  // namespace tenon::problems
