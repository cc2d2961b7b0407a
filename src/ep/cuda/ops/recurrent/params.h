// The parameters of the recurrent kernels (recurrent/recurrent.cu), as host and device read them.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cuda {

enum RecurrentCell : int32_t { kCellRnn, kCellGru, kCellLstm };

struct CellFunction {
  Unary kind = Unary::kTanh;
  float alpha = 0, beta = 0;
};

// Matrices are as ONNX has them. Strides are in elements. What may be null says so.
struct RecurrentParams {
  const void* inputs = nullptr;      // all inputs times W: [row][direction][gate][hidden]
  const void* r = nullptr;           // [direction][gate][hidden][hidden]
  const void* bias = nullptr;        // [direction][of W, of R][gate][hidden]; may be null
  const int32_t* lengths = nullptr;  // one a sequence; may be null
  const void* initial_h = nullptr;   // these two: zeros where null
  const void* initial_c = nullptr;
  const void* peepholes = nullptr;  // [direction][input, output, forget][hidden]; may be null
  void* y = nullptr;                // these three: not wanted where null
  void* y_h = nullptr;
  void* y_c = nullptr;
  float* state = nullptr;  // of the kernel for one step: 2 of h, then c, the update gate and reset * h, all of them
                           // [direction][sequence][hidden]
  int32_t cell = kCellRnn, gates = 1;
  int32_t length = 0, batch = 0, hidden = 0, directions = 1;
  int32_t units = 0;  // hidden units of a block
  int32_t reverse = 0;
  int32_t linear_before_reset = 0, couple_gates = 0;
  int32_t constant_weights = 0;  // they may be read before the kernel before this one has ended
  int32_t step = 0, phase = 0;   // of the kernel for one step; phase 1 is the second half of a GRU's step
  float clip = 0;                // 0: none
  CellFunction functions[2][3];
  int64_t inputs_time = 0, inputs_sequence = 0;
  int64_t y_time = 0, y_sequence = 0, y_direction = 0;
  int64_t state_sequence = 0, state_direction = 0;
};

}  // namespace tenon::cuda
