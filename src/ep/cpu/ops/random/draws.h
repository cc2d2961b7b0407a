// Where the random operators draw from: the key of a node, and the stream of a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ep/cpu/ops/random/philox.h"

namespace tenon::cpu {

// With a seed every run draws the same numbers; without one each run of each kernel draws its own.
// Threads: any.
class Draws {
 public:
  explicit Draws(std::optional<float> seed);

  // Of one run. Kept by value; chunks of it may be drawn by different threads.
  struct Stream {
    PhiloxKey key;
    uint64_t number = 0;
    void words(int64_t chunk, PhiloxChunk& out) const { philox_chunk(key, number, static_cast<uint64_t>(chunk), out); }
  };
  Stream next_run() const;

 private:
  PhiloxKey key_;
  bool seeded_ = false;
  mutable std::atomic<uint64_t> runs_ = 0;
};

// Numbers of one chunk of a stream: kPhiloxWords floats, or half as many doubles.
template <typename T>
inline constexpr int64_t kDraws = kPhiloxWords * 4 / static_cast<int64_t>(sizeof(T));

// Evenly from [0, 1).
void draw_uniform(const Draws::Stream& stream, int64_t chunk, std::span<float, kDraws<float>> out);
void draw_uniform(const Draws::Stream& stream, int64_t chunk, std::span<double, kDraws<double>> out);
// Normally, around 0 with deviation 1.
void draw_normal(const Draws::Stream& stream, int64_t chunk, std::span<float, kDraws<float>> out);
void draw_normal(const Draws::Stream& stream, int64_t chunk, std::span<double, kDraws<double>> out);

}  // namespace tenon::cpu
