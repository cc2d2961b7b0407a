// LSTM, GRU and RNN after all inputs were multiplied with W.
//
// One kernel for all steps: a cluster of blocks serves one direction and up to kBatch sequences. All gates of a hidden
// unit are one block's, which keeps their rows of R in registers and shared memory; the hidden state is in the shared
// memory of every block, and each block tells the others what is new after each step. Where no cluster can keep R, a
// kernel for one step reads it from memory.
#include <cooperative_groups.h>

#include "ep/cuda/ops/common.cuh"
#include "ep/cuda/ops/recurrent/params.h"

namespace tenon::cuda::device {

namespace cg = cooperative_groups;

// Eight lanes share a row: each takes 16 bytes of a chunk of 128.
constexpr int kRowLanes = 8;
constexpr int kMaxGates = 4;

__device__ __forceinline__ void unpack(const uint4& bits, float (&values)[4], float) {
  values[0] = __uint_as_float(bits.x), values[1] = __uint_as_float(bits.y);
  values[2] = __uint_as_float(bits.z), values[3] = __uint_as_float(bits.w);
}
__device__ __forceinline__ float2 to_floats(uint32_t word, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
__device__ __forceinline__ float2 to_floats(uint32_t word, __nv_bfloat16) {
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}
template <typename T>
__device__ __forceinline__ void unpack(const uint4& bits, float (&values)[8], T type) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = to_floats(words[i], type);
    values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
  }
}

// Sums of one row for each sequence. Several chains of a single sequence's, because each addition waits for the last.
template <int kBatch>
struct Sums {
  static constexpr int kChains = kBatch == 1 ? 4 : 1;
  float parts[kBatch][kChains] = {};
};

// Adds 16 bytes of weights times the same elements of each sequence's state.
template <typename T, int kBatch>
__device__ __forceinline__ void add_products(Sums<kBatch>& sums, const uint4& bits, const float* h, int row_floats) {
  constexpr int kChains = Sums<kBatch>::kChains;
  constexpr int kVector = 16 / sizeof(T);
  float w[kVector];
  unpack(bits, w, T());
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
#pragma unroll
    for (int i = 0; i < kVector; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(h + b * row_floats + i);
      sums.parts[b][0] += w[i] * v.x;
      sums.parts[b][1 % kChains] += w[i + 1] * v.y;
      sums.parts[b][2 % kChains] += w[i + 2] * v.z;
      sums.parts[b][3 % kChains] += w[i + 3] * v.w;
    }
  }
}

// The whole sum of each sequence, in all lanes of the row.
template <int kBatch>
__device__ __forceinline__ void sum_lanes(const Sums<kBatch>& sums, float (&acc)[kBatch]) {
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    acc[b] = sums.parts[b][0];
    if (kBatch == 1)
      acc[b] = (acc[b] + sums.parts[b][1 % Sums<kBatch>::kChains]) +
               (sums.parts[b][2 % Sums<kBatch>::kChains] + sums.parts[b][3 % Sums<kBatch>::kChains]);
#pragma unroll
    for (int i = kRowLanes / 2; i > 0; i /= 2) acc[b] += __shfl_xor_sync(~0u, acc[b], i);
  }
}

__device__ __forceinline__ float apply(const CellFunction& f, float x) {
  switch (f.kind) {
#define TENON_CASE_(Name) \
  case Unary::k##Name:    \
    return Formulas<false>::apply<Unary::k##Name>(x, f.alpha, f.beta);
    TENON_CELL_FUNCTIONS(TENON_CASE_)
#undef TENON_CASE_
    default:
      return x;
  }
}

__device__ __forceinline__ float clipped(const RecurrentParams& p, float x) {
  return p.clip > 0.0f ? clamp(x, -p.clip, p.clip) : x;
}

__device__ __forceinline__ int length_of(const RecurrentParams& p, int sequence) {
  if (sequence >= p.batch) return 0;
  return p.lengths == nullptr ? p.length : min(max(p.lengths[sequence], 0), p.length);
}

__device__ __forceinline__ bool runs_backwards(const RecurrentParams& p, int direction) {
  return p.reverse != 0 || direction == 1;
}

// One hidden unit of one sequence: what its thread knows all the time.
template <typename T>
struct Unit {
  int sequence, direction, j;            // j: of all units
  float bias[kMaxGates] = {0, 0, 0, 0};  // of W and R; a GRU's last gate has R's apart
  float last_bias = 0;
  float peep[3] = {0, 0, 0};

  __device__ void load(const RecurrentParams& p) {
    const int width = p.gates * p.hidden;
    if (p.bias != nullptr) {
      const T* const of_w = static_cast<const T*>(p.bias) + static_cast<int64_t>(direction) * 2 * width;
#pragma unroll
      for (int g = 0; g < kMaxGates; ++g) {
        if (g >= p.gates) break;
        bias[g] = to_float(of_w[g * p.hidden + j]);
        const float of_r = to_float(of_w[width + g * p.hidden + j]);
        if (p.cell == kCellGru && g == 2) {
          last_bias = of_r;
        } else {
          bias[g] += of_r;
        }
      }
    }
    if (p.peepholes != nullptr)
#pragma unroll
      for (int k = 0; k < 3; ++k)
        peep[k] = to_float(static_cast<const T*>(p.peepholes)[(direction * 3 + k) * p.hidden + j]);
  }
  __device__ float initial(const RecurrentParams& p, const void* state) const {
    return state == nullptr ? 0.0f : to_float(static_cast<const T*>(state)[state_at(p)]);
  }
  __device__ int64_t state_at(const RecurrentParams& p) const {
    return sequence * p.state_sequence + direction * p.state_direction + j;
  }
  __device__ int64_t y_at(const RecurrentParams& p, int t) const {
    return t * p.y_time + sequence * p.y_sequence + direction * p.y_direction + j;
  }
  __device__ void load_inputs(const RecurrentParams& p, int t, float (&x)[kMaxGates]) const {
    const T* const from = static_cast<const T*>(p.inputs) + t * p.inputs_time + sequence * p.inputs_sequence +
                          static_cast<int64_t>(direction) * p.gates * p.hidden + j;
#pragma unroll
    for (int g = 0; g < kMaxGates; ++g) x[g] = g < p.gates ? to_float(from[g * p.hidden]) : 0.0f;
  }

  // Products with R are `sums[gate * stride]`. The gates of a GRU before its last one, whose product may need them:
  __device__ void update_and_reset(const RecurrentParams& p, const float (&x)[kMaxGates], const float* sums, int stride,
                                   float& update, float& reset) const {
    const CellFunction& f = p.functions[direction][0];
    update = apply(f, clipped(p, x[0] + bias[0] + sums[0]));
    reset = apply(f, clipped(p, x[1] + bias[1] + sums[stride]));
  }
  __device__ float gru(const RecurrentParams& p, float x, float product, float update, float reset, float h) const {
    const float recurrent = product + last_bias;
    const float sum = x + bias[2] + (p.linear_before_reset != 0 ? reset * recurrent : recurrent);
    return (1.0f - update) * apply(p.functions[direction][1], clipped(p, sum)) + update * h;
  }
  __device__ float lstm(const RecurrentParams& p, const float (&x)[kMaxGates], const float* sums, int stride,
                        float& c) const {
    const CellFunction* const f = p.functions[direction];
    const float in = apply(f[0], clipped(p, x[0] + bias[0] + sums[0] + peep[0] * c));
    const float forget =
        p.couple_gates != 0 ? 1.0f - in : apply(f[0], clipped(p, x[2] + bias[2] + sums[2 * stride] + peep[2] * c));
    c = forget * c + in * apply(f[1], clipped(p, x[3] + bias[3] + sums[3 * stride]));
    const float out = apply(f[0], clipped(p, x[1] + bias[1] + sums[stride] + peep[1] * c));
    return out * apply(f[2], c);
  }
  __device__ float rnn(const RecurrentParams& p, const float (&x)[kMaxGates], const float* sums) const {
    return apply(p.functions[direction][0], clipped(p, x[0] + bias[0] + sums[0]));
  }

  // Writes zeros after a sequence's end, and its last states.
  __device__ void finish(const RecurrentParams& p, int length, float h, float c) const {
    if (p.y != nullptr)
      for (int t = length; t < p.length; ++t) static_cast<T*>(p.y)[y_at(p, t)] = from_float<T>(0.0f);
    // A sequence without steps ends in 0, not in its initial states (docs/reference/operators.md).
    if (p.y_h != nullptr) static_cast<T*>(p.y_h)[state_at(p)] = from_float<T>(length > 0 ? h : 0.0f);
    if (p.y_c != nullptr) static_cast<T*>(p.y_c)[state_at(p)] = from_float<T>(length > 0 ? c : 0.0f);
  }
};

__device__ __forceinline__ uint32_t bits_of(float v) { return __float_as_uint(v); }
__device__ __forceinline__ uint32_t bits_of(__half v) { return __half_as_ushort(v); }
__device__ __forceinline__ uint32_t bits_of(__nv_bfloat16 v) { return __bfloat16_as_ushort(v); }

// 16 bytes of R: columns from `column` on of a block's row (gate * units + unit), zeros beyond the matrix.
template <typename T>
__device__ uint4 load_weights(const RecurrentParams& p, int direction, int first_unit, int row, int column) {
  constexpr int kVector = 16 / sizeof(T);
  const int gate = row / p.units, j = first_unit + row % p.units;
  const uint4 nothing = make_uint4(0, 0, 0, 0);
  if (gate >= p.gates || j >= p.hidden || column >= p.hidden) return nothing;
  const T* const from = static_cast<const T*>(p.r) +
                        (static_cast<int64_t>(direction * p.gates + gate) * p.hidden + j) * p.hidden + column;
  if (p.hidden % kVector == 0) return *reinterpret_cast<const uint4*>(from);
  // Rows that do not begin at 16 bytes.
  uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (column + i < p.hidden) words[i * sizeof(T) / 4] |= bits_of(from[i]) << (i * sizeof(T) % 4 * 8);
  return make_uint4(words[0], words[1], words[2], words[3]);
}

#if __CUDA_ARCH__ >= 900
// A barrier in shared memory that opens, once for each parity, when so many bytes have come from the cluster's blocks.
__device__ __forceinline__ void begin_barrier(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void wait_for_bytes(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;\n}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
// To the same address of another block, which its barrier counts.
__device__ __forceinline__ void store_to_peer(float* where, uint64_t* barrier, int peer, float value) {
  asm volatile(
      "{\n.reg .b32 address, counter;\nmapa.shared::cluster.u32 address, %0, %2;\nmapa.shared::cluster.u32 counter, "
      "%1, "
      "%2;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [address], %3, [counter];\n}\n" ::"r"(
          shared_address(where)),
      "r"(shared_address(barrier)), "r"(peer), "f"(value)
      : "memory");
}
#endif

// All steps. kChunks: of a row, where as many rows as the block has room for are held in registers; 0: none is. Grid:
// groups of sequences, directions, blocks of the cluster.
template <typename T, int kBatch, int kChunks>
__device__ __forceinline__ void recurrent_cluster(const RecurrentParams& p) {
#if __CUDA_ARCH__ >= 900
  constexpr int kVector = 16 / sizeof(T), kSpan = kRowLanes * kVector;
  extern __shared__ uint4 shared_memory[];
  const int direction = blockIdx.y, rank = blockIdx.z, blocks = gridDim.z, thread = threadIdx.x;
  const int warp_row = thread / 32 * 4, lane = thread % 32, warp_rows = blockDim.x / 32 * 4, part = lane % kRowLanes;
  const int first_unit = rank * p.units, rows = p.gates * p.units;
  const int chunks = kChunks > 0 ? kChunks : (p.hidden + kSpan - 1) / kSpan, row_floats = chunks * kSpan;
  // The rows that are not in registers are in shared memory, then come the states and the sums.
  const int held = kChunks > 0 ? min(rows, warp_rows) : 0;
  uint4* const weights = shared_memory;
  float* const hidden = reinterpret_cast<float*>(weights + (rows - held) * chunks * kRowLanes);
  float* const reset_hidden = hidden + 2 * kBatch * row_floats;
  const bool two_products = p.cell == kCellGru && p.linear_before_reset == 0;
  // Of a step and of the one before it, which may still be read.
  float* const two_sums = reset_hidden + (two_products ? kBatch * row_floats : 0);
  // Barriers for the arrival of the next state, of the one after it, and of reset * h.
  __shared__ uint64_t arrived[3];

  if (p.constant_weights == 0) wait_for_previous_kernel();
  uint4 own[kChunks > 0 ? kChunks : 1];
#pragma unroll
  for (int i = 0; i < kChunks; ++i)
    own[i] = load_weights<T>(p, direction, first_unit, warp_row + lane / kRowLanes, i * kSpan + part * kVector);
  for (int i = thread; i < (rows - held) * chunks * kRowLanes; i += blockDim.x)
    weights[i] =
        load_weights<T>(p, direction, first_unit, held + i / (chunks * kRowLanes), i % (chunks * kRowLanes) * kVector);
  if (p.constant_weights != 0) wait_for_previous_kernel();
  for (int i = thread; i < 3 * kBatch * row_floats; i += blockDim.x)
    if (i < 2 * kBatch * row_floats || two_products) hidden[i] = 0.0f;
  __syncthreads();
  for (int i = thread; i < kBatch * p.hidden; i += blockDim.x) {
    const Unit<T> unit{static_cast<int>(blockIdx.x) * kBatch + i / p.hidden, direction, i % p.hidden};
    if (unit.sequence < p.batch) hidden[i / p.hidden * row_floats + unit.j] = unit.initial(p, p.initial_h);
  }
  int steps = 0;
  for (int b = 0; b < kBatch; ++b) steps = max(steps, length_of(p, blockIdx.x * kBatch + b));

  // A thread of the first ones has a unit of a sequence.
  const int slot = thread / p.units;
  Unit<T> unit{static_cast<int>(blockIdx.x) * kBatch + slot, direction, first_unit + thread % p.units};
  const bool has_unit = slot < kBatch && unit.sequence < p.batch && unit.j < p.hidden;
  const int length = has_unit ? length_of(p, unit.sequence) : 0;
  float h = 0.0f, c = 0.0f, x[kMaxGates] = {0, 0, 0, 0};
  const bool backwards = runs_backwards(p, direction);
  if (has_unit) {
    unit.load(p);
    h = unit.initial(p, p.initial_h);
    c = unit.initial(p, p.initial_c);
    if (length > 0) unit.load_inputs(p, backwards ? length - 1 : 0, x);
  }
  // Products of the rows [first, last) with a state.
  const auto multiply_rows = [&](int first, int last, const float* state, float* sums) {
    for (int quad = warp_row; quad < rows; quad += warp_rows) {
      if (quad + 4 <= first || quad >= last) continue;
      const int row = quad + lane / kRowLanes;
      const float* const from = state + part * kVector;
      Sums<kBatch> row_sums;
      if (kChunks > 0 && quad == warp_row) {
#pragma unroll
        for (int i = 0; i < kChunks; ++i) add_products<T, kBatch>(row_sums, own[i], from + i * kSpan, row_floats);
      } else {
        const uint4* const w = weights + (min(row, rows - 1) - held) * chunks * kRowLanes + part;
#pragma unroll 4
        for (int i = 0; i < chunks; ++i)
          add_products<T, kBatch>(row_sums, w[i * kRowLanes], from + i * kSpan, row_floats);
      }
      float acc[kBatch];
      sum_lanes(row_sums, acc);
      if (part == 0 && row >= first && row < last) {
#pragma unroll
        for (int b = 0; b < kBatch; ++b) sums[b * rows + row] = acc[b];
      }
    }
    __syncthreads();
  };
  // Every block's states and barriers are there before another one writes to them.
  const uint32_t state_bytes = min(kBatch, p.batch - static_cast<int>(blockIdx.x) * kBatch) * p.hidden * 4;
  if (thread == 0) {
    for (uint64_t& barrier : arrived) begin_barrier(&barrier);
    for (uint64_t& barrier : arrived) expect_bytes(&barrier, state_bytes);
  }
  // A block alone is no cluster for the hardware.
  const auto tell_all = [&](float* where, uint64_t* barrier, float value) {
    if (blocks == 1) {
      *where = value;
      return;
    }
    for (int i = 0, peer = rank; i < blocks; ++i) {
      peer = peer + 1 == blocks ? 0 : peer + 1;
      store_to_peer(where, barrier, peer, value);
    }
  };
  const auto hear_all = [&](uint64_t* barrier, uint32_t parity, bool again) {
    if (blocks == 1) {
      __syncthreads();
      return;
    }
    wait_for_bytes(barrier, parity);
    if (thread == 0 && again) expect_bytes(barrier, state_bytes);
  };
  cg::this_cluster().sync();
  for (int step = 0; step < steps; ++step) {
    const float* const state = hidden + step % 2 * kBatch * row_floats;
    float* const next = hidden + (step + 1) % 2 * kBatch * row_floats + slot * row_floats + unit.j;
    float* const sums = two_sums + step % 2 * kBatch * rows;
    const float* const own_sums = sums + slot * rows + thread % p.units;
    const bool active = step < length;
    const int t = backwards ? length - 1 - step : step;
    float now[kMaxGates];
#pragma unroll
    for (int g = 0; g < kMaxGates; ++g) now[g] = x[g];
    if (step + 1 < length) unit.load_inputs(p, backwards ? t - 1 : t + 1, x);
    if (step > 0) hear_all(&arrived[step % 2], (step - 1) / 2 % 2, step + 2 < steps);
    multiply_rows(0, two_products ? 2 * p.units : rows, state, sums);
    float update = 0.0f, reset = 0.0f;
    if (active && p.cell == kCellGru) unit.update_and_reset(p, now, own_sums, p.units, update, reset);
    if (two_products) {
      if (has_unit) tell_all(reset_hidden + slot * row_floats + unit.j, &arrived[2], reset * h);
      hear_all(&arrived[2], step % 2, step + 1 < steps);
      multiply_rows(2 * p.units, rows, reset_hidden, sums);
    }
    if (active) {
      if (p.cell == kCellGru) {
        h = unit.gru(p, now[2], own_sums[2 * p.units], update, reset, h);
      } else if (p.cell == kCellLstm) {
        h = unit.lstm(p, now, own_sums, p.units, c);
      } else {
        h = unit.rnn(p, now, own_sums);
      }
    }
    // A block that has heard from all others knows that they have read the state before this one. After the last step
    // nobody listens.
    if (has_unit && step + 1 < steps) tell_all(next, &arrived[(step + 1) % 2], h);
    if (active && p.y != nullptr) static_cast<T*>(p.y)[unit.y_at(p, t)] = from_float<T>(h);
  }
  if (has_unit) unit.finish(p, length, h, c);
#endif
}

// One step, or half of one. Grid: blocks of units, directions, groups of sequences. Step 0 also serves a length of 0.
template <typename T, int kBatch>
__device__ __forceinline__ void recurrent_step(const RecurrentParams& p) {
  constexpr int kVector = 16 / sizeof(T), kSpan = kRowLanes * kVector;
  extern __shared__ uint4 shared_memory[];
  const int direction = blockIdx.y, thread = threadIdx.x, part = thread % kRowLanes;
  const int first_unit = blockIdx.x * p.units, rows = p.gates * p.units;
  const int chunks = (p.hidden + kSpan - 1) / kSpan, row_floats = chunks * kSpan;
  const int64_t all = static_cast<int64_t>(p.directions) * p.batch * p.hidden;
  float* const state = reinterpret_cast<float*>(shared_memory);
  float* const sums = state + kBatch * row_floats;
  const float* const before = p.state + p.step % 2 * all;
  float* const after = p.state + (p.step + 1) % 2 * all;
  float *const cells = p.state + 2 * all, *const updates = cells + all, *const resets = updates + all;
  const auto index_of = [&](const Unit<T>& unit) {
    return (static_cast<int64_t>(direction) * p.batch + unit.sequence) * p.hidden + unit.j;
  };
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int i = thread; i < kBatch * row_floats; i += blockDim.x) {
    const Unit<T> unit{static_cast<int>(blockIdx.z) * kBatch + i / row_floats, direction, i % row_floats};
    float value = 0.0f;
    if (unit.sequence < p.batch && unit.j < p.hidden) {
      const float* const from = p.phase == 1 ? resets : before;
      value = p.step == 0 && p.phase == 0 ? unit.initial(p, p.initial_h) : from[index_of(unit)];
    }
    state[i] = value;
  }
  __syncthreads();
  const bool two_products = p.cell == kCellGru && p.linear_before_reset == 0;
  const int first = p.phase == 1 ? 2 * p.units : 0, last = two_products && p.phase == 0 ? 2 * p.units : rows;
  for (int quad = first / 4 * 4 + thread / 32 * 4; quad < last; quad += blockDim.x / 32 * 4) {
    const int row = quad + thread % 32 / kRowLanes;
    Sums<kBatch> row_sums;
    for (int i = 0; i < chunks; ++i) {
      const int column = i * kSpan + part * kVector;
      add_products<T, kBatch>(row_sums, load_weights<T>(p, direction, first_unit, row, column), state + column,
                              row_floats);
    }
    float acc[kBatch];
    sum_lanes(row_sums, acc);
    if (part == 0 && row < rows) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b) sums[b * rows + row] = acc[b];
    }
  }
  __syncthreads();
  const int slot = thread / p.units;
  Unit<T> unit{static_cast<int>(blockIdx.z) * kBatch + slot, direction, first_unit + thread % p.units};
  if (slot >= kBatch || unit.sequence >= p.batch || unit.j >= p.hidden) return;
  unit.load(p);
  const int length = length_of(p, unit.sequence);
  const float* const own_sums = sums + slot * rows + thread % p.units;
  const bool active = p.step < length, backwards = runs_backwards(p, direction);
  float h = p.step == 0 ? unit.initial(p, p.initial_h) : before[index_of(unit)];
  float c = p.step == 0 ? unit.initial(p, p.initial_c) : cells[index_of(unit)];
  if (active) {
    const int t = backwards ? length - 1 - p.step : p.step;
    float x[kMaxGates], update = 0.0f, reset = 0.0f;
    unit.load_inputs(p, t, x);
    if (two_products && p.phase == 0) {
      unit.update_and_reset(p, x, own_sums, p.units, update, reset);
      updates[index_of(unit)] = update;
      resets[index_of(unit)] = reset * h;
      return;
    }
    if (two_products) {
      update = updates[index_of(unit)];
    } else if (p.cell == kCellGru) {
      unit.update_and_reset(p, x, own_sums, p.units, update, reset);
    }
    if (p.cell == kCellGru) {
      h = unit.gru(p, x[2], own_sums[2 * p.units], update, reset, h);
    } else if (p.cell == kCellLstm) {
      h = unit.lstm(p, x, own_sums, p.units, c);
    } else {
      h = unit.rnn(p, x, own_sums);
    }
    if (p.y != nullptr) static_cast<T*>(p.y)[unit.y_at(p, t)] = from_float<T>(h);
  } else if (two_products && p.phase == 0) {
    resets[index_of(unit)] = 0.0f;
    return;
  }
  after[index_of(unit)] = h;
  cells[index_of(unit)] = c;
  if (p.step + 1 >= p.length) unit.finish(p, length, h, c);
}

}  // namespace tenon::cuda::device

#define TENON_CLUSTER(name, type, batch, chunks)                                                              \
  extern "C" __global__ void __launch_bounds__(640)                                                           \
      recurrent_cluster_##batch##_##chunks##_##name(const __grid_constant__ tenon::cuda::RecurrentParams p) { \
    tenon::cuda::device::recurrent_cluster<type, batch, chunks>(p);                                           \
  }
#define TENON_STEP(name, type, batch)                                                           \
  extern "C" __global__ void __launch_bounds__(256)                                             \
      recurrent_step_##batch##_##name(const __grid_constant__ tenon::cuda::RecurrentParams p) { \
    tenon::cuda::device::recurrent_step<type, batch>(p);                                        \
  }
// 16-bit weights are kept as floats by the compiler, so that fewer fit.
#define TENON_BATCH_F32(batch)         \
  TENON_CLUSTER(f32, float, batch, 0)  \
  TENON_CLUSTER(f32, float, batch, 4)  \
  TENON_CLUSTER(f32, float, batch, 8)  \
  TENON_CLUSTER(f32, float, batch, 13) \
  TENON_STEP(f32, float, batch)
#define TENON_BATCH_HALF(name, type, batch) \
  TENON_CLUSTER(name, type, batch, 0)       \
  TENON_CLUSTER(name, type, batch, 4)       \
  TENON_CLUSTER(name, type, batch, 7)       \
  TENON_STEP(name, type, batch)
TENON_BATCH_F32(1)
TENON_BATCH_F32(4)
TENON_BATCH_HALF(f16, __half, 1)
TENON_BATCH_HALF(f16, __half, 4)
TENON_BATCH_HALF(bf16, __nv_bfloat16, 1)
TENON_BATCH_HALF(bf16, __nv_bfloat16, 4)
