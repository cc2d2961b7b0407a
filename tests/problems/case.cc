#include "problems/case.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/status.h"
#include "graph/model_writer.h"
#include "graph/schema.h"
#include "ops/activation_formula.h"

namespace tenon::problems {

namespace writer = model_writer;

namespace {

// The activations of epilogues, from the project's list.
struct ActivationRow {
  Activation activation;
  std::string_view word, op;
  double alpha, beta;
};
// A parameter of the list: an attribute's default, or a number.
double parameter(std::string_view op, std::string_view attribute) { return schema_default(op, attribute); }
double parameter(std::string_view, double number) { return number; }

constexpr std::string_view attribute(std::string_view name) { return name; }
constexpr double fixed(double value) { return value; }
constexpr double unused() { return 0; }

std::optional<Schema> schema_of(std::string_view op, int opset) {
  const auto schema = find_schema("", op, opset);
  return schema ? schema : find_schema("", op, newest_opset(""));
}

const std::vector<ActivationRow>& activation_rows() {
#define ROW_(Name, text, op, since, alpha, beta, cost, formula) \
  {Activation::k##Name, text, op, parameter(op, alpha), parameter(op, beta)},
  static const std::vector<ActivationRow> rows = {TENON_ACTIVATIONS(ROW_)};
#undef ROW_
  return rows;
}

// "clip:-0.25:0.5" with its parameters.
struct ActivationWord {
  const ActivationRow* row = nullptr;
  double alpha = 0, beta = 0;
  bool given = false;
};
Result<ActivationWord> read_activation(const std::string& word) {
  ActivationWord read;
  const size_t first = word.find(':');
  for (const ActivationRow& row : activation_rows())
    if (row.word == word.substr(0, first)) read.row = &row;
  TENON_INVALID_IF(read.row == nullptr, "There is no activation \"{}\".", word);
  read.alpha = read.row->activation == Activation::kClip ? -0.25 : read.row->alpha;
  read.beta = read.row->activation == Activation::kClip ? 0.5 : read.row->beta;
  if (first == std::string::npos) return read;
  read.given = true;
  const size_t second = word.find(':', first + 1);
  read.alpha = std::strtod(word.c_str() + first + 1, nullptr);
  if (second != std::string::npos) read.beta = std::strtod(word.c_str() + second + 1, nullptr);
  return read;
}

}  // namespace

double schema_default(std::string_view op, std::string_view attribute, int opset) {
  const auto schema = schema_of(op, opset);
  const auto found = schema ? schema->find_attribute(attribute) : std::nullopt;
  return !found || found->default_value.data() == nullptr
             ? 0
             : static_cast<float>(std::strtod(std::string(found->default_value).c_str(), nullptr));
}

bool schema_takes(std::string_view op, DataType type, int opset) {
  const auto schema = schema_of(op, opset);
  if (!schema) return true;
  const auto constraint = schema->find_constraint(schema->input(0)->type);
  return !constraint || (constraint->tensor_types >> static_cast<int>(type) & 1) != 0;
}

std::vector<std::string> activation_words() {
  std::vector<std::string> words;
  for (const ActivationRow& row : activation_rows()) words.emplace_back(row.word);
  return words;
}

Result<std::function<double(double)>> activation_of(const std::string& word) {
  TENON_TRY_ASSIGN(const ActivationWord read, read_activation(word));
  // The parameters are stored as f32.
  const double a = static_cast<float>(read.alpha), b = static_cast<float>(read.beta);
  const Unary function = unary_of(read.row->activation);
  return std::function<double(double)>([=](double x) { return evaluate(function, x, a, b); });
}

Case::Case(const Problem& problem, uint64_t seed)
    : problem_(problem), random_(seed), opset_(static_cast<int>(problem.integer("opset", kNewestStock))) {}

void Case::needs_opset(int opset) {
  if (!problem_.has("opset")) opset_ = std::max(opset_, opset);
}

Value Case::add(const std::string& name, Array data, Role role) {
  const bool constant =
      role == Role::kWeight ? !problem_.has("weights") : role == Role::kShape && !problem_.has("shapes");
  std::vector<std::byte> bytes(data.v.size() * data_type_size(data.type));
  for (size_t i = 0; i < data.v.size(); ++i) encode(data.v[i], data.type, bytes.data() + i * data_type_size(data.type));
  if (constant) {
    initializers_.push_back(writer::raw_tensor(name, static_cast<int>(data.type), data.dims, bytes));
  } else {
    std::vector<writer::DimText> dims;
    for (size_t i = 0; i < data.dims.size(); ++i) {
      if (problem_.has("dynamic") && role != Role::kShape) {
        dims.emplace_back(format("{}_{}", name, i));
      } else {
        dims.emplace_back(data.dims[i]);
      }
    }
    inputs_.push_back(writer::value_info(name, writer::tensor_type(static_cast<int>(data.type), dims)));
    feeds_.push_back({name, data.type, data.dims, std::move(bytes)});
  }
  return {name, std::move(data)};
}

Value Case::random(const std::string& name, DataType type, const Dims& dims, double low, double high, Role role) {
  Array data(type, dims);
  low = std::max(low, lowest(type)), high = std::min(high, highest(type));
  if (is_float(type)) {
    std::uniform_real_distribution<double> reals(low, high);
    for (double& value : data.v) value = round_to(reals(random_), type);
  } else {
    std::uniform_int_distribution<int64_t> integers(static_cast<int64_t>(std::ceil(std::max(low, -9e15))),
                                                    static_cast<int64_t>(std::floor(std::min(high, 9e15))));
    for (double& value : data.v) value = static_cast<double>(integers(random_));
  }
  return add(name, std::move(data), role);
}

Value Case::data(const std::string& name, const Dims& dims, double low, double high) {
  const std::vector<double> range = problem_.numbers("range", {low, high});
  const auto fed = [&](const Dims& of) { return random(name, problem_.type, of, range[0], range.back()); };
  if (problem_.has("transposed") && dims.size() >= 2) {
    Dims swapped = dims, order(dims.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    const size_t last = dims.size() - 1;
    std::swap(swapped[last], swapped[last - 1]);
    std::swap(order[last], order[last - 1]);
    const Value from = fed(swapped);
    return {node("Transpose", {from.name}, {writer::ints_attribute("perm", order)}),
            moved(from.data, dims, [&](int64_t i) {
              std::vector<int64_t> at = index_of(i, dims);
              std::swap(at[last], at[last - 1]);
              return offset_of(at, swapped);
            })};
  }
  if (problem_.has("channels_last") && dims.size() >= 3) {
    Dims last = dims, order(dims.size());
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    for (size_t i = 1; i < order.size(); ++i) order[i] = static_cast<int64_t>(i) - 1;
    order[0] = 0, order[1] = static_cast<int64_t>(dims.size()) - 1;
    const Value from = fed(last);
    return {node("Transpose", {from.name}, {writer::ints_attribute("perm", order)}),
            moved(from.data, dims, [&](int64_t i) {
              std::vector<int64_t> at = index_of(i, dims);
              std::rotate(at.begin() + 1, at.begin() + 2, at.end());
              return offset_of(at, last);
            })};
  }
  if (problem_.has("sliced") && !dims.empty()) {
    Dims larger = dims;
    larger[0] += 2;
    const Value from = fed(larger), first = integers(name + "_first", {1}),
                end = integers(name + "_end", {dims[0] + 1});
    const int64_t skipped = product(dims) / std::max<int64_t>(1, dims[0]);
    return {node("Slice", {from.name, first.name, end.name}),
            moved(from.data, dims, [&](int64_t i) { return i + skipped; })};
  }
  if (problem_.has("blocked") && dims.size() >= 3) {
    // Bytes become numbers for the convolution, and bytes again.
    const bool bytes = problem_.type == DataType::kUint8 || problem_.type == DataType::kInt8;
    const DataType type = bytes ? DataType::kFloat : problem_.type;
    const Value from = fed(dims);
    const int64_t channels = dims[1];
    Dims one(dims.size(), 1);
    one[0] = one[1] = channels;
    std::vector<double> identity(static_cast<size_t>(channels * channels));
    for (int64_t c = 0; c < channels; ++c) identity[static_cast<size_t>(c * channels + c)] = 1;
    const Value weights = values(name + "_identity", type, one, identity, Role::kWeight);
    if (!bytes) return {node("Conv", {from.name, weights.name}), from.data};
    const std::string numbers = node("Cast", {from.name}, {writer::int_attribute("to", static_cast<int64_t>(type))});
    const Value scale = values(name + "_scale", type, {}, {1}, Role::kWeight);
    const Value zero = values(name + "_zero", problem_.type, {}, {0}, Role::kWeight);
    const std::string made = node("Conv", {numbers, weights.name});
    return {node("QuantizeLinear", {made, scale.name, zero.name}), from.data};
  }
  return problem_.has("computed") ? computed(fed(dims)) : fed(dims);
}

Value Case::computed(const Value& from) {
  Value made{node("Neg", {from.name}), from.data};
  for (double& value : made.data.v) value = -value;
  return made;
}

Value Case::weight(const std::string& name, const Dims& dims, double low, double high) {
  return random(name, problem_.type, dims, low, high, Role::kWeight);
}

Value Case::values(const std::string& name, DataType type, const Dims& dims, const std::vector<double>& values,
                   Role role) {
  Array data(type, dims);
  for (size_t i = 0; i < data.v.size(); ++i) data.v[i] = round_to(values[i], type);
  return add(name, std::move(data), role);
}

Value Case::integers(const std::string& name, const Dims& values, Role role) {
  return this->values(name, DataType::kInt64, {static_cast<int64_t>(values.size())},
                      std::vector<double>(values.begin(), values.end()), role);
}

std::vector<std::string> Case::nodes(const std::string& op, const std::vector<std::string>& inputs, size_t outputs,
                                     const std::vector<std::string>& attributes) {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(format("{}_{}_{}", op, nodes_.size(), i));
  std::vector<std::string> used = inputs;
  while (!used.empty() && used.back().empty()) used.pop_back();
  nodes_.push_back(writer::node({.op_type = op,
                                 .inputs = used,
                                 .outputs = names,
                                 .attributes = attributes,
                                 .name = format("node{}", nodes_.size())}));
  return names;
}

std::string Case::node(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& attributes) {
  return nodes(op, inputs, 1, attributes)[0];
}

void Case::expect(const std::string& name, Array wanted) {
  std::vector<writer::DimText> dims;
  for (size_t i = 0; i < wanted.dims.size(); ++i) {
    if (problem_.has("dynamic") || problem_.has("shapes")) {
      dims.emplace_back(format("{}_{}", name, i));
    } else {
      dims.emplace_back(wanted.dims[i]);
    }
  }
  outputs_.push_back(writer::value_info(name, writer::tensor_type(static_cast<int>(wanted.type), dims)));
  expected_.push_back({name, std::move(wanted)});
}

Value Case::epilogue(Value z) {
  const std::string word = problem_.word("act", "none");
  const Result<ActivationWord> read = read_activation(word);
  const std::string residual = problem_.word("residual");
  const DataType type = z.data.type;
  Value other;
  if (!residual.empty()) other = random("residual", type, z.data.dims, -1, 1);
  if (!residual.empty() && problem_.has("computed")) other = computed(other);
  const auto add_residual = [&] {
    z.name = node("Add", {z.name, other.name});
    for (int64_t i = 0; i < z.data.count(); ++i) {
      Number y = at(z.data, i);
      // The residual may be added before the sum is complete.
      y.e += 2 * sum_roundoff(type) * std::fabs(other.data[i]);
      y.v += other.data[i];
      put(z.data, i, stored(y, type));
    }
  };
  if (residual == "before") add_residual();
  const ActivationRow& row = *read->row;
  if (row.activation != Activation::kNone) {
    const auto set = [&](std::vector<std::string> attributes) {
      if (read->given)
        for (const auto& [key, value] : {std::pair{"alpha", read->alpha}, {"beta", read->beta}})
          if (row.op == "HardSigmoid" || (row.op == "LeakyRelu" && std::string_view(key) == "alpha"))
            attributes.push_back(writer::float_attribute(key, static_cast<float>(value)));
      return attributes;
    };
    if (row.activation == Activation::kClip) {
      const Value low = values("clip_low", type, {}, {read->alpha}, Role::kWeight),
                  high = values("clip_high", type, {}, {read->beta}, Role::kWeight);
      z.name = node("Clip", {z.name, low.name, high.name});
      const double a = low.data[0], b = high.data[0];
      z.data = map(z.data, 0, [=](double x) { return std::min(b, std::max(a, x)); });
    } else {
      if (!row.op.empty()) {
        z.name = node(std::string(row.op), {z.name}, set({}));
      } else if (row.activation == Activation::kSilu) {
        z.name = node("Mul", {z.name, node("Sigmoid", {z.name})});
      } else {  // gelu_tanh
        z.name = node("Gelu", {z.name}, {writer::string_attribute("approximate", "tanh")});
      }
      const Result<std::function<double(double)>> f = activation_of(word);
      z.data = map(z.data, 8, *f);
      // A chain of nodes rounds in between.
      if (row.op.empty())
        for (int64_t i = 0; i < z.data.count(); ++i) z.data.error(i) += unit_roundoff(type) * std::fabs(z.data[i]);
    }
  }
  if (residual == "after") add_residual();
  return z;
}

std::string Case::model() const {
  return writer::model(
      writer::graph({.nodes = nodes_, .inputs = inputs_, .outputs = outputs_, .initializers = initializers_}),
      {.ir_version = 10, .opsets = {writer::opset("", opset_)}});
}

}  // namespace tenon::problems
