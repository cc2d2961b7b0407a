// Reads and writes NumPy's .npy files, versions 1 to 3 of the format.
#pragma once

#include <tenon/tensor.h>

#include <string>

namespace tenon::programs {

// Errors: kNotFound: no such file; kInvalidArgument: not a .npy file, cut off, or with bytes left over (the message
// names the file and the numbers); kUnsupported: Fortran order, foreign byte order, a type that Tenon or NumPy lacks.
Result<Tensor> read_npy(const std::string& path);
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace tenon::programs
