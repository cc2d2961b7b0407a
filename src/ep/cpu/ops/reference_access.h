// Elements of any number type as double, one at a time: for kernels whose arithmetic costs more than a call.
#pragma once

#include <optional>

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

using ReadNumber = double (*)(const void* x, int64_t i);
// Integers lose the fraction; what they cannot hold becomes the nearest that they can.
using WriteNumber = void (*)(void* y, int64_t i, double value);

// Null for a type that is neither a number nor bool.
ReadNumber number_reader(DataType type);
WriteNumber number_writer(DataType type);

// Errors: the type of that input or output has none.
Result<ReadNumber> input_reader(const KernelNode& node, size_t input);
Result<WriteNumber> output_writer(const KernelNode& node, size_t output);

// The number of an int32 or int64 input of one element, which is known before the run. Nothing if the input is absent.
// Errors: it is not constant, or has several elements.
Result<std::optional<int64_t>> constant_number(const KernelNode& node, size_t input);

}  // namespace tenon::cpu::ref
