// Fast Fourier transforms of any length, of several rows at once: the rows are the innermost dimension, so that each
// stage runs in vectors whatever the length.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon::cpu {

// Lengths with no prime factor above kMostRadix run as they are; others as a convolution of a longer one (Bluestein).
// Immutable after construction. Threads: any.
template <typename R>
class Fft {
 public:
  // `length` is 1 or more. May throw std::bad_alloc.
  explicit Fft(int64_t length);
  ~Fft();
  Fft(Fft&&) noexcept;

  int64_t length() const { return length_; }
  // Numbers of type R that a transform of `rows` rows takes as memory, its two operands included.
  int64_t memory(int64_t rows) const;

  struct Parts {
    R *re, *im;
  };
  // The operand, [length][rows] in each part. The rest of `memory` is the transform's.
  Parts operand(R* memory, int64_t rows) const;
  // Transforms the operand forwards and says where the result is, [length][rows] in each part. With the parts of the
  // operand exchanged the parts of the result are those of the inverse transform, exchanged, times the length.
  Parts run(Parts operand, R* memory, int64_t rows) const;

 private:
  struct Stage {
    int64_t radix, blocks;
    std::vector<R> twiddles, roots;  // real parts, then imaginary parts
  };
  struct Chirp;

  // Runs the stages from `from` to `to` and back; where the result is.
  Parts run_stages(Parts from, Parts to, int64_t rows) const;

  int64_t length_;
  std::vector<Stage> stages_;
  std::unique_ptr<const Chirp> chirp_;
};

}  // namespace tenon::cpu
