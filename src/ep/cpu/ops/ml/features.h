// X of the operators of ai.onnx.ml, whatever its type, as float32.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/ml.h"

namespace tenon::cpu::ref {

using FeatureTypes = TypeList<float, double, int32_t, int64_t>;
inline constexpr TypeSet kFeatureSet = type_set(FeatureTypes());

// Elements [first, first + count) of X as float32.
using ReadFeatures = void (*)(const void* x, int64_t first, int64_t count, float* to);
// Errors: another type than FeatureTypes has.
Result<ReadFeatures> feature_reader(const KernelNode& node, size_t input);

// Rows that a thread takes at once, for `work` operations a row.
int64_t row_grain(int64_t work);

}  // namespace tenon::cpu::ref
