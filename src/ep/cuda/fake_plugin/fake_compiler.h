// A region compiler whose kernels run on the host, for the fake driver: it takes Relu of float tensors, and queues it
// on the call's stream as the real one queues its kernels.
#pragma once

#include "ep/cuda/cuda_session.h"

namespace tenon::cuda::fake {

Result<std::unique_ptr<RegionCompiler>> make_compiler(std::shared_ptr<CudaSession> session);

}  // namespace tenon::cuda::fake
