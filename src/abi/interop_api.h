// The handles that programs got from the interop API, for runs that name them.
#pragma once

#include <tenon/fence.h>
#include <tenon/onnxruntime_c_api.h>

#include <cstdint>
#include <memory>

#include "base/status.h"

namespace tenon::abi {

// A fence of a run by the number of a handle that ImportSemaphore gave out. Errors: kInvalidArgument for any other
// number, and for a handle that is released.
Result<Fence> fence_of_handle(uintptr_t handle, uint64_t value);

// The timeline as a semaphore of the importer's device, for WaitSemaphore, SignalSemaphore and runs; the caller gives
// it to ReleaseExternalSemaphoreHandle. Errors: kUnsupported where the device imports no callbacks.
Result<OrtExternalSemaphoreHandle*> import_timeline(const OrtExternalResourceImporter& importer,
                                                    std::shared_ptr<Timeline> timeline);

}  // namespace tenon::abi
