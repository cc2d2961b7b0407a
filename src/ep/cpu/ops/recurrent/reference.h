// The rows of LSTM, GRU and RNN.
#pragma once

#include <span>

#include "ep/api/kernel.h"

namespace tenon::cpu::ref {

std::span<const KernelEntry> ref_recurrent_rows();

}  // namespace tenon::cpu::ref
