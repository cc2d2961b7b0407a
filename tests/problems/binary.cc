// binary: two shapes, broadcast; a power, comparisons, bits and PRelu among them. variadic: Sum, Mean, Max and Min of
// any number of shapes. where: the condition's shape and two more. cast: one shape, `to=`.
#include <limits>

#include "base/format.h"
#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

struct Row {
  const char* op;
  double (*f)(double, double);
  enum class Kind { kArithmetic, kCompare, kLogic, kBits } kind;
  bool floor_mod = false;
};

uint64_t bits(double x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); }

double wrapped(double x, DataType type) {
  if (is_float(type)) return x;
  const double size = highest(type) - lowest(type) + 1;
  const double low = lowest(type);
  return x - std::floor((x - low) / size) * size;
}

const Row kRows[] = {
    {"Add", [](double a, double b) { return a + b; }, Row::Kind::kArithmetic},
    {"Sub", [](double a, double b) { return a - b; }, Row::Kind::kArithmetic},
    {"Mul", [](double a, double b) { return a * b; }, Row::Kind::kArithmetic},
    {"Div", [](double a, double b) { return a / b; }, Row::Kind::kArithmetic},
    {"Max", [](double a, double b) { return std::max(a, b); }, Row::Kind::kArithmetic},
    {"Min", [](double a, double b) { return std::min(a, b); }, Row::Kind::kArithmetic},
    {"Pow", [](double a, double b) { return std::pow(a, b); }, Row::Kind::kArithmetic},
    {"PRelu", [](double a, double b) { return a < 0 ? a * b : a; }, Row::Kind::kArithmetic},
    {"Mod", [](double a, double b) { return a - std::floor(a / b) * b; }, Row::Kind::kArithmetic},
    {"Equal", [](double a, double b) -> double { return a == b; }, Row::Kind::kCompare},
    {"Less", [](double a, double b) -> double { return a < b; }, Row::Kind::kCompare},
    {"LessOrEqual", [](double a, double b) -> double { return a <= b; }, Row::Kind::kCompare},
    {"Greater", [](double a, double b) -> double { return a > b; }, Row::Kind::kCompare},
    {"GreaterOrEqual", [](double a, double b) -> double { return a >= b; }, Row::Kind::kCompare},
    {"And", [](double a, double b) -> double { return a != 0 && b != 0; }, Row::Kind::kLogic},
    {"Or", [](double a, double b) -> double { return a != 0 || b != 0; }, Row::Kind::kLogic},
    {"Xor", [](double a, double b) -> double { return (a != 0) != (b != 0); }, Row::Kind::kLogic},
    {"BitwiseAnd",
     [](double a, double b) -> double { return static_cast<double>(static_cast<int64_t>(bits(a) & bits(b))); },
     Row::Kind::kBits},
    {"BitwiseOr",
     [](double a, double b) -> double { return static_cast<double>(static_cast<int64_t>(bits(a) | bits(b))); },
     Row::Kind::kBits},
    {"BitwiseXor",
     [](double a, double b) -> double { return static_cast<double>(static_cast<int64_t>(bits(a) ^ bits(b))); },
     Row::Kind::kBits},
};

Status build_binary(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const Row* row = nullptr;
  for (const Row& one : kRows)
    if (problem.op == one.op) row = &one;
  const bool numbers = row->kind == Row::Kind::kArithmetic || row->kind == Row::Kind::kCompare;
  TENON_INVALID_IF(numbers && problem.op != "Equal" && type == DataType::kBool, "{} takes numbers.", problem.op);
  TENON_INVALID_IF(row->kind == Row::Kind::kBits && (is_float(type) || type == DataType::kBool), "{} takes integers.",
                   problem.op);
  TENON_INVALID_IF(row->kind == Row::Kind::kLogic && type != DataType::kBool, "{} takes bool.", problem.op);
  TENON_INVALID_IF(problem.op == "PRelu" && !is_float(type), "PRelu takes floating-point numbers here.");
  // Small integers, so that comparisons find equals; divisors and bases of powers that are no zero.
  double low = is_float(type) ? -2 : lowest(type) < 0 ? -9 : 0, high = is_float(type) ? 2 : 9;
  if (type == DataType::kBool) low = 0, high = 1;
  const bool divides = problem.op == "Div" || problem.op == "Mod", power = problem.op == "Pow";
  const auto operand = [&](const char* name, size_t i, bool constant) {
    double from = low, to = high;
    if (power && i == 0) from = is_float(type) ? 0.25 : 1, to = 3;
    if (power && i == 1) to = 3, from = is_float(type) ? -3 : 0;
    if (divides && i == 1) from = is_float(type) ? 0.5 : 1;
    if (i == 1 && problem.has("exponent"))
      return test.values(
          name, type, problem.shapes[i],
          std::vector<double>(static_cast<size_t>(product(problem.shapes[i])), problem.number("exponent", 1)),
          Role::kWeight);
    return constant ? test.weight(name, problem.shapes[i], from, to) : test.data(name, problem.shapes[i], from, to);
  };
  const Value a = operand("a", 0, problem.has("consta")), b = operand("b", 1, problem.has("constb"));
  const bool fmod = problem.op == "Mod" && is_float(type), integer_division = problem.op == "Div" && !is_float(type);
  const auto f = [&](double x, double y) {
    if (fmod) return std::fmod(x, y);
    const double z = row->f(x, y);
    return integer_division ? std::trunc(z) : z;
  };
  Array y = map(a.data, b.data, f);
  if (numbers && row->kind == Row::Kind::kArithmetic) {
    for (int64_t i = 0; i < y.count(); ++i) {
      y[i] = wrapped(y[i], type);
      if (power && is_float(type)) y.error(i) += 16 * sum_roundoff(type) * std::fabs(y[i]);
    }
  }
  if (row->kind == Row::Kind::kCompare || row->kind == Row::Kind::kLogic) y.type = DataType::kBool;
  if (!is_float(y.type)) std::fill(y.e.begin(), y.e.end(), 0);
  std::vector<std::string> attributes;
  if (fmod) attributes.push_back(int_attribute("fmod", 1));
  test.expect(test.node(problem.op, {a.name, b.name}, attributes), y);
  return {};
}

Status build_variadic(const Problem& problem, Case& test) {
  std::vector<Value> inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < problem.shapes.size(); ++i) {
    inputs.push_back(test.data(format("x{}", i), problem.shapes[i]));
    names.push_back(inputs.back().name);
  }
  Array y = inputs[0].data;
  for (size_t i = 1; i < inputs.size(); ++i)
    y = map(y, inputs[i].data, [&](double a, double b) {
      return problem.op == "Max" ? std::max(a, b) : problem.op == "Min" ? std::min(a, b) : a + b;
    });
  if (problem.op == "Mean") {
    const double count = static_cast<double>(inputs.size());
    y = map(y, 2, [=](double x) { return x / count; });
  }
  test.expect(test.node(problem.op, names), y);
  return {};
}

Status build_where(const Problem& problem, Case& test) {
  const Value c = test.random("c", DataType::kBool, problem.shapes[0], 0, 1);
  const double low = is_float(problem.type) ? -1 : 0, high = problem.type == DataType::kBool ? 1 : 9;
  const Value a = test.data("a", problem.shapes[1], low, high), b = test.data("b", problem.shapes[2], low, high);
  const Dims dims = broadcast(c.data.dims, broadcast(a.data.dims, b.data.dims));
  Array y(problem.type, dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    const Value& from = c.data[broadcast_index(i, dims, c.data.dims)] != 0 ? a : b;
    y[i] = from.data[broadcast_index(i, dims, from.data.dims)];
  }
  test.expect(test.node("Where", {c.name, a.name, b.name}), y);
  return {};
}

Status build_cast(const Problem& problem, Case& test) {
  const DataType to = *type_of(problem.word("to"));
  const bool from_float = is_float(problem.type);
  double low = std::max(lowest(problem.type), -100.0), high = std::min(highest(problem.type), 100.0);
  if (lowest(to) == 0) low = std::max(low, 0.0);
  const Value x = test.data("x", problem.shapes[0], low, high);
  Array y = x.data;
  y.type = to;
  for (double& value : y.v) {
    if (to == DataType::kBool) {
      value = value != 0;
    } else if (!is_float(to)) {
      value = wrapped(from_float ? std::trunc(value) : value, to);
    }
  }
  test.expect(test.node("Cast", {x.name}, {int_attribute("to", static_cast<int64_t>(to))}), y);
  return {};
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.op);
  return names;
}

std::vector<std::string> type_words() {
  std::vector<std::string> words;
  for (DataType type : kAll) words.emplace_back(type_word(type));
  return words;
}

}  // namespace

std::vector<Family> binary_families() {
  return {{.name = "binary",
           .operators = names(),
           .fewest_shapes = 2,
           .most_shapes = 2,
           .options = {{"consta"}, {"constb"}, {"exponent", Option::Kind::kNumber}},
           .types = kAll,
           .build = build_binary},
          {.name = "variadic",
           .operators = {"Sum", "Mean", "Max", "Min"},
           .fewest_shapes = 1,
           .most_shapes = 8,
           .types = kFloats,
           .build = build_variadic},
          {.name = "where", .fewest_shapes = 3, .most_shapes = 3, .types = kAll, .build = build_where},
          {.name = "cast",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"to", Option::Kind::kWord, type_words()}},
           .types = kAll,
           .build = build_cast}};
}

}  // namespace tenon::problems
