#include "ep/cpu/simd/recurrent.h"

#include "ep/cpu/simd/math8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Calls body(unit, gates), whose second argument is where the first gate of these 8 units lies in a row of kGates.
template <int kGates, typename Body>
TENON_INLINE void for_units(const CellTask& t, const Body& body) {
  for (int64_t block = 0; block < t.blocks; ++block)
    for (int64_t half = 0; half < kCellBlock; half += 8)
      body(block * kCellBlock + half, block * kGates * kCellBlock + half);
}

TENON_INLINE F8 bounded(F8 x, float clip) { return clamp8(x, -clip, clip); }

template <bool kPeepholes>
TENON_INLINE void lstm_units(const CellTask& t) {
  for_units<4>(t, [&](int64_t unit, int64_t gates) {
    const auto gate = [&](int64_t index) {
      const int64_t at = gates + index * kCellBlock;
      return load8(t.input + at) + load8(t.recurrent + at);
    };
    F8 c = load8(t.cell + unit);
    const auto peeped = [&](F8 x, int which) { return kPeepholes ? fma8(load8(t.peepholes[which] + unit), c, x) : x; };
    const F8 in = sigmoid8(bounded(peeped(gate(0), 0), t.clip));
    const F8 forget = t.couple_gates ? set8(1.0f) - in : sigmoid8(bounded(peeped(gate(2), 2), t.clip));
    c = fma8(forget, c, in * tanh8(bounded(gate(3), t.clip)));
    store8(t.cell + unit, c);
    const F8 out = sigmoid8(bounded(peeped(gate(1), 1), t.clip));
    store8(t.after + unit, out * tanh8(c));
  });
}

void lstm(const CellTask& t) { t.peepholes[0] != nullptr ? lstm_units<true>(t) : lstm_units<false>(t); }

// (1 - update) * hidden + update * before
TENON_INLINE F8 mixed(F8 update, F8 hidden, F8 before) { return fma8(update, before - hidden, hidden); }

void gru(const CellTask& t) {
  for_units<3>(t, [&](int64_t unit, int64_t gates) {
    const auto input = [&](int64_t index) { return load8(t.input + gates + index * kCellBlock); };
    const auto recurrent = [&](int64_t index) { return load8(t.recurrent + gates + index * kCellBlock); };
    const F8 update = sigmoid8(bounded(input(0) + recurrent(0), t.clip));
    const F8 reset = sigmoid8(bounded(input(1) + recurrent(1), t.clip));
    const F8 hidden = tanh8(bounded(fma8(reset, recurrent(2), input(2)), t.clip));
    store8(t.after + unit, mixed(update, hidden, load8(t.before + unit)));
  });
}

void gru_reset(const CellTask& t) {
  for_units<3>(t, [&](int64_t unit, int64_t gates) {
    const int64_t two_gates = unit / kCellBlock * 2 * kCellBlock + unit % kCellBlock;
    const F8 update = load8(t.input + gates) + load8(t.recurrent + two_gates);
    const F8 reset = load8(t.input + gates + kCellBlock) + load8(t.recurrent + two_gates + kCellBlock);
    store8(t.update + unit, sigmoid8(bounded(update, t.clip)));
    store8(t.reset + unit, sigmoid8(bounded(reset, t.clip)) * load8(t.before + unit));
  });
}

void gru_hidden(const CellTask& t) {
  for_units<3>(t, [&](int64_t unit, int64_t gates) {
    const F8 sum = load8(t.input + gates + 2 * kCellBlock) + load8(t.recurrent + unit);
    const F8 hidden = tanh8(bounded(sum, t.clip));
    store8(t.after + unit, mixed(load8(t.update + unit), hidden, load8(t.before + unit)));
  });
}

template <bool kRelu>
void rnn(const CellTask& t) {
  for_units<1>(t, [&](int64_t unit, int64_t gates) {
    const F8 x = bounded(load8(t.input + gates) + load8(t.recurrent + gates), t.clip);
    store8(t.after + unit, kRelu ? max8(zero8(), x) : tanh8(x));
  });
}

}  // namespace

extern const RecurrentTable recurrent_table;
const RecurrentTable recurrent_table = {&lstm, &gru, &gru_reset, &gru_hidden, &rnn<false>, &rnn<true>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
