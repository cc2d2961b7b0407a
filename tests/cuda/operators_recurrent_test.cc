// LSTM, GRU and RNN on the device against the CPU EP, in every way that their steps can run.
#include "operators_testing.h"

namespace tenon::cuda {
namespace {

struct Recurrence {
  const char* cell;
  int64_t length = small_sizes() ? 4 : 5, batch = 3, input = 16, hidden = 24;
  std::string direction = "forward";
  bool linear_before_reset = false, batch_first = false;
  std::vector<int64_t> lengths;  // empty: none are given
  bool initial = true, bias = true, peepholes = false, constant = true;
  std::function<void(Node&)> more;
};

class Recurrent : public Operators {
 protected:
  void check_cell(const Recurrence& r, const std::string& choice) {
    const int64_t gates = r.cell == std::string("LSTM") ? 4 : r.cell == std::string("GRU") ? 3 : 1;
    const int64_t directions = r.direction == "bidirectional" ? 2 : 1, width = gates * r.hidden;
    const Operand missing{.shape = Shape{0}, .absent = true};
    const Shape state = r.batch_first ? Shape{r.batch, directions, r.hidden} : Shape{directions, r.batch, r.hidden};
    // Sums of many terms stay where the functions are not flat.
    const float reach = 2.0F / std::sqrt(static_cast<float>(r.hidden));
    const auto matrix = [&](Shape shape) {
      return Operand{.shape = shape, .constant = r.constant, .low = -reach, .high = reach};
    };
    Case test{
        .name = r.cell,
        .inputs = {{.shape = r.batch_first ? Shape{r.batch, r.length, r.input} : Shape{r.length, r.batch, r.input}},
                   matrix({directions, width, r.input}),
                   matrix({directions, width, r.hidden}),
                   r.bias ? matrix({directions, 2 * width}) : missing,
                   r.lengths.empty()
                       ? missing
                       : Operand{.shape = Shape{r.batch}, .type = DataType::kInt32, .integers = r.lengths},
                   r.initial ? Operand{.shape = state} : missing},
        .attributes =
            [&](Node& node) {
              node.set_int("hidden_size", r.hidden);
              node.set_string("direction", r.direction);
              if (r.linear_before_reset) node.set_int("linear_before_reset", 1);
              if (r.batch_first) node.set_int("layout", 1);
              if (r.more) r.more(node);
            },
        .since = 14,
        .outputs = gates == 4 ? size_t{3} : size_t{2},
        .choice = choice,
        .tf32 = !small_sizes()};  // it changes the product before the steps alone
    if (gates == 4) {
      test.inputs.push_back(r.initial ? Operand{.shape = state} : missing);
      if (r.peepholes) test.inputs.push_back(matrix({directions, 3 * r.hidden}));
    }
    SCOPED_TRACE(format("{} {} T {} B {} H {} {}", choice, r.direction, r.length, r.batch, r.hidden,
                        r.linear_before_reset ? "linear before reset" : ""));
    check(test);
  }
};

constexpr const char* kChoices[] = {"cluster 1", "cluster 4", "steps"};

TEST_F(Recurrent, EveryCellInEveryDirection) {
  for (const char* choice : kChoices)
    for (const char* direction : {"bidirectional", "forward", "reverse"}) {
      if (small_sizes() && direction != std::string("bidirectional")) continue;
      check_cell({.cell = "LSTM", .direction = direction}, choice);
      check_cell({.cell = "GRU", .direction = direction}, choice);
      check_cell({.cell = "GRU", .direction = direction, .linear_before_reset = true}, choice);
      check_cell({.cell = "RNN", .direction = direction}, choice);
    }
}

TEST_F(Recurrent, SequencesEndWhereTheirLengthsSay) {
  for (const char* choice : kChoices)
    for (const char* cell : {"LSTM", "GRU", "RNN"})
      for (const bool batch_first : {false, true})
        check_cell({.cell = cell,
                    .length = 6,
                    .batch = 5,
                    .direction = "bidirectional",
                    .batch_first = batch_first,
                    .lengths = {6, 0, 1, 5, 3}},
                   choice);
}

// Rows in registers, in shared memory, and in both; sizes that are no multiple of anything.
TEST_F(Recurrent, HiddenSizesOfEveryKind) {
  if (small_sizes()) {
    // The more warps wait for each other's blocks, the slower are tools: many rows in one block, wide ones in few
    // warps.
    check_cell({.cell = "GRU", .batch = 1, .input = 9, .hidden = 33, .linear_before_reset = true}, "cluster 1");
    check_cell({.cell = "LSTM", .batch = 6, .hidden = 33}, "cluster 1");
    for (const int64_t hidden : {200, 300, 530}) {
      const int64_t length = hidden > 416 ? 1 : 2;  // beyond 416 all rows are in shared memory: that alone is slow
      check_cell({.cell = "RNN", .length = length, .batch = 1, .hidden = hidden}, "cluster 8");
      check_cell({.cell = "RNN", .length = length, .batch = 2, .hidden = hidden}, "cluster 8");
      check_cell({.cell = "GRU", .length = 2, .batch = 2, .hidden = hidden}, "steps");
    }
    return;
  }
  for (const int64_t hidden : {1, 7, 33, 128, 300, 400, 530}) {
    check_cell({.cell = "GRU", .batch = 1, .input = 9, .hidden = hidden, .linear_before_reset = true}, "cluster 8");
    check_cell({.cell = "LSTM", .batch = 6, .input = 40, .hidden = hidden}, "cluster 8");
    check_cell({.cell = "GRU", .batch = 2, .hidden = hidden}, "cluster 4");
    check_cell({.cell = "RNN", .batch = 2, .hidden = hidden}, "steps");
  }
}

TEST_F(Recurrent, MoreBlocksThanEveryDeviceHasTogether) {
  check_cell({.cell = "GRU",
              .length = small_sizes() ? 4 : 40,
              .batch = 1,
              .input = small_sizes() ? 16 : 400,
              .hidden = small_sizes() ? 70 : 400,
              .linear_before_reset = true},
             "cluster 16");
}

TEST_F(Recurrent, OneStepAndNone) {
  for (const char* choice : kChoices)
    for (const int64_t length : {0, 1})
      for (const char* cell : {"LSTM", "GRU", "RNN"})
        check_cell({.cell = cell, .length = length, .direction = "bidirectional"}, choice);
}

TEST_F(Recurrent, WithoutBiasOrStateAndWithComputedWeights) {
  for (const char* choice : kChoices)
    for (const char* cell : {"LSTM", "GRU", "RNN"}) {
      check_cell({.cell = cell, .initial = false, .bias = false}, choice);
      check_cell({.cell = cell, .direction = "bidirectional", .constant = false}, choice);
    }
}

TEST_F(Recurrent, PeepholesClipAndCoupledGates) {
  for (const char* choice : kChoices) {
    check_cell({.cell = "LSTM", .direction = "bidirectional", .peepholes = true}, choice);
    check_cell({.cell = "LSTM",
                .peepholes = true,
                .more =
                    [](Node& node) {
                      node.set_int("input_forget", 1);
                      node.set_float("clip", 0.3F);
                    }},
               choice);
  }
}

TEST_F(Recurrent, EveryFunction) {
  for (const char* name : {"Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus",
                           "Softsign", "Tanh", "ThresholdedRelu"})
    check_cell({.cell = "RNN",
                .more =
                    [&](Node& node) {
                      Attribute names{.name = "activations", .kind = AttributeKind::kStrings};
                      names.strings = {name};
                      node.attributes.edit().push_back(names);
                    }},
               "cluster 2");
}

}  // namespace
}  // namespace tenon::cuda
