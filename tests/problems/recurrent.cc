// recurrent: RNN, GRU and LSTM of t steps, b batches, i inputs and h hidden numbers. `direction=`, `cell=` (one
// function for all gates), `clip=`, the flags bias, initial, lengths, peephole and linear_before_reset.
#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"
#include "ops/activation_formula.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// The functions that ONNX allows for gates, and the parameters that they have by default.
struct Cell {
  const char* name;
  Unary function;
  double alpha, beta;
};
double alpha_of(Unary function) {
  switch (function) {
    case Unary::kLeakyRelu:
      return static_cast<float>(0.01);
    case Unary::kHardSigmoid:
      return static_cast<float>(0.2);
    default:
      return 1;
  }
}
double beta_of(Unary function) {
  return function == Unary::kHardSigmoid ? 0.5 : function == Unary::kScaledTanh ? 1 : 0;
}
const std::vector<Cell>& cells() {
#define CELL_(Name) {#Name, Unary::k##Name, alpha_of(Unary::k##Name), beta_of(Unary::k##Name)},
  static const std::vector<Cell> rows = {TENON_CELL_FUNCTIONS(CELL_)};
#undef CELL_
  return rows;
}
const Cell& cell_of(const std::string& name) {
  return *std::find_if(cells().begin(), cells().end(), [&](const Cell& cell) { return cell.name == name; });
}

// Numbers with their bounds, which grow from step to step.
Number plus(const Number& a, const Number& b) { return {a.v + b.v, a.e + b.e}; }
Number times(const Number& a, const Number& b) {
  return {a.v * b.v, std::fabs(a.v) * b.e + std::fabs(b.v) * a.e + a.e * b.e};
}

struct Sizes {
  int64_t steps, batch, inputs, hidden, gates;
};

// One direction: reads x [t,b,i], gives y for each step and the last state of each batch.
class Direction {
 public:
  Direction(const Problem& problem, const Sizes& sizes, int64_t index, bool reverse)
      : problem_(problem), sizes_(sizes), index_(index), reverse_(reverse) {}

  const Value *x = nullptr, *w = nullptr, *r = nullptr, *bias = nullptr, *lengths = nullptr, *h0 = nullptr,
              *c0 = nullptr, *peephole = nullptr;

  // `y` has [t, directions, b, h], the states [directions, b, h].
  void run(int64_t directions, Array& y, Array& y_h, Array& y_c) const {
    const auto& [steps, batch, inputs, hidden, gates] = sizes_;
    for (int64_t n = 0; n < batch; ++n) {
      const int64_t length = lengths == nullptr ? steps : static_cast<int64_t>(lengths->data[n]);
      std::vector<Number> h(static_cast<size_t>(hidden)), c(static_cast<size_t>(hidden));
      for (int64_t j = 0; j < hidden; ++j) {
        const int64_t at = (index_ * batch + n) * hidden + j;
        if (h0 != nullptr) h[static_cast<size_t>(j)].v = h0->data[at];
        if (c0 != nullptr) c[static_cast<size_t>(j)].v = c0->data[at];
      }
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = reverse_ ? length - 1 - s : s;
        step(n, t, h, c);
        for (int64_t j = 0; j < hidden; ++j)
          put(y, ((t * directions + index_) * batch + n) * hidden + j, h[static_cast<size_t>(j)]);
      }
      for (int64_t j = 0; j < hidden; ++j) {
        put(y_h, (index_ * batch + n) * hidden + j, h[static_cast<size_t>(j)]);
        put(y_c, (index_ * batch + n) * hidden + j, c[static_cast<size_t>(j)]);
      }
    }
  }

 private:
  Number act(const Number& z, const char* standard) const {
    const Cell cell = cell_of(problem_.word("cell", standard));
    Number clipped = z;
    if (problem_.has("clip")) {
      const double limit = static_cast<float>(problem_.number("clip", 0));
      clipped.v = std::clamp(z.v, -limit, limit);
    }
    return stored(through(clipped, problem_.type, 8,
                          [&](double value) { return evaluate(cell.function, value, cell.alpha, cell.beta); }),
                  problem_.type);
  }
  // W x + Wb of one gate's row, or R h + Rb.
  Number from_input(int64_t gate, int64_t j, int64_t n, int64_t t) const {
    const int64_t row = (index_ * sizes_.gates + gate) * sizes_.hidden + j;
    double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < sizes_.inputs; ++i) {
      const double term = w->data[row * sizes_.inputs + i] * x->data[(t * sizes_.batch + n) * sizes_.inputs + i];
      sum += term;
      magnitude += std::fabs(term);
    }
    return with_bias({sum, product_bound(problem_.type, sizes_.inputs, magnitude)}, gate, j);
  }
  Number from_state(int64_t gate, int64_t j, const std::vector<Number>& h) const {
    const int64_t row = (index_ * sizes_.gates + gate) * sizes_.hidden + j;
    double sum = 0, magnitude = 0, carried = 0;
    for (int64_t i = 0; i < sizes_.hidden; ++i) {
      const double weight = r->data[row * sizes_.hidden + i];
      sum += weight * h[static_cast<size_t>(i)].v;
      magnitude += std::fabs(weight * h[static_cast<size_t>(i)].v);
      carried += std::fabs(weight) * h[static_cast<size_t>(i)].e;
    }
    return with_bias({sum, product_bound(problem_.type, sizes_.hidden, magnitude) + carried}, gate + sizes_.gates, j);
  }
  Number with_bias(Number z, int64_t gate, int64_t j) const {
    if (bias != nullptr) {
      const double b = bias->data[(index_ * 2 * sizes_.gates + gate) * sizes_.hidden + j];
      z = {z.v + b, z.e + 2 * sum_roundoff(problem_.type) * std::fabs(b)};
    }
    return stored(z, problem_.type);
  }
  Number peep(int64_t which, int64_t j, const Number& c) const {
    if (peephole == nullptr) return {};
    return stored(times({peephole->data[(index_ * 3 + which) * sizes_.hidden + j], 0}, c), problem_.type);
  }

  void step(int64_t n, int64_t t, std::vector<Number>& h, std::vector<Number>& c) const {
    const std::vector<Number> before = h;
    const auto gate = [&](int64_t g, int64_t j) { return plus(from_input(g, j, n, t), from_state(g, j, before)); };
    const auto hidden = static_cast<size_t>(sizes_.hidden);
    std::vector<Number> reset(hidden);
    if (problem_.op == "GRU")
      for (size_t j = 0; j < hidden; ++j) reset[j] = act(gate(1, static_cast<int64_t>(j)), "Sigmoid");
    for (size_t k = 0; k < hidden; ++k) {
      const auto j = static_cast<int64_t>(k);
      if (problem_.op == "RNN") {
        h[k] = act(gate(0, j), "Tanh");
      } else if (problem_.op == "GRU") {
        const Number z = act(gate(0, j), "Sigmoid");
        Number candidate;
        if (problem_.has("linear_before_reset")) {
          candidate = plus(from_input(2, j, n, t), times(reset[k], from_state(2, j, before)));
        } else {
          std::vector<Number> kept = before;
          for (size_t i = 0; i < hidden; ++i) kept[i] = times(reset[i], before[i]);
          candidate = plus(from_input(2, j, n, t), from_state(2, j, kept));
        }
        candidate = act(candidate, "Tanh");
        h[k] = stored(plus(times({1 - z.v, z.e}, candidate), times(z, before[k])), problem_.type);
      } else {  // LSTM: input, output, forget, cell
        const Number in = act(plus(gate(0, j), peep(0, j, c[k])), "Sigmoid"),
                     forget = act(plus(gate(2, j), peep(2, j, c[k])), "Sigmoid"), cell = act(gate(3, j), "Tanh");
        c[k] = stored(plus(times(forget, c[k]), times(in, cell)), problem_.type);
        const Number out = act(plus(gate(1, j), peep(1, j, c[k])), "Sigmoid");
        h[k] = stored(times(out, unclipped(c[k])), problem_.type);
      }
    }
  }
  // The last function of an LSTM is not clipped.
  Number unclipped(const Number& c) const {
    const Cell cell = cell_of(problem_.word("cell", "Tanh"));
    return stored(through(c, problem_.type, 8,
                          [&](double value) { return evaluate(cell.function, value, cell.alpha, cell.beta); }),
                  problem_.type);
  }

  const Problem& problem_;
  const Sizes sizes_;
  const int64_t index_;
  const bool reverse_;
};

Status build(const Problem& problem, Case& test) {
  const bool lstm = problem.op == "LSTM";
  const std::string direction = problem.word("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1, gates = lstm ? 4 : problem.op == "GRU" ? 3 : 1;
  const Sizes sizes{problem.size("t", 1), problem.size("b", 1), problem.size("i", 1), problem.size("h", 1), gates};
  const int64_t hidden = sizes.hidden;
  const Value x = test.data("x", {sizes.steps, sizes.batch, sizes.inputs}),
              w = test.weight("w", {directions, gates * hidden, sizes.inputs}, -0.5, 0.5),
              r = test.weight("r", {directions, gates * hidden, hidden}, -0.5, 0.5);
  Value bias, lengths, h0, c0, peephole;
  if (problem.has("bias")) bias = test.weight("b", {directions, 2 * gates * hidden}, -0.5, 0.5);
  if (problem.has("lengths")) {
    std::vector<double> values;
    for (int64_t n = 0; n < sizes.batch; ++n) values.push_back(static_cast<double>(sizes.steps - n % sizes.steps));
    lengths = test.values("lengths", DataType::kInt32, {sizes.batch}, values, Role::kData);
  }
  if (problem.has("initial")) {
    h0 = test.data("h0", {directions, sizes.batch, hidden});
    if (lstm) c0 = test.data("c0", {directions, sizes.batch, hidden});
  }
  if (problem.has("peephole")) peephole = test.weight("p", {directions, 3 * hidden}, -0.5, 0.5);
  Array y(problem.type, {sizes.steps, directions, sizes.batch, hidden}),
      y_h(problem.type, {directions, sizes.batch, hidden}), y_c = y_h;
  for (int64_t d = 0; d < directions; ++d) {
    Direction one(problem, sizes, d, direction == "reverse" || d == 1);
    const auto given = [](const Value& value) { return value.name.empty() ? nullptr : &value; };
    one.x = &x, one.w = &w, one.r = &r, one.bias = given(bias), one.lengths = given(lengths), one.h0 = given(h0),
    one.c0 = given(c0), one.peephole = given(peephole);
    one.run(directions, y, y_h, y_c);
  }
  std::vector<std::string> attributes = {int_attribute("hidden_size", hidden)};
  if (problem.has("direction")) attributes.push_back(string_attribute("direction", direction));
  if (problem.has("cell"))
    attributes.push_back(
        strings_attribute("activations", Texts(static_cast<size_t>(directions * (lstm                  ? 3
                                                                                 : problem.op == "GRU" ? 2
                                                                                                       : 1)),
                                               problem.word("cell"))));
  if (problem.has("clip")) attributes.push_back(float_attribute("clip", static_cast<float>(problem.number("clip", 0))));
  if (problem.has("linear_before_reset")) attributes.push_back(int_attribute("linear_before_reset", 1));
  const std::vector<std::string> names =
      test.nodes(problem.op, {x.name, w.name, r.name, bias.name, lengths.name, h0.name, c0.name, peephole.name},
                 lstm ? 3 : 2, attributes);
  test.expect(names[0], y);
  test.expect(names[1], y_h);
  if (lstm) test.expect(names[2], y_c);
  return {};
}

std::vector<std::string> cell_words() {
  std::vector<std::string> words;
  for (const Cell& cell : cells()) words.emplace_back(cell.name);
  return words;
}

}  // namespace

std::vector<Family> recurrent_families() {
  using Kind = Option::Kind;
  return {{.name = "recurrent",
           .operators = {"RNN", "GRU", "LSTM"},
           .sizes = {{"t", "b", "i", "h"}},
           .options = {{"direction", Kind::kWord, {"forward", "reverse", "bidirectional"}},
                       {"cell", Kind::kWord, cell_words()},
                       {"clip", Kind::kNumber},
                       {"bias"},
                       {"initial"},
                       {"lengths"},
                       {"peephole"},
                       {"linear_before_reset"}},
           .types = {DataType::kFloat, DataType::kFloat16, DataType::kDouble},
           .build = build}};
}

}  // namespace tenon::problems
