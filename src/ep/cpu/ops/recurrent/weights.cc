#include "ep/cpu/ops/recurrent/weights.h"

#include <algorithm>

#include "ep/cpu/ops/vector_kernel.h"

namespace tenon::cpu::nn {

namespace {

// Gates [first, last) of all blocks, from [gates * hidden][depth] rows.
void pack_gates(const RecurrentDesc& desc, const float* weights, int64_t depth, int64_t first, int64_t last,
                float* packed, ThreadPool* pool) {
  const int64_t gates = last - first, panels = gemm_panels(desc.hidden) * gates;
  const auto pack = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t unit = i / gates * kCellBlock, gate = first + i % gates;
      float* const panel = packed + i * depth * kGemmPanel;
      gemm_table().pack(weights + (gate * desc.hidden + unit) * depth, 1, depth, depth,
                        std::min(kCellBlock, desc.hidden - unit), 0, 1, panel);
      clear_subnormals({panel, static_cast<size_t>(depth * kGemmPanel)});
    }
  };
  if (pool == nullptr) return pack(0, panels);
  pool->parallel_for(panels, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, depth)), pack);
}

}  // namespace

CellSizes::CellSizes(const RecurrentDesc& desc)
    : blocks(gemm_panels(desc.hidden)),
      state(blocks * kCellBlock),
      row(desc.gates * state),
      hidden_apart(desc.cell == RecurrentDesc::Cell::kGru && !desc.linear_before_reset),
      packed_w(row * desc.input),
      packed_r(row * desc.hidden),
      bias(2 * row) {}

void pack_cell_w(const RecurrentDesc& desc, const float* w, float* packed, ThreadPool* pool) {
  const CellSizes sizes(desc);
  for (int64_t d = 0; d < desc.directions; ++d)
    pack_gates(desc, w + d * desc.width() * desc.input, desc.input, 0, desc.gates, packed + d * sizes.packed_w, pool);
}

void pack_cell_r(const RecurrentDesc& desc, const float* r, float* packed, ThreadPool* pool) {
  const CellSizes sizes(desc);
  for (int64_t d = 0; d < desc.directions; ++d) {
    const float* const from = r + d * desc.width() * desc.hidden;
    float* const to = packed + d * sizes.packed_r;
    if (sizes.hidden_apart) {
      pack_gates(desc, from, desc.hidden, 0, 2, to, pool);
      pack_gates(desc, from, desc.hidden, 2, 3, to + 2 * sizes.state * desc.hidden, pool);
    } else {
      pack_gates(desc, from, desc.hidden, 0, desc.gates, to, pool);
    }
  }
}

void pack_cell_bias(const RecurrentDesc& desc, const float* bias, float* packed, ThreadPool*) {
  const CellSizes sizes(desc);
  std::fill_n(packed, desc.directions * sizes.bias, 0.0f);
  for (int64_t d = 0; d < desc.directions && bias != nullptr; ++d) {
    const float* const of_w = bias + 2 * d * desc.width();
    const float* const of_r = of_w + desc.width();
    float* const to_x = packed + d * sizes.bias;
    float* const to_state = to_x + sizes.row;
    for (int64_t gate = 0; gate < desc.gates; ++gate) {
      for (int64_t unit = 0; unit < desc.hidden; ++unit) {
        const int64_t from = gate * desc.hidden + unit;
        const int64_t to = (unit / kCellBlock * desc.gates + gate) * kCellBlock + unit % kCellBlock;
        // Only linear_before_reset multiplies a bias of the state, that of the hidden gate.
        const bool apart = desc.linear_before_reset && gate == 2;
        to_x[to] = of_w[from] + (apart ? 0 : of_r[from]);
        if (apart) to_state[to] = of_r[from];
      }
    }
  }
}

void pack_cell_peepholes(const RecurrentDesc& desc, const float* peepholes, float* packed, ThreadPool*) {
  const CellSizes sizes(desc);
  std::fill_n(packed, 3 * desc.directions * sizes.state, 0.0f);
  for (int64_t i = 0; i < 3 * desc.directions; ++i)
    std::copy_n(peepholes + i * desc.hidden, desc.hidden, packed + i * sizes.state);
}

}  // namespace tenon::cpu::nn
