// Finds the outputs of a program that may share memory with its inputs.
#pragma once

#include "ep/cuda/compute/program.h"

namespace tenon::cuda {

// Whether output `output` may have exactly the address and size of input `input`: all that reads the input is over when
// the output is first touched, or reads each element before it writes it. After finish().
bool may_run_in_place(const Program& program, size_t input, size_t output);

}  // namespace tenon::cuda
