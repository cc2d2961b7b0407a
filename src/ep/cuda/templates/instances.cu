// Compiled by nvcc with the tests, and used by no program: an error in a template then has a line number. One line an
// instance; each header has some that differ in the code's shape.
#include "ep/cuda/ops/conv/conv_transpose.cuh"
#include "ep/cuda/ops/conv/depthwise_strips.cuh"
#include "ep/cuda/ops/conv/plain_conv.cuh"
#include "ep/cuda/ops/norm/norm.cuh"
#include "ep/cuda/ops/pool/general_pool.cuh"
#include "ep/cuda/ops/quantize/dynamic_quantize.cuh"
#include "ep/cuda/ops/quantize/integer_maps.cuh"
#include "ep/cuda/ops/reduce/reduce.cuh"
#include "ep/cuda/ops/resize/resize.cuh"
#include "ep/cuda/ops/sample/grid_sample.cuh"

namespace tenon::cuda::device {

template <auto kKernel>
struct Instance {};
#define TENON_INSTANCE(...) template struct Instance<&__VA_ARGS__>

TENON_INSTANCE(normalise<float, float, float, float, NormMeasure::kDeviation, true, true, 256, 2, 4, 1, false>);
TENON_INSTANCE(
    normalise<half_bits, half_bits, half_bits, float, NormMeasure::kSquares, true, false, 1024, 4, 8, 1, false>);
TENON_INSTANCE(normalise<double, double, double, double, NormMeasure::kOne, false, false, 256, 0, 1, 1, true>);
TENON_INSTANCE(normalise<bfloat_bits, float, float, float, NormMeasure::kTwo, false, true, 256, 4, 1, 2, false>);
TENON_INSTANCE(softmax<float, false, 256, 2, 1, 1, false>);
TENON_INSTANCE(softmax<half_bits, true, 1024, 0, 8, 1, false>);

TENON_INSTANCE(reduce<float, float, ReduceKind::kSum, 1, 4, false>);
TENON_INSTANCE(reduce<half_bits, float, ReduceKind::kL2, 1, 1, false>);
TENON_INSTANCE(reduce<bfloat_bits, bfloat_bits, ReduceKind::kLogSumExp, 2, 8, true>);
TENON_INSTANCE(reduce<double, double, ReduceKind::kMean, 0, 1, false>);
TENON_INSTANCE(reduce<signed char, int, ReduceKind::kMin, 1, 16, false>);
TENON_INSTANCE(reduce<unsigned long long, unsigned long long, ReduceKind::kProd, 2, 2, true>);
TENON_INSTANCE(choose<half_bits, long long, ReduceKind::kArgMax, true, 1, 8, false>);
TENON_INSTANCE(choose_candidate<float, long long, ReduceKind::kArgMin, false, 1, false>);

TENON_INSTANCE(plain_conv<half_bits, float, Activation::kRelu, 3, false>);
TENON_INSTANCE(plain_conv<float, float, Activation::kHardSwish, 4, true>);
TENON_INSTANCE(unfold_depth<half_bits, 8, true, false>);
TENON_INSTANCE(unfold_depth<float, 4, false, true>);
TENON_INSTANCE(depthwise_first<half_bits, half_bits, float, Activation::kClip, 8, 3, 3, 1, 1, false>);
TENON_INSTANCE(depthwise_first<float, float, float, Activation::kNone, 2, 5, 5, 2, 2, true>);
TENON_INSTANCE(place_phases<float, Activation::kNone, true, false>);
TENON_INSTANCE(place_phases<bfloat_bits, Activation::kSigmoid, false, true>);
TENON_INSTANCE(place_phases_in_squares<half_bits, Activation::kRelu, false>);
TENON_INSTANCE(sum_windows<half_bits, Activation::kRelu, 2, false>);
TENON_INSTANCE(sum_windows<float, Activation::kGelu, 3, true>);

TENON_INSTANCE(general_pool<half_bits, PoolMode::kMax, 2, false>);
TENON_INSTANCE(general_pool<signed char, PoolMode::kMax, 1, true>);
TENON_INSTANCE(general_pool<float, PoolMode::kAverage, 3, false>);
TENON_INSTANCE(general_pool<float, PoolMode::kNorm1, 1, false>);
TENON_INSTANCE(general_pool<double, PoolMode::kNorm2, 3, false>);
TENON_INSTANCE(general_pool<double, PoolMode::kNorm, 3, false>);

TENON_INSTANCE(small_integer_product<unsigned char, signed char, false>);
TENON_INSTANCE(pack_lines<false>);
TENON_INSTANCE(integer_groups<unsigned char, signed char, unsigned char, 2, 8, false>);
TENON_INSTANCE(integer_groups<signed char, unsigned char, int, 1, 3, true>);
TENON_INSTANCE(integer_conv<unsigned char, signed char, signed char, 2, 4, false>);
TENON_INSTANCE(integer_conv<unsigned char, signed char, int, 1, 1, true>);
TENON_INSTANCE(integer_depthwise<unsigned char, signed char, unsigned char, 8, 3, 3, 1, 1, false>);
TENON_INSTANCE(byte_windows<2, true, false>);
TENON_INSTANCE(byte_windows<3, false, true>);
TENON_INSTANCE(part_limits<false>);
TENON_INSTANCE(dynamic_scale<unsigned char>);

TENON_INSTANCE(grid_sample<float, float, SampleMode::kLinear, SamplePadding::kZeros, 2, false>);
TENON_INSTANCE(grid_sample<half_bits, half_bits, SampleMode::kCubic, SamplePadding::kReflection, 3, false>);
TENON_INSTANCE(grid_sample<bfloat_bits, float, SampleMode::kNearest, SamplePadding::kBorder, 1, true>);
TENON_INSTANCE(resize<float, false, false, 0, 0, 2, 2>);
TENON_INSTANCE(resize<half_bits, false, true, 0, -1, 4>);
TENON_INSTANCE(resize<long long, true, false, 0, 1>);

}  // namespace tenon::cuda::device
