// LSTM, GRU and RNN on f32, with the functions of gates that ONNX takes by default (RNN: Tanh or Relu).
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_recurrent(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_recurrent(const KernelNode& node);

}  // namespace tenon::cpu::nn
