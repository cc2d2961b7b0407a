#include "ep/cpu/ops/random/draws.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <numbers>
#include <random>

#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/integers.h"

namespace tenon::cpu {

namespace {

// Differs between processes, and between kernels of one.
uint64_t fresh_key() {
  static const uint64_t process = [] {
    uint64_t bits = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    try {
      std::random_device device;
      bits ^= uint64_t{device()} << 32 | device();
    } catch (...) {  // no such device: the clock alone
    }
    return bits;
  }();
  static std::atomic<uint64_t> kernels = 0;
  return process + 0x9E3779B97F4A7C15 * (kernels.fetch_add(1, std::memory_order_relaxed) + 1);
}

// In (0, 1], whose logarithm is finite.
float above_zero(uint32_t word) { return static_cast<float>((word >> 8) + 1) * 0x1p-24f; }

double fraction(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// Sine and cosine of a full turn's part `turn` in [0, 1): polynomials on an eighth of it, so that the loop over a chunk
// has no call and no branch. Errors below 1e-7.
void sine_cosine(float turn, float& sine, float& cosine) {
  // The quarter that is nearest, and the angle from its middle: within an eighth of a turn.
  const auto quarter = static_cast<int32_t>(turn * 4.0f + 0.5f);
  const float x = (turn - static_cast<float>(quarter) * 0.25f) * (2 * std::numbers::pi_v<float>);
  const float x2 = x * x;
  const float s = x + x * x2 * (-1.6666654611e-1f + x2 * (8.3321608736e-3f + x2 * -1.9515295891e-4f));
  const float c =
      1 - 0.5f * x2 + x2 * x2 * (4.166664568298827e-2f + x2 * (-1.388731625493765e-3f + x2 * 2.443315711809948e-5f));
  const bool swapped = (quarter & 1) != 0;
  const float a = swapped ? c : s, b = swapped ? s : c;
  sine = (quarter & 2) != 0 ? -a : a;
  cosine = ((quarter + 1) & 2) != 0 ? -b : b;
}

}  // namespace

void philox_chunk(PhiloxKey key, uint64_t stream, uint64_t chunk, PhiloxChunk& words) {
  for (int64_t b = 0; b < kPhiloxBlocks; ++b) {
    words[b] = static_cast<uint32_t>(b);
    words[b + kPhiloxBlocks] = static_cast<uint32_t>(chunk);
    words[b + 2 * kPhiloxBlocks] = static_cast<uint32_t>(stream) ^ static_cast<uint32_t>(chunk >> 32);
    words[b + 3 * kPhiloxBlocks] = static_cast<uint32_t>(stream >> 32);
  }
  integer_table().philox(key.words[0], key.words[1], words.data(), kPhiloxBlocks);
}

Draws::Draws(std::optional<float> seed) : seeded_(seed.has_value()) {
  const uint64_t bits = seed ? std::bit_cast<uint32_t>(*seed) : fresh_key();
  key_ = {{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}};
}

Draws::Stream Draws::next_run() const { return {key_, seeded_ ? 0 : runs_.fetch_add(1, std::memory_order_relaxed)}; }

void draw_uniform(const Draws::Stream& stream, int64_t chunk, std::span<float, kDraws<float>> out) {
  PhiloxChunk words;
  stream.words(chunk, words);
  for (int64_t i = 0; i < kDraws<float>; ++i) out[i] = static_cast<float>(words[i] >> 8) * 0x1p-24f;
}

void draw_uniform(const Draws::Stream& stream, int64_t chunk, std::span<double, kDraws<double>> out) {
  PhiloxChunk words;
  stream.words(chunk, words);
  for (int64_t i = 0; i < kDraws<double>; ++i) out[i] = fraction(words[i], words[i + kDraws<double>]);
}

// A pair of numbers from a pair of words (Box and Muller): a length from one, an angle from the other.
void draw_normal(const Draws::Stream& stream, int64_t chunk, std::span<float, kDraws<float>> out) {
  constexpr int64_t kHalf = kDraws<float> / 2;
  PhiloxChunk words;
  stream.words(chunk, words);
  float lengths[kHalf];
  for (int64_t i = 0; i < kHalf; ++i) lengths[i] = above_zero(words[i]);
  const EltwiseTable& table = eltwise_table();
  table.unary[static_cast<int>(Unary::kLog)](lengths, lengths, kHalf, 0, 0);
  for (int64_t i = 0; i < kHalf; ++i) {
    const float length = std::sqrt(-2.0f * lengths[i]);
    float sine, cosine;
    sine_cosine(static_cast<float>(words[i + kHalf] >> 8) * 0x1p-24f, sine, cosine);
    out[i] = length * cosine;
    out[i + kHalf] = length * sine;
  }
}

void draw_normal(const Draws::Stream& stream, int64_t chunk, std::span<double, kDraws<double>> out) {
  constexpr int64_t kHalf = kDraws<double> / 2;
  draw_uniform(stream, chunk, out);
  for (int64_t i = 0; i < kHalf; ++i) {
    const double length = std::sqrt(-2.0 * std::log(1.0 - out[i])), angle = 2 * std::numbers::pi * out[i + kHalf];
    out[i] = length * std::cos(angle);
    out[i + kHalf] = length * std::sin(angle);
  }
}

}  // namespace tenon::cpu
