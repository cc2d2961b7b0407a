// Tensors as numbers in double precision with a bound of the error that an implementation may have made up to there.
#pragma once

#include <tenon/types.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "problems/problem.h"

namespace tenon::problems {

struct Array {
  DataType type = DataType::kFloat;
  Dims dims;
  std::vector<double> v;  // values
  std::vector<double> e;  // for each value the largest absolute error that is allowed; the value may round beyond it

  Array() = default;
  Array(DataType type, const Dims& dims, double value = 0);
  int64_t count() const { return static_cast<int64_t>(v.size()); }
  int rank() const { return static_cast<int>(dims.size()); }
  double& operator[](int64_t i) { return v[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return v[static_cast<size_t>(i)]; }
  double& error(int64_t i) { return e[static_cast<size_t>(i)]; }
  double error(int64_t i) const { return e[static_cast<size_t>(i)]; }
  // Of a tensor with one more element than the last: for oracles that append in order.
  void push(double value, double bound);
};

int64_t product(const Dims& dims);
// The shape that numpy's broadcasting gives. Dimensions that do not fit give the larger one.
Dims broadcast(const Dims& a, const Dims& b);
// Element of a tensor of shape `of` that element `i` of shape `from` reads, broadcast.
int64_t broadcast_index(int64_t i, const Dims& from, const Dims& of);
std::vector<int64_t> index_of(int64_t i, const Dims& dims);
int64_t offset_of(const std::vector<int64_t>& index, const Dims& dims);
// -1 is the last axis.
inline int axis_of(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// The unit roundoff of a type: 2^-24 for f32; 0 for integers and bool.
double unit_roundoff(DataType type);
// The unit roundoff of the type that sums of `type` are kept in: f32 for 16-bit types.
double sum_roundoff(DataType type);
// The smallest normal number of the type that `type` is computed in. Smaller ones may be flushed to zero.
double smallest_normal(DataType type);
bool is_float(DataType type);
double lowest(DataType type);
double highest(DataType type);
// The nearest number of the type, ties to even; beyond the largest one, infinity. Integers: clamped, which no oracle
// leaves to it.
double round_to(double value, DataType type);
// One element as bytes of its type, and back.
void encode(double value, DataType type, void* to);
double decode(const void* from, DataType type);

// The rules by which bounds grow; docs/reference/problems.md has them with their reasons. All take and give one value
// with its bound.
struct Number {
  double v = 0, e = 0;
};
// A sum of `terms` numbers whose absolute values add up to `magnitude`.
double sum_bound(DataType type, int64_t terms, double magnitude);
// Alike, of products whose factors an implementation may round: to TF32 where that is allowed.
double product_bound(DataType type, int64_t terms, double magnitude);
// For the whole program: products of f32 may be TF32's, with 11 bits.
void allow_tf32();
// The same of products of numbers split in two, whose least part is left out, as tensor cores make those of f32.
void allow_split_factors();
// y = f(x): the bound of x goes through f. f itself is wrong by `ulps` units of |y| + min(1, |x|), and by two of
// max(1, |x|), because formulas multiply x by numbers next to 1 (gelu, mish) or subtract from them (exp(x) - 1).
// 0 ulps: f is exact.
Number through(const Number& x, DataType type, double ulps, const std::function<double(double)>& f);
// The value is stored in `type`.
Number stored(const Number& x, DataType type);
Number at(const Array& array, int64_t i);
inline void put(Array& array, int64_t i, const Number& x) { array[i] = x.v, array.error(i) = x.e; }
Array map(const Array& x, double ulps, const std::function<double(double)>& f);
// Element by element, broadcast; exact up to the rounding of its result.
Array map(const Array& a, const Array& b, const std::function<double(double, double)>& f);
// A copy of `x` in another shape whose element i is x[source(i)]; -1: `fill`.
Array moved(const Array& x, const Dims& dims, const std::function<int64_t(int64_t)>& source, double fill = 0);

}  // namespace tenon::problems
