// The state of a device after a failure that makes all later calls fail. Measured on driver 580: such a failure takes
// all of the process's contexts with it, and none can be made any more.
#pragma once

#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

// Whether any call of this process has answered so.
bool device_loss_seen();

// Errors: kDeviceLost, with the driver's reason, when the device's context is lost. Costs nothing until one has been
// seen; never waits.
Status check_device(const CudaDevice& device);

}  // namespace tenon::cuda
