// RNN 7, GRU 7 and LSTM 7, and com.microsoft's DynamicQuantizeLSTM: a cell that runs over a sequence, forwards,
// backwards or both.
#pragma once

#include <string>

#include "ops/input_shapes.h"
#include "ops/unary.h"

namespace tenon {

struct RecurrentDesc {
  enum class Cell : uint8_t { kRnn, kGru, kLstm };
  // Inputs of the node: X, W, R, B, sequence_lens, initial_h, initial_c and P of the ONNX operators. RNN and GRU end
  // with the initial hidden state.
  enum Input : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };
  // DynamicQuantizeLSTM has these besides, and its W and R are [directions,input,4*hidden] and
  // [directions,hidden,4*hidden]. A scale or zero point is [directions] or [directions,4*hidden].
  enum QuantizedInput : size_t { kWScale = 8, kWZero, kRScale, kRZero };

  Cell cell = Cell::kRnn;
  int64_t gates = 1;                 // 1, 3 or 4
  int64_t functions = 1;             // gate functions of a direction: 1, 2 or 3
  int64_t directions = 1;            // 2: the second one runs backwards
  bool reverse = false;              // the only direction runs backwards
  bool batch_first = false;          // layout 1
  bool linear_before_reset = false;  // GRU
  bool quantized = false;            // DynamicQuantizeLSTM
  bool couple_gates = false;         // LSTM's input_forget: the forget gate is 1 - the input gate
  float clip = 0;                    // of what goes into a gate function, to [-clip, clip]; 0: unbounded
  int64_t length = 0, batch = 0, input = 0, hidden = 0;
  // The gate functions, direction by direction. Attribute `activations` names them in any case, as ONNX Runtime takes
  // them; activation_alpha and activation_beta have values for those that take one, in order, as far as they go.
  std::vector<UnaryDesc> gate_functions;

  int64_t width() const { return gates * hidden; }
  // Of one hidden or cell state, and of Y.
  Shape state() const;
  Shape y() const;
};

// Errors: X, W or R is absent, an unknown direction or activation, a wrong number of activations, shapes that do not
// fit; the message has the values.
Result<RecurrentDesc> read_recurrent(const Node& node, const InputShapes& shapes);

}  // namespace tenon
