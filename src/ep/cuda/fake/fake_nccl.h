// NCCL between threads of one process, over the fake driver: an operation runs on its stream when all ranks have
// reached it, as on devices. What ranks must agree about (the operation, its size and type) ends the process where they
// do not; so does work of a communicator that is destroyed. As a library named libnccl.so.2 it stands in for NCCL in a
// whole program (fake_libnccl.cc). Threads: every function from any thread.
#pragma once

#include "ep/cuda/driver/cuda_driver.h"
#include "ep/cuda/driver/nccl.h"

namespace tenon::cuda::fake {

// The table over `driver`, which is the same at each call.
const Nccl& nccl(const CudaDriver& driver);
// Communicators that are neither destroyed nor given up.
int live_communicators();

}  // namespace tenon::cuda::fake
