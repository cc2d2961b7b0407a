#include "ep/cpu/simd/recurrent.h"

#include "ep/cpu/simd/math8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Calls body(unit, gates), whose second argument is where the first gate of these kWide units lies in a row of kGates.
template <int kGates, typename Body>
TENON_INLINE void for_units(const CellTask& t, const Body& body) {
  for (int64_t block = 0; block < t.blocks; ++block)
    for (int64_t part = 0; part < kCellBlock; part += kWide)
      body(block * kCellBlock + part, block * kGates * kCellBlock + part);
}

TENON_INLINE FW bounded(FW x, float clip) { return clamp8(x, -clip, clip); }

template <bool kPeepholes>
TENON_INLINE void lstm_units(const CellTask& t) {
  for_units<4>(t, [&](int64_t unit, int64_t gates) {
    const auto gate = [&](int64_t index) {
      const int64_t at = gates + index * kCellBlock;
      return load_wide(t.input + at) + load_wide(t.recurrent + at);
    };
    FW c = load_wide(t.cell + unit);
    const auto peeped = [&](FW x, int which) {
      return kPeepholes ? fma8(load_wide(t.peepholes[which] + unit), c, x) : x;
    };
    const FW in = sigmoid8(bounded(peeped(gate(0), 0), t.clip));
    const FW forget = t.couple_gates ? set_wide(1.0f) - in : sigmoid8(bounded(peeped(gate(2), 2), t.clip));
    c = fma8(forget, c, in * tanh8(bounded(gate(3), t.clip)));
    store_wide(t.cell + unit, c);
    const FW out = sigmoid8(bounded(peeped(gate(1), 1), t.clip));
    store_wide(t.after + unit, out * tanh8(c));
  });
}

void lstm(const CellTask& t) { t.peepholes[0] != nullptr ? lstm_units<true>(t) : lstm_units<false>(t); }

// (1 - update) * hidden + update * before
TENON_INLINE FW mixed(FW update, FW hidden, FW before) { return fma8(update, before - hidden, hidden); }

void gru(const CellTask& t) {
  for_units<3>(t, [&](int64_t unit, int64_t gates) {
    const auto input = [&](int64_t index) { return load_wide(t.input + gates + index * kCellBlock); };
    const auto recurrent = [&](int64_t index) { return load_wide(t.recurrent + gates + index * kCellBlock); };
    const FW update = sigmoid8(bounded(input(0) + recurrent(0), t.clip));
    const FW reset = sigmoid8(bounded(input(1) + recurrent(1), t.clip));
    const FW hidden = tanh8(bounded(fma8(reset, recurrent(2), input(2)), t.clip));
    store_wide(t.after + unit, mixed(update, hidden, load_wide(t.before + unit)));
  });
}

void gru_reset(const CellTask& t) {
  for_units<3>(t, [&](int64_t unit, int64_t gates) {
    const int64_t two_gates = unit / kCellBlock * 2 * kCellBlock + unit % kCellBlock;
    const FW update = load_wide(t.input + gates) + load_wide(t.recurrent + two_gates);
    const FW reset = load_wide(t.input + gates + kCellBlock) + load_wide(t.recurrent + two_gates + kCellBlock);
    store_wide(t.update + unit, sigmoid8(bounded(update, t.clip)));
    store_wide(t.reset + unit, sigmoid8(bounded(reset, t.clip)) * load_wide(t.before + unit));
  });
}

void gru_hidden(const CellTask& t) {
  for_units<3>(t, [&](int64_t unit, int64_t gates) {
    const FW sum = load_wide(t.input + gates + 2 * kCellBlock) + load_wide(t.recurrent + unit);
    const FW hidden = tanh8(bounded(sum, t.clip));
    store_wide(t.after + unit, mixed(load_wide(t.update + unit), hidden, load_wide(t.before + unit)));
  });
}

template <bool kRelu>
void rnn(const CellTask& t) {
  for_units<1>(t, [&](int64_t unit, int64_t gates) {
    const FW x = bounded(load_wide(t.input + gates) + load_wide(t.recurrent + gates), t.clip);
    store_wide(t.after + unit, kRelu ? max8(zero_wide(), x) : tanh8(x));
  });
}

}  // namespace

extern const RecurrentTable recurrent_table;
const RecurrentTable recurrent_table = {&lstm, &gru, &gru_reset, &gru_hidden, &rnn<false>, &rnn<true>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
