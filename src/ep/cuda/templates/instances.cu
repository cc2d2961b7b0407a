// Compiled by nvcc with the tests, and used by no program: an error in a template then has a line number. One line an
// instance; each header has some that differ in the code's shape.
#include "ep/cuda/ops/norm/norm.cuh"
#include "ep/cuda/ops/reduce/reduce.cuh"

namespace tenon::cuda::device {

template <auto kKernel>
struct Instance {};
#define TENON_INSTANCE(...) template struct Instance<&__VA_ARGS__>

TENON_INSTANCE(normalise<float, float, float, float, NormMeasure::kDeviation, true, true, 256, 2, 4, 1, 1, false>);
TENON_INSTANCE(
    normalise<half_bits, half_bits, half_bits, float, NormMeasure::kSquares, true, false, 1024, 4, 8, 1, 1, false>);
TENON_INSTANCE(normalise<double, double, double, double, NormMeasure::kOne, false, false, 256, 0, 1, 2, 1, true>);
TENON_INSTANCE(normalise<bfloat_bits, float, float, float, NormMeasure::kTwo, false, true, 256, 3, 1, 1, 2, false>);
TENON_INSTANCE(softmax<float, false, 256, 2, 1, 2, 1, false>);
TENON_INSTANCE(softmax<half_bits, true, 1024, 0, 8, 1, 1, false>);

TENON_INSTANCE(reduce<float, float, ReduceKind::kSum, 1, 1, 4, false>);
TENON_INSTANCE(reduce<half_bits, float, ReduceKind::kL2, 2, 1, 1, false>);
TENON_INSTANCE(reduce<bfloat_bits, bfloat_bits, ReduceKind::kLogSumExp, 0, 2, 8, true>);
TENON_INSTANCE(reduce<double, double, ReduceKind::kMean, 1, 0, 1, false>);
TENON_INSTANCE(reduce<signed char, int, ReduceKind::kMin, 1, 1, 16, false>);
TENON_INSTANCE(reduce<unsigned long long, unsigned long long, ReduceKind::kProd, 3, 2, 2, true>);
TENON_INSTANCE(choose<half_bits, long long, ReduceKind::kArgMax, true, 1, 1, 8, false>);
TENON_INSTANCE(choose_candidate<float, long long, ReduceKind::kArgMin, false, 1, 1, false>);

}  // namespace tenon::cuda::device
