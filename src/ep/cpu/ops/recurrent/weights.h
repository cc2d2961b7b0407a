// The weights and biases of LSTM, GRU and RNN as their f32 kernel reads them: a panel of the product (simd/gemm.h) is
// one gate of 16 units, and the gates of a block of 16 units follow each other.
#pragma once

#include <memory>

#include "ep/api/kernel.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/recurrent.h"
#include "ops/recurrent.h"

namespace tenon::cpu::nn {

static_assert(kCellBlock == kGemmPanel);

// Sizes in floats.
struct CellSizes {
  explicit CellSizes(const RecurrentDesc& desc);
  int64_t blocks;  // of 16 units
  int64_t state;   // a state: 16 a block
  int64_t row;     // a row of gates: 16 a gate and block
  // Of one direction. The GRU without linear_before_reset multiplies its hidden gate by another vector than the other
  // two: those come first in its packed R, then the hidden gates of all blocks.
  bool hidden_apart;
  int64_t packed_w, packed_r;
  int64_t bias;  // two rows: for the product with X and for that with the state
};

// W and R without subnormal numbers. On the pool if there is one.
using PackCell = void(const RecurrentDesc& desc, const float* from, float* packed, ThreadPool* pool);
PackCell pack_cell_w, pack_cell_r;
// `from` may be null.
PackCell pack_cell_bias;
// The three peepholes of each direction, as states.
PackCell pack_cell_peepholes;

}  // namespace tenon::cpu::nn
