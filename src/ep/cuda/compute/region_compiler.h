// Claims and compiles regions for one session: what the EP's GetCapability and Compile do.
#pragma once

#include <memory>

#include "ep/cuda/compute/context.h"
#include "ep/cuda/cuda_session.h"

namespace tenon::cuda {

// A MakeRegionCompiler.
Result<std::unique_ptr<RegionCompiler>> make_region_compiler(std::shared_ptr<CudaSession> session);

}  // namespace tenon::cuda
