// Conversions between the types of numbers that C++ has, and bool.
#pragma once

#include <array>
#include <cstdint>

#include <tenon/types.h>

namespace tenon::cpu {

// One loop, or several by way of types that keep what the result needs.
class CastSteps {
 public:
  CastSteps() = default;
  // Of ai.onnx Cast. ONNX leaves floats outside an integer's range undefined. Tenon gives what numpy and ONNX Runtime
  // give on x86-64, on every processor: the value becomes an int32 (an int64 for int64 and uint64) whose low bits are
  // taken, and what does not fit into that is its lowest value. A large unsigned number is converted less half of its
  // type's range. Other floats are rounded once; a bool is any byte but 0.
  CastSteps(DataType from, DataType to);

  // False where there is no conversion.
  explicit operator bool() const { return count_ > 0; }
  // y may be x where both types have the same size.
  void run(const void* x, void* y, int64_t n) const;

 private:
  using Loop = void (*)(const void* x, void* y, int64_t n);
  struct Step {
    Loop loop = nullptr;
    int64_t y_bytes = 0;
  };
  static Loop loop_of(DataType from, DataType to, bool to_odd);

  std::array<Step, 3> steps_;
  int count_ = 0;
  int64_t x_bytes_ = 0;
};

}  // namespace tenon::cpu
