// Products and convolutions, whose kernels are .cu files, on the host: by their definition (compute/kernel_params.h,
// ops/quantize/params.h), one element after the other. So programs with a product are tested without a GPU, too.
//
// Threads: any.
#pragma once

#include "ep/cuda/compute/device_op.h"

namespace tenon::cuda::fake {

// ConvOp of weights as they are, IntegerProductOp and PadImageOp.
bool is_host_product(const DeviceOp& op);
// `addresses` are of the host's memory; `op` is a host product.
void run_host_product(const DeviceOp& op, const Addresses& addresses);

}  // namespace tenon::cuda::fake
