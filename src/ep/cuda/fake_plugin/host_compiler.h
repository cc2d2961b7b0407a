// A region compiler that claims and plans as the real one does, with kernel templates that run on the host
// (host_program.h). A session whose regions have other kernels is made, and its runs fail and say which.
#pragma once

#include "ep/cuda/cuda_session.h"

namespace tenon::cuda::fake {

Result<std::unique_ptr<RegionCompiler>> make_host_compiler(std::shared_ptr<CudaSession> session);

}  // namespace tenon::cuda::fake
