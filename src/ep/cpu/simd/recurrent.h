// The steps of an LSTM, GRU or RNN cell after its products, for one entry of a batch: gate functions and new states.
//
// Units lie in blocks of 16: a row of gates is [block][gate][16], a state [block][16]. Units that only fill the last
// block have gates of 0 and states of 0, and keep those.
#pragma once

#include <cstdint>

namespace tenon::cpu {

inline constexpr int64_t kCellBlock = 16;

struct CellTask {
  const float* input = nullptr;      // the product with X and the biases, a row of gates
  const float* recurrent = nullptr;  // the product with the state, a row of gates
  const float* before = nullptr;     // the state of the step before
  float* after = nullptr;            // the new state; not `before`
  int64_t blocks = 0;
  float clip = 0;  // of what goes into a gate function; infinity: unbounded
  // LSTM: the cell state, changed in place; the peepholes of the input, output and forget gate, or null.
  float* cell = nullptr;
  const float* peepholes[3] = {nullptr, nullptr, nullptr};
  bool couple_gates = false;  // the forget gate is 1 - the input gate
  // GRU without linear_before_reset: the update gate, and what is multiplied by the hidden gate's weights.
  float* update = nullptr;
  float* reset = nullptr;
};

// With the functions that ONNX takes by default: sigmoid, and tanh for the cell, the hidden gate and the state.
struct RecurrentTable {
  void (*lstm)(const CellTask&);        // gates: input, output, forget, cell
  void (*gru)(const CellTask&);         // linear_before_reset; gates: update, reset, hidden
  void (*gru_reset)(const CellTask&);   // first half of the other GRU: `recurrent` has the gates update and reset
  void (*gru_hidden)(const CellTask&);  // second half: `recurrent` has the hidden gate
  void (*rnn)(const CellTask&);         // tanh
  void (*rnn_relu)(const CellTask&);
};

const RecurrentTable& recurrent_table();

}  // namespace tenon::cpu
