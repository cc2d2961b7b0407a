#include "ep/cpu/simd/probe.h"

#include "ep/cpu/simd/isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// The set's widest registers, in the compiler's own vectors.
#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
constexpr int kLanes = kBytes / 4;
// As many independent sums as two units with a latency of four to five need, within 16 registers.
constexpr int kChains = 12;

typedef float Vector __attribute__((vector_size(kBytes)));

float sum_of(const Vector (&values)[kChains]) {
  float sum = 0;
  for (const Vector& value : values)
    for (int lane = 0; lane < kLanes; ++lane) sum += value[lane];
  return sum;
}

int64_t multiply_add(int64_t rounds, float* sink) {
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  const Vector factor = Vector{} + 0.999f, addend = Vector{} + 0.001f;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + addend;
  }
  *sink = sum_of(sums);
  return rounds * kChains * kLanes * 2;
}

float read(const float* data, int64_t count) {
  Vector sums[kChains] = {};
  const auto* vectors = reinterpret_cast<const Vector*>(data);
  const int64_t end = count / kLanes;
  for (int64_t at = 0; at < end; at += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sums[i] += vectors[at + i];
  }
  return sum_of(sums);
}

}  // namespace

extern const ProbeTable probe_table;
const ProbeTable probe_table = {&multiply_add, &read};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
