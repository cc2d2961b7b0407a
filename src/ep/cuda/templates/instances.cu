// Compiled by nvcc with the tests, and used by no program: an error in a template then has a line number. One line an
// instance; each header has some that differ in the code's shape.
#include "ep/cuda/ops/attention/cached.cuh"
#include "ep/cuda/ops/attention/step.cuh"
#include "ep/cuda/ops/conv/conv_transpose.cuh"
#include "ep/cuda/ops/conv/depthwise_strips.cuh"
#include "ep/cuda/ops/conv/depthwise_tiles.cuh"
#include "ep/cuda/ops/conv/pack.cuh"
#include "ep/cuda/ops/conv/plain_conv.cuh"
#include "ep/cuda/ops/einsum/einsum.cuh"
#include "ep/cuda/ops/elementwise/elementwise.cuh"
#include "ep/cuda/ops/elementwise/elementwise_tiles.cuh"
#include "ep/cuda/ops/gather/gather.cuh"
#include "ep/cuda/ops/gather/scatter.cuh"
#include "ep/cuda/ops/matmul/few_rows.cuh"
#include "ep/cuda/ops/matmul/row_tiles.cuh"
#include "ep/cuda/ops/moves/concat.cuh"
#include "ep/cuda/ops/moves/pad.cuh"
#include "ep/cuda/ops/norm/channels_last.cuh"
#include "ep/cuda/ops/norm/group.cuh"
#include "ep/cuda/ops/norm/norm.cuh"
#include "ep/cuda/ops/order/scan.cuh"
#include "ep/cuda/ops/pool/general_pool.cuh"
#include "ep/cuda/ops/quantize/dynamic_quantize.cuh"
#include "ep/cuda/ops/quantize/integer_maps.cuh"
#include "ep/cuda/ops/reduce/reduce.cuh"
#include "ep/cuda/ops/resize/resize.cuh"
#include "ep/cuda/ops/sample/grid_sample.cuh"
#include "ep/cuda/ops/softmax/softmax.cuh"

namespace tenon::cuda::device {

template <auto kKernel>
struct Instance {};
#define TENON_INSTANCE(...) template struct Instance<&__VA_ARGS__>

TENON_INSTANCE(normalise<float, float, float, float, NormMeasure::kDeviation, true, true, 256, 2, 4, 1, false>);
TENON_INSTANCE(
    normalise<half_bits, half_bits, half_bits, float, NormMeasure::kSquares, true, false, 1024, 4, 8, 1, false>);
TENON_INSTANCE(normalise<double, double, double, double, NormMeasure::kOne, false, false, 256, 0, 1, 1, true>);
TENON_INSTANCE(normalise<bfloat_bits, float, float, float, NormMeasure::kTwo, false, true, 256, 4, 1, 2, false>);
TENON_INSTANCE(norm_of_slices<NormAlone, half_bits, float, float, half_bits, 512, 8, 8, false, 32>);
TENON_INSTANCE(norm_of_slices<NormAlone, float, float, float, float, 256, 4, 4, true, 8>);
TENON_INSTANCE(moments_of_chunks<bfloat_bits, 256, 4, 8, true, 32>);
TENON_INSTANCE(moments_of_chunks<half_bits, 256, 4, 8, false, 8>);
TENON_INSTANCE(norm_by_moments<NormAlone, half_bits, float, float, half_bits, 256, 2, 8, 8>);
TENON_INSTANCE(norm_by_moments<NormAlone, bfloat_bits, bfloat_bits, bfloat_bits, bfloat_bits, 256, 2, 1, 32>);
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

TENON_INSTANCE(plain_conv<half_bits, float, Activation::kRelu, false, 3, 3, 3>);
TENON_INSTANCE(plain_conv<float, float, Activation::kHardSwish, true, 0, 0, 0, 0>);
TENON_INSTANCE(unfold_depth<half_bits, 8, true, false>);
TENON_INSTANCE(unfold_depth<float, 4, false, true>);
TENON_INSTANCE(depthwise_first<half_bits, half_bits, float, Activation::kClip, 8, 3, 3, 1, 1, false>);
TENON_INSTANCE(depthwise_first<float, float, float, Activation::kNone, 2, 5, 5, 2, 2, true>);
TENON_INSTANCE(depthwise_tiles<half_bits, Activation::kNone, 8, 7, 7, 1, 1, 4, 1, 8, 7>);
TENON_INSTANCE(depthwise_tiles<bfloat_bits, Activation::kRelu, 2, 5, 5, 2, 2, 2, 2, 4, 1>);
TENON_INSTANCE(depthwise_tiles<float, Activation::kGelu, 4, 1, 9, 1, 2, 8, 8, 1, 1>);
TENON_INSTANCE(store_phases<float, Activation::kNone, true, false>);
TENON_INSTANCE(store_phases<bfloat_bits, Activation::kSigmoid, false, true>);
TENON_INSTANCE(store_phases_in_squares<half_bits, Activation::kRelu, false>);
TENON_INSTANCE(sum_windows<half_bits, Activation::kRelu, 2, false>);
TENON_INSTANCE(sum_windows<float, Activation::kGelu, 3, true>);

TENON_INSTANCE(general_pool<half_bits, PoolMode::kMax, false, 3, 2>);
TENON_INSTANCE(general_pool<signed char, PoolMode::kMax, true, 0>);
TENON_INSTANCE(general_pool<float, PoolMode::kAverage, false, 3, 3, 3>);
TENON_INSTANCE(general_pool<float, PoolMode::kNorm1, false, 5>);
TENON_INSTANCE(general_pool<double, PoolMode::kNorm2, false, 2, 2, 2>);
TENON_INSTANCE(general_pool<double, PoolMode::kNorm, false, 0, 0, 0>);

TENON_INSTANCE(small_integer_product<unsigned char, signed char, false>);
TENON_INSTANCE(pack_lines<false>);
TENON_INSTANCE(integer_groups<unsigned char, signed char, unsigned char, 8, 8, false, 3, 3>);
TENON_INSTANCE(integer_groups<signed char, unsigned char, int, 3, 0, true, 0>);
TENON_INSTANCE(integer_conv<unsigned char, signed char, signed char, 4, false, 3, 3>);
TENON_INSTANCE(integer_conv<unsigned char, signed char, int, 1, true, 0>);
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

struct Sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Same {
  static __device__ __forceinline__ int of(int v) { return v; }
};
TENON_INSTANCE(elementwise<Sum, false, 1, 8, 4, 1u, true, 0, half_bits, Operand<half_bits, Read::kVector, 1u>,
                           Operand<float, Read::kElement, 0u>>);
TENON_INSTANCE(elementwise<Same, true, 3, 1, 1, 7u, false, 1, signed char, Operand<signed char, Read::kWindow, 7u, 0>>);
TENON_INSTANCE(elementwise<Same, false, 2, 1, 1, 3u, true, 0, int, Gathered<int, Read::kElement, 1u, long long, 2u, 1>,
                           Operand<long long, Read::kIndex, 2u>>);
TENON_INSTANCE(elementwise_tiles<Sum, false, 3, 1, 7u, true, float, Operand<float, Read::kTile, 7u>,
                                 Operand<bfloat_bits, Read::kElement, 4u>>);

TENON_INSTANCE(keep_past<half_bits, 8>);
TENON_INSTANCE(place_heads<half_bits, true, false, 8>);
TENON_INSTANCE(place_heads<bfloat_bits, true, true, 8>);
TENON_INSTANCE(place_heads<float, true, true, 1>);
TENON_INSTANCE(turn_heads<bfloat_bits, true>);
TENON_INSTANCE(attend_split<half_bits, 3, 8, 2>);
TENON_INSTANCE(attend_split<bfloat_bits, 4, 16, 8>);
TENON_INSTANCE(attend_step<half_bits, 3, 8, 2, true, true, false>);
TENON_INSTANCE(attend_step<float, 1, 32, 1, false, true, true>);
TENON_INSTANCE(attend_step<bfloat_bits, 4, 16, 2, true, false, false>);
TENON_INSTANCE(attend_split<float, 1, 32, 4>);
TENON_INSTANCE(join_splits<half_bits>);
TENON_INSTANCE(few_rows<half_bits, PlainWeights<half_bits>, 1, 2, 4, true, true, Activation::kSilu>);
TENON_INSTANCE(few_rows<float, BlockedWeights<float, 4>, 8, 2, 4, true, false, Activation::kNone>);
TENON_INSTANCE(few_rows<float, PlainWeights<float>, 4, 1, 4, false, false, Activation::kRelu>);
TENON_INSTANCE(row_tiles<half_bits, PlainWeights<half_bits>, 1, 1, 3, true, true, Activation::kSilu>);
TENON_INSTANCE(row_tiles<half_bits, PlainWeights<half_bits>, 2, 2, 4, false, false, Activation::kNone>);
TENON_INSTANCE(row_tiles<bfloat_bits, BlockedWeights<bfloat_bits, 4>, 2, 1, 8, true, false, Activation::kNone>);
TENON_INSTANCE(row_tiles<half_bits, BlockedWeights<half_bits, 8>, 1, 2, 8, false, false, Activation::kRelu>);
TENON_INSTANCE(widen_blocks<half_bits, 8>);

TENON_INSTANCE(gather_elements<bool_bits, int, 3, false>);
TENON_INSTANCE(gather_nd<half_bits, long long, 2, true>);
TENON_INSTANCE(reverse_sequence<float, true, false>);
TENON_INSTANCE(one_hot<float, half_bits, false>);
TENON_INSTANCE(trilu<bool_bits, true, false>);
TENON_INSTANCE(eye_like<bool_bits, false>);

TENON_INSTANCE(scatter_in_order<ElementScatter<3, false>, ScatterCombine::kMultiply, half_bits, long long>);
TENON_INSTANCE(scatter_in_order<SliceScatter<0, true>, ScatterCombine::kReplace, bool_bits, int>);
TENON_INSTANCE(scatter_atomically<SliceScatter<2, false>, ScatterCombine::kMin, float, long long>);
TENON_INSTANCE(scatter_atomically<ElementScatter<1, false>, ScatterCombine::kAdd, long long, long long>);
TENON_INSTANCE(scatter_clear<false>);
TENON_INSTANCE(scatter_exponents<ElementScatter<2, false>, bfloat_bits, long long>);
TENON_INSTANCE(scatter_sums<SliceScatter<1, false>, float, int>);
TENON_INSTANCE(scatter_add<half_bits, false>);

TENON_INSTANCE(concat<unsigned, 4, false, unsigned, unsigned>);
TENON_INSTANCE(concat<unsigned char, 1, true, unsigned char, unsigned char, unsigned char>);
TENON_INSTANCE(mirror_pad<MirrorPad::kEdge, float, 3, false>);
TENON_INSTANCE(mirror_pad<MirrorPad::kReflect, unsigned char, 1, true>);

TENON_INSTANCE(einsum<float, 2, 1, false, float, float, float>);
TENON_INSTANCE(einsum<long long, 1, 2, true, long long>);

TENON_INSTANCE(scan_columns<ScanKind<true, true, true>, short, int, false>);
TENON_INSTANCE(scan_column_totals<ScanKind<false, false, false>, double, double, true>);
TENON_INSTANCE(scan_rows<ScanKind<false, true, false>, half_bits, float, false>);
TENON_INSTANCE(scan_row_totals<ScanKind<false, true, false>, half_bits, float, false>);

TENON_INSTANCE(pack_weights<half_bits, half_bits, 3, false>);
TENON_INSTANCE(pack_weights<float, float, 4, true>);

}  // namespace tenon::cuda::device
