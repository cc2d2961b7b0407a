// The handles that programs got from the interop API, for runs that name them.
#pragma once

#include <tenon/fence.h>

#include <cstdint>

#include "base/status.h"

namespace tenon::abi {

// A fence of a run by the number of a handle that ImportSemaphore gave out. Errors: kInvalidArgument for any other
// number, and for a handle that is released.
Result<Fence> fence_of_handle(uintptr_t handle, uint64_t value);

}  // namespace tenon::abi
